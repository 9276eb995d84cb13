/**
 * The tasks of `shop`: what is asked for, and the products that come near it. A near miss has the right maker and kind,
 * so that it is found by the same search, and fails in one thing that the list or the page shows.
 */
import type { Rng } from "../../engine/index.ts";
import type { SIZED } from "../game.ts";
import type { SettledOptions } from "../options.ts";
import { nameMaker } from "../words.ts";
import { Ranking } from "../ranking.ts";
import { drawUntil } from "../selection.ts";
import { ATTRIBUTES, fits, type Goal, KINDS, OPTIONS, PRICES, type Product, some } from "./catalogue.ts";
import type { ShopFamily, ShopTask } from "./episode.ts";

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
