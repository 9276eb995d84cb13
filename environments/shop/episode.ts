/** The families of `shop`, its options, and what an episode knows. */
import type { FamilyInfo } from "../../rl/environment.ts";
import { type Episode, type GameTask, NAMED, SIZED, STRICT } from "../game.ts";
import { oneOf } from "../../engine/optionTable.ts";
import type { OptionsWith } from "../options.ts";
import type { Ranking } from "../ranking.ts";
import type { Goal, Product } from "./catalogue.ts";

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

export const SHOP = {
  ...SIZED,
  ...NAMED,
  ...STRICT,
  reward: oneOf(["score", "success"], "score", "WebShop's match score, or 1 if all is as asked and else 0"),
};
/** Options of `shop`, beside `EnvironmentOptions`; `SHOP` says what each does, and its default. */
export type ShopOptions = OptionsWith<typeof SHOP>;

export interface ShopTask extends GameTask {
  readonly goal: Goal;
  readonly products: readonly Product[];
  /** Ranks the products by maker and kind; attributes and options stand on the pages only. */
  readonly ranking: Ranking;
}

/** The agent's screen, and what it has seen. */
export interface ShopState {
  readonly query: string;
  /** Indices of the products that the search found, best first. */
  readonly found: readonly number[];
  /** The number of these that the lists have shown. */
  readonly shown: number;
  /** The product whose page is open. */
  readonly open: number | undefined;
  /** Options chosen on that page. */
  readonly chosen: Readonly<Record<string, string>>;
  readonly seen: ReadonlySet<number>;
}

export type ShopEpisode = Episode<typeof SHOP, ShopTask, ShopState>;
