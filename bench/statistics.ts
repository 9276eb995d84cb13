/** Statistics of the benchmark. */
import { check } from "../engine/errors.ts";

/** The middle value, or the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  check(values.length > 0, () => "median: there are no values");
  const sorted = values.toSorted((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2;
}

export interface Summary {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

export function summarize(values: readonly number[]): Summary {
  return { median: median(values), min: Math.min(...values), max: Math.max(...values) };
}

/**
 * Time of `slow` as a multiple of the time of `fast`: the median over rounds of the ratio within a round, in which both
 * had equal conditions. Rounds that only one of them has are left out.
 */
export function ratio(slow: readonly number[], fast: readonly number[]): number {
  const rounds = Math.min(slow.length, fast.length);
  return median(Array.from({ length: rounds }, (_, i) => slow[i]! / fast[i]!));
}

/** Exponent p of the power law y ∝ xᵖ that fits best: the slope of a straight line through the logarithms. */
export function fittedExponent(points: readonly (readonly [x: number, y: number])[]): number {
  check(points.length >= 2, () => `fittedExponent: expected two points or more, got ${points.length}`);
  check(
    points.every(([x, y]) => x > 0 && y > 0),
    () => "fittedExponent: expected positive numbers",
  );
  const logs = points.map(([x, y]) => [Math.log(x), Math.log(y)] as const);
  const mean = (axis: 0 | 1): number => logs.reduce((total, p) => total + p[axis], 0) / logs.length;
  const [mx, my] = [mean(0), mean(1)];
  const spread = logs.reduce((total, [x]) => total + (x - mx) ** 2, 0);
  check(spread > 0, () => "fittedExponent: all x are equal");
  return logs.reduce((total, [x, y]) => total + (x - mx) * (y - my), 0) / spread;
}

/** Largest difference from `expected`, relative to its largest magnitude. Infinity if lengths differ or for NaN. */
export function relativeError(values: readonly number[], expected: readonly number[]): number {
  if (values.length !== expected.length) return Infinity;
  const scale = expected.reduce((most, x) => Math.max(most, Math.abs(x)), 0) || 1;
  return values.reduce((worst, x, i) => {
    const error = Math.abs(x - expected[i]!) / scale;
    return Number.isFinite(error) ? Math.max(worst, error) : Infinity;
  }, 0);
}
