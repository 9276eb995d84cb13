/**
 * The products of the shop. Each has a maker, a kind, a price, attributes, and options that the buyer chooses from.
 * Makers have generated names; the rest is a small fixed vocabulary.
 */
import type { Rng } from "../../engine/index.ts";

/** Kinds by department: buying another kind of the right department is half as wrong as anything else. */
export const DEPARTMENTS: Readonly<Record<string, readonly string[]>> = {
  clothes: ["shirt", "coat", "scarf"],
  kitchen: ["mug", "pan", "bowl"],
  desk: ["lamp", "pen", "clock"],
};
export const KINDS: readonly string[] = Object.values(DEPARTMENTS).flat();
export const ATTRIBUTES: readonly string[] = ["soft", "light", "warm", "strong", "round", "plain", "quiet", "thin"];
export const OPTIONS: Readonly<Record<string, readonly string[]>> = {
  color: ["red", "blue", "green", "black", "white", "pink"],
  size: ["small", "medium", "large"],
};
/** Prices are whole dollars in this range, all different in a shop. */
export const PRICES = { least: 5, most: 99 } as const;

export interface Product {
  readonly maker: string;
  readonly kind: string;
  readonly price: number;
  readonly attributes: readonly string[];
  /** Name of an option → the values on offer. */
  readonly options: Readonly<Record<string, readonly string[]>>;
}

/** The product that the task asks for. */
export interface Goal {
  readonly maker: string;
  readonly kind: string;
  readonly attributes: readonly string[];
  /** Name of an option → the value that is wanted. */
  readonly options: Readonly<Record<string, string>>;
  /** Highest price, included; undefined: any. */
  readonly limit: number | undefined;
}

export const departmentOf = (kind: string): string | undefined =>
  Object.keys(DEPARTMENTS).find((name) => DEPARTMENTS[name]!.includes(kind));

/** `count` of `items`, in the order of `items`. */
export function some<T>(rng: Rng, items: readonly T[], count: number): T[] {
  const chosen = new Set(rng.shuffle([...items.keys()]).slice(0, count));
  return items.filter((_, i) => chosen.has(i));
}

/** The line of a product in a list of results. */
export const titleOf = ({ maker, kind, price }: Product): string => `${maker} ${kind} $${price}`;

/** The text that `open` shows. */
export function pageOf(product: Product): string {
  const options = Object.entries(product.options).map(([name, values]) => `${name} ${values.join(", ")}`);
  return [titleOf(product), product.attributes.join(", "), ...options].join("\n");
}

/** Whether this product, with the right options chosen, is all that is asked for. */
export function fits(product: Product, goal: Goal): boolean {
  const chosen = Object.entries(goal.options).filter(([name, value]) => product.options[name]?.includes(value));
  return matchScore(product, Object.fromEntries(chosen), goal) === 1;
}

/**
 * WebShop's reward (Yao, Chen, Yang and Narasimhan 2022, eq. 1), in [0, 1]; 1 exactly if all is as asked:
 *
 *     r = r_type · (|attributes asked and there| + |options asked and chosen| + [price ≤ limit])
 *         / (|attributes| + |options| + 1)
 *
 * As there, a price without limit counts as met. The maker counts as an attribute. r_type is 1 for the kind that was
 * asked for, ½ for another of its department and 0 for the rest; WebShop takes 1, ½, 0.1 or 0 from overlaps of titles
 * and categories, and compares attributes fuzzily, where this shop has exact words.
 */
export function matchScore(product: Product, chosen: Readonly<Record<string, string>>, goal: Goal): number {
  const sameDepartment = departmentOf(product.kind) === departmentOf(goal.kind) ? 0.5 : 0;
  const type = product.kind === goal.kind ? 1 : sameDepartment;
  const attributes = goal.attributes.filter((attribute) => product.attributes.includes(attribute)).length;
  const options = Object.entries(goal.options).filter(([name, value]) => chosen[name] === value).length;
  const maker = product.maker === goal.maker ? 1 : 0;
  const price = product.price <= (goal.limit ?? Infinity) ? 1 : 0;
  const asked = goal.attributes.length + 1 + Object.keys(goal.options).length + 1;
  return (type * (maker + attributes + options + price)) / asked;
}
