/**
 * Aggregation: from the losses of single tokens to one number. The denominators are those of the whole optimiser step.
 * They are folded into per-token weights before the step is split, so that the loss is a plain weighted sum and
 * splitting it into micro-batches changes nothing. (A mean of the means of micro-batches does change with the split:
 * TRL issue 3021.) The names are verl's.
 */
import { check } from "../../engine/errors.ts";

/**
 * The aggregations, under verl's names: the mean or the sum over all tokens, the mean of the sequences' sums (`-norm`:
 * over a constant length) or means, or of the tasks' means.
 */
export const AGGREGATIONS = [
  "token-mean",
  "token-sum",
  "seq-mean-token-sum",
  "seq-mean-token-sum-norm",
  "seq-mean-token-mean",
  "prompt-mean-token-mean",
] as const;
/**
 * An aggregation, one of `AGGREGATIONS`: DAPO has `token-mean`, GRPO `seq-mean-token-mean`, Dr. GRPO
 * `seq-mean-token-sum-norm`.
 */
export type Aggregation = (typeof AGGREGATIONS)[number];

/** m is the mask, N the number of trained tokens, S that of sequences with one, L_max a constant length. */
export const AGGREGATION_FORMULAS: Readonly<Record<Aggregation, string>> = {
  "token-mean": "Σ m·ℓ / N",
  "token-sum": "Σ m·ℓ",
  "seq-mean-token-sum": "(1/S) Σ_i Σ_t m·ℓ",
  "seq-mean-token-sum-norm": "(1/(S·L_max)) Σ_i Σ_t m·ℓ, Dr. GRPO's",
  "seq-mean-token-mean": "mean of the sequences' own means",
  "prompt-mean-token-mean": "mean over the tasks of the mean over all tokens of a task's group, SkyRL's prompt_mean",
};

export interface AggregationOptions {
  /** L_max of `seq-mean-token-sum-norm` */
  readonly maxLength?: number;
  /** The rows of each sequence. Default: every row is a sequence. */
  readonly sequences?: readonly (readonly number[])[];
  /** The task of each sequence, for `prompt-mean-token-mean`. Default: every sequence has a task of its own. */
  readonly groups?: readonly number[];
  /**
   * The importance of each trained token, ≥ 0; default 1. The denominators count tokens the same way, so only
   * proportions matter.
   */
  readonly importance?: readonly Float64Array[];
}

/** What the weights of tokens are divided by: the product of these counts. */
export const DENOMINATORS = {
  "token-mean": ["N"],
  "token-sum": [],
  "seq-mean-token-sum": ["S"],
  "seq-mean-token-sum-norm": ["S", "L_max"],
  "seq-mean-token-mean": ["S", "N_sequence"],
  "prompt-mean-token-mean": ["G", "N_task"],
} as const satisfies Readonly<Record<Aggregation, readonly string[]>>;
type Count = (typeof DENOMINATORS)[Aggregation][number];

/**
 * What there is to divide by, for each sequence: N trained tokens in the step, `N_sequence` in the sequence, `N_task`
 * in its task, S sequences and G tasks with a trained token, and `L_max`. Parameters as of `aggregationWeights`.
 */
export function aggregationCounts(
  masks: readonly (readonly boolean[])[],
  { maxLength = NaN, sequences = masks.map((_, row) => [row]), groups, importance }: AggregationOptions,
): Readonly<Record<Count, number>>[] {
  const lengths = sequences.map((rows) =>
    rows.reduce((sum, row) => sum + worthOfRow(masks[row]!, importance?.[row]), 0),
  );
  const N = lengths.reduce((a, b) => a + b, 0);
  const groupOf = (i: number): number => groups?.[i] ?? i;
  const ofGroup = new Map<number, number>();
  lengths.forEach((n, i) => ofGroup.set(groupOf(i), (ofGroup.get(groupOf(i)) ?? 0) + n));
  const isTrained = (rows: readonly number[]): boolean => rows.some((row) => masks[row]!.some(Boolean));
  const trained = sequences.flatMap((rows, i) => (isTrained(rows) ? [groupOf(i)] : []));
  const [S, G] = [trained.length, new Set(trained).size];
  return lengths.map((n, i) => ({ N, S, G, L_max: maxLength, N_sequence: n, N_task: ofGroup.get(groupOf(i))! }));
}

/**
 * The weight of each token, 0 outside the mask. N is the number of trained tokens of the whole step, S the number of
 * sequences that have at least one; a sequence is a rollout, with all its rows.
 * @param masks per row, per token
 * @param options a plain number stands for L_max (`maxLength`)
 */
export function aggregationWeights(
  masks: readonly (readonly boolean[])[],
  aggregation: Aggregation,
  options: AggregationOptions | number = {},
): Float64Array[] {
  const given: AggregationOptions = typeof options === "number" ? { maxLength: options } : options;
  const { maxLength = 0, sequences = masks.map((_, row) => [row]), importance } = given;
  check(
    aggregation !== "seq-mean-token-sum-norm" || maxLength > 0,
    () => `aggregation: seq-mean-token-sum-norm needs a maximal length > 0, got ${given.maxLength}`,
  );
  const counts = aggregationCounts(masks, given);
  const weights = masks.map((mask) => new Float64Array(mask.length));
  for (const [i, rows] of sequences.entries()) {
    const count = counts[i]!;
    if (count.N_sequence === 0) continue; // a sequence without trained tokens would divide by 0
    const weight = 1 / DENOMINATORS[aggregation].reduce((product, name) => product * count[name], 1);
    for (const row of rows) {
      const [mask, ofRow] = [masks[row]!, importance?.[row]];
      for (let t = 0; t < mask.length; t++) weights[row]![t] = worth(mask, ofRow, t) * weight;
    }
  }
  return weights;
}

/** The importance of token `t` of a row, 0 outside the mask. */
const worth = (mask: readonly boolean[], importance: Float64Array | undefined, t: number): number =>
  mask[t] ? (importance?.[t] ?? 1) : 0;

function worthOfRow(mask: readonly boolean[], importance: Float64Array | undefined): number {
  let sum = 0;
  for (let t = 0; t < mask.length; t++) sum += worth(mask, importance, t);
  return sum;
}
