/**
 * The tasks of `shop`, its answers and its scripted players. It is loaded later: it imports no value of ../game.ts.
 *
 * A near miss has the right maker and kind, so that it is found by the same search, and fails in one thing that the
 * list or the page shows.
 */
import type { Rng } from "../../engine/index.ts";
import { parseCount, readCommand } from "../actions.ts";
import type { GameRules, Move, NAMED, SIZED } from "../game.ts";
import type { SettledOptions } from "../options.ts";
import { Ranking } from "../ranking.ts";
import { drawUntil, isHeldOut } from "../selection.ts";
import { listed, nameMaker, NAMES } from "../words.ts";
import {
  ATTRIBUTES,
  fits,
  type Goal,
  KINDS,
  matchScore,
  OPTIONS,
  pageOf,
  PRICES,
  type Product,
  some,
  titleOf,
} from "./catalogue.ts";
import type { SHOP, ShopEpisode, ShopFamily, ShopState, ShopTask } from "./episode.ts";

/** Makes a task; `size` decides the number of unrelated products: 6, 9 or 12. */
export function makeTask(
  rng: Rng,
  family: ShopFamily,
  { split, size, everyday = false }: SettledOptions<typeof SIZED> & Partial<SettledOptions<typeof NAMED>>,
): ShopTask {
  const newMakers = (): string[] =>
    Array.from({ length: 3 + size }, everyday ? listed(rng, NAMES) : nameMaker(rng, split));
  let makers = newMakers();
  return drawUntil("shop", () => {
    // With an everyday maker, all kinds may be of the other split.
    if (everyday) makers = newMakers();
    const prices = rng.shuffle(Array.from({ length: PRICES.most - PRICES.least + 1 }, (_, i) => PRICES.least + i));
    const price = prices.pop()!;
    const goal: Goal = {
      maker: makers[0]!,
      kind: rng.choice(KINDS),
      attributes: some(rng, ATTRIBUTES, family.attributes),
      options: Object.fromEntries(family.options.map((name) => [name, rng.choice(OPTIONS[name]!)])),
      limit: family.limit ? price + rng.int(10) : undefined,
    };
    if (everyday && isHeldOut(`${goal.maker} ${goal.kind}`) !== (split === "heldout")) return undefined;
    const related = [
      likeWanted(rng, goal, undefined, price),
      ...flawsOf(rng, family).map((flaw) => likeWanted(rng, goal, flaw, prices.pop()!)),
    ];
    if (related.filter((product) => fits(product, goal)).length !== 1) return undefined;
    const others = Array.from({ length: 3 + 3 * size }, () => unrelated(rng, family, goal, makers, prices.pop()!));
    const products = rng.shuffle([...related, ...others]);
    const ranking = new Ranking(products.map((product) => `${product.maker} ${product.kind}`));
    return { text: wording(rng, goal), goal, products, ranking };
  });
}

/**
 * The flaws of the near misses: all that the family can have, in turn. The caller draws the prices, so a near miss with
 * the flaw `price` may still be cheap enough.
 */
function flawsOf(rng: Rng, { attributes, options, limit, nearMisses: [least, most] }: ShopFamily): string[] {
  const ways = rng.shuffle([...(limit ? ["price"] : []), ...(attributes > 0 ? ["attribute"] : []), ...options]);
  return Array.from({ length: least + rng.int(most - least + 1) }, (_, i) => ways[i % ways.length]!);
}

/**
 * A product of the right maker and kind that has all that the goal asks for, except the attribute or option that `flaw`
 * names.
 */
function likeWanted(rng: Rng, goal: Goal, flaw: string | undefined, price: number): Product {
  const missing = flaw === "attribute" ? rng.choice(goal.attributes) : undefined;
  const kept = goal.attributes.filter((attribute) => attribute !== missing);
  const extra = ATTRIBUTES.filter((attribute) => !goal.attributes.includes(attribute));
  const attributes = new Set([...kept, ...some(rng, extra, 2 - kept.length)]);
  const options = Object.entries(goal.options).map(([name, value]) => {
    const others = some(
      rng,
      OPTIONS[name]!.filter((other) => other !== value),
      2,
    );
    const offered = flaw === name ? others : [value, others[0]!];
    return [name, OPTIONS[name]!.filter((other) => offered.includes(other))] as const;
  });
  return {
    maker: goal.maker,
    kind: goal.kind,
    price,
    attributes: ATTRIBUTES.filter((attribute) => attributes.has(attribute)),
    options: Object.fromEntries(options),
  };
}

/** A product of another maker, or of the same maker and another kind. */
function unrelated(rng: Rng, family: ShopFamily, goal: Goal, makers: readonly string[], price: number): Product {
  const maker = rng.int(3) === 0 ? goal.maker : rng.choice(makers.slice(1));
  return {
    maker,
    kind: rng.choice(maker === goal.maker ? KINDS.filter((kind) => kind !== goal.kind) : KINDS),
    price,
    attributes: some(rng, ATTRIBUTES, 2),
    options: Object.fromEntries(family.options.map((name) => [name, some(rng, OPTIONS[name]!, 2)])),
  };
}

/** "Buy a lomika shirt: soft, red, at most $30". */
function wording(rng: Rng, { maker, kind, attributes, options, limit }: Goal): string {
  const wishes = [...attributes, ...Object.values(options), ...(limit === undefined ? [] : [`at most $${limit}`])];
  const thing = `${rng.choice(["Buy", "Get"])} a ${maker} ${kind}`;
  return wishes.length === 0 ? thing : `${thing}: ${wishes.join(", ")}`;
}

/** Results that a list shows at a time. */
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
 * The expert acts on what has been shown: it opens the results of the right maker and kind that are cheap enough, in
 * order, until a page has all that is asked for; then it chooses and buys.
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
function random(rng: Rng, _: string | undefined, { everyday }: SettledOptions<typeof SHOP>): string {
  const newMaker = everyday ? () => rng.choice(NAMES) : nameMaker(rng);
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
