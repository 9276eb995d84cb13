/** Texts as Python has them: its white space, its code points, its `repr`. */

/** Python's white space, which is not JavaScript's: U+FEFF is none, U+001C to U+001F and U+0085 are. */
const SPACE = new Set(
  "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a" +
    "\u2028\u2029\u202f\u205f\u3000",
);

export const isSpace = (char: string): boolean => SPACE.has(char);

/** A text without the characters of a set at its end; the set's default is white space. */
export function trimEnd(text: string, chars: ReadonlySet<string> = SPACE): string {
  let end = text.length;
  while (end > 0) {
    const char = before(text, end);
    if (!chars.has(char)) break;
    end -= char.length;
  }
  return text.slice(0, end);
}

/** A text without the characters of a set at its start; the set's default is white space. */
export function trimStart(text: string, chars: ReadonlySet<string> = SPACE): string {
  let start = 0;
  while (start < text.length) {
    const char = String.fromCodePoint(text.codePointAt(start)!);
    if (!chars.has(char)) break;
    start += char.length;
  }
  return text.slice(start);
}

function before(text: string, end: number): string {
  const low = text.charCodeAt(end - 1);
  const isPair = end > 1 && low >= 0xdc00 && low < 0xe000 && text.codePointAt(end - 2)! > 0xffff;
  return text.slice(end - (isPair ? 2 : 1), end);
}

/** The number of code points of a text, which is Python's length. */
export function lengthOf(text: string): number {
  let count = 0;
  for (let i = 0; i < text.length; i++) {
    if (text.codePointAt(i)! > 0xffff) i++;
    count++;
  }
  return count;
}

/** The lines of a text, as `str.splitlines` cuts them. */
export function linesOf(text: string, keepEnds = false): string[] {
  const lines: string[] = [];
  let start = 0;
  for (const { 0: end, index } of text.matchAll(/\r\n|[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]/g)) {
    lines.push(text.slice(start, keepEnds ? index + end.length : index));
    start = index + end.length;
  }
  if (start < text.length) lines.push(text.slice(start));
  return lines;
}

/** Order by code points, as Python's. */
export function compareTexts(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    if (a.charCodeAt(i) === b.charCodeAt(i)) continue;
    return a.codePointAt(i)! - b.codePointAt(i)!;
  }
  return a.length - b.length;
}

const isCased = (char: string): boolean => char.toLowerCase() !== char.toUpperCase();

/** `str.title`: the first letter of each run of letters in upper case. */
export function titled(text: string): string {
  let isInside = false;
  let result = "";
  for (const char of text) {
    result += isInside ? char.toLowerCase() : char.toUpperCase();
    isInside = isCased(char);
  }
  return result;
}

/** `str.capitalize`. */
export function capitalized(text: string): string {
  const [first = ""] = text;
  return first.toUpperCase() + text.slice(first.length).toLowerCase();
}

/** Whether there are letters, and all are lower (upper) case: `str.islower`, `str.isupper`. */
export function isCase(text: string, of: (text: string) => string): boolean {
  return of(text) === text && [...text].some(isCased);
}

/**
 * The first of the characters that stand for names of special tokens (connect/chat/template.ts); they are not escaped.
 */
export const HIDDEN_NAMES = 0x10f000;
/** Characters that Python's `repr` escapes. */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}\p{Zs}]/gu;
const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** The text as Python's `repr` writes it. */
export function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text.replaceAll("\\", "\\\\").replaceAll(quote, `\\${quote}`);
  return quote + escaped.replace(UNPRINTABLE, (char) => (char === " " ? char : (SHORT[char] ?? escape(char)))) + quote;
}

function escape(char: string): string {
  const code = char.codePointAt(0)!;
  if (code >= HIDDEN_NAMES) return char;
  const hex = (digits: number): string => code.toString(16).padStart(digits, "0");
  return code < 0x100 ? `\\x${hex(2)}` : code < 0x10000 ? `\\u${hex(4)}` : `\\U${hex(8)}`;
}
