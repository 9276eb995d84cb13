/**
 * Losses per token. A policy loss sees the new log-probability of each trained token beside what was recorded of it, and returns
 * one loss per token; weights and denominators are applied elsewhere (`aggregation.ts`), once for all of them.
 *
 * The mask enters before every `exp`: a masked token's values are replaced first, so that no overflow behind the mask can come
 * back as a NaN in value or gradient. Comments give the formula; lp is the new and old the recorded log-probability, ρ = e^(lp − old).
 */
import { expr, type Expr, where } from "../kernels/expr.ts";
import { check } from "../engine/errors.ts";
import { fuse, type Pointwise } from "../engine/fuse.ts";
import { checkKeys } from "../engine/options.ts";
import type { Tensor } from "../engine/tensor.ts";

/** Columns over the N tokens of a micro-batch, each [N]. */
export interface TokenColumns {
  readonly logProbs: Tensor;
  readonly oldLogProbs: Tensor;
  readonly advantages: Tensor;
  /** 1 on tokens of the policy term, else 0. */
  readonly mask: Tensor;
}

export interface PolicyLoss {
  readonly name: string;
  /** Where the ratio counts as clipped, for `clip_ratio/*`; `null` if the loss has no clip. */
  readonly clip: { readonly low: number; readonly high: number } | null;
  /** [N], exactly 0 outside the mask. */
  tokenLoss(tokens: TokenColumns): Tensor;
}

const ppoClipLoss: Pointwise<Tensor> = fuse("ppoClip", (lp, old, advantage, mask, low, high) => {
  const ratio = maskedRatio(lp, old, mask);
  const clipped = ratio.clamp(expr(1).sub(low), high.add(1));
  return where(mask, ratio.mul(advantage).neg().max(clipped.mul(advantage).neg()), 0);
});

const reinforceLoss: Pointwise<Tensor> = fuse("reinforce", (lp, advantage, mask) =>
  where(mask, advantage, 0)
    .mul(where(mask, lp, 0))
    .neg(),
);

/** ρ on trained tokens, 1 elsewhere. */
export function maskedRatio(lp: Expr, old: Expr, mask: Expr): Expr {
  return where(mask, lp.sub(old), 0).exp();
}

export interface PpoClipOptions {
  /** εl, default 0.2 */
  readonly epsilon?: number;
  /** εh, default epsilon; DAPO's clip-higher is 0.28 */
  readonly epsilonHigh?: number;
}

/**
 * max(−ρA, −clip(ρ, 1 − εl, 1 + εh)A) (PPO, Schulman et al. 2017, arXiv 1707.06347, eq. 7; clip-higher: DAPO, Yu et al. 2025,
 * arXiv 2503.14476).
 */
export function ppoClip(options: PpoClipOptions = {}): PolicyLoss {
  checkKeys("ppoClip", options, ["epsilon", "epsilonHigh"]);
  const { epsilon = 0.2, epsilonHigh = epsilon } = options;
  // At 0 the ratio 1 of a first step would lie on the kink.
  check(epsilon > 0 && epsilon < 1, () => `ppoClip: epsilon must be in (0, 1), got ${epsilon}`);
  check(epsilonHigh > 0, () => `ppoClip: epsilonHigh must be > 0, got ${epsilonHigh}`);
  return {
    name: "ppo",
    clip: { low: 1 - epsilon, high: 1 + epsilonHigh },
    tokenLoss: ({ logProbs, oldLogProbs, advantages, mask }) =>
      ppoClipLoss(logProbs, oldLogProbs, advantages, mask, epsilon, epsilonHigh),
  };
}

/** −A·lp (Williams 1992). */
export function reinforce(): PolicyLoss {
  return {
    name: "reinforce",
    clip: null,
    tokenLoss: ({ logProbs, advantages, mask }) => reinforceLoss(logProbs, advantages, mask),
  };
}

/** By name, for the command line. More losses are one entry each. */
export const POLICY_LOSSES: Readonly<Record<string, (options?: PpoClipOptions) => PolicyLoss>> = {
  ppo: ppoClip,
  reinforce,
};

/** −lp on tokens with weight ≠ 0: supervised fine-tuning, and the world model's cross-entropy. */
export const crossEntropyLoss: Pointwise<Tensor> = fuse("tokenCrossEntropy", (lp, mask) => where(mask, lp.neg(), 0));

/** Estimators of KL(π ‖ ref) from samples of π (Schulman, "Approximating KL divergence", 2020). */
export const KL_ESTIMATORS = ["k1", "k2", "k3"] as const;
export type KlEstimator = (typeof KL_ESTIMATORS)[number];

const maskedKl = (name: string, formula: (d: Expr) => Expr): Pointwise<Tensor> =>
  fuse(name, (lp, ref, mask) => formula(where(mask, ref.sub(lp), 0)));

/** Each in terms of d = ref − lp; exactly 0 where the mask is 0. */
const KL: Readonly<Record<KlEstimator, Pointwise<Tensor>>> = {
  /** lp − ref: unbiased, of either sign */
  k1: maskedKl("k1", (d) => d.neg()),
  /** ½(lp − ref)²: biased value, unbiased gradient */
  k2: maskedKl("k2", (d) => d.square().mul(0.5)),
  /** e^d − d − 1: unbiased and never negative. e^d − 1 − d cancels in f32 for small d; there its series is used. */
  k3: maskedKl("k3", (d) => {
    const series = d
      .square()
      .mul(0.5)
      .mul(
        d
          .mul(1 / 3)
          .mul(d.mul(0.25).add(1))
          .add(1),
      );
    return where(d.abs().lt(0.03), series, d.expm1().sub(d));
  }),
};

/** [N]: the estimator on trained tokens, 0 elsewhere. */
export function klPenalty(estimator: KlEstimator, logProbs: Tensor, refLogProbs: Tensor, mask: Tensor): Tensor {
  return KL[estimator](logProbs, refLogProbs, mask);
}
