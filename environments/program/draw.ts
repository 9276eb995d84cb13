/**
 * Draws parts of programs (syntax.ts) together with words that say what they do. The words follow the order
 * in which a program works, so that `x.sort.take(3).sum` is "x sorted, first 3, sum".
 */
import type { Rng } from "../../engine/index.ts";

/** A part of a program and the words for it. */
interface Part {
  readonly code: string;
  /** Wordings; one of them is drawn. */
  readonly words: readonly string[];
}

export const between = (rng: Rng, low: number, high: number): number => low + rng.int(high + 1 - low);

/** An operation from a list to a list. */
export function drawSelection(rng: Rng): Part {
  const few = between(rng, 1, 3);
  const digit = between(rng, 2, 7);
  return rng.choice<Part>([
    { code: ".sort", words: ["sorted", "in order"] },
    { code: ".rev", words: ["reversed", "backwards"] },
    { code: ".even", words: ["even ones"] },
    { code: ".odd", words: ["odd ones"] },
    { code: `.take(${few})`, words: [`first ${few}`, `${few} in front`] },
    { code: `.drop(${few})`, words: [`without first ${few}`] },
    { code: `.above(${digit})`, words: [`above ${digit}`, `over ${digit}`] },
    { code: `.below(${digit})`, words: [`below ${digit}`, `under ${digit}`] },
  ]);
}

const REDUCTIONS: readonly Part[] = [
  { code: ".sum", words: ["sum", "total"] },
  { code: ".max", words: ["largest"] },
  { code: ".min", words: ["smallest"] },
  { code: ".len", words: ["count", "length"] },
  { code: ".last", words: ["last one"] },
  { code: ".head", words: ["first one"] },
];
/** An operation from a list to a number. */
export const drawReduction = (rng: Rng): Part => rng.choice(REDUCTIONS);

/** A calculation with a number from 2 to `most`. */
export function drawCalculation(rng: Rng, most: number, operators: readonly ("+" | "-" | "*")[]): Part {
  const n = between(rng, 2, most);
  const operator = rng.choice(operators);
  const said = { "+": ["plus", "add"], "-": ["minus", "take off"], "*": ["times", "multiplied by"] }[operator];
  return { code: `${operator}${n}`, words: said.map((word) => `${word} ${n}`) };
}

/** Words for parts in a row. */
export const sayParts = (rng: Rng, parts: readonly Part[]): string =>
  parts.map(({ words }) => rng.choice(words)).join(", ");
