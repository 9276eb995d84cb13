/**
 * Checks of the arguments of every public op, for callers whose language does not check types: a tensor is a tensor,
 * options are an object with known keys, an axis exists.
 */
import { check } from "./errors.ts";
import { checkKeys, showValue } from "./options.ts";
import { Tensor } from "./tensor.ts";
import { normalizeAxis } from "./types.ts";

/** Options of ops that work along one axis. */
export interface AxisOptions {
  /** The axis; negative ones count from the end. */
  readonly axis?: number;
}

/** @throws `sum: expected a tensor, got [1,2]; tensor(…) makes one` */
export function checkTensor(where: string, x: unknown): asserts x is Tensor {
  check(x instanceof Tensor, () => `${where}: expected a tensor, got ${showValue(x)}; tensor(…) makes one`);
}

/** Checks a tensor and the lists of numbers beside it: the arguments of ops that move elements. */
export function checkMove(where: string, x: Tensor, ...lists: readonly (readonly number[])[]): void {
  checkTensor(where, x);
  for (const list of lists) {
    check(Array.isArray(list), () => `${where}: expected a list of numbers such as [2, 3], got ${showValue(list)}`);
  }
}

/**
 * The axis of `x` that an op works along, as a number in [0, rank).
 * @param otherwise the axis if the options name none
 * @param rank the number of axes, if the result has more than `x`
 */
export function axisOf(where: string, x: Tensor, options: AxisOptions, otherwise: number, rank?: number): number {
  checkTensor(where, x);
  checkKeys(where, options, ["axis"]);
  return normalizeAxis(where, options.axis ?? otherwise, rank ?? x.rank);
}
