/**
 * The facts of a host: which file each of its scripts looks for, and in which directory. They follow from one seed. The
 * names are the same on all hosts; what belongs to what is dealt out evenly, so that no guess is better than another.
 */
import { Rng } from "../../engine/index.ts";
import { dealt, nameMaker, remembered } from "../../environments/facts/shared.ts";

/** The names that a host of some size has. A larger host has all of these, and more. */
export interface HostNames {
  readonly scripts: readonly string[];
  readonly directories: readonly string[];
  /** Names of files that scripts look for. */
  readonly files: readonly string[];
}

export interface HostFacts {
  readonly names: HostNames;
  /** Script → the directory in which it looks. */
  readonly places: ReadonlyMap<string, string>;
  /** Script → the name of the file that it looks for. */
  readonly wanted: ReadonlyMap<string, string>;
}

/** The numbers of scripts, directories and names of files on hosts of each `size`. */
const SIZES = [
  { scripts: 16, directories: 8, files: 4 },
  { scripts: 32, directories: 12, files: 6 },
  { scripts: 64, directories: 16, files: 8 },
] as const;

/** The names, which are the same on all hosts. @param size from 1 to 3 */
export const namesOf = (size: number): HostNames => namesBySize(0, size);

const namesBySize = remembered((_seed, size): HostNames => {
  const { scripts, directories, files } = SIZES[size - 1]!;
  const most = SIZES.at(-1)!;
  const next = nameMaker(new Rng(0).split("host/names"));
  const some = (all: number, count: number): readonly string[] => Array.from({ length: all }, next).slice(0, count);
  return {
    scripts: some(most.scripts, scripts).map((name) => `${name}.sh`),
    directories: some(most.directories, directories),
    files: some(most.files, files),
  };
});

/** The host of this seed. @param seed an integer ≥ 0 @param size from 1 to 3 */
export const factsOf: (seed: number, size: number) => HostFacts = remembered((seed, size) => {
  const names = namesOf(size);
  const rng = new Rng(seed).split("host/facts");
  return {
    names,
    places: dealt(rng.split("places"), names.scripts, names.directories),
    wanted: dealt(rng.split("files"), names.scripts, names.files),
  };
});

/** The path of the file that a script looks for. */
export const pathOf = ({ places, wanted }: HostFacts, script: string): string =>
  `${places.get(script)!}/${wanted.get(script)!}`;
