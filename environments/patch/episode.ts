/** The families of `patch`, its options, and the types of its tasks and states. */
import { number } from "../../engine/optionTable.ts";
import type { FamilyInfo } from "../../rl/environment.ts";
import type { Episode, GameTask } from "../game.ts";
import type { OptionsWith } from "../options.ts";
import type { ProgramTest } from "../program/cases.ts";
import type { Edit } from "./edits.ts";
import type { Files } from "./repository.ts";

/** All families, easiest first; `input`: the type of the input of `f`, `wrong`: how many files are wrong. */
export const FAMILIES = [
  { name: "number", level: 1, description: "a file with two calculations", input: "number", wrong: 1 },
  { name: "list", level: 1, description: "a file with two operations of a list", input: "list", wrong: 1 },
  { name: "callee", level: 2, description: "a file that calls another, one of them wrong", input: "list", wrong: 1 },
  {
    name: "files",
    level: 3,
    description: "three files, one of them with two lines, one wrong",
    input: "list",
    wrong: 1,
  },
  { name: "two", level: 4, description: "a file that calls another, both wrong", input: "list", wrong: 2 },
] as const satisfies readonly (FamilyInfo & { readonly input: "number" | "list"; readonly wrong: number })[];
export type PatchFamily = (typeof FAMILIES)[number];

export const PATCH = {
  hidden: number(4, "hidden tests, which the submitted files have to pass, too", { integer: true, min: 0, max: 16 }),
  largest: number(99, "largest number that a right file adds, subtracts or multiplies by", {
    integer: true,
    min: 9,
    max: 99,
  }),
};
/** Options of `patch`, beside `EnvironmentOptions`; `PATCH` says what each does, and its default. */
export type PatchOptions = OptionsWith<typeof PATCH>;

export interface PatchTask extends GameTask {
  readonly broken: Files;
  readonly right: Files;
  /** The expert's edits, one for each file that is wrong. */
  readonly edits: readonly Edit[];
  readonly visible: readonly ProgramTest[];
  readonly hidden: readonly ProgramTest[];
}

export interface PatchState {
  readonly files: Files;
  /** The files that have been read. */
  readonly read: readonly string[];
  /** The result of the visible tests since the last change; undefined if they have not run since then. */
  readonly verdict: "pass" | "fail" | undefined;
}

export type PatchEpisode = Episode<typeof PATCH, PatchTask, PatchState>;
