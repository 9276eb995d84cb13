/**
 * The task families of `shop`: what is asked for, and how many products come near it. A near miss has the right maker
 * and kind, so that it is found by the same search, and fails in one thing that the list or the page shows.
 */
import type { Rng } from "../../engine/index.ts";
import type { FamilyInfo } from "../environment.ts";
import type { GameTask, SIZED } from "../game.ts";
import type { SettledOptions } from "../options.ts";
import { nameMaker } from "../words.ts";
import { Ranking } from "../ranking.ts";
import { drawUntil } from "../selection.ts";
import { ATTRIBUTES, fits, type Goal, KINDS, OPTIONS, PRICES, type Product, some } from "./catalogue.ts";

export interface ShopTask extends GameTask {
  readonly goal: Goal;
  readonly products: readonly Product[];
  /** Ranks the products by maker and kind; attributes and options stand on the pages only. */
  readonly ranking: Ranking;
}

export interface ShopFamily extends FamilyInfo {
  /** Attributes that are asked for. */
  readonly attributes: number;
  /** Options that are asked for, by name. */
  readonly options: readonly string[];
  readonly limit: boolean;
  /** Least and most near misses. */
  readonly nearMisses: readonly [number, number];
}

// prettier-ignore
export const FAMILIES: readonly ShopFamily[] = [
  { name: "find", level: 1, description: "buy the only product of a maker and kind",
    attributes: 0, options: [], limit: false, nearMisses: [0, 0] },
  { name: "price", level: 1, description: "of several, buy the one that is cheap enough",
    attributes: 0, options: [], limit: true, nearMisses: [1, 2] },
  { name: "color", level: 2, description: "choose a color before buying",
    attributes: 0, options: ["color"], limit: false, nearMisses: [0, 0] },
  { name: "attribute", level: 2, description: "of several, buy the one with an attribute",
    attributes: 1, options: [], limit: false, nearMisses: [1, 2] },
  { name: "options", level: 3, description: "choose color and size; another product does not have them",
    attributes: 0, options: ["color", "size"], limit: false, nearMisses: [1, 1] },
  { name: "fit", level: 3, description: "an attribute, a color and a price",
    attributes: 1, options: ["color"], limit: true, nearMisses: [2, 2] },
  { name: "browse", level: 4, description: "an attribute and a price among more products than a list shows",
    attributes: 1, options: [], limit: true, nearMisses: [4, 6] },
  { name: "full", level: 4, description: "two attributes, color, size and a price",
    attributes: 2, options: ["color", "size"], limit: true, nearMisses: [3, 4] },
];

/** Makes a task; `size` adds products that have nothing to do with it: 6, 9 or 12. */
export function makeTask(rng: Rng, family: ShopFamily, { split, size }: SettledOptions<typeof SIZED>): ShopTask {
  const newMaker = nameMaker(rng, split);
  const makers = Array.from({ length: 3 + size }, newMaker);
  return drawUntil("shop", () => {
    const prices = rng.shuffle(Array.from({ length: PRICES.most - PRICES.least + 1 }, (_, i) => PRICES.least + i));
    const price = prices.pop()!;
    const goal: Goal = {
      maker: makers[0]!,
      kind: rng.choice(KINDS),
      attributes: some(rng, ATTRIBUTES, family.attributes),
      options: Object.fromEntries(family.options.map((name) => [name, rng.choice(OPTIONS[name]!)])),
      limit: family.limit ? price + rng.int(10) : undefined,
    };
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
 * What is wrong with each near miss: all flaws that the family can have, in turn. The caller draws the prices, so a
 * price that is named here may still be low enough.
 */
function flawsOf(rng: Rng, { attributes, options, limit, nearMisses: [least, most] }: ShopFamily): string[] {
  const ways = rng.shuffle([...(limit ? ["price"] : []), ...(attributes > 0 ? ["attribute"] : []), ...options]);
  return Array.from({ length: least + rng.int(most - least + 1) }, (_, i) => ways[i % ways.length]!);
}

/**
 * A product of the right maker and kind that is right in the rest too, but for one attribute or option if `flaw` names
 * it.
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
