/**
 * A small repository: files with one program each (../program/syntax.ts), which call each other by name. Applies edits,
 * and shows changes as a unified diff.
 */
import { type Code, compile } from "../program/machine.ts";
import { parseProgram, type Program } from "../program/syntax.ts";
import type { Edit } from "./edits.ts";

/** The texts of files by their names; nothing changes them in place. */
export type Files = Readonly<Record<string, string>>;

/** The compiled programs, or the first file that does not compile. */
export type Build =
  | { readonly programs: Readonly<Record<string, Program>>; readonly codes: ReadonlyMap<string, Code> }
  | { readonly error: { readonly file: string; readonly at: number; readonly message: string } };

export function build(files: Files): Build {
  const names = Object.keys(files);
  const programs: Record<string, Program> = {};
  for (const file of names) {
    const reading = parseProgram(files[file]!, names);
    if ("error" in reading) return { error: { file, ...reading.error } };
    programs[file] = reading.program;
  }
  return { programs, codes: new Map(names.map((name) => [name, compile(programs[name]!)])) };
}

/** Longest text of a file, so that no edit makes it grow for ever. */
const MOST_CHARACTERS = 80;

/**
 * The files after this edit and the line that it changed, or why it cannot be made: the text that it searches must
 * occur exactly once.
 */
export function applyEdit(
  files: Files,
  { file, search, replace }: Edit,
): { readonly files: Files; readonly line: string } | { readonly error: string } {
  if (!Object.hasOwn(files, file)) return { error: "no such file" };
  if (search === replace) return { error: "that changes nothing" };
  // Half of a surrogate pair must not get into a file.
  if (!/^[ -~]*$/.test(replace)) return { error: "only plain characters" };
  const parts = files[file]!.split(search);
  if (parts.length === 1) return { error: "not found" };
  if (parts.length > 2) return { error: `found ${parts.length - 1} times` };
  const edited = parts.join(replace);
  if (edited.length > MOST_CHARACTERS) return { error: "too long" };
  const line = edited.split("\n")[parts[0]!.split("\n").length - 1]!;
  return { files: { ...files, [file]: edited }, line };
}

const CONTEXT = 3;

/** The differences as a unified diff with three lines of context around each change; empty if there are none. */
export function unifiedDiff(before: Files, after: Files): string {
  const changed = Object.keys(before).filter((name) => before[name] !== after[name]);
  return changed
    .map((name) => `--- a/${name}\n+++ b/${name}\n${hunks(before[name]!.split("\n"), after[name]!.split("\n"))}`)
    .join("\n");
}

interface Line {
  readonly sign: " " | "-" | "+";
  readonly text: string;
}

/** The lines of both files, by a longest common subsequence of them. */
function align(a: readonly string[], b: readonly string[]): Line[] {
  // common[i][j]: how many lines a[i..] and b[j..] can have in common.
  const common = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      common[i]![j] = a[i] === b[j] ? 1 + common[i + 1]![j + 1]! : Math.max(common[i + 1]![j]!, common[i]![j + 1]!);
  const lines: Line[] = [];
  for (let [i, j] = [0, 0]; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ sign: " ", text: a[i]! });
      i++;
      j++;
    } else if (i < a.length && (j === b.length || common[i + 1]![j]! >= common[i]![j + 1]!))
      lines.push({ sign: "-", text: a[i++]! });
    else lines.push({ sign: "+", text: b[j++]! });
  }
  return lines;
}

function hunks(a: readonly string[], b: readonly string[]): string {
  const lines = align(a, b);
  const isNear = lines.map((_, i) =>
    lines.slice(Math.max(0, i - CONTEXT), i + CONTEXT + 1).some((l) => l.sign !== " "),
  );
  const out: string[] = [];
  let [oldLine, newLine] = [1, 1];
  for (let i = 0; i < lines.length;) {
    if (!isNear[i]) {
      oldLine++;
      newLine++;
      i++;
      continue;
    }
    const end = isNear.indexOf(false, i);
    const hunk = lines.slice(i, end === -1 ? undefined : end);
    const count = (other: Line["sign"]): number => hunk.filter(({ sign }) => sign !== other).length;
    const range = (start: number, n: number): string => (n === 1 ? `${start}` : `${n === 0 ? start - 1 : start},${n}`);
    const [olds, news] = [count("+"), count("-")];
    out.push(`@@ -${range(oldLine, olds)} +${range(newLine, news)} @@`);
    out.push(...hunk.map(({ sign, text }) => sign + text));
    [oldLine, newLine] = [oldLine + olds, newLine + news];
    i += hunk.length;
  }
  return out.join("\n");
}
