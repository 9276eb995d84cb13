/**
 * The tasks of a host. Both families of a kind need the same two facts, and of each script and each program one of the
 * two is never asked for in training: what is learnt for one question has to serve another.
 */
import { Rng } from "../../engine/index.ts";
import { drawUntil, type FamilyInfo, type OptionsWith, type SettledOptions } from "../../environments/index.ts";
import { drawWord, heldOutKinds, WORLD_SEED } from "../../environments/facts/shared.ts";
import { joinLines, type Tree } from "../../environments/terminal/shared.ts";
import type { FileTree } from "../sandbox/files.ts";
import type { BashTask } from "../shell/bash.ts";
import { textsOf } from "../shell/found.ts";
import { BASH } from "../shell/options.ts";
import { factsOf, type HostFacts, type Kind, namesOf, wordOf } from "./facts.ts";

export const HOST = { host: WORLD_SEED, ...BASH };
/** Options of `host`, beside `EnvironmentOptions`; `HOST` says what each does, and its default. */
export type HostOptions = OptionsWith<typeof HOST>;

/** A kind of question. */
export interface HostFamily extends FamilyInfo {
  readonly kind: Kind;
  /** What is asked. @param subject the script or the program @param word that is to be kept or printed */
  readonly text: (subject: string, word: string) => string;
  /** The line that does it, and whose error says what was needed. @param needed the path or the variable */
  readonly line: (subject: string, needed: string, word: string) => string;
  /** The file that has to be there at the end, and its text without spaces at its ends; undefined: any text. */
  readonly file: (subject: string, needed: string) => string;
  readonly wanted: (needed: string, word: string) => string | undefined;
}

export interface HostTask extends BashTask {
  readonly family: HostFamily;
  readonly subject: string;
  /** The path or the variable that the subject needs. */
  readonly needed: string;
  readonly word: string;
  readonly facts: HostFacts;
}

/** The file in which a program keeps a word. */
const keptIn = (program: string): string => program.replace(/sh$/, "out");

/** All families, easiest first. In lines about programs the name comes before what it needs, as in their errors. */
export const FAMILIES: readonly HostFamily[] = [
  {
    name: "keep",
    level: 1,
    kind: "program",
    description: "let a program keep a word: the variable that it needs",
    text: (program, word) => `Let bash ${program} keep ${word}`,
    line: (program, variable, word) => `bash ${program} ${variable}=${word}`,
    file: keptIn,
    // With the name of the variable, which nobody writes who does not know it.
    wanted: (variable, word) => `${variable}=${word}`,
  },
  {
    name: "clear",
    level: 1,
    kind: "program",
    description: "let a program keep nothing: the variable that it needs",
    text: (program) => `Let bash ${program} keep nothing`,
    line: (program, variable) => `bash ${program} ${variable}=`,
    file: keptIn,
    wanted: (variable) => `${variable}=`,
  },
  {
    name: "mend",
    level: 2,
    kind: "script",
    description: "make the file that a script looks for: its directory and its name",
    text: (script) => `Make sh ${script} work`,
    line: (script, path) => `touch ${path}; sh ${script}`,
    file: (_, path) => path,
    wanted: () => undefined,
  },
  {
    name: "print",
    level: 2,
    kind: "script",
    description: "make the file that a script prints, with a word in it: its directory and its name",
    text: (script, word) => `Let sh ${script} print ${word}`,
    line: (script, path, word) => `echo ${word} > ${path}; sh ${script}`,
    file: (_, path) => path,
    wanted: (_, word) => word,
  },
];

/** The family of a task, its subject and its word; undefined for text that is no task. */
function taskIn(text: string): { family: HostFamily; subject: string; word: string | undefined } | undefined {
  for (const family of FAMILIES) {
    const pattern = family.text("([a-z]{6}[.]sh)", "([a-z]{6})");
    const [found, subject, word] = new RegExp(`^${pattern}$`).exec(text) ?? [];
    if (found !== undefined && word !== "nothing") return { family, subject: subject!, word };
  }
  return undefined;
}

/** The line for a task, with what is needed guessed. @param task its text; any other text gives a task of its own */
export function guess(rng: Rng, task: string, size: number): string {
  const asked = taskIn(task);
  const { parts, subjects } = namesOf(size);
  const family = asked?.family ?? rng.choice(FAMILIES);
  const subject = asked?.subject ?? rng.choice(subjects[family.kind]);
  const needed = parts[family.kind].map((names) => rng.choice(names));
  return family.line(subject, wordOf(family.kind, needed), asked?.word ?? drawWord(rng, "train"));
}

/** Whether training never asks this about this subject. @param index of the subject among those of its kind */
export function isHeldOutPair(index: number, { name, kind }: HostFamily): boolean {
  const alike = FAMILIES.filter((family) => family.kind === kind).map((family) => family.name);
  return heldOutKinds(new Rng(0).split("host/pairs").split(kind).split(index), alike).includes(name);
}

/** The files of a host. A script prints a file that is not there; a program keeps what a variable says. */
function filesOf({ names: { subjects, parts }, needed }: HostFacts): FileTree {
  const scripts = subjects.script.map((own) => [own, [`cat ${wordOf("script", needed.get(own)!)}`]] as const);
  const programs = subjects.program.flatMap((own) => {
    const variable = wordOf("program", needed.get(own)!);
    // It takes variables as make does, NAME=VALUE.
    const lines = ['for a; do declare "$a"; done', `echo "${variable}=\${${variable}?}" > ${keptIn(own)}`];
    return [[own, lines] as const, [keptIn(own), ["-"]] as const];
  });
  return new Map([
    ...parts.script[0].map((name) => [name, null] as const),
    ...[...scripts, ...programs].map(([name, lines]) => [name, joinLines([...lines])] as const),
  ]);
}

/** Makes a task; the same stream and options give the same task. */
export function makeTask(rng: Rng, family: HostFamily, options: SettledOptions<typeof HOST>): HostTask {
  const { host, size, split, answers } = options;
  const someHost = (): HostFacts => factsOf(rng.int(2 ** 31), size);
  const facts = host < 0 ? someHost() : factsOf(host, size);
  const subjects = facts.names.subjects[family.kind];
  // On a host of one episode no pair is held out: demonstrations show every name in both kinds of question.
  const isAsked = (index: number): boolean => host < 0 || isHeldOutPair(index, family) === (split === "heldout");
  const subject = drawUntil("host", () => {
    const index = rng.int(subjects.length);
    return isAsked(index) ? subjects[index] : undefined;
  });
  const word = drawWord(rng, split);
  const needed = wordOf(family.kind, facts.needed.get(subject)!);
  const [files, path] = [filesOf(facts), family.file(subject, needed)];
  return {
    text: family.text(subject, word),
    family,
    subject,
    needed,
    word,
    facts,
    files,
    ...(answers === "other" && { others: filesOf(someHost()) }),
    plan: [family.line(subject, needed, word), "done"],
    verify({ kind }, found) {
      const tree = textsOf(found);
      const text = tree?.get(path);
      if (kind !== "done" || typeof text !== "string") return false;
      if (![undefined, text.trim()].includes(family.wanted(needed, word))) return false;
      // Nothing else may have changed: a file in every directory is no knowledge.
      return isSame(tree!, files, path);
    },
  };
}

/** Whether two trees are the same, but for the text of one file. */
function isSame(tree: Tree, files: FileTree, but: string): boolean {
  const others = [...files].filter(([path]) => path !== but);
  const count = [...tree.keys()].filter((path) => path !== but).length;
  return count === others.length && others.every(([path, text]) => tree.get(path) === text);
}
