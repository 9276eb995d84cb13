/**
 * Aggregation: how per-token losses become one number. The denominators are those of the whole optimiser step and are folded into
 * per-token weights before the step is split, so the loss is a plain weighted sum and micro-batches change nothing
 * ("mean of micro-batch means" does: TRL issue 3021). Names as in verl; TRL's `loss_type` names are accepted.
 */
import { check, fail } from "../engine/errors.ts";

export const AGGREGATIONS = [
  "token-mean", // Σ m·ℓ / N
  "token-sum", // Σ m·ℓ
  "seq-mean-token-sum", // (1/S) Σ_i Σ_t m·ℓ
  "seq-mean-token-sum-norm", // the same, divided by a constant length L_max (Dr. GRPO)
  "seq-mean-token-mean", // mean of the sequences' own means
] as const;
export type Aggregation = (typeof AGGREGATIONS)[number];

/** TRL's `loss_type` names that mean an aggregation. */
export const AGGREGATION_ALIASES: Readonly<Record<string, Aggregation>> = {
  dapo: "token-mean",
  bnpo: "token-mean",
  grpo: "seq-mean-token-mean",
  dr_grpo: "seq-mean-token-sum-norm",
};

export function aggregationByName(name: string): Aggregation {
  const found =
    AGGREGATIONS.find((a) => a === name) ??
    (Object.hasOwn(AGGREGATION_ALIASES, name) ? AGGREGATION_ALIASES[name] : undefined);
  return (
    found ??
    fail(
      `aggregation: unknown name "${name}", expected ${[...AGGREGATIONS, ...Object.keys(AGGREGATION_ALIASES)].join(", ")}`,
    )
  );
}

/**
 * The weight of each token, 0 outside the mask. N is the number of trained tokens of the whole step, S the number of sequences
 * that have at least one.
 * @param masks per sequence, per token
 * @param maxLength L_max of `seq-mean-token-sum-norm`
 */
export function aggregationWeights(
  masks: readonly (readonly boolean[])[],
  aggregation: Aggregation,
  maxLength?: number,
): Float64Array[] {
  const lengths = masks.map((mask) => mask.filter(Boolean).length);
  const N = lengths.reduce((a, b) => a + b, 0);
  const S = lengths.filter((n) => n > 0).length;
  const weightOf = (length: number): number => {
    switch (aggregation) {
      case "token-mean":
        return 1 / N;
      case "token-sum":
        return 1;
      case "seq-mean-token-sum":
        return 1 / S;
      case "seq-mean-token-sum-norm":
        check(
          maxLength !== undefined && maxLength > 0,
          () => `aggregation: seq-mean-token-sum-norm needs a maximal length > 0, got ${maxLength}`,
        );
        return 1 / (S * maxLength);
      case "seq-mean-token-mean":
        return 1 / (S * length);
    }
  };
  return masks.map((mask, i) => Float64Array.from(mask, (trained) => (trained ? weightOf(lengths[i]!) : 0)));
}
