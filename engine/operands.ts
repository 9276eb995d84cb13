/**
 * What every public op asks of its arguments before it looks at them, for callers whose language does not check types:
 * a tensor is a tensor, options are an object with known keys, an axis exists.
 */
import { check } from "./errors.ts";
import { checkKeys, showValue } from "./options.ts";
import { Tensor } from "./tensor.ts";
import { normalizeAxis } from "./types.ts";

/** Options of ops that work along one axis. */
export interface AxisOptions {
  /** Negative ones count from the end. */
  readonly axis?: number;
}

/** @throws `sum: expected a tensor, got [1,2]; tensor(…) makes one` */
export function checkTensor(where: string, x: unknown): asserts x is Tensor {
  check(x instanceof Tensor, () => `${where}: expected a tensor, got ${showValue(x)}; tensor(…) makes one`);
}

/** A tensor, and lists of numbers beside it: what ops take that move elements. */
export function checkMove(where: string, x: Tensor, ...lists: readonly (readonly number[])[]): void {
  checkTensor(where, x);
  for (const list of lists) {
    check(Array.isArray(list), () => `${where}: expected a list of numbers such as [2, 3], got ${showValue(list)}`);
  }
}

/**
 * The axis of `x` that an op works along, as a number in [0, rank).
 * @param otherwise where the options name none
 * @param rank where the result has more axes than `x`
 */
export function axisOf(where: string, x: Tensor, options: AxisOptions, otherwise: number, rank?: number): number {
  checkTensor(where, x);
  checkKeys(where, options, ["axis"]);
  return normalizeAxis(where, options.axis ?? otherwise, rank ?? x.rank);
}
