/**
 * `shop`: find and buy a product that has the maker, kind, attributes, options and price that are asked for, after
 * WebShop (Yao, Chen, Yang and Narasimhan 2022). The agent types `search WORDS` (three results, by BM25 over makers and
 * kinds), `next` (three more), `open N`, `choose VALUE` and `buy`, which ends the episode. The reward is WebShop's
 * match score, 1 exactly if all is as asked (catalogue.ts). Read it in this order: catalogue.ts (what is sold, and the
 * score), tasks.ts (what is asked), this file.
 *
 * The task families, each with the expert's episode for seed 0 (a test plays them again and compares):
 *
 * find (level 1): buy the only product of a maker and kind
 *     Buy a fufiba scarf
 *     $ search fufiba scarf
 *     1 fufiba scarf $55
 *     2 fufiba pen $82
 *     3 fufiba pen $22
 *     $ open 1
 *     fufiba scarf $55
 *     round, quiet
 *     $ buy
 *     bought fufiba scarf $55
 *
 * price (level 1): of several, buy the one that is cheap enough
 *     Get a fufiba pen: at most $44
 *     $ search fufiba pen
 *     1 fufiba pen $39
 *     2 fufiba pen $98
 *     3 fufiba pan $12
 *     $ open 1
 *     fufiba pen $39
 *     warm, plain
 *     $ buy
 *     bought fufiba pen $39
 *
 * color (level 2): choose a color before buying
 *     Buy a fufiba scarf: red
 *     $ search fufiba scarf
 *     1 fufiba scarf $55
 *     2 fufiba shirt $75
 *     3 fufiba shirt $16
 *     $ open 1
 *     fufiba scarf $55
 *     soft, light
 *     color red, green
 *     $ choose red
 *     color red
 *     $ buy
 *     bought fufiba scarf $55, red
 *
 * attribute (level 2): of several, buy the one with an attribute
 *     Buy a fufiba scarf: light
 *     $ search fufiba scarf
 *     1 fufiba scarf $20
 *     2 fufiba scarf $55
 *     3 fufiba bowl $27
 *     $ open 1
 *     fufiba scarf $20
 *     warm, strong
 *     $ open 2
 *     fufiba scarf $55
 *     light, strong
 *     $ buy
 *     bought fufiba scarf $55
 *
 * options (level 3): choose color and size; another product does not have them
 *     Get a fufiba scarf: red, medium
 *     $ search fufiba scarf
 *     1 fufiba scarf $55
 *     2 fufiba scarf $20
 *     3 fufiba pen $75
 *     $ open 1
 *     fufiba scarf $55
 *     soft, light
 *     color red, green
 *     size small, medium
 *     $ choose red
 *     color red
 *     $ choose medium
 *     size medium
 *     $ buy
 *     bought fufiba scarf $55, red, medium
 *
 * fit (level 3): an attribute, a color and a price
 *     Get a fufiba scarf: light, red, at most $57
 *     $ search fufiba scarf
 *     1 fufiba scarf $55
 *     2 fufiba scarf $82
 *     3 fufiba scarf $20
 *     $ open 1
 *     fufiba scarf $55
 *     soft, light
 *     color red, green
 *     $ choose red
 *     color red
 *     $ buy
 *     bought fufiba scarf $55, red
 *
 * browse (level 4): an attribute and a price among more products than a list shows
 *     Buy a fufiba lamp: soft, at most $41
 *     $ search fufiba lamp
 *     1 fufiba lamp $68
 *     2 fufiba lamp $10
 *     3 fufiba lamp $41
 *     $ open 2
 *     fufiba lamp $10
 *     quiet, thin
 *     $ open 3
 *     fufiba lamp $41
 *     light, warm
 *     $ next
 *     4 fufiba lamp $95
 *     5 fufiba lamp $33
 *     6 fufiba lamp $99
 *     $ open 5
 *     fufiba lamp $33
 *     soft, plain
 *     $ buy
 *     bought fufiba lamp $33
 *
 * full (level 4): two attributes, color, size and a price
 *     Buy a fufiba lamp: strong, quiet, black, large, at most $15
 *     $ search fufiba lamp
 *     1 fufiba lamp $77
 *     2 fufiba lamp $34
 *     3 fufiba lamp $39
 *     $ next
 *     4 fufiba lamp $11
 *     5 fufiba lamp $29
 *     6 fufiba shirt $96
 *     $ open 4
 *     fufiba lamp $11
 *     strong, quiet
 *     color red, black
 *     size small, large
 *     $ choose black
 *     color black
 *     $ choose large
 *     size large
 *     $ buy
 *     bought fufiba lamp $11, black, large
 *
 * The list shows prices and the page shows the rest, so the expert opens what is cheap enough, in order, until a page
 * has it all. Not modelled: pages of descriptions and reviews, attributes in other words, options that change the
 * price.
 */
import type { Rng } from "../../engine/index.ts";
import type { EnvironmentSpec } from "../environment.ts";
import { defineGame, type Episode, type Move, parseCount, readCommand, SIZED } from "../game.ts";
import { oneOf } from "../../engine/optionTable.ts";
import type { OptionsWith } from "../options.ts";
import { nameMaker } from "../words.ts";
import { ATTRIBUTES, fits, KINDS, matchScore, OPTIONS, pageOf, type Product, titleOf } from "./catalogue.ts";
import { FAMILIES, makeTask, type ShopFamily, type ShopTask } from "./tasks.ts";

/** How many results a list shows at a time. */
const RESULTS = 3;

const SHOP = {
  ...SIZED,
  reward: oneOf(["score", "success"], "score", "WebShop's match score, or 1 if all is as asked and else 0"),
};
/**
 * Options of `shop`, beside `EnvironmentOptions`: the `size` of its world, 1 (default) to 3, and the `reward`:
 * WebShop's match score (`score`, the default), or 1 if all is as asked and else 0 (`success`).
 */
export type ShopOptions = OptionsWith<typeof SHOP>;

/** What the agent has on its screen, and what it has seen. */
interface ShopState {
  readonly query: string;
  /** What the search found, best first, as numbers of products. */
  readonly found: readonly number[];
  /** How many of these the lists have shown. */
  readonly shown: number;
  /** The product whose page is open. */
  readonly open: number | undefined;
  /** Options chosen on that page. */
  readonly chosen: Readonly<Record<string, string>>;
  readonly seen: ReadonlySet<number>;
}

const error = (observation: string): Move<ShopState> => ({ observation, failed: true });

type ShopEpisode = Episode<typeof SHOP, ShopTask, ShopState>;

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

/**
 * Find and buy a product that has the maker, kind, attributes, options and price that are asked for, after WebShop
 * (Yao et al. 2022, arXiv 2207.01206). `buy` ends the episode; the reward is WebShop's match score.
 */
export const shop: EnvironmentSpec<ShopOptions> = defineGame<typeof SHOP, ShopFamily, ShopTask, ShopState>({
  name: "shop",
  description: "find and buy a product that has the attributes, options and price that are asked for",
  source: "after WebShop, arXiv 2207.01206",
  families: FAMILIES,
  options: SHOP,
  makeTask,
  start: () => ({ query: "", found: [], shown: 0, open: undefined, chosen: {}, seen: new Set() }),
  play,
  expert,
  random,
});
