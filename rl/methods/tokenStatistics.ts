/**
 * Signals: what a method wants to know of every token of a step *before* the step is split into micro-batches. Statistics over
 * the batch (an entropy quantile, a covariance, the mean energy) are the same for any split only if they are taken here.
 *
 * Each part of an objective names the signals that it needs; the learner makes only the passes without gradient that somebody
 * asked for. An objective that asks for nothing, such as GRPO with ECHO, costs no pass.
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

export type Signals = { readonly [S in Signal]?: PerToken };

/** Which of two models a signal is read off. */
export const isReferenceSignal = (signal: Signal): boolean => signal.startsWith("ref");

/** The signal, or an error that says who wanted it. */
export function signal(signals: Signals, name: Signal, who: string): PerToken {
  const found = signals[name];
  if (found !== undefined) return found;
  const source = name === "values" ? "a critic" : isReferenceSignal(name) ? "a reference model" : "a scoring pass";
  return fail(`${who}: needs the signal "${name}", which ${source} gives; there is none`);
}

/** Throws unless `value` is a finite number in the given range, named in the message. */
export function checkRange(where: string, name: string, value: number, low: number, high: number = Infinity): void {
  check(
    Number.isFinite(value) && value >= low && value <= high,
    () => `${where}: ${name} must be ${high === Infinity ? `≥ ${low}` : `in [${low}, ${high}]`}, got ${value}`,
  );
}
