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
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { defineGame } from "../game.ts";
import { FAMILIES, SHOP, type ShopOptions } from "./episode.ts";

export type { ShopOptions } from "./episode.ts";

/**
 * Find and buy a product that has the maker, kind, attributes, options and price that are asked for, after WebShop
 * (Yao et al. 2022, arXiv 2207.01206). `buy` ends the episode; the reward is WebShop's match score.
 */
export const shop: EnvironmentSpec<ShopOptions> = defineGame(
  {
    name: "shop",
    description: "find and buy a product that has the attributes, options and price that are asked for",
    source: "after WebShop, arXiv 2207.01206",
    families: FAMILIES,
    options: SHOP,
  },
  () => import("./rules.ts"),
);
