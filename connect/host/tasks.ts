/**
 * The tasks of a host. Both families need the same two facts, and of each script one of the two is never asked for in
 * training: what is learnt for one question has to serve another.
 */
import { Rng } from "../../engine/index.ts";
import { drawUntil, type FamilyInfo, type OptionsWith, type SettledOptions } from "../../environments/index.ts";
import { drawWord, heldOutKinds, WORLD_SEED } from "../../environments/facts/shared.ts";
import { joinLines } from "../../environments/terminal/shared.ts";
import type { FileTree } from "../sandbox/files.ts";
import type { BashTask } from "../shell/bash.ts";
import { textsOf } from "../shell/found.ts";
import { SHELL } from "../shell/options.ts";
import { factsOf, type HostFacts, namesOf, pathOf } from "./facts.ts";

export const HOST = { host: WORLD_SEED, ...SHELL };
/** Options of `host`, beside `EnvironmentOptions`; `HOST` says what each does, and its default. */
export type HostOptions = OptionsWith<typeof HOST>;

export type HostFamily = FamilyInfo & { readonly name: "mend" | "print" };

export interface HostTask extends BashTask {
  readonly family: HostFamily;
  readonly script: string;
  /** The word that a script shall print. */
  readonly word: string;
  readonly facts: HostFacts;
}

export const FAMILIES: readonly HostFamily[] = [
  { name: "mend", level: 1, description: "make the file that a script looks for" },
  { name: "print", level: 1, description: "make the file that a script prints, with a word in it" },
];

/** What is asked. */
export const textOf = ({ name }: HostFamily, script: string, word: string): string =>
  name === "mend" ? `Make sh ${script} work` : `Let sh ${script} print ${word}`;

/** A line that makes this file and runs the script, whose error says which file it looked for. */
export const lineOf = ({ name }: HostFamily, script: string, word: string, path: string): string =>
  `${name === "mend" ? `touch ${path}` : `echo ${word} > ${path}`}; sh ${script}`;

/** The same line with a file that is guessed. @param task the text of a task; any other text gives a task of its own */
export function guess(rng: Rng, task: string, size: number): string {
  const { scripts, directories, files } = namesOf(size);
  const asked = /^(?:Make|Let) sh ([a-z]{6}\.sh) (?:work|print ([a-z]{6}))$/.exec(task);
  const family = (asked === null ? rng.int(2) === 0 : asked[2] === undefined) ? FAMILIES[0]! : FAMILIES[1]!;
  const path = `${rng.choice(directories)}/${rng.choice(files)}`;
  return lineOf(family, asked?.[1] ?? rng.choice(scripts), asked?.[2] ?? drawWord(rng, "train"), path);
}

/** Whether training never asks this about this script. @param index of the script in its list */
export const isHeldOutPair = (index: number, { name }: HostFamily): boolean =>
  heldOutKinds(
    new Rng(0).split("host/pairs").split(index),
    FAMILIES.map((family) => family.name),
  ).includes(name);

/** The files of a host: a script prints a file that is not there. */
function filesOf(facts: HostFacts): FileTree {
  const { scripts, directories } = facts.names;
  return new Map([
    ...directories.map((name) => [name, null] as const),
    ...scripts.map((script) => [script, joinLines([`cat ${pathOf(facts, script)}`])] as const),
  ]);
}

/** Makes a task; the same stream and options give the same task. */
export function makeTask(rng: Rng, family: HostFamily, options: SettledOptions<typeof HOST>): HostTask {
  const { host, size, split, answers } = options;
  const someHost = (): HostFacts => factsOf(rng.int(2 ** 31), size);
  const facts = host < 0 ? someHost() : factsOf(host, size);
  const { scripts } = facts.names;
  // On a host of one episode no pair is held out: demonstrations show every name in both kinds of question.
  const isAsked = (script: string): boolean =>
    host < 0 || isHeldOutPair(scripts.indexOf(script), family) === (split === "heldout");
  const script = drawUntil("host", () => {
    const drawn = rng.choice(scripts);
    return isAsked(drawn) ? drawn : undefined;
  });
  const word = drawWord(rng, split);
  const path = pathOf(facts, script);
  const files = filesOf(facts);
  return {
    text: textOf(family, script, word),
    family,
    script,
    word,
    facts,
    files,
    ...(answers === "other" && { others: filesOf(someHost()) }),
    plan: [lineOf(family, script, word, path), "done"],
    verify({ kind }, found) {
      const tree = textsOf(found);
      const made = tree?.get(path);
      if (kind !== "done" || typeof made !== "string") return false;
      if (family.name === "print" && made.trim() !== word) return false;
      // Nothing else may have changed: a file in every directory is no knowledge.
      tree!.delete(path);
      return tree!.size === files.size && [...files].every(([at, text]) => tree!.get(at) === text);
    },
  };
}
