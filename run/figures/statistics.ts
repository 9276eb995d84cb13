/**
 * The statistics of every table and picture. Intervals for a proportion and for the difference of two: Wilson 1927,
 * "Probable inference, the law of succession, and statistical inference"; Newcombe 1998, "Interval estimation for the
 * difference between independent proportions: comparison of eleven methods", his method 10. Few seeds: the percentile
 * bootstrap over seeds (Efron 1979), the interquartile mean and the stratified bootstrap (Agarwal et al. 2021, "Deep
 * reinforcement learning at the edge of the statistical precipice", arXiv 2108.13264). Times that were never reached
 * are censored times. All functions are pure, run in Node and on a page, and take random numbers from a seeded stream.
 *
 * A bootstrap interval over seeds has a limit: with n seeds the percentile bootstrap of a mean is narrower than it
 * says. For normal values its 95 % are about P(|t| < 1.96·√((n−1)/n)) with n − 1 degrees of freedom: 85 % for 5 seeds,
 * 91 % for 10. And it tells about other seeds of the same job only.
 */
import { check } from "../../engine/errors.ts";
import { Rng } from "../../engine/index.ts";

export interface Interval {
  /** The estimate itself: successes / trials, NaN without trials. */
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

/** The two-sided 95 % point of the normal distribution. */
const Z95 = 1.959963984540054;

/**
 * Wilson score interval of a success rate. Unlike `p ± 1.96·√(p(1−p)/n)` it stays inside [0, 1] and does not shrink to
 * a point at 0 or `trials` successes, which is where a run begins. Without trials nothing is known: [0, 1].
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
  // At 0 and at `trials` successes one limit is exact, and rounding must not change it.
  return {
    value: p,
    low: successes === 0 ? 0 : Math.max(0, centre - half),
    high: successes === trials ? 1 : Math.min(1, centre + half),
  };
}

/**
 * 95 % interval of `after − before`, two success rates, from their Wilson limits. It treats the two samples as
 * independent, so where both policies played the same tasks it is a little too wide.
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

const RESAMPLES = 10_000;

export const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

/**
 * Interquartile mean: the mean without the lowest and the highest quarter, ⌊n/4⌋ values each (as scipy's
 * `trim_mean(x, 0.25)`, which rliable uses). With 5 values it is the mean of the middle three.
 */
export function interquartileMean(values: readonly number[]): number {
  const cut = Math.floor(values.length / 4);
  return mean(values.toSorted((a, b) => a - b).slice(cut, values.length - cut));
}

/** The q-quantile, linear between order statistics (type 7, numpy's default). Infinite values are allowed. */
export function quantile(values: readonly number[], q: number): number {
  check(
    values.length > 0 && q >= 0 && q <= 1,
    () => `quantile: expected values and 0 ≤ q ≤ 1, got ${values.length}, ${q}`,
  );
  const sorted = values.toSorted((a, b) => a - b);
  const at = q * (sorted.length - 1);
  const [low, high] = [sorted[Math.floor(at)]!, sorted[Math.ceil(at)]!];
  return low === high ? low : low + (at - Math.floor(at)) * (high - low);
}

/**
 * 95 % percentile bootstrap of a statistic: within each stratum the values are resampled with replacement, and the
 * statistic is computed from all of them together. With one stratum it is the plain bootstrap. The limits of a single
 * value are NaN, as it says nothing about chance. If some value is NaN, all three numbers are.
 * @param strata for example one per environment, with a value per seed in each
 * @param draws the values that each resample takes; by default the same for all statistics of as many values
 */
export function bootstrap(
  strata: readonly (readonly number[])[],
  statistic: (values: readonly number[]) => number,
  draws: Uint32Array = sharedDraws(strata.map(({ length }) => length)),
): Interval {
  const all = strata.flat();
  // A statistic that leaves out extremes would hide NaN.
  if (all.some(Number.isNaN)) return { value: NaN, low: NaN, high: NaN };
  const value = statistic(all);
  if (strata.every(({ length }) => length < 2)) return { value, low: NaN, high: NaN };
  const resample = new Array<number>(all.length);
  const drawn = Array.from({ length: draws.length / all.length }, (_, b) => {
    for (let i = 0; i < all.length; i++) resample[i] = all[draws[b * all.length + i]!]!;
    return statistic(resample);
  });
  return { value, low: quantile(drawn, 0.025), high: quantile(drawn, 0.975) };
}

/** The places in the joined strata that each resample takes, resample by resample. */
export function drawsOf(sizes: readonly number[], rng: Rng, resamples: number): Uint32Array {
  const size = sizes.reduce((sum, n) => sum + n, 0);
  const draws = new Uint32Array(resamples * size);
  let at = 0;
  for (let b = 0; b < resamples; b++) {
    let first = 0;
    for (const n of sizes) {
      for (let i = 0; i < n; i++) draws[at++] = first + rng.int(n);
      first += n;
    }
  }
  return draws;
}

/** The resamples of each list of sizes, drawn once, as a page needs hundreds of intervals. */
const shared = new Map<string, Uint32Array>();

function sharedDraws(sizes: readonly number[]): Uint32Array {
  const key = sizes.join();
  const draws = shared.get(key) ?? drawsOf(sizes, new Rng(0).split("bootstrap"), RESAMPLES);
  shared.set(key, draws);
  return draws;
}

/** The mean with its interval over seeds. */
export const meanOver = (values: readonly number[]): Interval => bootstrap([values], mean);

/** A comparison of two arms seed by seed: the arms of a seed have the same warm start and the same tasks. */
export interface Difference extends Interval {
  /** The number of seeds in which the difference is above 0, and in which it is exactly 0. */
  readonly higher: number;
  readonly equal: number;
  readonly seeds: number;
}

/** `values` − `baseline` for every seed that both have. */
export function differencesBySeed(
  values: ReadonlyMap<number, number>,
  baseline: ReadonlyMap<number, number>,
): number[] {
  return [...values].flatMap(([seed, value]) => {
    const base = baseline.get(seed);
    return base === undefined ? [] : [value - base];
  });
}

/** @param strata differences by seed, for example one list per environment @returns null if there are none */
export function pairedDifference(
  strata: readonly (readonly number[])[],
  statistic: (values: readonly number[]) => number = mean,
): Difference | null {
  const all = strata.flat();
  if (all.length === 0) return null;
  return {
    ...bootstrap(strata, statistic),
    higher: all.filter((d) => d > 0).length,
    equal: all.filter((d) => d === 0).length,
    seeds: all.length,
  };
}

/** Times to an event that some seeds had not seen when they ended. */
export interface TimeTo {
  readonly reached: number;
  readonly seeds: number;
  /** The time by which half of the seeds had seen it; null if fewer than half saw it at all. */
  readonly median: number | null;
  /**
   * Mean of min(time, horizon): a seed that never saw the event counts as the horizon. It is a lower bound of the mean
   * time, with the same horizon for all arms (the restricted mean of survival analysis; Royston and Parmar 2013).
   */
  readonly restricted: Interval;
}

/** @param times null for a seed that did not get there within the horizon */
export function timeTo(times: readonly (number | null)[], horizon: number): TimeTo {
  const median = quantile(
    times.map((t) => t ?? Infinity),
    0.5,
  );
  return {
    reached: times.filter((t) => t !== null).length,
    seeds: times.length,
    median: Number.isFinite(median) ? median : null,
    restricted: meanOver(times.map((t) => Math.min(t ?? horizon, horizon))),
  };
}

/** The factor from one time to another time of the same seed. */
export interface Ratio extends Interval {
  readonly reached: number;
  readonly seeds: number;
  /** Mean of min(time, horizon). */
  readonly mean: Interval;
}

/**
 * The geometric mean of time / base over seeds, with its bootstrap interval: on this scale twice as fast and half as
 * fast are equally far from 1. A seed that did not get there counts with its horizon, so the ratio is a lower bound
 * unless all did.
 *
 * @param pairs a time of null was not reached within the horizon
 */
export function pairedRatio(
  pairs: readonly { readonly time: number | null; readonly horizon: number; readonly base: number }[],
): Ratio | null {
  if (pairs.length === 0) return null;
  const times = pairs.map(({ time, horizon }) => time ?? horizon);
  const { value, low, high } = meanOver(times.map((time, i) => Math.log(time / pairs[i]!.base)));
  return {
    value: Math.exp(value),
    low: Math.exp(low),
    high: Math.exp(high),
    reached: pairs.filter(({ time }) => time !== null).length,
    seeds: pairs.length,
    mean: meanOver(times),
  };
}
