/**
 * What a policy loss is: from the columns of a micro-batch to one loss per token. Weights and denominators are applied elsewhere
 * (rl/methods/aggregation.ts), once for all of them.
 *
 * The mask enters before every `exp`: a masked token's values are replaced first, so that no overflow behind the mask can come
 * back as a NaN in value or gradient. In comments and tables lp is the new log-probability, old the recorded one, A the advantage,
 * ρ = e^(lp − old), sg(·) a value without its gradient.
 */
import { type Expr, where } from "../../../kernels/expr.ts";
import { div, fuse, gather, maximum, type Pointwise, scatterAdd, type Tensor } from "../../../engine/index.ts";
import type { Columns } from "../columns.ts";
import type { PerToken, Signal } from "../tokenStatistics.ts";

/** Which sequence each token of a micro-batch belongs to: a rollout with all its rows, or a preference pair. Never split. */
export interface Segments {
  /** i32 [N], from 0 to count − 1 */
  readonly ids: Tensor;
  readonly count: number;
}

/** What a policy loss sees of the N tokens of a micro-batch, each column [N]. */
export interface TokenColumns
  extends
    Pick<Columns<Tensor>, "oldLogProbs" | "advantages" | "mask">,
    // Of losses with `prepare`, and of those that need the reference.
    Partial<Pick<Columns<Tensor>, "prepared" | "refLogProbs">> {
  /** Of the policy that is trained: the gradient flows through these. */
  readonly logProbs: Tensor;
  readonly segments: Segments;
}

/** The whole step, before it is split. One entry per row and token; NaN or anything where `masks` is false. */
export interface StepView extends Pick<Columns<PerToken>, "oldLogProbs" | "advantages"> {
  readonly logProbs: PerToken;
  readonly masks: readonly (readonly boolean[])[];
  /** Optimiser step from 0, for random choices that are the same in a resumed run. */
  readonly step: number;
}

export interface PolicyLoss {
  readonly name: string;
  /** Where the ratio of a token, or of its `sequence`, counts as clipped, for `clip_ratio/*`; `null` if the loss has no clip. */
  readonly clip: { readonly low: number; readonly high: number; readonly level?: "sequence" } | null;
  /** Of losses over pairs: the implicit reward of an answer is β(lp − ref), for `rewards/*`. */
  readonly beta?: number;
  /** `false`: it looks at no earlier log-probability, so it is right for the policy's own samples only. Default true. */
  readonly ratio?: false;
  /** Signals that must be there before the step; `prepare` implies `logProbs`. */
  readonly needs?: readonly Signal[];
  /** One column of statistics over the whole step; it reaches `tokenLoss` as `prepared`. */
  readonly prepare?: (view: StepView) => Float64Array[];
  /** [N], exactly 0 outside the mask. */
  tokenLoss(tokens: TokenColumns): Tensor;
}

/** Stands where no token has a policy weight. */
export const NO_POLICY: PolicyLoss = { name: "none", clip: null, tokenLoss: ({ advantages }) => advantages };

/** ln ρ on trained tokens, 0 elsewhere. */
export function maskedLogRatio(lp: Expr, old: Expr, mask: Expr): Expr {
  return where(mask, lp.sub(old), 0);
}

/** ρ on trained tokens, 1 elsewhere. */
export function maskedRatio(lp: Expr, old: Expr, mask: Expr): Expr {
  return maskedLogRatio(lp, old, mask).exp();
}

/** −sg(weight)·A·lp on trained tokens, 0 elsewhere: every loss that weighs the log-probability. */
export function weightedLogProb(weight: Expr, lp: Expr, advantage: Expr, mask: Expr): Expr {
  const gain = where(mask, weight.stopGradient().mul(advantage), 0);
  return gain.mul(where(mask, lp, 0)).neg();
}

/** [N]: ln ρ on trained tokens, 0 elsewhere. */
export const logRatio: Pointwise<Tensor> = fuse("logRatio", maskedLogRatio);

/** Σ over each token's own segment, as seen from the token: [N] → [N]. `x` must be 0 outside the mask. */
export function segmentSum(x: Tensor, { ids, count }: Segments): Tensor {
  return gather(scatterAdd(x, ids, count), ids);
}

/** The mean over the trained tokens of each token's own segment: [N] → [N]. */
export function segmentMean(x: Tensor, mask: Tensor, segments: Segments): Tensor {
  return div(segmentSum(x, segments), maximum(segmentSum(mask, segments), 1));
}
