/**
 * Signals: per-token values of a whole step that a method reads *before* the step is split into micro-batches.
 * Statistics over the batch (an entropy quantile, a covariance, the mean energy) do not depend on the split only if
 * they are computed at this point.
 *
 * Each part of an objective names the signals that it needs, and the learner runs only the gradient-free forward passes
 * that these signals require. An objective without signals, such as GRPO with ECHO, needs no extra pass.
 */
import { check, fail } from "../../engine/errors.ts";

export const SIGNALS = [
  "logProbs", // log π(token) of the learner before the update, at the sampling temperature
  "entropy", // entropy of π over the whole vocabulary, at the sampling temperature
  "collision", // Σ_v π(v)², at the sampling temperature
  "values", // V of the critic before the token
  "refLogProbs", // log-probability under the frozen reference, at the sampling temperature
  "refEntropy", // entropy of the reference's distribution, no temperature
  "refNll", // −log-probability under the reference, no temperature
  "refEnergy", // −log Σ_v e^logit of the reference, no temperature
] as const;
export type Signal = (typeof SIGNALS)[number];

/** One value per token of each episode; NaN where nothing was scored. */
export type PerToken = readonly Float64Array[];

/** The signals of a step that were computed. */
export type Signals = { readonly [S in Signal]?: PerToken };

/** Whether a signal is computed by the frozen reference model; the others are computed by the learner. */
export const isReferenceSignal = (signal: Signal): boolean => signal.startsWith("ref");

/** The signal of this name. @throws if it was not computed; the error names `who` needs it */
export function signal(signals: Signals, name: Signal, who: string): PerToken {
  const found = signals[name];
  if (found !== undefined) return found;
  const source = name === "values" ? "a critic" : isReferenceSignal(name) ? "a reference model" : "a scoring pass";
  return fail(`${who}: needs the signal "${name}", which ${source} gives; there is none`);
}

/** Throws unless `value` is a finite number in [low, high]. */
export function checkRange(where: string, name: string, value: number, low: number, high: number = Infinity): void {
  check(
    Number.isFinite(value) && value >= low && value <= high,
    () => `${where}: ${name} must be ${high === Infinity ? `≥ ${low}` : `in [${low}, ${high}]`}, got ${value}`,
  );
}
