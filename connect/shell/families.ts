/** The task families of `shell`: those of the simulated `terminal`, and further ones that need real tools. */
import type { FamilyInfo } from "../../rl/environment.ts";
import { FAMILIES as OF_TERMINAL } from "../../environments/terminal/shared.ts";

/** Families that the simulated terminal does not have. */
export const OF_SHELL = [
  { name: "rename", level: 2, description: "give a file another name" },
  { name: "permit", level: 2, description: "make a file executable" },
  { name: "sort", level: 3, description: "write the sorted lines of a file to a new one" },
  { name: "edit", level: 3, description: "replace a word in a file" },
  { name: "archive", level: 4, description: "pack a directory with tar" },
  { name: "repair", level: 4, description: "run a script, and make what its error says is missing" },
] as const satisfies readonly FamilyInfo[];

/** All families, easiest first. */
export const FAMILIES: readonly (FamilyInfo & { readonly name: FamilyName })[] = [...OF_TERMINAL, ...OF_SHELL].sort(
  (a, b) => a.level - b.level,
);

export type ShellFamily = (typeof OF_SHELL)[number]["name"];
export type FamilyName = (typeof OF_TERMINAL)[number]["name"] | ShellFamily;
