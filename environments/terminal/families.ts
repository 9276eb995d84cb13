/**
 * The task families, and the contract between the functions that draft their tasks and the code that makes tasks of the
 * drafts (both in tasks.ts).
 */
import type { FamilyInfo } from "../../rl/environment.ts";
import type { World } from "./world.ts";

/** All families, easiest first. */
export const FAMILIES = [
  { name: "read", level: 1, description: "read a file whose path is given" },
  { name: "list", level: 1, description: "name the only file in a directory" },
  { name: "lines", level: 1, description: "count the lines of a file" },
  { name: "find", level: 2, description: "find the directory in which a file lies" },
  { name: "config", level: 2, description: "look up a key in a configuration file" },
  { name: "make", level: 2, description: "make a directory inside another" },
  { name: "write", level: 2, description: "write a new file with a given text" },
  { name: "largest", level: 3, description: "find the largest number in a file" },
  { name: "move", level: 3, description: "move a file to another directory" },
  { name: "copy", level: 3, description: "copy a file to another directory" },
  { name: "clean", level: 3, description: "delete the .tmp files of a directory, and no others" },
  { name: "seek", level: 4, description: "find a file somewhere, then read it" },
  { name: "count", level: 4, description: "count the lines with a word over all files of a directory" },
  { name: "follow", level: 4, description: "read a file that names another file, then read that" },
  { name: "relocate", level: 4, description: "find the file that says a word, then move it" },
] as const satisfies readonly FamilyInfo[];
export type Family = (typeof FAMILIES)[number];

/** Paths relative to home → text, null for a directory. */
export type Tree = Map<string, string | null>;

/** The draft of a task in a world: either a question or a change. The world may still get unimportant files. */
export type Draft = {
  /** Ways to word the task; one is drawn. */
  readonly texts: readonly string[];
  /** The expert's commands, without the one that ends the episode. */
  readonly plan: readonly string[];
  /** A directory that gets no unimportant files. */
  readonly keepClear?: string;
} & ({ readonly answer: string } | { readonly change: (tree: Tree) => void });

/** Functions that draft tasks, by the names of their families. */
export type Drafts<Name extends string = string> = Readonly<Record<Name, (world: World) => Draft>>;
