/** Policy losses whose gradient vanishes once the ratio has moved far enough: PPO's clip and its successors. */
import { expr, type Expr, named, where } from "../../kernels/expr.ts";
import { fuse, type Pointwise, type Tensor } from "../../engine/index.ts";
import { number, options, type OptionsOf } from "../../engine/optionTable.ts";
import type { Table } from "./names.ts";
import { maskedRatio, type PolicyLoss } from "./policyLoss.ts";

/** max(−ρA, −clip(ρ, 1 − εl, 1 + εh)A). @param free ρ where it is not clipped */
export function clippedLoss(ratio: Expr, advantage: Expr, low: Expr, high: Expr, free: Expr = ratio): Expr {
  const clipped = ratio.clamp(expr(1).sub(named("ε_low", low)), expr(1).add(named("ε_high", high)));
  return free.mul(advantage).neg().max(clipped.mul(advantage).neg());
}

const ppoClipLoss: Pointwise<Tensor> = fuse("ppoClip", (lp, old, advantage, mask, low, high) =>
  where(mask, clippedLoss(maskedRatio(lp, old, mask), advantage, low, high), 0),
);

/**
 * PPO's clip with an upper bound on the loss of a token with A < 0, and one on the ratio itself; 1e30 means no bound.
 */
const boundedClipLoss: Pointwise<Tensor> = fuse("ppoClipBounded", (lp, old, advantage, mask, low, high, c, delta) => {
  const ratio = maskedRatio(lp, old, mask);
  const loss = named("ℓ_clip", clippedLoss(ratio, advantage, low, high, ratio.min(named("δ", delta))));
  const bounded = where(advantage.lt(0), loss.min(named("c", c).mul(advantage).neg()), loss);
  return where(mask, bounded, 0);
});

/** The bounds of a clip. They are above 0, because otherwise the ratio 1 of a first pass would lie on the kink. */
export const CLIP = {
  epsilon: number(0.2, "εl: the ratio is clipped below at 1 − εl", { above: 0, below: 1 }),
  epsilonHigh: number(
    undefined,
    "εh: the ratio is clipped above at 1 + εh; by default the same as epsilon; DAPO has 0.28",
    { above: 0 },
  ),
};

export const PPO_CLIP = options("ppoClip", {
  ...CLIP,
  dualClip: number(undefined, "c: where A < 0 the loss is at most −cA; by default there is no such bound; verl has 3", {
    above: 1,
  }),
  delta: number(undefined, "largest ratio in the branch without a clip; by default there is no such bound", {
    above: 1,
  }),
});
/**
 * Options of `ppoClip`: the ratio is clipped to [1 − 0.2, 1 + 0.2] by default; `dualClip` and `delta` are further
 * bounds, by default none (docs/methods.md, `ppo.…`).
 */
export type PpoClipOptions = OptionsOf<typeof PPO_CLIP>;

/** Options of `ppoClip` with verl's default for c. */
const DUAL_CLIP = options("dual_clip", {
  ...PPO_CLIP.fields,
  dualClip: number(3, "c: where A < 0 the loss is at most −cA", { above: 1 }),
});

/**
 * max(−ρA, −clip(ρ, 1 − εl, 1 + εh)A) (PPO, Schulman et al. 2017, arXiv 1707.06347, eq. 7; clip-higher: DAPO, Yu et al.
 * 2025, arXiv 2503.14476; dual clip: Ye et al. 2020, arXiv 1912.09729).
 */
export function ppoClip(given?: PpoClipOptions): PolicyLoss {
  const { epsilon, epsilonHigh = epsilon, dualClip, delta } = PPO_CLIP.read(given);
  const isPlain = dualClip === undefined && delta === undefined;
  return {
    name: "ppo",
    clip: { low: 1 - epsilon, high: 1 + epsilonHigh },
    tokenLoss: ({ logProbs, oldLogProbs, advantages, mask }) =>
      isPlain
        ? ppoClipLoss(logProbs, oldLogProbs, advantages, mask, epsilon, epsilonHigh)
        : boundedClipLoss(
            logProbs,
            oldLogProbs,
            advantages,
            mask,
            epsilon,
            epsilonHigh,
            dualClip ?? 1e30,
            delta ?? 1e30,
          ),
  };
}

export const CLIPPED: Table<PolicyLoss> = {
  ppo: {
    options: PPO_CLIP,
    make: ppoClip,
    formula: "max(−ρA, −clip(ρ, 1−εl, 1+εh)A); `dualClip` c: at most −cA where A < 0; `delta`: ρ capped",
    source: "PPO, arXiv 1707.06347; clip-higher, DAPO, arXiv 2503.14476; dual clip, arXiv 1912.09729",
  },
  dual_clip: {
    options: DUAL_CLIP,
    make: (given?: OptionsOf<typeof DUAL_CLIP>) => ppoClip(DUAL_CLIP.read(given)),
    formula: "ppo; where A < 0 also min(·, −cA), c = 3",
    source: "Ye et al. 2020, arXiv 1912.09729",
  },
};
