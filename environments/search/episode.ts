/** The families of `search`, and what an episode knows. */
import { flag } from "../../engine/optionTable.ts";
import type { FamilyInfo } from "../../rl/environment.ts";
import { type Episode, type GameTask, NAMED, SIZED, STRICT } from "../game.ts";
import type { OptionsWith } from "../options.ts";
import type { Corpus } from "./corpus.ts";

/** All families, easiest first. */
export const FAMILIES = [
  { name: "fact", level: 1, description: "one fact of a thing whose name is given" },
  { name: "bridge", level: 2, description: "a fact of a thing that another page names" },
  { name: "reverse", level: 2, description: "the only thing that has a certain fact" },
  { name: "both", level: 3, description: "the only person who has two facts, where others have one of them" },
  { name: "older", level: 3, description: "a fact of the older or younger of two persons" },
  { name: "chain", level: 3, description: "a path over three pages" },
  {
    name: "junction",
    level: 4,
    description: "from the only thing that has a certain fact on to a fact of what it names",
  },
  { name: "elder", level: 4, description: "compare two persons, then go on to what the page of one of them names" },
] as const satisfies readonly FamilyInfo[];
export type SearchFamily = (typeof FAMILIES)[number];

export const SEARCH = {
  ...SIZED,
  ...NAMED,
  ...STRICT,
  cite: flag(
    false,
    "an answer that is the value of a relation names this, too, as its page does: `answer mayor refodu`",
  ),
};
/** Options of `search`, beside `EnvironmentOptions`; `SEARCH` says what each does, and its default. */
export type SearchWorldOptions = OptionsWith<typeof SEARCH>;

/** A page that the expert reads, and the query that finds it. */
export interface Hop {
  readonly query: string;
  readonly title: string;
}

export interface SearchTask extends GameTask {
  readonly corpus: Corpus;
  readonly answer: string;
  /** Pages that together hold the answer, in the order in which they become known. */
  readonly hops: readonly Hop[];
}

/** The agent's screen, and what it has read. */
export interface SearchState {
  readonly query: string;
  /** Titles that the last search showed. */
  readonly results: readonly string[];
  readonly read: ReadonlySet<string>;
}

export type SearchEpisode = Episode<typeof SEARCH, SearchTask, SearchState>;
