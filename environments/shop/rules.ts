/** What the shop answers, and who plays in it. It is loaded later: no value of ../game.ts here. */
import type { Rng } from "../../engine/index.ts";
import { parseCount, readCommand } from "../actions.ts";
import type { GameRules, Move } from "../game.ts";
import { nameMaker } from "../words.ts";
import { ATTRIBUTES, fits, KINDS, matchScore, OPTIONS, pageOf, type Product, titleOf } from "./catalogue.ts";
import type { SHOP, ShopEpisode, ShopFamily, ShopState, ShopTask } from "./episode.ts";
import { makeTask } from "./tasks.ts";

/** How many results a list shows at a time. */
const RESULTS = 3;

const error = (observation: string): Move<ShopState> => ({ observation, failed: true });

function play({ task, state, options }: ShopEpisode, action: string): Move<ShopState> {
  const [verb, rest] = readCommand(action);
  if (rest === "" && ["search", "open", "choose"].includes(verb)) return error(`${verb} what?`);
  const product = state.open === undefined ? undefined : task.products[state.open]!;
  if (verb === "search") return list(task, { ...state, query: rest, found: task.ranking.rank(rest), shown: 0 });
  if (verb === "next" && rest === "") return list(task, state);
  if (verb === "open") {
    const at = (parseCount(rest) ?? 0) - 1;
    const open = at < state.shown ? state.found[at] : undefined;
    if (open === undefined) return error("no such result");
    const seen = new Set([...state.seen, open]);
    return { observation: pageOf(task.products[open]!), state: { ...state, open, chosen: {}, seen } };
  }
  if (verb === "choose") {
    if (!product) return error("no product is open");
    const value = rest.toLowerCase();
    const option = Object.keys(product.options).find((name) => product.options[name]!.includes(value));
    if (option === undefined) return error("no such option");
    return { observation: `${option} ${value}`, state: { ...state, chosen: { ...state.chosen, [option]: value } } };
  }
  if (verb === "buy" && rest === "") {
    if (!product) return error("no product is open");
    const score = matchScore(product, state.chosen, task.goal);
    const reward = options.reward === "success" ? Math.floor(score) : score;
    return { observation: receipt(product, state.chosen), ending: { kind: "buy", score }, reward };
  }
  return error("unknown action; use search, next, open, choose or buy");
}

/** The next results of a search. */
function list(task: ShopTask, state: ShopState): Move<ShopState> {
  const page = state.found.slice(state.shown, state.shown + RESULTS);
  const lines = page.map((at, i) => `${state.shown + i + 1} ${titleOf(task.products[at]!)}`);
  const observation = lines.join("\n") || (state.shown > 0 ? "no more results" : "no results");
  return { observation, state: { ...state, shown: state.shown + page.length } };
}

const receipt = (product: Product, chosen: Readonly<Record<string, string>>): string =>
  `bought ${[titleOf(product), ...Object.keys(product.options).flatMap((name) => chosen[name] ?? [])].join(", ")}`;

/**
 * Acts on what has been shown: opens the results of the right maker and kind that are cheap enough, in order, until a
 * page has all that is asked for; then chooses and buys.
 */
function expert({ task: { goal, products }, state }: ShopEpisode): string {
  if (state.open !== undefined && fits(products[state.open]!, goal)) {
    const missing = Object.entries(goal.options).find(([name, value]) => state.chosen[name] !== value);
    return missing ? `choose ${missing[1]}` : "buy";
  }
  const query = `${goal.maker} ${goal.kind}`;
  if (state.query !== query) return `search ${query}`;
  const candidate = state.found.slice(0, state.shown).findIndex((at) => {
    const product = products[at]!;
    const known = !state.seen.has(at) || fits(product, goal);
    const right = product.maker === goal.maker && product.kind === goal.kind;
    return known && right && product.price <= (goal.limit ?? Infinity);
  });
  return candidate < 0 ? "next" : `open ${candidate + 1}`;
}

/** A search for a kind or a maker, an opened result, a chosen option, or a purchase. */
function random(rng: Rng): string {
  const newMaker = nameMaker(rng);
  const actions: readonly (() => string)[] = [
    () => `search ${rng.choice(KINDS)}`,
    () => `search ${newMaker()} ${rng.choice(KINDS)}`,
    () => `search ${rng.choice(ATTRIBUTES)} ${rng.choice(KINDS)}`,
    () => `open ${1 + rng.int(RESULTS)}`,
    () => `open ${1 + rng.int(RESULTS)}`,
    () => `choose ${rng.choice(Object.values(OPTIONS).flat())}`,
    () => "next",
    () => "buy",
  ];
  return rng.choice(actions)();
}

export const rules: GameRules<typeof SHOP, ShopFamily, ShopTask, ShopState> = {
  makeTask,
  start: () => ({ query: "", found: [], shown: 0, open: undefined, chosen: {}, seen: new Set() }),
  play,
  expert,
  random,
};
