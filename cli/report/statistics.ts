/**
 * The statistics that a table of success rates needs: intervals for a proportion and for the difference of two. Closed formulas,
 * no dependence on the rest of the program, the same in Node and on the report page.
 *
 * Wilson (1927), "Probable inference, the law of succession, and statistical inference"; Newcombe (1998), "Interval estimation
 * for the difference between independent proportions: comparison of eleven methods" (his method 10).
 */
import { check } from "../../engine/errors.ts";

export interface Interval {
  /** The estimate itself: successes / trials, NaN without trials. */
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

/** The two-sided 95 % point of the normal distribution. */
const Z95 = 1.959963984540054;

/**
 * Wilson score interval of a success rate. Unlike `p ± 1.96·√(p(1−p)/n)` it stays inside [0, 1] and does not shrink to a point
 * at 0 or `trials` successes, which is where a beginning run lives. Without trials nothing is known: [0, 1].
 *
 * @example wilson(9, 10) // { value: 0.9, low: 0.596, high: 0.982 }
 */
export function wilson(successes: number, trials: number, z: number = Z95): Interval {
  check(
    trials >= 0 && successes >= 0 && successes <= trials,
    () => `wilson: expected 0 ≤ successes ≤ trials, got ${successes} of ${trials}`,
  );
  if (trials === 0) return { value: NaN, low: 0, high: 1 };
  const p = successes / trials;
  const z2 = (z * z) / trials;
  const centre = (p + z2 / 2) / (1 + z2);
  const half = (z * Math.sqrt((p * (1 - p)) / trials + z2 / (4 * trials))) / (1 + z2);
  // At 0 and at `trials` successes one end is exact, and rounding must not move it.
  return {
    value: p,
    low: successes === 0 ? 0 : Math.max(0, centre - half),
    high: successes === trials ? 1 : Math.min(1, centre + half),
  };
}

/**
 * 95 % interval of `after − before`, two success rates, from their Wilson limits. It takes the two samples as independent; where
 * both policies played the same tasks it is therefore a little too wide, never too narrow in practice.
 */
export function rateDifference(
  before: { readonly successes: number; readonly trials: number },
  after: { readonly successes: number; readonly trials: number },
): Interval {
  const b = wilson(before.successes, before.trials);
  const a = wilson(after.successes, after.trials);
  const value = a.value - b.value;
  if (Number.isNaN(value)) return { value: NaN, low: -1, high: 1 };
  return {
    value,
    low: value - Math.hypot(a.value - a.low, b.high - b.value),
    high: value + Math.hypot(a.high - a.value, b.value - b.low),
  };
}
