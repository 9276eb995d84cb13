/** The families of `code`, its options, and the types of its tasks and states. */
import { number } from "../../engine/optionTable.ts";
import type { FamilyInfo } from "../../rl/environment.ts";
import type { Episode, GameTask } from "../game.ts";
import type { OptionsWith } from "../options.ts";
import type { ProgramTest } from "../program/cases.ts";
import type { Program } from "../program/syntax.ts";

/** All families, easiest first; `input`: the type of the programs' input. */
export const FAMILIES = [
  { name: "number", level: 1, description: "one calculation", input: "number" },
  { name: "list", level: 1, description: "two operations of a list", input: "list" },
  { name: "steps", level: 2, description: "two calculations", input: "number" },
  { name: "chain", level: 2, description: "three operations of a list", input: "list" },
  { name: "name", level: 3, description: "a value that is used twice", input: "list" },
  { name: "examples", level: 4, description: "two calculations, of which only tests tell", input: "number" },
] as const satisfies readonly (FamilyInfo & { readonly input: "number" | "list" })[];
export type CodeFamily = (typeof FAMILIES)[number];

export const CODE = {
  hidden: number(4, "hidden tests, which a submitted program has to pass, too", { integer: true, min: 0, max: 16 }),
};
/** Options of `code`, beside `EnvironmentOptions`: the number of `hidden` tests. */
export type CodeOptions = OptionsWith<typeof CODE>;

export interface CodeTask extends GameTask {
  /** The reference program, as text and parsed. */
  readonly solution: string;
  readonly reference: Program;
  /** The tests that the task shows. */
  readonly visible: readonly ProgramTest[];
  readonly hidden: readonly ProgramTest[];
}

/** The state of an episode: the program that was run last. */
export type CodeEpisode = Episode<typeof CODE, CodeTask, string>;
