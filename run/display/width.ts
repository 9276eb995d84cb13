/**
 * The number of terminal cells of a text, and functions that cut it to fit. The widths follow Unicode's East Asian
 * Width and zero-width marks closely enough for file names and model output; emoji sequences are not joined (each part
 * counts as two cells).
 *
 * The text may contain SGR colour codes (`ESC [ … m`), which take no cell. It must not contain other control
 * characters: `visible` in run/visible.ts replaces them.
 */

const SGR = /\u001b\[[\d;]*m/g;
const SGR_AT = /\u001b\[[\d;]*m/y;
const ZERO_WIDTH = /[\p{Mn}\p{Me}\p{Cf}]/u;

/** Ranges [first, last] of code points that take two cells. */
const WIDE: readonly (readonly [number, number])[] = [
  [0x1100, 0x115f],
  [0x231a, 0x231b],
  [0x23e9, 0x23ec],
  [0x25fd, 0x25fe],
  [0x2614, 0x2615],
  [0x2648, 0x2653],
  [0x26a1, 0x26a1],
  [0x2705, 0x2705],
  [0x270a, 0x270b],
  [0x2728, 0x2728],
  [0x274c, 0x274c],
  [0x2753, 0x2755],
  [0x2795, 0x2797],
  [0x2b1b, 0x2b1c],
  [0x2b50, 0x2b50],
  [0x2e80, 0x303e],
  [0x3041, 0x4dbf],
  [0x4e00, 0xa4cf],
  [0xa960, 0xa97c],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x1f300, 0x1f64f],
  [0x1f680, 0x1f6ff],
  [0x1f900, 0x1f9ff],
  [0x20000, 0x3fffd],
];

/** Cells of one code point. */
function cellsOf(char: string): number {
  const code = char.codePointAt(0) ?? 0;
  if (code < 0x300) return 1;
  if (ZERO_WIDTH.test(char)) return 0;
  return WIDE.some(([first, last]) => code >= first && code <= last) ? 2 : 1;
}

/** The number of cells that a line takes. */
export function textWidth(text: string): number {
  let cells = 0;
  for (const char of text.replace(SGR, "")) cells += cellsOf(char);
  return cells;
}

/** At most `width` cells of a line, with … where something was cut. Colours end with the text. */
export function truncate(text: string, width: number): string {
  if (textWidth(text) <= width) return text;
  if (width < 1) return "";
  const [first = ""] = wrap(text, width - 1);
  // A wide character may be wider than the room for it.
  return `${textWidth(first) < width ? first : ""}…${text.includes("\u001b") ? "\u001b[0m" : ""}`;
}

/** Pads with spaces to `width` cells, or cuts. */
export function fit(text: string, width: number, align: "left" | "right" = "left"): string {
  const cut = truncate(text, width);
  const space = " ".repeat(Math.max(0, width - textWidth(cut)));
  return align === "left" ? cut + space : space + cut;
}

/**
 * Breaks a line between words into pieces of at most `width` cells; a word that is longer is broken where it must be.
 * There is at least one piece.
 */
export function wrapWords(text: string, width: number): string[] {
  const lines: string[] = [];
  let line: string | undefined;
  for (const word of text.split(" ")) {
    const joined: string = line === undefined ? word : `${line} ${word}`;
    if (textWidth(joined) <= width) {
      line = joined;
      continue;
    }
    if (line !== undefined && line !== "") lines.push(line);
    const pieces = wrap(word, width);
    lines.push(...pieces.slice(0, -1));
    line = pieces.at(-1)!;
  }
  return [...lines, line ?? ""];
}

/** Breaks a line anywhere into pieces of at most `width` cells, as a terminal does. There is at least one piece. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  let cells = 0;
  for (let i = 0; i < text.length;) {
    SGR_AT.lastIndex = i;
    const code = SGR_AT.exec(text)?.[0];
    if (code !== undefined) {
      line += code;
      i += code.length;
      continue;
    }
    const char = String.fromCodePoint(text.codePointAt(i) ?? 0);
    const size = cellsOf(char);
    if (cells + size > width && cells > 0) {
      lines.push(line);
      [line, cells] = ["", 0];
    }
    line += char;
    cells += size;
    i += char.length;
  }
  lines.push(line);
  return lines;
}
