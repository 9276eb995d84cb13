/**
 * A policy loss: a function from the columns of a micro-batch to one loss per token. Weights and denominators are
 * applied elsewhere (rl/objective/aggregation.ts), in the same way for all losses.
 *
 * The mask is applied before every `exp`: the values of a masked token are replaced first, so that an overflow there
 * cannot become a NaN in the loss or its gradient. In comments and tables lp is the new log-probability, old the
 * recorded one, A the advantage, ρ = e^(lp − old), sg(·) a value without its gradient.
 */
import { type Expr, named, where } from "../../kernels/expr.ts";
import { div, fuse, gather, maximum, type Pointwise, scatterAdd, type Tensor } from "../../engine/index.ts";
import type { Columns } from "./columns.ts";
import type { PerToken, TokenStatistic } from "./tokenStatistics.ts";

/**
 * The sequences that the tokens of a micro-batch belong to. A sequence is a rollout with all its rows, or a preference
 * pair; it is never split.
 */
export interface Segments {
  /** i32 [N], from 0 to count − 1 */
  readonly ids: Tensor;
  readonly count: number;
}

/** The columns that a policy loss reads of the N tokens of a micro-batch, each [N]. */
export interface TokenColumns
  extends
    Pick<Columns<Tensor>, "oldLogProbs" | "advantages" | "mask">,
    // `prepared` is there for losses with a `prepare`, `refLogProbs` for losses that need the reference.
    Partial<Pick<Columns<Tensor>, "prepared" | "refLogProbs">> {
  /** Log-probabilities of the policy that is trained: the gradient flows through these. */
  readonly logProbs: Tensor;
  readonly segments: Segments;
}

/**
 * The whole step before it is split, with one entry per row and token. Entries where `masks` is false mean nothing and
 * may be NaN.
 */
export interface StepView extends Pick<Columns<PerToken>, "oldLogProbs" | "advantages"> {
  readonly logProbs: PerToken;
  readonly masks: readonly (readonly boolean[])[];
  /** The optimiser step, from 0: random choices depend on it, so that a resumed run makes the same ones. */
  readonly step: number;
}

/** A policy loss with its options read. */
export interface PolicyLoss {
  readonly name: string;
  /**
   * The bounds outside which a ratio counts as clipped in the metrics `clip_ratio/*`, per token or per `sequence`;
   * `null` if the loss has no clip.
   */
  readonly clip: { readonly low: number; readonly high: number; readonly level?: "sequence" } | null;
  /**
   * β of a loss over pairs of answers, which no loop over rewards can use; for the metrics `rewards/*`: the implicit
   * reward of an answer is β(lp − ref).
   */
  readonly beta?: number;
  /**
   * `false`: the loss does not read the recorded log-probability, so it is correct for the current policy's own samples
   * only. Default true.
   */
  readonly ratio?: false;
  /** Signals that must be computed before the step; `prepare` implies `logProbs`. */
  readonly needs?: readonly TokenStatistic[];
  /** Computes one column from statistics over the whole step; `tokenLoss` gets it as `prepared`. */
  readonly prepare?: (view: StepView) => Float64Array[];
  /** [N], exactly 0 outside the mask. */
  tokenLoss(tokens: TokenColumns): Tensor;
}

/** The policy loss of rows without policy weights. */
export const NO_POLICY: PolicyLoss = { name: "none", clip: null, tokenLoss: ({ advantages }) => advantages };

/** ln ρ on trained tokens, 0 elsewhere. */
export function maskedLogRatio(lp: Expr, old: Expr, mask: Expr): Expr {
  return where(mask, lp.sub(old), 0);
}

/** ρ on trained tokens, 1 elsewhere. */
export function maskedRatio(lp: Expr, old: Expr, mask: Expr): Expr {
  return named("ρ", maskedLogRatio(lp, old, mask).exp());
}

/** −sg(weight)·A·lp on trained tokens, 0 elsewhere: the form of every loss that weighs the log-probability. */
export function weightedLogProb(weight: Expr, lp: Expr, advantage: Expr, mask: Expr): Expr {
  const gain = where(mask, weight.stopGradient().mul(advantage), 0);
  return gain.mul(where(mask, lp, 0)).neg();
}

/** [N]: ln ρ on trained tokens, 0 elsewhere. */
export const logRatio: Pointwise<Tensor> = fuse("logRatio", maskedLogRatio);

/** For each token the sum over its segment: [N] → [N]. `x` must be 0 outside the mask. */
export function segmentSum(x: Tensor, { ids, count }: Segments): Tensor {
  return gather(scatterAdd(x, ids, count), ids);
}

/** For each token the mean over the trained tokens of its segment: [N] → [N]. */
export function segmentMean(x: Tensor, mask: Tensor, segments: Segments): Tensor {
  return div(segmentSum(x, segments), maximum(segmentSum(mask, segments), 1));
}
