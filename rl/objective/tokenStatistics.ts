/**
 * Token statistics: a value for each token of a step, which a method reads *before* the step is split into parts. A
 * quantity over the whole batch (an entropy quantile, a covariance, the mean energy) must be computed at this point:
 * else it would depend on the split.
 *
 * Each part of an objective names the statistics that it needs, and the learner runs only the gradient-free forward
 * passes that these require. An objective that needs none, such as GRPO with ECHO, has no extra pass.
 */
import { check, fail } from "../../engine/errors.ts";

/**
 * The statistics of a token that can be computed before an update, without gradient: the policy's log-probability,
 * entropy (nats) and collision probability Σ_v π(v)², the critic's value, and four of the frozen reference, whose names
 * begin with `ref`.
 */
export const TOKEN_STATISTICS = [
  "logProbs", // log π(token) of the learner before the update, at the sampling temperature
  "entropy", // entropy of π over the whole vocabulary, at the sampling temperature
  "collision", // Σ_v π(v)², at the sampling temperature
  "values", // V of the critic before the token
  "refLogProbs", // log-probability under the frozen reference, at the sampling temperature
  "refEntropy", // entropy of the reference's distribution, no temperature
  "refNll", // −log-probability under the reference, no temperature
  "refEnergy", // −log Σ_v e^logit of the reference, no temperature
] as const;
/** A statistic that a part of an objective may ask for in its `needs`: one of `TOKEN_STATISTICS`. */
export type TokenStatistic = (typeof TOKEN_STATISTICS)[number];

/** One value per token of each episode; NaN where nothing was scored. */
export type PerToken = readonly Float64Array[];

/** The statistics of a step that were computed. */
export type TokenStatistics = { readonly [S in TokenStatistic]?: PerToken };

/** Whether a statistic is computed by the frozen reference model; the others are computed by the learner. */
export const isOfReference = (name: TokenStatistic): boolean => name.startsWith("ref");

/** The statistic of this name. @throws if it was not computed; the error names `who` needs it */
export function statistic(statistics: TokenStatistics, name: TokenStatistic, who: string): PerToken {
  const found = statistics[name];
  if (found !== undefined) return found;
  const source = name === "values" ? "a critic" : isOfReference(name) ? "a reference model" : "a scoring pass";
  return fail(`${who}: needs the token statistic "${name}", which ${source} gives; there is none`);
}

/** Throws unless `value` is a finite number in [low, high]. */
export function checkRange(where: string, name: string, value: number, low: number, high: number = Infinity): void {
  check(
    Number.isFinite(value) && value >= low && value <= high,
    () => `${where}: ${name} must be ${high === Infinity ? `≥ ${low}` : `in [${low}, ${high}]`}, got ${value}`,
  );
}
