/** Estimators of KL(π ‖ ref) from samples of π (Schulman, "Approximating KL divergence", 2020). */
import { type Expr, named, where } from "../../kernels/expr.ts";
import { fuse, type Pointwise, type Tensor } from "../../engine/index.ts";

/**
 * Estimators of KL(π ‖ ref) at a sampled token, with d = ref − lp (Schulman 2020, “Approximating KL divergence”): `k1`
 * −d, `k2` ½d², `k3` e^d − d − 1, `abs` |d|, and `k3+`, the value of k3 with the gradient of k2.
 */
export const KL_ESTIMATORS = ["k1", "k2", "k3", "abs", "k3+"] as const;
/** An estimator of the KL, one of `KL_ESTIMATORS`. */
export type KlEstimator = (typeof KL_ESTIMATORS)[number];

/** e^d − d − 1. Small |d| use its series, because the plain form cancels in f32 and is 0 at d = 1e-4. */
function k3(d: Expr): Expr {
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
}
const k2 = (d: Expr): Expr => d.square().mul(0.5);

const maskedKl = (name: string, formula: (d: Expr) => Expr): Pointwise<Tensor> =>
  fuse(name, (lp, ref, mask) => formula(named("d", where(mask, ref.sub(lp), 0))));
const clampedKl = (name: string, formula: (d: Expr) => Expr): Pointwise<Tensor> =>
  fuse(`${name}Clamped`, (lp, ref, mask, input, output) => {
    const within = (x: Expr, bound: Expr): Expr => x.clamp(bound.neg(), bound);
    const estimate = formula(named("d", within(where(mask, ref.sub(lp), 0), named("c_in", input))));
    return within(named("k", estimate), named("c_out", output));
  });

/** Each estimator in terms of d = ref − lp. */
const FORMULAS: Readonly<Record<KlEstimator, (d: Expr) => Expr>> = {
  /** lp − ref: unbiased, of either sign */
  k1: (d) => d.neg(),
  /** ½(lp − ref)²: biased value, unbiased gradient */
  k2,
  /** e^d − d − 1: unbiased and never negative; its gradient is biased */
  k3,
  abs: (d) => d.abs(),
  /** The value of k3 with the gradient of k2: unbiased in both. */
  "k3+": (d) => k2(d).add(k3(d).sub(k2(d)).stopGradient()),
};
const KL = Object.fromEntries(KL_ESTIMATORS.map((k) => [k, maskedKl(k, FORMULAS[k])]));
const CLAMPED_KL = Object.fromEntries(KL_ESTIMATORS.map((k) => [k, clampedKl(k, FORMULAS[k])]));

/**
 * Bounds for one token: on |ref − lp| (`logRatio`) and on the estimate itself (`value`). verl's `low_var_kl` has 20 and
 * 10.
 */
export interface KlClamp {
  readonly logRatio: number;
  readonly value: number;
}

/** [N]: the estimate on trained tokens, 0 elsewhere. */
export function klPenalty(
  estimator: KlEstimator,
  logProbs: Tensor,
  refLogProbs: Tensor,
  mask: Tensor,
  clamp?: KlClamp,
): Tensor {
  if (clamp === undefined) return KL[estimator]!(logProbs, refLogProbs, mask);
  return CLAMPED_KL[estimator]!(logProbs, refLogProbs, mask, clamp.logRatio, clamp.value);
}

/** The estimate for one token, computed on the host, for a penalty in the reward. */
export function klEstimate(estimator: KlEstimator, logProb: number, refLogProb: number, clamp?: KlClamp): number {
  const within = (x: number, bound: number | undefined): number =>
    bound === undefined ? x : Math.min(bound, Math.max(-bound, x));
  return within(estimateOf(estimator, within(refLogProb - logProb, clamp?.logRatio)), clamp?.value);
}

function estimateOf(estimator: KlEstimator, d: number): number {
  switch (estimator) {
    case "k1":
      return -d;
    case "k2":
      return 0.5 * d * d;
    case "abs":
      return Math.abs(d);
    case "k3":
    case "k3+":
      return Math.abs(d) < 0.03 ? 0.5 * d * d * (1 + (d / 3) * (1 + d / 4)) : Math.expm1(d) - d;
  }
}

/** A coefficient β that changes from step to step. Save its `beta` with a checkpoint and give it to `resume`. */
export interface KlController {
  /** The coefficient for the next step. */
  readonly beta: number;
  /** After a step. @param kl the step's mean KL @param samples the number of episodes in the step */
  update(kl: number, samples: number): void;
  resume(beta: number): void;
}
