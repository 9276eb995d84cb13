/**
 * The facts of a home: in which directory each file lies, which program opens each kind of file, which account owns
 * each directory, and which file each alias stands for. They follow from one seed and never change, so what is learnt
 * in one episode serves in every other. The names are the same in all homes. Only what belongs to what differs, and
 * that is drawn, so that no home can be inferred from another. The facts are dealt out evenly, so that no guess is
 * better than another; all but the last determine the last.
 */
import { Rng } from "../../engine/index.ts";
import { dealt, remembered } from "../facts/world.ts";
import { nameMaker } from "../words.ts";

/** The numbers of everything in a home. */
interface HomeSize {
  readonly files: number;
  readonly directories: number;
  /** The number of endings of files, and of programs. */
  readonly kinds: number;
  readonly accounts: number;
  readonly aliases: number;
}

/** The numbers in homes of each `size`. */
const SIZES: readonly HomeSize[] = [
  { files: 16, directories: 8, kinds: 4, accounts: 4, aliases: 4 },
  { files: 32, directories: 12, kinds: 6, accounts: 6, aliases: 8 },
  { files: 64, directories: 16, kinds: 8, accounts: 8, aliases: 12 },
];

const ENDINGS = ["txt", "log", "cfg", "csv", "dat", "img", "tex", "bak"] as const;

/** The names that a home of some size has. A larger home has all of these, and more. */
export interface HomeNames {
  /** Names of files without their endings. */
  readonly stems: readonly string[];
  readonly endings: readonly string[];
  readonly directories: readonly string[];
  readonly programs: readonly string[];
  readonly accounts: readonly string[];
  readonly aliases: readonly string[];
}

/** A file, and where it lies. */
export interface HomeFile {
  /** Its place in the list of files, which decides what is asked about it in training. */
  readonly index: number;
  readonly name: string;
  readonly ending: string;
  readonly directory: string;
}

export interface Facts {
  readonly names: HomeNames;
  readonly files: readonly HomeFile[];
  /** Ending → the program that opens it. */
  readonly programs: ReadonlyMap<string, string>;
  /** Directory → the account that owns it. */
  readonly owners: ReadonlyMap<string, string>;
  /** Alias → the file that it stands for. */
  readonly aliases: ReadonlyMap<string, HomeFile>;
}

const namesBySize = remembered((_seed, size) => makeNames(size));

/** The names, which are the same in all homes. @param size from 1 to 3 */
export const namesOf = (size: number): HomeNames => namesBySize(0, size);

function makeNames(size: number): HomeNames {
  const { files, directories, kinds, accounts, aliases } = SIZES[size - 1]!;
  const most = SIZES.at(-1)!;
  const next = nameMaker(new Rng(0).split("home/names"));
  // All are drawn for the largest home, so that what a name means does not depend on the size.
  const some = (all: number, count: number): readonly string[] => Array.from({ length: all }, next).slice(0, count);
  return {
    stems: some(most.files, files),
    endings: ENDINGS.slice(0, kinds),
    directories: some(most.directories, directories),
    programs: some(most.kinds, kinds),
    accounts: some(most.accounts, accounts),
    aliases: some(most.aliases, aliases),
  };
}

/** The home of this seed. @param seed an integer ≥ 0 @param size from 1 to 3 */
export const factsOf: (seed: number, size: number) => Facts = remembered((seed, size) => {
  const names = namesOf(size);
  const rng = new Rng(seed).split("home/facts");
  const endings = dealt(rng.split("endings"), names.stems, names.endings);
  const places = dealt(rng.split("places"), names.stems, names.directories);
  const files = names.stems.map((stem, index): HomeFile => {
    const ending = endings.get(stem)!;
    return { index, name: `${stem}.${ending}`, ending, directory: places.get(stem)! };
  });
  const programs = rng.split("programs").shuffle(names.programs);
  const aliased = rng.split("aliases").shuffle(files);
  return {
    names,
    files,
    programs: new Map(names.endings.map((ending, k) => [ending, programs[k]!])),
    owners: dealt(rng.split("owners"), names.directories, names.accounts),
    aliases: new Map(names.aliases.map((alias, k) => [alias, aliased[k]!])),
  };
});
