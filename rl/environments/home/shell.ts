/**
 * The commands of a home. A line is read by the grammar of the terminal's shell; this one runs single plain commands only, as a
 * restricted login shell does: no pipes, no lists, no redirections. Directories can be entered and not listed (mode 711), so a file is
 * found by who knows where it is. Nothing throws, whatever the line.
 */
import type { Rng } from "../../../engine/random.ts";
import type { Ending, Move } from "../game.ts";
import { NO_ENTRY } from "../terminal/filesystem.ts";
import { parse, ShellSyntaxError } from "../terminal/parser.ts";
import type { HomeFile } from "./facts.ts";
import { type Fact, type Hints, hintOf } from "./hints.ts";
import type { Changes, HomeTask } from "./tasks.ts";

export interface HomeState {
  readonly changes: Changes;
  readonly turns: number;
  /** Has the task's own command been answered? Then the agent knows what is to be answered. */
  readonly isTold: boolean;
}

/** Lines at most that `read` shows. */
const SHOWN = 4;

/** What an observation repeats of a word of the agent's, however long and strange: no half of a surrogate pair. */
const quoted = (word: string): string =>
  [...word]
    .slice(0, 40)
    .join("")
    .replace(/\p{Surrogate}/gu, "?");

/** A command that failed: what went wrong, and the fact that would have helped. */
class Failure extends Error {
  readonly fact: Fact | undefined;
  constructor(problem: string, fact?: Fact) {
    super(problem);
    this.fact = fact;
  }
}

/** What stands between the arguments of each command. */
const FORMS: Readonly<Record<string, readonly string[]>> = {
  size: ["in"],
  read: ["in", "with"],
  count: ["in", "with"],
  delete: ["in", "as"],
  lock: ["in", "as"],
  copy: ["in", "to", "as"],
};

/** Runs one line. */
export function runLine(line: string, task: HomeTask, state: HomeState, hints: Hints): Move<HomeState> {
  const next: HomeState = { ...state, turns: state.turns + 1 };
  try {
    const [name = "", ...args] = wordsOf(line);
    if (name === "answer" || name === "done") return { observation: "", ending: endingOf(name, args.join(" "), task, state), state: next }; // prettier-ignore
    const isTold = state.isTold || [name, ...args].join(" ") === task.family.command(task);
    return runCommand(name, args, task, { ...next, isTold });
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    const { message, fact } = error;
    const stated = fact && task.liar ? lieOf(fact, task, task.liar.split(state.turns)) : fact;
    return { observation: message + (stated ? hintOf(hints, stated) : ""), failed: true, state: next };
  }
}

/** The words of a single plain command. @throws Failure for any other line */
function wordsOf(line: string): readonly string[] {
  try {
    const pipelines = parse(line, "~");
    const [command] = pipelines[0]?.commands ?? [];
    const isPlain = pipelines.length === 1 && pipelines[0]!.commands.length === 1 && command!.redirections.length === 0;
    if (!isPlain) throw new Failure("expected one plain command");
    return command!.words.map(({ text }) => text);
  } catch (error) {
    if (error instanceof ShellSyntaxError) throw new Failure(error.message);
    throw error;
  }
}

/** A task is solved by the right answer, or by the one change that it asks for; any other change spoils it. */
function endingOf(kind: "answer" | "done", text: string, task: HomeTask, { changes }: HomeState): Ending {
  const { answer, change } = task.family;
  const wanted = change === undefined ? [] : [change(task)];
  const isChanged = changes.length === wanted.length && changes.every((done, i) => done === wanted[i]);
  const isAnswered = answer === undefined ? kind === "done" : kind === "answer" && text === answer(task);
  return { kind, score: isChanged && isAnswered ? 1 : 0 };
}

/** @throws Failure */
function runCommand(name: string, args: readonly string[], task: HomeTask, state: HomeState): Move<HomeState> {
  const { facts, lines } = task;
  if (name === "ls") throw new Failure("ls: Permission denied");
  const form = Object.hasOwn(FORMS, name) ? FORMS[name] : undefined;
  if (form === undefined) throw new Failure(`${quoted(name)}: command not found`);
  if (args.length !== 2 * form.length + 1 || form.some((word, i) => args[2 * i + 1] !== word))
    throw new Failure(`usage: ${name} FILE ${form.map((word) => `${word} ${word.toUpperCase()}`).join(" ")}`);
  const file = fileAt(args[0]!, args[2]!, task, state);
  const text = file === task.file ? lines : [];
  if (name === "size") return { observation: String(text.join("").length), state };
  const tried = quoted(args.at(-1)!);
  if (name === "read" || name === "count") {
    const right = facts.programs.get(file.ending)!;
    const goesWithTried = [...facts.programs].flatMap(([ending, program]) => (program === tried ? [`.${ending}`] : []));
    if (tried !== right) throw new Failure(`cannot open .${file.ending}`, { kind: "program", known: `.${file.ending}`, right, tried, goesWithTried }); // prettier-ignore
    const shown = text.length > SHOWN ? [...text.slice(0, SHOWN), "..."] : text;
    return { observation: name === "read" ? shown.join("\n") : String(text.length), state };
  }
  const target = name === "copy" ? args[4]! : file.directory;
  const right = facts.owners.get(target);
  if (right === undefined) throw new Failure(`${quoted(target)}: ${NO_ENTRY}`);
  const goesWithTried = [...facts.owners].flatMap(([directory, owner]) => (owner === tried ? [directory] : []));
  if (tried !== right) throw new Failure("Permission denied", { kind: "owner", known: target, right, tried, goesWithTried }); // prettier-ignore
  const change = [name, file.name, ...(name === "copy" ? [target] : [])].join(" ");
  return { observation: "", state: { ...state, changes: [...state.changes, change] } };
}

/** The file of this name in this directory. @throws Failure if it is not there */
function fileAt(name: string, directory: string, { facts }: HomeTask, { changes }: HomeState): HomeFile {
  const file = facts.files.find((known) => known.name === name);
  const goesWithTried = facts.files.flatMap((other) => (other.directory === directory ? [other.name] : []));
  const looked = { known: name, tried: quoted(directory), goesWithTried };
  if (file === undefined) {
    const aliased = facts.aliases.get(name);
    throw new Failure(NO_ENTRY, aliased && { ...looked, kind: "alias", right: aliased.name });
  }
  if (changes.includes(`delete ${name}`)) throw new Failure(NO_ENTRY);
  if (file.directory === directory) return file;
  throw new Failure(NO_ENTRY, { ...looked, kind: "directory", right: file.directory });
}

/** The same words about something drawn at random; only how many things are listed is true. */
function lieOf(fact: Fact, { facts }: HomeTask, rng: Rng): Fact {
  const { names, files } = facts;
  const fileNames = files.map(({ name }) => name);
  const [rights, ofTried] = {
    directory: [names.directories, fileNames],
    program: [names.programs, names.endings.map((ending) => `.${ending}`)],
    owner: [names.accounts, names.directories],
    alias: [fileNames, fileNames],
  }[fact.kind];
  return {
    ...fact,
    right: rng.choice(rights!),
    goesWithTried: rng.shuffle(ofTried!).slice(0, fact.goesWithTried.length),
  };
}
