/**
 * The numbers per token that the loss reads. `weigh` fills this record, `pack` splits it into micro-batches, and the
 * loss reads it. A column is declared here and nowhere else: its name, its meaning, and the number that stands at a
 * token which it does not concern. In the objective's formula (objective.ts) the weights have the same names.
 */
import type { Trajectory } from "../episode/stream.ts";

/**
 * The columns of a `TokenRow` by name, each with the number that stands at a token which it does not concern: recorded
 * temperatures and log-probabilities, advantages and mask of the policy term, the weight of each term of the loss
 * (`wPolicy`, `wWorld`, …), and the critic's targets.
 */
export const COLUMNS = {
  temperatures: 1, // the temperature that the token was sampled at
  oldLogProbs: 0, // the log-probability that ratios refer to: the sampler's, or the policy's before the step
  refLogProbs: 0, // the log-probability under the frozen reference
  advantages: 0, // A of the policy term
  mask: 0, // 1 on tokens of the policy term, also where their weight is 0: a sequence's ratio is over all of them
  prepared: 0, // what the policy loss computed over the whole step (`PolicyLoss.prepare`)
  wPolicy: 0, // weight of the policy loss
  wWorld: 0, // weight of −lp: what the environment wrote, and what is imitated
  wKl: 0, // weight of the KL penalty
  wEntropy: 0, // weight of the entropy bonus
  wValue: 0, // weight of the value loss
  returns: 0, // target of the value loss, NaN where the critic is not asked
  oldValues: 0, // the critic's value before the step
} as const;
/** The name of a column, such as `advantages` or `wPolicy`: a key of `COLUMNS`. */
export type ColumnName = keyof typeof COLUMNS;
export const COLUMN_NAMES: readonly ColumnName[] = Object.keys(COLUMNS) as ColumnName[];

/** All columns: one number per token of a row or of a micro-batch, or a tensor [N] of these. */
export type Columns<T = Float64Array> = { readonly [Name in ColumnName]: T };

/** Columns of the terms that an objective adds (terms.ts). A row without a term's columns has 0 there. */
export interface TermColumnsByName {
  /** Weights by term. */
  readonly weights: Readonly<Record<string, Float64Array>>;
  /** The columns that a term reads beside its weight, as `TERM.COLUMN`. */
  readonly more: Readonly<Record<string, Float64Array>>;
}

/** An episode (one row of a rollout) with its columns, one number per token of its stream. */
export interface TokenRow extends Columns, TermColumnsByName {
  readonly trajectory: Trajectory;
  /**
   * Rows of one number are one sequence (a rollout, a preference pair) and stay in one micro-batch. Default: each row
   * is one.
   */
  readonly segment?: number;
}

/** A row with the given columns, and those that its stream recorded; the others concern none of its tokens. */
export function rowOf(
  trajectory: Trajectory,
  { weights = {}, more = {}, ...given }: Partial<Columns & TermColumnsByName> = {},
  segment?: number,
): TokenRow {
  const { ids, temperatures, oldLogProbs } = trajectory.stream;
  const recorded: Partial<Columns> = {
    temperatures: new Float64Array(temperatures),
    oldLogProbs: new Float64Array(oldLogProbs),
  };
  const columns: Partial<Record<ColumnName, Float64Array>> = {};
  for (const name of COLUMN_NAMES) {
    columns[name] = given[name] ?? recorded[name] ?? new Float64Array(ids.length).fill(COLUMNS[name]);
  }
  return { trajectory, ...(columns as Columns), weights, more, ...(segment === undefined ? {} : { segment }) };
}

/** The rows with some columns exchanged, each given per row and token. */
export const withColumns = (rows: readonly TokenRow[], given: Partial<Columns<readonly Float64Array[]>>): TokenRow[] =>
  rows.map((row, i) => ({
    ...row,
    ...Object.fromEntries(Object.entries(given).map(([name, column]) => [name, column[i]!])),
  }));
