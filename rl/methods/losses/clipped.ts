/** Policy losses that stop pulling once the ratio has moved far enough: PPO's clip and what became of it. */
import { expr, where } from "../../../kernels/expr.ts";
import { check } from "../../../engine/errors.ts";
import { fuse, type Pointwise, type Tensor } from "../../../engine/index.ts";
import { checkKeys } from "../../../engine/options.ts";
import type { Table } from "../names.ts";
import { maskedRatio, type PolicyLoss } from "./policyLoss.ts";

const ppoClipLoss: Pointwise<Tensor> = fuse("ppoClip", (lp, old, advantage, mask, low, high) => {
  const ratio = maskedRatio(lp, old, mask);
  const clipped = ratio.clamp(expr(1).sub(low), high.add(1));
  return where(mask, ratio.mul(advantage).neg().max(clipped.mul(advantage).neg()), 0);
});

/** The same with a bound on what a bad token (A < 0) can cost, and one on the ratio itself; 1e30 stands for no bound. */
const boundedClipLoss: Pointwise<Tensor> = fuse("ppoClipBounded", (lp, old, advantage, mask, low, high, c, delta) => {
  const ratio = maskedRatio(lp, old, mask);
  const clipped = ratio.clamp(expr(1).sub(low), high.add(1));
  const loss = ratio.min(delta).mul(advantage).neg().max(clipped.mul(advantage).neg());
  const bounded = where(advantage.lt(0), loss.min(c.mul(advantage).neg()), loss);
  return where(mask, bounded, 0);
});

export interface PpoClipOptions {
  /** εl, default 0.2 */
  readonly epsilon?: number;
  /** εh, default epsilon; DAPO's clip-higher is 0.28 */
  readonly epsilonHigh?: number;
  /** c of the dual clip: where A < 0 the loss is at most −cA. Default none; verl has 3. */
  readonly dualClip?: number;
  /** TRL's `delta`: the unclipped branch takes min(ρ, delta). Default none. */
  readonly delta?: number;
}

/** The interval of both clips, checked. At 0 the ratio 1 of a first step would lie on the kink. */
export function checkClip(where: string, epsilon: number, epsilonHigh: number): { low: number; high: number } {
  check(epsilon > 0 && epsilon < 1, () => `${where}: epsilon must be in (0, 1), got ${epsilon}`);
  check(epsilonHigh > 0, () => `${where}: epsilonHigh must be > 0, got ${epsilonHigh}`);
  return { low: 1 - epsilon, high: 1 + epsilonHigh };
}

/**
 * max(−ρA, −clip(ρ, 1 − εl, 1 + εh)A) (PPO, Schulman et al. 2017, arXiv 1707.06347, eq. 7; clip-higher: DAPO, Yu et al. 2025,
 * arXiv 2503.14476; dual clip: Ye et al. 2020, arXiv 1912.09729).
 */
export function ppoClip(options: PpoClipOptions = {}): PolicyLoss {
  checkKeys("ppoClip", options, ["epsilon", "epsilonHigh", "dualClip", "delta"]);
  const { epsilon = 0.2, epsilonHigh = epsilon, dualClip, delta } = options;
  const clip = checkClip("ppoClip", epsilon, epsilonHigh);
  check(dualClip === undefined || dualClip > 1, () => `ppoClip: dualClip must be > 1, got ${dualClip}`);
  check(delta === undefined || delta > 1, () => `ppoClip: delta must be > 1, got ${delta}`);
  const isPlain = dualClip === undefined && delta === undefined;
  return {
    name: "ppo",
    clip,
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

const sapoLoss: Pointwise<Tensor> = fuse("sapo", (lp, old, advantage, mask, positive, negative) => {
  const temperature = where(advantage.gt(0), positive, negative);
  const gate = maskedRatio(lp, old, mask).sub(1).mul(temperature).sigmoid();
  return where(mask, gate.mul(4).div(temperature).mul(advantage).neg(), 0);
});

export interface SapoOptions {
  /** τ where A > 0, default 1 */
  readonly temperaturePositive?: number;
  /** τ elsewhere, default 1.05: bad tokens fade sooner */
  readonly temperatureNegative?: number;
}

/** −A·σ(τ(ρ − 1))·4/τ: a smooth gate in the clip's place (SAPO, Gao et al. 2025, arXiv 2511.20347). */
export function sapo(options: SapoOptions = {}): PolicyLoss {
  checkKeys("sapo", options, ["temperaturePositive", "temperatureNegative"]);
  const { temperaturePositive = 1, temperatureNegative = 1.05 } = options;
  for (const [name, value] of Object.entries({ temperaturePositive, temperatureNegative })) {
    check(value > 0, () => `sapo: ${name} must be > 0, got ${value}`);
  }
  return {
    name: "sapo",
    clip: null,
    tokenLoss: ({ logProbs, oldLogProbs, advantages, mask }) =>
      sapoLoss(logProbs, oldLogProbs, advantages, mask, temperaturePositive, temperatureNegative),
  };
}

export const CLIPPED: Table<PolicyLoss> = {
  ppo: {
    make: ppoClip,
    formula: "max(−ρA, −clip(ρ, 1−εl, 1+εh)A); `dualClip` c: at most −cA where A < 0; `delta`: ρ capped",
    source: "PPO, arXiv 1707.06347; clip-higher, DAPO, arXiv 2503.14476; dual clip, arXiv 1912.09729",
  },
  dual_clip: {
    make: (options: PpoClipOptions = {}) => ppoClip({ dualClip: 3, ...options }),
    formula: "ppo; where A < 0 also min(·, −cA), c = 3",
    source: "Ye et al. 2020, arXiv 1912.09729",
  },
  sapo: { make: sapo, formula: "−A·σ(τ(ρ−1))·4/τ, τ = 1 (A > 0), 1.05 (else)", source: "SAPO, arXiv 2511.20347" },
};
