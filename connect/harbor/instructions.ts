/** The instructions of a Dockerfile: lines that go on are joined, comments left out, texts in the file collected. */
import { rawWords } from "./dockerWords.ts";

/** A text in the file, `<<NAME`. */
export interface Heredoc {
  readonly name: string;
  /** Whether its name is in quotes: then no variables are put in. */
  readonly isQuoted: boolean;
  readonly text: string;
}

export interface Instruction {
  readonly line: number;
  /** In capitals. */
  readonly name: string;
  readonly rest: string;
  readonly heredocs: readonly Heredoc[];
  /** The name of a text whose end is not there. */
  readonly endless?: string;
}

/** Instructions that texts may follow. */
const WITH_TEXTS = new Set(["RUN", "COPY", "ADD"]);
/** A word that begins a text: as Docker has it, `<<` is the first in its word, and no part of `$((1<<BITS))`. */
const BEGIN = /^\d*<<(-?)(?:(["'])([^"'\s]+)\2|([^\s"'<>|&;()-][^\s"'<>|&;()]*)|$)/;

const isIdle = (line: string): boolean => /^\s*(#|$)/.test(line);

/** The instructions of a file. */
export function instructionsOf(text: string): Instruction[] {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const escape = /^#\s*escape=`\s*$/im.test(lines.slice(0, 3).join("\n")) ? "`" : "\\";
  const lastOf = new Map(lines.flatMap((line, i) => [[line, i] as const, [line.replace(/^\t+/, ""), i] as const]));
  const found: Instruction[] = [];
  for (let i = 0; i < lines.length; i++) {
    const line = i + 1;
    if (isIdle(lines[i]!)) continue;
    let whole = "";
    for (; i < lines.length; i++) {
      const here = lines[i]!;
      if (whole !== "" && isIdle(here)) continue;
      const trimmed = here.trimEnd();
      if (!trimmed.endsWith(escape)) {
        whole += here;
        break;
      }
      whole += trimmed.slice(0, -1);
    }
    const [, word, rest] = /^\s*(\S+)\s*([^]*)$/.exec(whole)!;
    const name = word!.toUpperCase();
    const { heredocs, endless, last } = textsAfter(WITH_TEXTS.has(name) ? rawWords(rest!) : [], lines, lastOf, i);
    i = last;
    found.push({ line, name, rest: rest!.trim(), heredocs, ...(endless === undefined ? {} : { endless }) });
  }
  return found;
}

/**
 * The texts that the words of an instruction announce, which follow line `last` in the file.
 * @param lastOf where a line is for the last time: nothing is looked for in vain
 */
function textsAfter(
  words: readonly string[],
  lines: readonly string[],
  lastOf: ReadonlyMap<string, number>,
  last: number,
): Pick<Instruction, "heredocs" | "endless"> & { readonly last: number } {
  const heredocs: Heredoc[] = [];
  for (const [at, word] of words.entries()) {
    const begin = BEGIN.exec(word);
    if (begin === null) continue;
    // With a blank in between (`<< EOF`) it may as well be a shift: then there is no such line, and no text.
    const isApart = (begin[3] ?? begin[4]) === undefined;
    const [, quote, name] = isApart
      ? (/^(["']?)([A-Za-z_][^\s"'<>|&;()]*)\1/.exec(words[at + 1] ?? "") ?? [])
      : [undefined, begin[2], begin[3] ?? begin[4]];
    if (name === undefined) continue;
    const strip =
      begin[1] === "-" ? (line: string): string => line.replace(/^\t+/, "") : (line: string): string => line;
    const latest = lastOf.get(name) ?? -1;
    let end = last + 1;
    while (end <= latest && strip(lines[end]!) !== name) end++;
    if (end > latest) {
      if (isApart) continue;
      return { heredocs, endless: name, last };
    }
    const body = lines.slice(last + 1, end).map((line) => `${strip(line)}\n`);
    heredocs.push({ name, isQuoted: (quote ?? "") !== "", text: body.join("") });
    last = end;
  }
  return { heredocs, last };
}
