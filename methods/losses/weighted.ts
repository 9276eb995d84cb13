/**
 * Policy losses that weigh the log-probability: REINFORCE, importance weights whose gradient no clip removes, trust
 * regions per token.
 */
import { constant, expr, type Expr, named, where } from "../../kernels/expr.ts";
import { check } from "../../engine/errors.ts";
import { fuse, type Pointwise, type Tensor } from "../../engine/index.ts";
import { flag, noOptions, number, oneOf, options, type OptionsOf } from "../../engine/optionTable.ts";
import type { Table } from "../../rl/objective/names.ts";
import { maskedLogRatio, maskedRatio, type PolicyLoss, weightedLogProb } from "../../rl/objective/policyLoss.ts";

const reinforceLoss: Pointwise<Tensor> = fuse("reinforce", (lp, advantage, mask) =>
  where(mask, advantage, 0)
    .mul(where(mask, lp, 0))
    .neg(),
);

const REINFORCE = noOptions("reinforce");

/** −A·lp (Williams 1992). With the advantage `gpg` it is GPG. */
export function reinforce(given?: object): PolicyLoss {
  REINFORCE.read(given);
  return {
    name: "reinforce",
    clip: null,
    ratio: false,
    tokenLoss: ({ logProbs, advantages, mask }) => reinforceLoss(logProbs, advantages, mask),
  };
}

const importanceLoss: Pointwise<Tensor> = fuse("importance", (lp, old, advantage, mask) =>
  where(mask, maskedRatio(lp, old, mask).mul(advantage).neg(), 0),
);

const IMPORTANCE_SAMPLING = noOptions("importanceSampling");

/** −ρA: the importance-sampled objective itself, unclipped. */
export function importanceSampling(given?: object): PolicyLoss {
  IMPORTANCE_SAMPLING.read(given);
  return {
    name: "importance_sampling",
    clip: null,
    tokenLoss: ({ logProbs, oldLogProbs, advantages, mask }) => importanceLoss(logProbs, oldLogProbs, advantages, mask),
  };
}

const cispoLoss: Pointwise<Tensor> = fuse("cispo", (lp, old, advantage, mask, low, high) =>
  weightedLogProb(maskedRatio(lp, old, mask).clamp(named("ρ_low", low), named("ρ_high", high)), lp, advantage, mask),
);

/** `epsilonHigh` means different things in verl and in TRL; `cap` says which meaning is used. */
export const CISPO = options("cispo", {
  cap: oneOf(
    ["offset", "absolute"],
    "offset",
    "the bounds of ρ: verl's `offset` [1 − εl, 1 + εh], or TRL's `absolute` [0, εh]",
  ),
  epsilon: number(undefined, "εl of `offset`; by default 0.2", { min: 0, max: 1 }),
  epsilonHigh: number(undefined, "εh; by default 0.28 (`offset`) or 5 (`absolute`)", { above: 0 }),
});
/**
 * Options of `cispo`: the bounds of ρ, by default [0.8, 1.28], as verl's offsets from 1; with `cap: "absolute"` they
 * are TRL's [0, εh], by default [0, 5], and `epsilon` is an error (docs/methods.md, `cispo.…`).
 */
export type CispoOptions = OptionsOf<typeof CISPO>;

/** −sg(min(ρ, cap))·A·lp: every token keeps its gradient, with a bounded weight (MiniMax-M1 2025, arXiv 2506.13585). */
export function cispo(given?: CispoOptions): PolicyLoss {
  const { cap, ...bounds } = CISPO.read(given);
  check(cap === "offset" || bounds.epsilon === undefined, () => "cispo: an absolute cap has no epsilon");
  const { epsilon = 0.2, epsilonHigh = cap === "offset" ? 0.28 : 5 } = bounds;
  const [low, high] = cap === "offset" ? [1 - epsilon, 1 + epsilonHigh] : [0, epsilonHigh];
  return {
    name: "cispo",
    clip: { low, high },
    tokenLoss: ({ logProbs, oldLogProbs, advantages, mask }) =>
      cispoLoss(logProbs, oldLogProbs, advantages, mask, low, high),
  };
}

const droLoss: Pointwise<Tensor> = fuse("dro", (lp, old, advantage, mask, beta) => {
  const gain = where(mask, advantage, 0).mul(where(mask, lp, 0));
  return maskedLogRatio(lp, old, mask).square().mul(named("β", beta)).mul(0.5).sub(gain);
});

export const DRO = options("dro", {
  beta: number(0.05, "β, the weight of the squared log-ratio", { min: 0 }),
});
/** Options of `dro`: β, the weight of the squared log-ratio; default 0.05. */
export type DroOptions = OptionsOf<typeof DRO>;

/** −(A·lp − ½β(lp − old)²) (DRO, Richemond et al. 2024, arXiv 2405.19107). */
export function dro(given?: DroOptions): PolicyLoss {
  const { beta } = DRO.read(given);
  return {
    name: "dro",
    clip: null,
    tokenLoss: ({ logProbs, oldLogProbs, advantages, mask }) => droLoss(logProbs, oldLogProbs, advantages, mask, beta),
  };
}

/** π − μ, the probability under the new policy minus that under the behaviour policy. */
const shift = (lp: Expr, old: Expr): Expr => lp.exp().sub(old.exp());

/**
 * KL of the binary choice "this token or another": μ ln(μ/π) + (1 − μ) ln((1 − μ)/(1 − π)). 1 − μ and 1 − π are at
 * least 1e-8.
 */
function binaryKl(lp: Expr, old: Expr): Expr {
  const rest = (logP: Expr): Expr => logP.expm1().neg().max(1e-8);
  return old
    .exp()
    .mul(old.sub(lp))
    .add(rest(old).mul(rest(old).log().sub(rest(lp).log())));
}

/**
 * Factor of a trust region: 0 where the policy has moved too far in the direction of the advantage, else 1. It has no
 * gradient, so the mask need not be applied to its arguments.
 */
function kept(
  distance: (lp: Expr, old: Expr) => Expr,
  lp: Expr,
  old: Expr,
  advantage: Expr,
  low: Expr,
  high: Expr,
): Expr {
  const [moved, far] = [shift(lp, old), named("D", distance(lp, old))];
  const tooHigh = where(advantage.gt(0), where(moved.gt(0), far.gt(high), 0), 0);
  const tooLow = where(advantage.lt(0), where(moved.lt(0), far.gt(low), 0), 0);
  return named("m", expr(1).sub(tooHigh).sub(tooLow));
}

const dppoOf = (name: string, distance: (lp: Expr, old: Expr) => Expr): Pointwise<Tensor> =>
  fuse(name, (lp, old, advantage, mask, low, high) => {
    const ratio = maskedRatio(lp, old, mask);
    const weight = ratio.mul(kept(distance, lp, old, advantage, named("ε_low", low), named("ε_high", high)));
    return weightedLogProb(weight, lp, advantage, mask);
  });
const dppoTvLoss = dppoOf("dppoTv", (lp, old) => shift(lp, old).abs());
const dppoKlLoss = dppoOf("dppoKl", binaryKl);

export const DPPO = options("dppo", {
  epsilon: number(0.2, "largest divergence of π from μ where A < 0 and π < μ", { min: 0 }),
  epsilonHigh: number(0.28, "largest divergence of π from μ where A > 0 and π > μ", { min: 0 }),
});
/**
 * Options of `dppoTv` and `dppoKl`: the divergence of π from μ up to which a token is trained, by default 0.2 where
 * A < 0 (`epsilon`) and 0.28 where A > 0 (`epsilonHigh`).
 */
export type DppoOptions = OptionsOf<typeof DPPO>;

function dppo(name: "dppo_tv" | "dppo_kl", loss: Pointwise<Tensor>, given?: DppoOptions): PolicyLoss {
  const { epsilon, epsilonHigh } = DPPO.read(given);
  return {
    name,
    clip: null,
    tokenLoss: ({ logProbs, oldLogProbs, advantages, mask }) =>
      loss(logProbs, oldLogProbs, advantages, mask, epsilon, epsilonHigh),
  };
}

/**
 * −sg(ρ)·A·lp while |π − μ| is within the threshold in the advantage's direction (DPPO, Qi et al. 2026,
 * arXiv 2602.04879).
 */
export const dppoTv = (given?: DppoOptions): PolicyLoss => dppo("dppo_tv", dppoTvLoss, given);
/** DPPO with the binary KL of μ and π as the distance. */
export const dppoKl = (given?: DppoOptions): PolicyLoss => dppo("dppo_kl", dppoKlLoss, given);

const primeLoss: Pointwise<Tensor> = fuse("primeRl", (lp, old, advantage, mask, threshold, klTau, symmetric) => {
  const bound = named("ε", threshold);
  const directed = kept((a, b) => shift(a, b).abs(), lp, old, advantage, bound, bound);
  const either = named("D", shift(lp, old).abs()).le(bound);
  const ratio = maskedRatio(lp, old, mask);
  const gain = where(where(symmetric, either, directed), ratio.mul(advantage), constant(0));
  return where(mask, maskedLogRatio(lp, old, mask).square().mul(named("τ", klTau)).sub(gain), 0);
});

export const PRIME_RL = options("primeRl", {
  threshold: number(0.2, "largest |π − μ| of a token that is trained", { min: 0 }),
  klTau: number(1e-3, "coefficient of (ln ρ)²", { min: 0 }),
  symmetric: flag(false, "whether a move against the advantage also drops a token (prime-rl's `ipo`)"),
});
/**
 * Options of `primeRl`: by default `threshold` 0.2 on |π − μ|, `klTau` 1e-3 and `symmetric` false (docs/methods.md,
 * `prime_rl.…`).
 */
export type PrimeOptions = OptionsOf<typeof PRIME_RL>;

/** −ρA on kept tokens, plus klTau·(ln ρ)² on all: prime-rl's default loss; with `symmetric` it is prime-rl's `ipo`. */
export function primeRl(given?: PrimeOptions): PolicyLoss {
  const { threshold, klTau, symmetric } = PRIME_RL.read(given);
  return {
    name: "prime_rl",
    clip: null,
    tokenLoss: ({ logProbs, oldLogProbs, advantages, mask }) =>
      primeLoss(logProbs, oldLogProbs, advantages, mask, threshold, klTau, Number(symmetric)),
  };
}

export const WEIGHTED: Table<PolicyLoss> = {
  reinforce: {
    options: REINFORCE,
    make: reinforce,
    formula: "−A·lp",
    source: "Williams 1992; with advantage `gpg`: GPG, arXiv 2504.02546",
  },
  importance_sampling: {
    options: IMPORTANCE_SAMPLING,
    make: importanceSampling,
    formula: "−ρA",
    source: "the surrogate of TRPO, arXiv 1502.05477",
  },
  cispo: {
    options: CISPO,
    make: cispo,
    formula: "−sg(min(ρ, cap))·A·lp; cap `offset`: ρ clipped to [1−εl, 1+εh], `absolute`: to [0, εh]",
    source: "MiniMax-M1, arXiv 2506.13585",
  },
  dro: {
    options: DRO,
    make: dro,
    formula: "−(A·lp − ½β(lp − old)²), β = .05",
    source: "DRO, arXiv 2405.19107",
  },
  dppo_tv: {
    options: DPPO,
    make: dppoTv,
    formula: "−sg(ρ)·A·lp; 0 once |π − μ| > ε towards the sign of A",
    source: "DPPO, arXiv 2602.04879",
  },
  dppo_kl: {
    options: DPPO,
    make: dppoKl,
    formula: "−sg(ρ)·A·lp; 0 once the binary KL(μ‖π) > ε towards the sign of A",
    source: "DPPO, arXiv 2602.04879",
  },
  prime_rl: {
    options: PRIME_RL,
    make: primeRl,
    formula: "dppo_tv as −ρA, plus klTau·(ln ρ)²; `symmetric`: dropped in either direction",
    source: "prime-rl 2026",
  },
};
