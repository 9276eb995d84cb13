/**
 * The commands of a home, and the wordings of facts in its error messages; ../facts/hints.ts decides what they tell of
 * a fact. A line is read by the grammar of the terminal's shell; this one runs single plain commands only, as a
 * restricted login shell does: no pipes, no lists, no redirections. Directories can be entered but not listed (mode
 * 711), so only who knows where a file is finds it. No line throws.
 */
import { readCommand } from "../actions.ts";
import { type Drawn, type Fact, hintAbout, keysOf, quoted as quotedUpTo, type Wording } from "../facts/hints.ts";
import { rewardOf } from "../facts/world.ts";
import type { Ending, Episode, Move } from "../game.ts";
import { NO_ENTRY } from "../terminal/errno.ts";
import { parse, ShellSyntaxError } from "../terminal/parser.ts";
import { contentsEntropy, SHOWN, type Told, toldBy } from "./contents.ts";
import type { Facts, HomeFile } from "./facts.ts";
import type { Changes, HOME, HomeTask } from "./tasks.ts";

type HomeFactKind = "directory" | "program" | "owner" | "alias";

/** An alias is no file: its `tried` is the directory in which the agent looked for it. */
type HomeFact = Fact<HomeFactKind>;

const WORDS: Readonly<Record<HomeFactKind, Wording>> = {
  directory: { statement: "is in", reverse: "has", ofTried: "has" },
  program: { statement: "opens with", reverse: "opens", ofTried: "opens" },
  owner: { statement: "belongs to", reverse: "owns", ofTried: "owns" },
  alias: { statement: "stands for", reverse: "is called", ofTried: "has" },
};

export interface HomeState {
  readonly changes: Changes;
  /** Whether the task's own command has been answered, so that the agent knows the answer. */
  readonly isTold: boolean;
  /** The parts of the task's file that the episode has told. */
  readonly told: Told;
}

/** A live episode in a home. */
export type HomeEpisode = Episode<typeof HOME, HomeTask, HomeState>;

const quoted = (word: string): string => quotedUpTo(word, 40);

/** A command that failed: what went wrong, and the facts that it needs. */
class Failure extends Error {
  readonly facts: readonly HomeFact[];
  constructor(problem: string, facts: readonly HomeFact[] = []) {
    super(problem);
    this.facts = facts;
  }
}

/** The words between the arguments of each command. */
const FORMS: Readonly<Record<string, readonly string[]>> = {
  size: ["in"],
  read: ["in", "with"],
  count: ["in", "with"],
  delete: ["in", "as"],
  lock: ["in", "as"],
  copy: ["in", "to", "as"],
};

/** Plays one action. */
export function play({ task, state, options, turns }: HomeEpisode, action: string): Move<HomeState> {
  const { hints } = options;
  try {
    const [name = "", ...args] = wordsOf(readCommand(action).join(" ").trim());
    if (name === "answer" || name === "done") {
      const ending = endingOf(name, args.join(" "), task, state);
      return { observation: "", entropy: 0, ending, reward: rewardOf(ending, options, task) };
    }
    const isTold = state.isTold || [name, ...args].join(" ") === task.family.command(task);
    return runCommand(name, args, task, { ...state, isTold });
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    const { message, facts } = error;
    const lies = task.liar && { liar: task.liar.split(turns), drawn: drawnIn(task) };
    const { hint, entropy } = hintAbout(hints, facts, WORDS, lies);
    return { observation: message + hint, entropy, failed: true };
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
  const file = fileNamed(args[0]!, args[2]!, task, state);
  const isReading = form[1] === "with";
  const target = name === "copy" ? args[4]! : file.directory;
  if (!facts.owners.has(target)) throw new Failure(`${quoted(target)}: ${NO_ENTRY}`);
  const needed = [directoryOf(file, args[2]!, facts)];
  if (isReading) needed.push(programOf(file, args[4]!, facts));
  else if (form.length > 1) needed.push(ownerOf(target, name === "copy", args.at(-1)!, facts));
  const wrong = needed.find(({ right, tried }) => tried !== right);
  if (wrong !== undefined) throw new Failure(problemOf(wrong), needed);
  if (isReading || name === "size") {
    const text = file === task.file ? lines : [];
    const shown = text.length > SHOWN ? [...text.slice(0, SHOWN), "..."] : text;
    const counted = String(name === "size" ? text.join("").length : text.length);
    const observation = name === "read" ? shown.join("\n") : counted;
    if (file !== task.file) return { observation, entropy: 0, state };
    const entropy = contentsEntropy(name, task, state.told);
    return { observation, entropy, state: { ...state, told: toldBy(name, task, state.told) } };
  }
  const change = [name, file.name, ...(name === "copy" ? [target] : [])].join(" ");
  return { observation: "", entropy: 0, state: { ...state, changes: [...state.changes, change] } };
}

function problemOf({ kind, known }: HomeFact): string {
  if (kind === "program") return `cannot open ${known}`;
  return kind === "owner" ? "Permission denied" : NO_ENTRY;
}

/** The file of this name. @throws Failure if there is none, or no longer */
function fileNamed(name: string, directory: string, { facts }: HomeTask, { changes }: HomeState): HomeFile {
  const file = facts.files.find((known) => known.name === name);
  if (file !== undefined && !changes.includes(`delete ${name}`)) return file;
  const aliased = facts.aliases.get(name);
  if (aliased === undefined) throw new Failure(NO_ENTRY);
  throw new Failure(NO_ENTRY, [
    {
      kind: "alias",
      known: name,
      right: aliased.name,
      tried: quoted(directory),
      goesWithTried: namesIn(directory, facts),
    },
  ]);
}

const namesIn = (directory: string, { files }: Facts): string[] =>
  files.flatMap((file) => (file.directory === directory ? [file.name] : []));

function directoryOf({ name, directory }: HomeFile, tried: string, facts: Facts): HomeFact {
  return {
    kind: "directory",
    known: name,
    right: directory,
    tried: quoted(tried),
    goesWithTried: namesIn(tried, facts),
    word: "in",
  };
}

function programOf({ ending }: HomeFile, tried: string, { programs }: Facts): HomeFact {
  const goesWithTried = keysOf(programs, tried).map((other) => `.${other}`);
  return {
    kind: "program",
    known: `.${ending}`,
    right: programs.get(ending)!,
    tried: quoted(tried),
    goesWithTried,
    word: "with",
  };
}

/** @param isNamed the command names the directory, so a suggestion has it before the account */
function ownerOf(directory: string, isNamed: boolean, tried: string, { owners }: Facts): HomeFact {
  const word = isNamed ? `to ${directory} as` : "as";
  return {
    kind: "owner",
    known: directory,
    right: owners.get(directory)!,
    tried: quoted(tried),
    goesWithTried: keysOf(owners, tried),
    word,
  };
}

/** The names from which statements are drawn, if facts are random. */
function drawnIn({ facts: { names, files } }: HomeTask): Drawn<HomeFactKind> {
  const fileNames = files.map(({ name }) => name);
  return {
    directory: { rights: names.directories, ofTried: fileNames },
    program: { rights: names.programs, ofTried: names.endings.map((ending) => `.${ending}`) },
    owner: { rights: names.accounts, ofTried: names.directories },
    alias: { rights: fileNames, ofTried: fileNames },
  };
}
