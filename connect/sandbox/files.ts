/** Files of a sandbox's home directory: how they are made, and how they are read when nothing else runs there. */
import { setTimeout as wait } from "node:timers/promises";
import { fail } from "../../engine/errors.ts";
import type { Session } from "./session.ts";

/** Paths relative to the home directory → the text of a file, or null for a directory. */
export type FileTree = ReadonlyMap<string, string | null>;

/** An entry of the home directory, as it was found. */
export interface FoundEntry {
  /** `file`, `directory`, or the letter of `find -printf %y` for anything else: `l` is a link. */
  readonly kind: string;
  /** Permission bits. */
  readonly mode: number;
  /** The bytes of a file, one character each; empty for anything else. */
  readonly content: string;
}

/** Seconds for making and for reading files: a machine with much to do needs more than the 10 ms of an idle one. */
const SECONDS = 20;
/** Bytes of all files and their names together that are read, and their number; a task has a thousandth of them. */
const MOST_BYTES = 2 ** 21;
const MOST_ENTRIES = 10_000;
/** The time of all files that are made: an age would be noise in what an agent reads. */
const TIME = "2026-01-01T00:00:00Z";

/** A text as one word of a shell. */
export const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** Makes files and directories in the home directory. @throws WorldgradError with the sandbox's own error */
export async function makeFiles(session: Session, tree: FileTree): Promise<void> {
  const entries = [...tree].sort(([a], [b]) => (a < b ? -1 : 1));
  const directories = entries.filter(([, text]) => text === null).map(([path]) => quoted(path));
  const lines = [
    "set -e",
    `cd ${session.kind.user.home}`,
    ...(directories.length > 0 ? [`mkdir -p -- ${directories.join(" ")}`] : []),
    ...entries.flatMap(([path, text]) => (text === null ? [] : [`printf %s ${quoted(text)} > ${quoted(path)}`])),
    ...(entries.length > 0 ? [`touch -d ${TIME} -- ${entries.map(([path]) => quoted(path)).join(" ")} .`] : []),
  ];
  const done = await session.runForHost(lines.join("\n"), { seconds: SECONDS, outputBytes: 1000 });
  if (done === undefined) await failToStart(session);
}

/** Throws with the sandbox's own error, after its first command has failed. */
export async function failToStart(session: Session): Promise<never> {
  // The last words of a program are read after its end is told.
  for (let i = 0; i < 20 && session.error === undefined; i++) await wait(10);
  return fail(`the sandbox could not be started: ${session.error ?? "no answer"}`);
}

/**
 * Reads the home directory, after all other processes have ended. An agent can forge nothing here: the command takes
 * nothing from its shell, answers on a channel that it never had, and each content is as long as its file.
 * @returns undefined if the files are more than can be read, or cannot be read
 */
export async function readFiles(session: Session): Promise<ReadonlyMap<string, FoundEntry> | undefined> {
  const find = "/usr/bin/env -i /usr/bin/find . -mindepth 1";
  const lines = `${find} -printf '%y %m %s %P\\0' && printf '\\0'`;
  const command = `cd ${session.kind.user.home} && ${lines} && ${find} -type f -exec /usr/bin/cat {} +`;
  const bytes = await session.runForHost(command, { seconds: SECONDS, outputBytes: MOST_BYTES });
  return bytes && entriesIn(bytes.toString("latin1"));
}

/**
 * The entries in the output of `readFiles`: a line for each, `KIND MODE SIZE PATH` and a NUL, another NUL, and the
 * contents of the files in the order of their lines.
 * @returns undefined if the contents are not as long as the lines say
 */
export function entriesIn(text: string): ReadonlyMap<string, FoundEntry> | undefined {
  const found = new Map<string, FoundEntry>();
  const end = text.startsWith("\0") ? 0 : text.indexOf("\0\0") + 1;
  if (end === 0 && text !== "\0") return undefined;
  let at = end + 1;
  const lines = text
    .slice(0, end)
    .split("\0", MOST_ENTRIES + 1)
    .slice(0, -1);
  if (lines.length === MOST_ENTRIES) return undefined;
  for (const line of lines) {
    const [, letter, mode, size, path] = /^(.) (\d+) (\d+) (.*)$/s.exec(line) ?? [];
    if (letter === undefined) return undefined;
    const kind = letter === "f" ? "file" : letter === "d" ? "directory" : letter;
    const length = letter === "f" ? Number(size) : 0;
    found.set(Buffer.from(path!, "latin1").toString("utf8"), {
      kind,
      mode: parseInt(mode!, 8),
      content: text.slice(at, at + length),
    });
    at += length;
  }
  return at === text.length ? found : undefined;
}
