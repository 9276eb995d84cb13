/**
 * The best checkpoint of a run: that of the evaluation with the highest success on held-out tasks; among equals that
 * with the highest mean reward (`evaluatedReturns`), so that in a world of costs no checkpoint wins by being cut off
 * before it pays; among equals the earliest, as elsewhere (Keras' ModelCheckpoint and transformers' Trainer replace a
 * best checkpoint only by a better one). The run keeps it beside its newest ones.
 */
import type { MetricsRecord } from "./records.ts";

const numbersOf = (line: MetricsRecord): readonly [success: number, reward: number] => {
  const { success, reward } = line;
  return [typeof success === "number" ? success : NaN, typeof reward === "number" ? reward : NaN];
};

/**
 * Whether the evaluation of `line` is better than that of `best`; any with a success is better than none, and among
 * equal successes any with a reward: if every episode was cut short there is none (`evaluatedReturns`).
 */
export function isBetter(line: MetricsRecord, best: MetricsRecord | undefined): boolean {
  const [success, reward] = numbersOf(line);
  if (best === undefined) return !Number.isNaN(success);
  const [highest, most] = numbersOf(best);
  return success > highest || (success === highest && (reward > most || (Number.isNaN(most) && !Number.isNaN(reward))));
}

/**
 * The evaluation of the best checkpoint.
 * @param metrics all lines of the run, in order
 * @param steps the steps that have a checkpoint
 * @returns undefined if none of them was evaluated
 */
export function bestOf(metrics: readonly MetricsRecord[], steps: readonly number[]): MetricsRecord | undefined {
  let best: MetricsRecord | undefined;
  for (const line of metrics)
    if (line.phase === "eval" && steps.includes(line.step) && isBetter(line, best)) best = line;
  return best;
}
