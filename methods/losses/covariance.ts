/**
 * Losses that single out the tokens of highest covariance between log-probability and advantage, because these few
 * tokens lower the entropy most ("The Entropy Mechanism", Cui et al. 2025, arXiv 2505.22617). The covariance is a
 * statistic of the whole step.
 */
import { named, where } from "../../kernels/expr.ts";
import { check } from "../../engine/errors.ts";
import { fuse, mul, type Pointwise, Rng, type Tensor } from "../../engine/index.ts";
import { number, options, type OptionsOf } from "../../engine/optionTable.ts";
import type { Table } from "../../rl/objective/names.ts";
import { CLIP, ppoClip } from "../../rl/objective/clipped.ts";
import { maskedLogRatio, type PolicyLoss, type StepView } from "../../rl/objective/policyLoss.ts";

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
  const difference = named("d", maskedLogRatio(lp, old, mask));
  const penalty = where(chosen, difference.abs().mul(named("κ", coefficient)), 0);
  return where(mask, penalty.sub(difference.exp().mul(advantage)), 0);
});

export const KL_COV = options("klCov", {
  ratio: number(0.0002, "share of the step's tokens that are penalised; at least one is", { min: 0, max: 1 }),
  coefficient: number(1, "coefficient of |lp − old| on these tokens", { min: 0 }),
});
/**
 * Options of `klCov`: the share of a step's tokens that are penalised (`ratio`, default 0.0002, at least one token),
 * and the `coefficient` of |lp − old| on them (default 1).
 */
export type KlCovOptions = OptionsOf<typeof KL_COV>;

/** −ρA, plus coefficient·|lp − old| on the tokens of highest covariance. */
export function klCov(given?: KlCovOptions): PolicyLoss {
  const { ratio, coefficient } = KL_COV.read(given);
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

export const CLIP_COV = options("clipCov", {
  ...CLIP,
  ratio: number(
    0.0002,
    "share of the step's tokens that lose their gradient, chosen among the candidates; at least one does",
    {
      min: 0,
      max: 1,
    },
  ),
  low: number(1, "smallest covariance of a candidate"),
  high: number(5, "largest covariance of a candidate"),
  seed: number(
    0,
    "seed of the random choice; the choice also depends on the step, so a resumed run chooses the same tokens",
  ),
});
/**
 * Options of `clipCov`: PPO's clip (`epsilon` 0.2), the share of a step's tokens that lose their gradient (`ratio`,
 * default 0.0002), the covariances between which they are drawn (1 and 5), and the seed (0) (docs/methods.md,
 * `clip_cov.…`).
 */
export type ClipCovOptions = OptionsOf<typeof CLIP_COV>;

/**
 * PPO's clip, times 0 on the share `ratio` of the step's tokens, drawn at random from those that are not clipped and
 * whose covariance is between `low` and `high`.
 */
export function clipCov(given?: ClipCovOptions): PolicyLoss {
  const { ratio, low, high, epsilon, epsilonHigh = epsilon, seed } = CLIP_COV.read(given);
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
    options: KL_COV,
    make: klCov,
    formula: "−ρA, + coefficient·abs(lp − old) on the share `ratio` of highest (lp − mean)(A − mean)",
    source: "The Entropy Mechanism, arXiv 2505.22617",
  },
  clip_cov: {
    options: CLIP_COV,
    make: clipCov,
    formula: "ppo; 0 on a random share `ratio` of tokens with (lp − mean)(A − mean) in (1, 5)",
    source: "The Entropy Mechanism, arXiv 2505.22617",
  },
};
