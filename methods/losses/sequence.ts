/**
 * Policy losses of whole sequences. A sequence is all that the agent wrote in one episode, over all turns (a `segment`
 * in code); packing never splits it. ln s is the mean of ln ρ = lp − old over its tokens. In a single pass over a
 * step's own samples s is 1, and `gspo`, `gmpo` and `vespo` have the gradient of −A·lp. `gspo` takes lp − sg(lp) +
 * sg(ln s) as the log-ratio of each token (sg: stop-gradient): its value is ln s, its derivative that of lp. With one A
 * for the sequence that is the gradient of s itself; with an A per token each token follows its own. `gmpo` does so
 * with the clipped ln ρ. `webrl` is a regression and has no ratio. methods/choice.ts makes the loss that `--method
 * gspo` names and puts it into `Objective.policyLoss`.
 */
import { type Expr, named, where } from "../../kernels/expr.ts";
import { check } from "../../engine/errors.ts";
import { fuse, type Pointwise, stopGradient, type Tensor } from "../../engine/index.ts";
import { flag, number, options, type OptionsOf } from "../../engine/optionTable.ts";
import { clippedLoss } from "../../rl/objective/clipped.ts";
import type { Table } from "../../rl/objective/names.ts";
import {
  logRatio,
  maskedLogRatio,
  type PolicyLoss,
  segmentMean,
  segmentSum,
  type TokenColumns,
} from "../../rl/objective/policyLoss.ts";

/** The value of `lnS`, a constant, with the derivative of `lp`; 0 where `mask` is 0, which is not the agent's token. */
const tokenForm = (lp: Expr, lnS: Expr, mask: Expr): Expr => where(mask, lp.sub(lp.stopGradient()).add(lnS), 0);

/** ln ρ per token, without a gradient. */
const detachedLogRatio = ({ logProbs, oldLogProbs, mask }: TokenColumns): Tensor =>
  logRatio(stopGradient(logProbs), oldLogProbs, mask);

/** ln s is capped at 10: e^100 overflows f32, and where A < 0 no clip would stop it. */
const gspoLoss: Pointwise<Tensor> = fuse("gspo", (lp, level, advantage, mask, low, high) => {
  const ratio = named("s_t", tokenForm(lp, named("ln s", level).min(10), mask).exp());
  return where(mask, clippedLoss(ratio, advantage, low, high), 0);
});

export const GSPO = options("gspo", {
  epsilon: number(3e-4, "εl: the ratio of a sequence is clipped below at 1 − εl", { above: 0, below: 1 }),
  epsilonHigh: number(
    undefined,
    "εh: the ratio of a sequence is clipped above at 1 + εh; by default epsilon if that is given, else 4e-4",
    { above: 0 },
  ),
});
/**
 * Options of `gspo`: the clip of a sequence's ratio, by default to [1 − 3e-4, 1 + 4e-4]. `epsilon` alone holds for both
 * sides.
 */
export type GspoOptions = OptionsOf<typeof GSPO>;

/**
 * PPO's clip on s = exp(mean_t(lp − old)), which all tokens of a sequence share: it is clipped as a whole (GSPO, Zheng
 * et al. 2025, arXiv 2507.18071). A mean over many tokens moves little, hence the narrow bounds.
 */
export function gspo(given: GspoOptions = {}): PolicyLoss {
  const { epsilon, epsilonHigh = given.epsilon ?? 4e-4 } = GSPO.read(given);
  return {
    name: "gspo",
    clip: { low: 1 - epsilon, high: 1 + epsilonHigh, level: "sequence" },
    tokenLoss(columns) {
      const { logProbs, advantages, mask, segments } = columns;
      const level = segmentMean(detachedLogRatio(columns), mask, segments);
      return gspoLoss(logProbs, level, advantages, mask, epsilon, epsilonHigh);
    },
  };
}

/** The clipped ln ρ: sgn·min(sgn·ln ρ, sgn·clamp(ln ρ, −ε, ε)), with sgn the sign of A. */
const pulledLogRatio: Pointwise<Tensor> = fuse("gmpoLogRatio", (lp, old, advantage, mask, low, high) => {
  const x = named("ln ρ", maskedLogRatio(lp, old, mask));
  const sign = where(mask, advantage, 0).sign();
  const clipped = x.clamp(named("ε_low", low).neg(), named("ε_high", high));
  return named("x", sign.mul(x).min(sign.mul(clipped)).mul(sign));
});

const gmpoLoss: Pointwise<Tensor> = fuse("gmpo", (pulled, level, advantage, mask) =>
  where(mask, tokenForm(pulled, named("ln s", level), mask).exp().mul(advantage).neg(), 0),
);

export const GMPO = options("gmpo", {
  epsilon: number(0.4, "how far ln ρ may fall where A < 0 before it is clipped", { above: 0 }),
  epsilonHigh: number(undefined, "how far ln ρ may rise where A > 0 before it is clipped; by default epsilon", {
    above: 0,
  }),
});
/** Options of `gmpo`: how far ln ρ of a token may move in the direction of the advantage, by default 0.4 both ways. */
export type GmpoOptions = OptionsOf<typeof GMPO>;

/** −A·exp(mean of the sign-aware clipped log-ratios) (GMPO, Zhao et al. 2025, arXiv 2507.20673). */
export function gmpo(given?: GmpoOptions): PolicyLoss {
  const { epsilon, epsilonHigh = epsilon } = GMPO.read(given);
  return {
    name: "gmpo",
    clip: null,
    tokenLoss({ logProbs, oldLogProbs, advantages, mask, segments }) {
      const pulled = pulledLogRatio(logProbs, oldLogProbs, advantages, mask, epsilon, epsilonHigh);
      const level = segmentMean(stopGradient(pulled), mask, segments);
      return gmpoLoss(pulled, level, advantages, mask);
    },
  };
}

/**
 * φ(w) = exp(λ + k·ln w − λ·w), with ln w kept in [ln 1e-8, 20]: a weight that is 1 at w = 1 and falls smoothly to 0 on
 * both sides, where a clip would cut off. λ is the paper's letter, not ECHO's weight.
 */
const vespoLoss: Pointwise<Tensor> = fuse("vespo", (lp, logW, advantage, mask, kPos, lambdaPos, kNeg, lambdaNeg) => {
  const isGood = advantage.ge(0);
  const k = named("k", where(isGood, named("k_+", kPos), named("k_−", kNeg)));
  const lambda = named("λ", where(isGood, named("λ_+", lambdaPos), named("λ_−", lambdaNeg)));
  const level = named("x", where(mask, named("ln w", logW), 0).clamp(Math.log(1e-8), 20));
  const phi = named("φ", lambda.add(k.mul(level)).sub(lambda.mul(level.exp())).exp());
  return where(mask, phi.mul(advantage), 0)
    .mul(where(mask, lp, 0))
    .neg();
});

export const VESPO = options("vespo", {
  kPos: number(2, "k where A ≥ 0", { min: 0 }),
  lambdaPos: number(3, "λ where A ≥ 0", { min: 0 }),
  kNeg: number(3, "k where A < 0", { min: 0 }),
  lambdaNeg: number(2, "λ where A < 0", { min: 0 }),
  detached: flag(true, "whether φ(w) is a constant; if false, the gradient also flows through φ(w)"),
});
/**
 * Options of `vespo`: (k, λ) of the weight φ, by default (2, 3) where A ≥ 0 and (3, 2) where A < 0, and whether φ is a
 * constant (`detached`, default true).
 */
export type VespoOptions = OptionsOf<typeof VESPO>;

/** −φ(w)·A·lp, w = Π ρ over the sequence (VESPO, Shen et al. 2026, arXiv 2602.10693). */
export function vespo(given?: VespoOptions): PolicyLoss {
  const { kPos, lambdaPos, kNeg, lambdaNeg, detached } = VESPO.read(given);
  return {
    name: "vespo",
    clip: null,
    tokenLoss(columns) {
      const { logProbs, oldLogProbs, advantages, mask, segments } = columns;
      const ratios = detached ? detachedLogRatio(columns) : logRatio(logProbs, oldLogProbs, mask);
      const logW = segmentSum(ratios, segments);
      return vespoLoss(logProbs, logW, advantages, mask, kPos, lambdaPos, kNeg, lambdaNeg);
    },
  };
}

/** Where `mask` is 0 the advantage may be anything, NaN included: it is 0 before the square, whose gradient has it. */
const webrlLoss: Pointwise<Tensor> = fuse("webrl", (level, advantage, mask, beta) =>
  where(
    mask,
    named("β", beta)
      .mul(named("h", level))
      .sub(where(mask, advantage, 0))
      .square(),
    0,
  ),
);

export const WEBRL = options("webrl", {
  beta: number(1, "β, the weight of the sequence's log-ratio to the reference", { above: 0 }),
});
/** Options of `webrl`: β, the weight of the sequence's log-ratio to the reference; default 1. */
export type WebrlOptions = OptionsOf<typeof WEBRL>;

/**
 * (β·Σ(lp − ref) − A)², the sum over the sequence (WebRL, Qi et al. 2024, arXiv 2411.02337): it draws the policy to
 * ref·e^(A/β), the optimum of the reward under a KL penalty if A is its advantage. Each token has the loss of its
 * sequence, so the mean over tokens, then over sequences (`seq-mean-token-mean`) is the paper's. Old samples need no
 * ratio: where the policy can reach that optimum, it does not depend on who wrote them.
 */
export function webrl(given?: WebrlOptions): PolicyLoss {
  const { beta } = WEBRL.read(given);
  return {
    name: "webrl",
    clip: null,
    needs: ["refLogProbs"],
    tokenLoss({ logProbs, refLogProbs, advantages, mask, segments }) {
      check(refLogProbs !== undefined, () => "webrl: needs log-probabilities of a reference model");
      return webrlLoss(segmentSum(logRatio(logProbs, refLogProbs, mask), segments), advantages, mask, beta);
    },
  };
}

export const SEQUENCE: Table<PolicyLoss> = {
  gspo: {
    options: GSPO,
    make: gspo,
    formula: "ppo on s = exp(mean_t(lp − old)), as lp − sg(lp) + sg(ln s); ε 3e-4, 4e-4",
    source: "GSPO, arXiv 2507.18071",
  },
  gmpo: {
    options: GMPO,
    make: gmpo,
    formula: "−A·exp(mean of ln ρ, clipped at ±ε in A's direction), ε = .4",
    source: "GMPO (geo-mean), arXiv 2507.20673",
  },
  vespo: {
    options: VESPO,
    make: vespo,
    formula: "−φ(w)·A·lp, φ = exp(λ + k·ln w − λ·w), w = Πρ; (k, λ) = (2, 3) for A ≥ 0, (3, 2) below",
    source: "VESPO, arXiv 2602.10693",
  },
  webrl: {
    options: WEBRL,
    make: webrl,
    formula: "(β·Σ(lp − ref) − A)², the sum over the sequence; β = 1",
    source: "WebRL, arXiv 2411.02337",
  },
};
