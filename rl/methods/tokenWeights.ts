/**
 * How much each of the agent's tokens counts in the policy term. ActFocus (arXiv 2605.14558) finds that the tokens of the action
 * carry the decision and the thoughts before it mostly do not, and weighs them by how unsure a frozen reference is:
 *
 *     w = α on thoughts,   w = 1 + β·sigmoid((E − μ)/σ) on actions,   E = −log Σ_v e^logit,   L = −(1/Σw) Σ w·min(ρA, clip(ρ)A)
 *
 * A role says what a token is; the tags around a span have the role of the span, and sampled text in neither counts as thought.
 * No gradient flows through w, and KL and entropy terms are not weighted.
 */
import { number, oneOf, options, type OptionsOf } from "../../engine/optionTable.ts";
import { type PerToken, type Signal, signal, type Signals } from "./tokenStatistics.ts";
import { rolloutsOf, type TokenPlace, type Trajectory } from "../episode/stream.ts";

export interface TokenFocus {
  readonly name: string;
  readonly needs: readonly Signal[];
  /** True: the denominators count tokens by their weight (Σw); false: weights change the sums only. */
  readonly normalized: boolean;
  /** Weights ≥ 0 of the trained tokens, per row and token; elsewhere anything. */
  weights(trajectories: readonly Trajectory[], signals: Signals): Float64Array[];
}

const SIGNAL_OF = {
  /** −log Σ_v e^logit of the reference */
  energy: ["refEnergy"],
  /** entropy of the reference's distribution */
  entropy: ["refEntropy"],
  /** −log-probability of the token under the reference */
  nll: ["refNll"],
  /** k3 of policy and reference at the token */
  kl: ["logProbs", "refLogProbs"],
} as const satisfies Record<string, readonly Signal[]>;
export const FOCUS_SIGNALS = ["energy", "entropy", "nll", "kl"] as const satisfies readonly (keyof typeof SIGNAL_OF)[];
export type FocusSignal = (typeof FOCUS_SIGNALS)[number];

export const ACT_FOCUS = options("actFocus", {
  alpha: number(0.1, "weight of thought tokens; 1 with beta 0 is no weighting at all", { min: 0 }),
  beta: number(0.5, "how much more the least sure action token can count", { min: 0 }),
  signal: oneOf(FOCUS_SIGNALS, "energy", "what the reference's uncertainty is measured by"),
});
export type ActFocusOptions = OptionsOf<typeof ACT_FOCUS>;

/** 1 + β·sigmoid((E − μ)/√(σ² + 1e-8)), mean and variance over all given values. */
export function focusWeights(values: readonly number[], beta: number): number[] {
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  const variance = values.reduce((a, b) => a + (b - mean) ** 2, 0) / values.length;
  return values.map((x) => 1 + beta / (1 + Math.exp(-(x - mean) / Math.sqrt(variance + 1e-8))));
}

export function actFocus(given?: ActFocusOptions): TokenFocus {
  const { alpha, beta, signal: kind } = ACT_FOCUS.read(given);
  return {
    name: "actfocus",
    needs: beta > 0 ? SIGNAL_OF[kind] : [],
    normalized: true,
    weights(trajectories, signals) {
      const trained = rolloutsOf(trajectories).flatMap((r) => r.tokens);
      const actions = trained.filter(({ row, t }) => trajectories[row]!.stream.roles[t] === "action");
      const weights = trajectories.map(({ stream }) => new Float64Array(stream.ids.length).fill(alpha));
      const unsure = beta > 0 ? readSignal(kind, signals) : (): number => 0;
      focusWeights(actions.map(unsure), beta).forEach((w, k) => {
        const { row, t } = actions[k]!;
        weights[row]![t] = w;
      });
      return weights;
    },
  };
}

function readSignal(kind: FocusSignal, signals: Signals): (place: TokenPlace) => number {
  const columns = SIGNAL_OF[kind].map((name): PerToken => signal(signals, name, "actFocus"));
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
 * Only tokens of the highest entropy are trained: 1 from the (1 − share) quantile of the step upwards, 0 below ("Beyond the 80/20
 * rule", Wang et al. 2025, arXiv 2506.01939; TRL's `top_entropy_quantile`). The denominators still count all tokens.
 */
export function topEntropy(given?: TopEntropyOptions): TokenFocus {
  const { share } = TOP_ENTROPY.read(given);
  return {
    name: "top_entropy",
    needs: ["entropy"],
    normalized: false,
    weights(trajectories, signals) {
      const entropy = signal(signals, "entropy", "topEntropy");
      const tokens = rolloutsOf(trajectories).flatMap((r) => r.tokens);
      const threshold = quantile(tokens.map(({ row, t }) => entropy[row]![t]!), 1 - share); // prettier-ignore
      return entropy.map((row) => row.map((H) => Number(H >= threshold)));
    },
  };
}

/** Linear between the two nearest values. */
export function quantile(values: readonly number[], q: number): number {
  if (values.length === 0) return NaN;
  const sorted = values.toSorted((a, b) => a - b);
  const at = q * (sorted.length - 1);
  const below = Math.floor(at);
  const upper = sorted[Math.min(below + 1, sorted.length - 1)]!;
  return sorted[below]! + (at - below) * (upper - sorted[below]!);
}
