/**
 * Losses that look for the few tokens whose log-probability and advantage move together: they are what lowers the entropy
 * ("The Entropy Mechanism", Cui et al. 2025, arXiv 2505.22617). Which tokens these are is a statistic over the whole step.
 */
import { where } from "../../../kernels/expr.ts";
import { check } from "../../../engine/errors.ts";
import { fuse, mul, type Pointwise, Rng, type Tensor } from "../../../engine/index.ts";
import { checkKeys } from "../../../engine/options.ts";
import type { Table } from "../names.ts";
import { checkRange } from "../tokenStatistics.ts";
import { ppoClip } from "./clipped.ts";
import { maskedLogRatio, type PolicyLoss, type StepView } from "./policyLoss.ts";

interface Place {
  readonly row: number;
  readonly t: number;
  /** (lp − mean lp)(A − mean A), means over all trained tokens of the step */
  readonly covariance: number;
}

/** Every trained token of the step with its covariance. */
export function covariances({ logProbs, advantages, masks }: StepView): Place[] {
  const places = masks.flatMap((mask, row) => mask.flatMap((trained, t) => (trained ? [{ row, t }] : [])));
  const mean = (x: (place: { row: number; t: number }) => number): number =>
    places.reduce((total, place) => total + x(place), 0) / places.length;
  const lpOf = ({ row, t }: { row: number; t: number }): number => logProbs[row]![t]!;
  const advantageOf = ({ row, t }: { row: number; t: number }): number => advantages[row]![t]!;
  const [meanLp, meanAdvantage] = [mean(lpOf), mean(advantageOf)];
  return places.map((p) => ({ ...p, covariance: (lpOf(p) - meanLp) * (advantageOf(p) - meanAdvantage) }));
}

/** `value` at the chosen places, `rest` at all others. */
function mark({ masks }: StepView, chosen: readonly Place[], value: number, rest: number): Float64Array[] {
  const marks = masks.map((mask) => new Float64Array(mask.length).fill(rest));
  for (const { row, t } of chosen) marks[row]![t] = value;
  return marks;
}

const klCovLoss: Pointwise<Tensor> = fuse("klCov", (lp, old, advantage, mask, chosen, coefficient) => {
  const difference = maskedLogRatio(lp, old, mask);
  const penalty = where(chosen, difference.abs().mul(coefficient), 0);
  return where(mask, penalty.sub(difference.exp().mul(advantage)), 0);
});

export interface KlCovOptions {
  /** Share of the step's tokens that are held back, at least one; default 0.0002 */
  readonly ratio?: number;
  /** Coefficient of |lp − old| there, default 1 */
  readonly coefficient?: number;
}

/** −ρA, and + coefficient·|lp − old| on the tokens of the highest covariance. */
export function klCov(options: KlCovOptions = {}): PolicyLoss {
  checkKeys("klCov", options, ["ratio", "coefficient"]);
  const { ratio = 0.0002, coefficient = 1 } = options;
  checkRange("klCov", "ratio", ratio, 0, 1);
  checkRange("klCov", "coefficient", coefficient, 0);
  return {
    name: "kl_cov",
    clip: null,
    prepare(view) {
      const places = covariances(view);
      const count = Math.max(1, Math.floor(ratio * places.length));
      const top = places.toSorted((a, b) => b.covariance - a.covariance).slice(0, count);
      return mark(view, top, 1, 0);
    },
    tokenLoss: ({ logProbs, oldLogProbs, advantages, mask, prepared }) =>
      klCovLoss(logProbs, oldLogProbs, advantages, mask, prepared!, coefficient),
  };
}

export interface ClipCovOptions {
  /** Share of the step's tokens that lose their gradient, at least one if there is a candidate; default 0.0002 */
  readonly ratio?: number;
  /** Candidates have a covariance between these; default 1 and 5 */
  readonly low?: number;
  readonly high?: number;
  readonly epsilon?: number;
  readonly epsilonHigh?: number;
  /** Of the random choice; with the step number it gives the same tokens in a resumed run. Default 0. */
  readonly seed?: number;
}

/** PPO's clip, times 0 on a random share of the tokens whose covariance is between `low` and `high` and that the clip left alone. */
export function clipCov(options: ClipCovOptions = {}): PolicyLoss {
  checkKeys("clipCov", options, ["ratio", "low", "high", "epsilon", "epsilonHigh", "seed"]);
  const { ratio = 0.0002, low = 1, high = 5, epsilon = 0.2, epsilonHigh = epsilon, seed = 0 } = options;
  checkRange("clipCov", "ratio", ratio, 0, 1);
  check(low < high, () => `clipCov: low must be below high, got ${low} and ${high}`);
  const clipped = ppoClip({ epsilon, epsilonHigh });
  const isClipped = ({ logProbs, oldLogProbs, advantages }: StepView, { row, t }: Place): boolean => {
    const rho = Math.exp(logProbs[row]![t]! - oldLogProbs[row]![t]!);
    const advantage = advantages[row]![t]!;
    return (rho > 1 + epsilonHigh && advantage > 0) || (rho < 1 - epsilon && advantage < 0);
  };
  return {
    name: "clip_cov",
    clip: clipped.clip,
    prepare(view) {
      const places = covariances(view);
      const candidates = places.filter((p) => p.covariance > low && p.covariance < high && !isClipped(view, p));
      const count = Math.max(1, Math.floor(ratio * places.length));
      const chosen = new Rng(seed).split("clipCov").split(view.step).shuffle(candidates).slice(0, count);
      return mark(view, chosen, 0, 1);
    },
    tokenLoss: (columns) => mul(clipped.tokenLoss(columns), columns.prepared!),
  };
}

export const COVARIANCE: Table<PolicyLoss> = {
  kl_cov: {
    make: klCov,
    formula: "−ρA, + coefficient·abs(lp − old) on the share `ratio` of highest (lp − mean)(A − mean)",
    source: "The Entropy Mechanism, arXiv 2505.22617",
  },
  clip_cov: {
    make: clipCov,
    formula: "ppo; 0 on a random share `ratio` of tokens with (lp − mean)(A − mean) in (1, 5)",
    source: "The Entropy Mechanism, arXiv 2505.22617",
  },
};
