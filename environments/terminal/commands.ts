/**
 * The table of commands. Each is one small function over a `Process`; to add one, write the function and name it here.
 * Messages and exit codes are those of GNU coreutils 9.1, grep 3.8, findutils 4.9 and bash 5.2 in the C locale.
 */
import { find, ls, pwd, cd } from "./commands-list.ts";
import { cp, mkdir, mv, rm, rmdir, touch } from "./commands-files.ts";
import { cut, sort, uniq } from "./commands-lines.ts";
import { cat, echo, grep, head, tail, wc } from "./commands-text.ts";
import type { Process } from "./process.ts";

/** Runs a command; returns its exit code. */
export type CommandFunction = (process: Process) => number;

/** Ends the episode with an answer, the rest of its line. Without one it is a mistake, and the episode goes on. */
function answer(process: Process): number {
  const text = process.args.join(" ").trim();
  if (text === "") return process.complain("usage: answer TEXT", 2);
  process.finish({ kind: "answer", text });
  return 0;
}

/** Ends the episode: the file system is as the task wants it. */
function done(process: Process): number {
  process.finish({ kind: "done", text: "" });
  return 0;
}

export const COMMANDS: Readonly<Record<string, CommandFunction>> = {
  answer,
  cat,
  cd,
  cp,
  cut,
  done,
  echo,
  false: () => 1,
  find,
  grep,
  head,
  ls,
  mkdir,
  mv,
  pwd,
  rm,
  rmdir,
  sort,
  tail,
  touch,
  true: () => 0,
  uniq,
  wc,
};
