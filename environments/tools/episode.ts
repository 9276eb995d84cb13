/** The families of `tools`, its options, and what an episode knows. */
import type { EnvironmentOptions, FamilyInfo } from "../../rl/environment.ts";
import type { Episode, GameTask } from "../game.ts";

/** All families, easiest first. */
export const FAMILIES = [
  { name: "lamp", level: 1, description: "a word of four and a number" },
  { name: "alarm", level: 1, description: "an hour and a day" },
  { name: "buy", level: 1, description: "a name and a number" },
  { name: "two", level: 2, description: "calls of two tools" },
  { name: "twice", level: 2, description: "two calls of one tool" },
  { name: "say", level: 2, description: "no tool is needed" },
  { name: "three", level: 3, description: "calls of all three" },
] as const satisfies readonly FamilyInfo[];
export type ToolFamily = (typeof FAMILIES)[number];

/** It has none beside those of every environment. */
export const TOOLS = {};
/** Options of `tools`: those of every environment, and none of its own. */
export type ToolOptions = EnvironmentOptions;

/** A call, as `NAME PARAMETER=VALUE …` says it. */
export interface Call {
  readonly name: string;
  readonly parameters: Readonly<Record<string, string>>;
}

export interface ToolTask extends GameTask {
  /** The calls that are asked for, in the order of the text. */
  readonly calls: readonly Call[];
  /** The word to be said without a call, if nothing is to be called. */
  readonly say?: string;
}

/** The calls and actions so far. */
export interface ToolState {
  /** All calls, those that were refused too. */
  readonly calls: readonly Call[];
  /** The calls that a tool took. */
  readonly taken: readonly Call[];
  /** The first word of each action, or `?` for one that is no call and no ending. */
  readonly kinds: readonly string[];
}

export type ToolEpisode = Episode<typeof TOOLS, ToolTask, ToolState>;
