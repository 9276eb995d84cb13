/** The families of `castle`, its options, and what an episode knows. */
import type { Rng } from "../../engine/index.ts";
import type { FamilyInfo } from "../../rl/environment.ts";
import { factFields, WORLD_SEED } from "../facts/options.ts";
import type { Episode, GameTask } from "../game.ts";
import type { OptionsWith } from "../options.ts";
import type { Castle } from "./facts.ts";

/**
 * A step of a task: go through a passage or send the page, open or seal a chest, take or clean a thing that lies in
 * one.
 */
export type Step =
  | { readonly verb: "go" | "send"; readonly from: string; readonly to: string }
  | { readonly verb: "open" | "seal"; readonly chest: string }
  | { readonly verb: "take" | "clean"; readonly thing: string };

/** All families, easiest first. The level is how many facts of the castle a task needs. */
export const FAMILIES = [
  { name: "go", level: 1, description: "go to a room: the word for it in this one" },
  { name: "send", level: 1, description: "send the page to a room: the word for it in this one" },
  { name: "open", level: 1, description: "open a chest in this room: its key" },
  { name: "seal", level: 1, description: "seal a chest in this room: its key" },
  { name: "take", level: 2, description: "take a thing in this room: its chest, and the key of that" },
  { name: "clean", level: 2, description: "clean a thing in this room: its chest, and the key of that" },
  { name: "cross", level: 2, description: "go to a room and on to another: a word in each of two rooms" },
  { name: "visit", level: 2, description: "open a chest in another room: the word for that, and the key" },
  { name: "fetch", level: 3, description: "take a thing in another room: the word for that, the chest, and its key" },
  {
    name: "bring",
    level: 4,
    description: "take a thing from one room to another: a word in each of two rooms, the chest, and its key",
  },
] as const satisfies readonly FamilyInfo[];
export type CastleFamily = (typeof FAMILIES)[number];

export const CASTLE = { castle: WORLD_SEED, ...factFields(FAMILIES) };
/** Options of `castle`, beside `EnvironmentOptions`; `CASTLE` says what each does, and its default. */
export type CastleOptions = OptionsWith<typeof CASTLE>;

export interface CastleTask extends GameTask {
  readonly family: CastleFamily;
  readonly castle: Castle;
  /** The room in which the agent and the page are at first. */
  readonly start: string;
  readonly steps: readonly Step[];
  /** If facts are random: the stream that draws the statements of answers, and the rooms to which wrong words lead. */
  readonly liar: Rng | undefined;
}

export interface CastleState {
  /** The room in which the agent is, and the one in which the page is. */
  readonly at: string;
  readonly page: string;
  /** The rooms that the agent has entered. */
  readonly entered: readonly string[];
  /** The deeds so far (open, seal, take, clean), as `verb name`. */
  readonly deeds: readonly string[];
}

/** A live episode in a castle. */
export type CastleEpisode = Episode<typeof CASTLE, CastleTask, CastleState>;
