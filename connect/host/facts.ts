/**
 * The facts of a host: which file each of its scripts looks for, in which directory, and which variable each of its
 * programs needs. They follow from one seed. The names are the same on all hosts; what belongs to what is dealt out
 * evenly, so that no guess is better than another.
 */
import { Rng } from "../../engine/index.ts";
import { dealt, nameMaker, remembered } from "../../environments/facts/shared.ts";

/** What is asked about: scripts that look for a file, and programs that need a variable. */
export type Kind = "script" | "program";

/** The names that a host of some size has. A larger host has all of these, and more. */
export interface HostNames {
  /** Names of scripts and of programs, as they are called. */
  readonly subjects: Readonly<Record<Kind, readonly string[]>>;
  /** Of a script the directories and the files that it may look for; of a program both parts of its variable. */
  readonly parts: Readonly<Record<Kind, readonly [first: readonly string[], second: readonly string[]]>>;
}

export interface HostFacts {
  readonly names: HostNames;
  /** Script or program → both parts of what it needs. */
  readonly needed: ReadonlyMap<string, readonly [first: string, second: string]>;
}

/** The numbers on hosts of each `size`: of scripts, and as many programs; of first and of second parts. */
const SIZES = [
  { subjects: 16, first: 8, second: 4 },
  { subjects: 32, first: 12, second: 6 },
  { subjects: 64, first: 16, second: 8 },
] as const;

/** The names, which are the same on all hosts. @param size from 1 to 3 */
export const namesOf = (size: number): HostNames => namesBySize(0, size);

const namesBySize = remembered((_seed, size): HostNames => {
  const { subjects, first, second } = SIZES[size - 1]!;
  const most = SIZES.at(-1)!;
  const next = nameMaker(new Rng(0).split("host/names"));
  const some = (all: number, count: number): readonly string[] => Array.from({ length: all }, next).slice(0, count);
  const parts = (): [readonly string[], readonly string[]] => [some(most.first, first), some(most.second, second)];
  const called = (): readonly string[] => some(most.subjects, subjects).map((name) => `${name}.sh`);
  return {
    subjects: { script: called(), program: called() },
    parts: { script: parts(), program: parts() },
  };
});

/** The host of this seed. @param seed an integer ≥ 0 @param size from 1 to 3 */
export const factsOf: (seed: number, size: number) => HostFacts = remembered((seed, size) => {
  const names = namesOf(size);
  const rng = new Rng(seed).split("host/facts");
  const needed = (["script", "program"] as const).flatMap((kind) => {
    const [first, second] = names.parts[kind].map((all, k) =>
      dealt(rng.split(`${kind}/${k}`), names.subjects[kind], all),
    ) as [ReadonlyMap<string, string>, ReadonlyMap<string, string>];
    return names.subjects[kind].map((own) => [own, [first.get(own)!, second.get(own)!]] as const);
  });
  return { names, needed: new Map(needed) };
});

/** What stands between both parts: a path, or the name of a variable. */
const BETWEEN: Readonly<Record<Kind, string>> = { script: "/", program: "_" };

/** What a script or a program needs, as a word of a line. */
export const wordOf = (kind: Kind, parts: readonly string[]): string => parts.join(BETWEEN[kind]);
