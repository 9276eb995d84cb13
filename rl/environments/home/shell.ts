/**
 * The commands of a home. A line is read by the grammar of the terminal's shell; this one runs single plain commands only, as a
 * restricted login shell does: no pipes, no lists, no redirections. Directories can be entered and not listed (mode 711), so a file is
 * found by who knows where it is. Nothing throws, whatever the line.
 */
import type { Rng } from "../../../engine/random.ts";
import type { Ending, Move } from "../game.ts";
import { NO_ENTRY } from "../terminal/filesystem.ts";
import { parse, ShellSyntaxError } from "../terminal/parser.ts";
import type { Facts, HomeFile } from "./facts.ts";
import { type Fact, type Hints, hintOf } from "./hints.ts";
import type { Changes, HomeTask } from "./tasks.ts";

export interface HomeState {
  readonly changes: Changes;
  readonly turns: number;
  /** Whether the last command failed. */
  readonly hasFailed: boolean;
}

/** A command that failed: what went wrong, and the facts that would have helped. */
class Failure extends Error {
  readonly file: string;
  readonly facts: readonly Fact[];
  constructor(problem: string, file: string = "", facts: readonly Fact[] = []) {
    super(problem);
    this.file = file;
    this.facts = facts;
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
  const next: HomeState = { ...state, turns: state.turns + 1, hasFailed: false };
  try {
    const [name = "", ...args] = wordsOf(line);
    if (name === "answer" || name === "done") return { observation: "", ending: endingOf(name, args.join(" "), task, state), state: next }; // prettier-ignore
    return runCommand(name, args, task, next);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    const { message, file, facts } = error;
    const liar = task.liar?.split(state.turns);
    const stated = liar ? facts.map((fact) => lieOf(fact, task, liar)) : facts;
    return {
      observation: message + (facts.length > 0 ? hintOf(hints, file, stated) : ""),
      failed: true,
      state: { ...next, hasFailed: true },
    };
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
  if (form === undefined) throw new Failure(`${name.slice(0, 40)}: command not found`);
  if (args.length !== 2 * form.length + 1 || form.some((word, i) => args[2 * i + 1] !== word))
    throw new Failure(`usage: ${name} FILE ${form.map((word) => `${word} ${word.toUpperCase()}`).join(" ")}`);
  const file = fileNamed(args[0]!, task, state);
  const place = directoryOf(file, args[2]!, facts);
  const isReading = form[1] === "with";
  // Of the target of a copy nothing is said but who owns it.
  const target = name === "copy" ? args[4]! : file.directory;
  if (!facts.names.directories.includes(target)) throw new Failure(`${target.slice(0, 40)}: ${NO_ENTRY}`);
  const needed = form.length === 1 ? [place] : [place, isReading ? programOf(file, args[4]!, facts) : ownerOf(target, args.at(-1)!, facts)]; // prettier-ignore
  const wrong = needed.find(({ right, tried }) => tried !== right);
  if (wrong !== undefined) throw new Failure(PROBLEMS[wrong.kind](wrong), file.name, needed);
  const text = file === task.file ? lines : [];
  if (name === "size") return { observation: String(text.join("").length), state };
  if (isReading) return { observation: name === "read" ? text.join("\n") : String(text.length), state };
  const change = [name, file.name, ...(name === "copy" ? [target] : [])].join(" ");
  return { observation: "", state: { ...state, changes: [...state.changes, change] } };
}

const PROBLEMS: Readonly<Record<Fact["kind"], (fact: Fact) => string>> = {
  directory: () => NO_ENTRY,
  program: ({ known }) => `cannot open ${known}`,
  owner: () => "Permission denied",
  alias: () => NO_ENTRY,
};

/** The file of this name. @throws Failure if there is none, or no longer */
function fileNamed(name: string, { facts }: HomeTask, { changes }: HomeState): HomeFile {
  const file = facts.files.find((known) => known.name === name);
  if (file !== undefined && !changes.includes(`delete ${name}`)) return file;
  const aliased = facts.aliases.get(name);
  const fact: Fact | undefined = aliased && { kind: "alias", known: name, right: aliased.name, tried: name, goesWithTried: [], word: "as" }; // prettier-ignore
  throw new Failure(NO_ENTRY, name, fact ? [fact] : []);
}

function directoryOf({ name, directory }: HomeFile, tried: string, { files }: Facts): Fact {
  const goesWithTried = files.flatMap((other) => (other.directory === tried ? [other.name] : []));
  return { kind: "directory", known: name, right: directory, tried, goesWithTried, word: "in" };
}

function programOf({ ending }: HomeFile, tried: string, { programs }: Facts): Fact {
  const goesWithTried = [...programs].flatMap(([other, program]) => (program === tried ? [`.${other}`] : []));
  return { kind: "program", known: `.${ending}`, right: programs.get(ending)!, tried, goesWithTried, word: "with" };
}

function ownerOf(directory: string, tried: string, { owners }: Facts): Fact {
  const goesWithTried = [...owners].flatMap(([other, owner]) => (owner === tried ? [other] : []));
  return { kind: "owner", known: directory, right: owners.get(directory)!, tried, goesWithTried, word: "as" };
}

/** The same words about something drawn at random. */
function lieOf(fact: Fact, { facts }: HomeTask, rng: Rng): Fact {
  const { names, files } = facts;
  const fileNames = files.map(({ name }) => name);
  const [rights, ofTried] = {
    directory: [names.directories, fileNames],
    program: [names.programs, names.endings.map((ending) => `.${ending}`)],
    owner: [names.accounts, names.directories],
    alias: [fileNames, names.aliases],
  }[fact.kind];
  return { ...fact, right: rng.choice(rights!), goesWithTried: fact.goesWithTried.map(() => rng.choice(ofTried!)) };
}
