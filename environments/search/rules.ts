/** What the search engine answers, and who uses it. It is loaded later: no value of ../game.ts here. */
import type { Rng } from "../../engine/index.ts";
import { parseCount, readCommand } from "../actions.ts";
import type { GameRules, Move, SIZED } from "../game.ts";
import { nameMaker } from "../words.ts";
import { pageText, RELATIONS } from "./corpus.ts";
import type { SearchEpisode, SearchFamily, SearchState, SearchTask } from "./episode.ts";
import { makeTask, RESULTS } from "./tasks.ts";

/** Other spellings of the same answer: spaces, capitals, a full stop. */
export const normalizeAnswer = (text: string): string =>
  text.trim().toLowerCase().replace(/\s+/g, " ").replace(/\.$/, "");

function play({ task, state }: SearchEpisode, action: string): Move<SearchState> {
  const [verb, rest] = readCommand(action);
  if (rest === "" && ["search", "open", "answer"].includes(verb)) return error(`${verb} what?`);
  if (verb === "search") {
    const results = task.corpus.search(rest).slice(0, RESULTS);
    const lines = results.map((title, i) => `${i + 1} ${title} ${task.corpus.page(title).kind}`);
    return { observation: lines.join("\n") || "no results", state: { ...state, query: rest, results } };
  }
  if (verb === "open") {
    const title = state.results[(parseCount(rest) ?? 0) - 1];
    if (title === undefined) return error("no such result");
    const read = new Set([...state.read, title]);
    return { observation: pageText(task.corpus.page(title)), state: { ...state, read } };
  }
  if (verb === "answer") {
    const right = normalizeAnswer(rest) === task.answer;
    return { observation: "", ending: { kind: "answer", score: right ? 1 : 0 } };
  }
  return error("unknown action; use search, open or answer");
}

const error = (observation: string): Move<SearchState> => ({ observation, failed: true });

/** Reads the pages of the path in order, each found by its own query, then answers. */
function expert({ task: { hops, answer }, state: { query, results, read } }: SearchEpisode): string {
  const hop = hops.find(({ title }) => !read.has(title));
  if (!hop) return `answer ${answer}`;
  return query === hop.query ? `open ${results.indexOf(hop.title) + 1}` : `search ${hop.query}`;
}

/** A search for a name or a fact, an opened result, or an answer. */
function random(rng: Rng): string {
  const newName = nameMaker(rng);
  const actions: readonly (() => string)[] = [
    () => `search ${newName()}`,
    () => `search ${rng.choice(RELATIONS).name} ${newName()}`,
    () => `open ${1 + rng.int(RESULTS)}`,
    () => `open ${1 + rng.int(RESULTS)}`,
    () => `answer ${rng.int(2) === 0 ? newName() : 100 + rng.int(900)}`,
  ];
  return rng.choice(actions)();
}

export const rules: GameRules<typeof SIZED, SearchFamily, SearchTask, SearchState> = {
  makeTask,
  start: () => ({ query: "", results: [], read: new Set() }),
  play,
  expert,
  random,
};
