/**
 * Weights of the agent's tokens in the policy term. ActFocus (arXiv 2605.14558) finds that the tokens of the action
 * carry the decision and that the thoughts before it mostly do not. It gives thoughts a small weight, and weighs action
 * tokens by how uncertain a frozen reference model is:
 *
 *     w = α on thoughts,   w = 1 + β·sigmoid((E − μ)/σ) on actions,   E = −log Σ_v e^logit
 *     L = −(1/Σw) Σ w·min(ρA, clip(ρ)A)
 *
 * The role of a token says whether it is thought or action; the tags around an action count as action, and all other
 * sampled text counts as thought. No gradient flows through w, and KL and entropy terms are not weighted.
 */
import { evaluator, expr, type Expr, input } from "../kernels/expr.ts";
import { number, oneOf, options, type OptionsOf } from "../engine/optionTable.ts";
import {
  type PerToken,
  type TokenStatistic,
  statistic,
  type TokenStatistics,
} from "../rl/objective/tokenStatistics.ts";
import { rolloutsOf, type TokenPlace, type Trajectory } from "../rl/episode/stream.ts";
import type { TokenWeighting } from "../rl/objective/weighting.ts";

const STATISTICS_OF = {
  /** −log Σ_v e^logit of the reference */
  energy: ["refEnergy"],
  /** entropy of the reference's distribution */
  entropy: ["refEntropy"],
  /** −log-probability of the token under the reference */
  nll: ["refNll"],
  /** the k3 estimate of the KL between policy and reference */
  kl: ["logProbs", "refLogProbs"],
} as const satisfies Record<string, readonly TokenStatistic[]>;
/**
 * Measures of the frozen reference's uncertainty at a token, for `actFocus`: `energy` −log Σ_v e^logit, the `entropy`
 * of its distribution, `nll` −log-probability of the token, or `kl`, the k3 estimate of the KL between policy and
 * reference.
 */
export const UNCERTAINTIES = [
  "energy",
  "entropy",
  "nll",
  "kl",
] as const satisfies readonly (keyof typeof STATISTICS_OF)[];
export type Uncertainty = (typeof UNCERTAINTIES)[number];

export const ACT_FOCUS = options("actFocus", {
  alpha: number(0.1, "weight of thought tokens; with alpha 1 and beta 0 every token counts the same", { min: 0 }),
  beta: number(0.5, "β: an action token has a weight between 1 and 1 + β, growing with the reference's uncertainty", {
    min: 0,
  }),
  uncertainty: oneOf(UNCERTAINTIES, "energy", "the measure of the reference's uncertainty"),
});
/**
 * Options of `actFocus`: by default thoughts weigh 0.1 (`alpha`), actions 1 to 1.5 (1 to 1 + `beta`), by the `energy`
 * of the reference (docs/methods.md, `actfocus.…`).
 */
export type ActFocusOptions = OptionsOf<typeof ACT_FOCUS>;

/** w of an action: 1 + β·sigmoid((E − μ)/σ). */
export const actionWeight = (E: Expr, mean: Expr, deviation: Expr, beta: Expr): Expr =>
  expr(1).add(beta.div(E.sub(mean).neg().div(deviation).exp().add(1)));
const evaluate = evaluator([actionWeight(input(0), input(1), input(2), input(3))]);

/** Mean, and deviation √(σ² + 1e-8). */
export function spread(values: readonly number[]): [mean: number, deviation: number] {
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  const variance = values.reduce((a, b) => a + (b - mean) ** 2, 0) / values.length;
  return [mean, Math.sqrt(variance + 1e-8)];
}

/** `actionWeight` of each value, with mean and deviation over all of them. */
export function uncertaintyWeights(values: readonly number[], beta: number): number[] {
  const [mean, deviation] = spread(values);
  const out: number[] = [];
  return values.map((x) => {
    evaluate([x, mean, deviation, beta], out);
    return out[0]!;
  });
}

/** The trained action tokens of a step, each with the reference's uncertainty. */
export function uncertainActions(
  kind: Uncertainty,
  trajectories: readonly Trajectory[],
  statistics: TokenStatistics,
): (TokenPlace & { readonly E: number })[] {
  const unsure = readUncertainty(kind, statistics);
  return actionsOf(trajectories).map((place) => ({ ...place, E: unsure(place) }));
}

const actionsOf = (trajectories: readonly Trajectory[]): TokenPlace[] =>
  rolloutsOf(trajectories)
    .flatMap((r) => r.tokens)
    .filter(({ row, t }) => trajectories[row]!.stream.roles[t] === "action");

/** ActFocus: α on thoughts, `uncertaintyWeights` on actions. */
export function actFocus(given?: ActFocusOptions): TokenWeighting {
  const { alpha, beta, uncertainty: kind } = ACT_FOCUS.read(given);
  return {
    name: "actfocus",
    needs: beta > 0 ? STATISTICS_OF[kind] : [],
    normalized: true,
    weights(trajectories, statistics) {
      const weights = trajectories.map(({ stream }) => new Float64Array(stream.ids.length).fill(alpha));
      if (beta === 0) actionsOf(trajectories).forEach(({ row, t }) => (weights[row]![t] = 1));
      else {
        const actions = uncertainActions(kind, trajectories, statistics);
        const found = uncertaintyWeights(
          actions.map(({ E }) => E),
          beta,
        );
        actions.forEach(({ row, t }, k) => (weights[row]![t] = found[k]!));
      }
      return weights;
    },
  };
}

function readUncertainty(kind: Uncertainty, statistics: TokenStatistics): (place: TokenPlace) => number {
  const columns = STATISTICS_OF[kind].map((name): PerToken => statistic(statistics, name, "actFocus"));
  return ({ row, t }) => {
    const [x, ref] = columns.map((column) => column[row]![t]!);
    return ref === undefined ? x! : Math.expm1(ref - x!) - (ref - x!);
  };
}

export const TOP_ENTROPY = options("topEntropy", {
  share: number(0.2, "share of the step's tokens that are trained", { min: 0, max: 1 }),
});
export type TopEntropyOptions = OptionsOf<typeof TOP_ENTROPY>;

/**
 * Weights that train only the tokens of highest entropy: 1 at or above the (1 − share) quantile of the step, 0 below it
 * ("Beyond the 80/20 rule", Wang et al. 2025, arXiv 2506.01939; TRL's `top_entropy_quantile`). The denominators still
 * count all tokens.
 */
export function topEntropy(given?: TopEntropyOptions): TokenWeighting {
  const { share } = TOP_ENTROPY.read(given);
  return {
    name: "top_entropy",
    needs: ["entropy"],
    normalized: false,
    weights(trajectories, statistics) {
      const entropy = statistic(statistics, "entropy", "topEntropy");
      const tokens = rolloutsOf(trajectories).flatMap((r) => r.tokens);
      const trained = tokens.map(({ row, t }) => entropy[row]![t]!);
      const threshold = quantile(trained, 1 - share);
      return entropy.map((row) => row.map((H) => Number(H >= threshold)));
    },
  };
}

export const OUTCOME_CRITIC = options("outcomeCritic", {});

/**
 * Weights from an outcome critic: its probability of the true outcome at each token, `Trajectory.tokenShares`,
 * multiplies the advantage (CodeRL, Le et al. 2022, arXiv 2207.01780, eq. 9): −lp·share·(R − R_base). Tokens that no
 * critic has read weigh 1. The denominators still count all tokens.
 */
export function outcomeCritic(given?: object): TokenWeighting {
  OUTCOME_CRITIC.read(given);
  return {
    name: "outcome_critic",
    needs: [],
    normalized: false,
    weights: (trajectories) =>
      trajectories.map(({ stream, tokenShares }) => Float64Array.from(tokenShares ?? stream.ids.map(() => 1))),
  };
}

/** The q-quantile, interpolated linearly between the two nearest values; NaN of an empty list. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const at = q * (sorted.length - 1);
  const below = Math.floor(at);
  const upper = sorted[Math.min(below + 1, sorted.length - 1)]!;
  return sorted[below]! + (at - below) * (upper - sorted[below]!);
}
