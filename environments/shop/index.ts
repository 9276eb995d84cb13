/**
 * `shop`: find and buy a product as it is asked for, after WebShop. The agent types `search WORDS`, `next`, `open N`,
 * `choose VALUE` and `buy`. Read it in this order: catalogue.ts (what is sold, and the score), rules.ts (what is asked,
 * and the episode). docs/worlds.md shows episodes, and says what is not modelled.
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
    expert: true,
  },
  () => import("./rules.ts"),
);
