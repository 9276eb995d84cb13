/** The tasks of a home, the commands that solve them, and the pairs (file, question) kept for held-out tasks. */
import { Rng } from "../../engine/index.ts";
import type { FamilyInfo } from "../../rl/environment.ts";
import { factFields, WORLD_SEED } from "../facts/options.ts";
import { heldOutKinds } from "../facts/world.ts";
import type { GameTask } from "../game.ts";
import type { OptionsWith, SettledOptions } from "../options.ts";
import { drawUntil, type Split } from "../selection.ts";
import { drawLines } from "./contents.ts";
import { type Facts, factsOf, type HomeFile, type HomeNames } from "./facts.ts";

export interface HomeTask extends GameTask {
  readonly family: HomeFamily;
  readonly facts: Facts;
  /** The file that is asked for, by its name or by an alias. */
  readonly file: HomeFile;
  /** For `copy`: the file beside which the copy goes; it is in another directory. */
  readonly other: HomeFile;
  /** For questions about an alias: the alias that stands for the file in the task. */
  readonly alias: string;
  readonly split: Split;
  /** The lines of the file, drawn anew in each episode (contents.ts). */
  readonly lines: readonly string[];
  /** The stream that draws the statements of error messages, if facts are random. */
  readonly liar: Rng | undefined;
}

/** The changes so far, as `verb file…`, in order. */
export type Changes = readonly string[];

/** A kind of question. */
export interface HomeFamily extends FamilyInfo {
  /** The subject that the task names. Default: a file. */
  readonly subject?: "alias";
  readonly text: (task: Omit<HomeTask, "text">) => string;
  /** The pattern of its tasks' texts. */
  readonly asks: RegExp;
  /** The one command that does it. */
  readonly command: (task: HomeTask) => string;
  /** A command of this form about files of which only the names are known: everything else is guessed. */
  readonly guess: (rng: Rng, files: readonly string[], names: HomeNames) => string;
  /** The right answer. A family without an answer asks for a change. */
  readonly answer?: (task: HomeTask) => string;
  /** The change to be made; nothing else may change. */
  readonly change?: (task: HomeTask) => string;
}

const place = ({ name, directory }: HomeFile): string => `${name} in ${directory}`;

/** The two facts of reading: the directory of a file, and the program for its ending. */
const reading = (verb: string): Pick<HomeFamily, "command" | "guess"> => ({
  command: ({ file, facts }) => `${verb} ${place(file)} with ${facts.programs.get(file.ending)!}`,
  guess: (rng, [file], { directories, programs }) =>
    `${verb} ${file} in ${rng.choice(directories)} with ${rng.choice(programs)}`,
});

/** The two facts of changing: the directory of a file, and the account that owns it. */
const changing = (verb: string): Pick<HomeFamily, "command" | "guess" | "change"> => ({
  command: ({ file, facts }) => `${verb} ${place(file)} as ${facts.owners.get(file.directory)!}`,
  guess: (rng, [file], { directories, accounts }) =>
    `${verb} ${file} in ${rng.choice(directories)} as ${rng.choice(accounts)}`,
  change: ({ file }) => `${verb} ${file.name}`,
});

/** All families, easiest first. The level is how many facts of the home a task needs. */
export const FAMILIES: readonly HomeFamily[] = [
  {
    name: "size",
    level: 1,
    description: "say how many letters a file has: its directory",
    text: ({ file }) => `How large is ${file.name}?`,
    asks: /^How large/,
    command: ({ file }) => `size ${place(file)}`,
    guess: (rng, [file], { directories }) => `size ${file} in ${rng.choice(directories)}`,
    answer: ({ lines }) => String(lines.join("").length),
  },
  {
    name: "read",
    level: 2,
    description: "say what a file says: its directory, and the program for its ending",
    text: ({ file }) => `What does ${file.name} say?`,
    asks: /^What does [a-z]+\./,
    ...reading("read"),
    answer: ({ lines }) => lines[0]!,
  },
  {
    name: "count",
    level: 2,
    description: "count the lines of a file: its directory, and the program for its ending",
    text: ({ file }) => `How many lines has ${file.name}?`,
    asks: /^How many lines has [a-z]+\./,
    ...reading("count"),
    answer: ({ lines }) => String(lines.length),
  },
  {
    name: "delete",
    level: 2,
    description: "delete a file: its directory, and the account that owns the directory",
    text: ({ file }) => `Delete ${file.name}`,
    asks: /^Delete/,
    ...changing("delete"),
  },
  {
    name: "lock",
    level: 2,
    description: "lock a file: its directory, and the account that owns the directory",
    text: ({ file }) => `Lock ${file.name}`,
    asks: /^Lock/,
    ...changing("lock"),
  },
  {
    name: "copy",
    level: 3,
    description: "copy a file to another: the directories of both, and the account that owns the second",
    text: ({ file, other }) => `Copy ${file.name} to ${other.name}`,
    asks: /^Copy/,
    command: ({ file, other, facts }) =>
      `copy ${place(file)} to ${other.directory} as ${facts.owners.get(other.directory)!}`,
    guess: (rng, [file], { directories, accounts }) =>
      `copy ${file} in ${rng.choice(directories)} to ${rng.choice(directories)} as ${rng.choice(accounts)}`,
    change: ({ file, other }) => `copy ${file.name} ${other.directory}`,
  },
  {
    name: "follow",
    level: 3,
    subject: "alias",
    description: "say what the file behind an alias says: which file, its directory, and the program for its ending",
    text: ({ alias }) => `What does ${alias} say?`,
    asks: /^What does [a-z]+ /,
    ...reading("read"),
    answer: ({ lines }) => lines[0]!,
  },
  {
    name: "tally",
    level: 3,
    subject: "alias",
    description: "count the lines of the file behind an alias: its name, its directory, and the program for its ending",
    text: ({ alias }) => `How many lines has ${alias}?`,
    asks: /^How many lines has [a-z]+\?/,
    ...reading("count"),
    answer: ({ lines }) => String(lines.length),
  },
];

export const HOME = { home: WORLD_SEED, ...factFields(FAMILIES) };
/** Options of `home`, beside `EnvironmentOptions`; `HOME` says what each does, and its default. */
export type HomeOptions = OptionsWith<typeof HOME>;

/** The family that a task's text is of; undefined for text that is no task. */
export const familyOf = (text: string): HomeFamily | undefined => FAMILIES.find(({ asks }) => asks.test(text));

/**
 * Whether training never asks this question about this file or this alias. Of two questions that need the same facts
 * (reading and counting, deleting and locking) one is held out for every file and every alias, so that each fact is
 * needed both for what training asks and for what it does not, and nothing has to be inferred from other files.
 *
 * @param index of the file, or of the alias, in its list
 */
export function isHeldOutPair(index: number, family: HomeFamily): boolean {
  const { name, subject } = family;
  const all = new Rng(0).split("home/pairs");
  const alike = FAMILIES.filter((other) => needsOf(other) === needsOf(family));
  const rng = (subject === undefined ? all : all.split(subject)).split(index);
  if (alike.length === 1) return rng.split(name).int(2) === 0;
  const names = alike.map((other) => other.name);
  return heldOutKinds(rng.split(names[0]!), names).includes(name);
}

/** A key: two questions with the same key need the same facts. */
const needsOf = ({ level, subject, change }: HomeFamily): string => `${level} ${subject} ${change !== undefined}`;

/** Makes a task; the same stream and options give the same task. */
export function makeTask(rng: Rng, family: HomeFamily, options: SettledOptions<typeof HOME>): HomeTask {
  const { size, home, split, facts: stated } = options;
  const facts = factsOf(home < 0 ? rng.int(2 ** 31) : home, size);
  const { file, alias } = drawUntil("home", () => drawFile(rng, family, facts, home < 0 ? undefined : split));
  const task = {
    family,
    facts,
    file,
    other: rng.choice(facts.files.filter(({ directory }) => directory !== file.directory)),
    alias,
    split,
    lines: drawLines(rng, family.name, split),
    liar: stated === "random" ? rng.split("liar") : undefined,
  };
  return { ...task, text: family.text(task) };
}

/**
 * @param split undefined in a home of one episode, where no pair is held out: demonstrations show every name in every
 * kind of question, and what is held out are facts and not words
 */
function drawFile(
  rng: Rng,
  family: HomeFamily,
  { files, names, aliases }: Facts,
  split: Split | undefined,
): { file: HomeFile; alias: string } | undefined {
  const alias = rng.choice(names.aliases);
  const file = family.subject === "alias" ? aliases.get(alias)! : rng.choice(files);
  const index = family.subject === "alias" ? names.aliases.indexOf(alias) : file.index;
  const fits = split === undefined || isHeldOutPair(index, family) === (split === "heldout");
  return fits ? { file, alias } : undefined;
}
