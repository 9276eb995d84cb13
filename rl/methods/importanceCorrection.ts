/**
 * Corrections for a sampler that is not the learner: an older policy, or the same weights through other kernels. The learner's
 * policy before the update is compared with what the sampler recorded, r = π_learner/π_sampler, and tokens are weighed by r
 * (truncated importance sampling), dropped where r is out of bounds (IcePop, masked IS), or dropped by a divergence (rejection).
 * Weights are constants of the step; where a token is dropped the denominators still count it.
 */
import { check } from "../../engine/errors.ts";
import { checkKeys } from "../../engine/options.ts";
import { type PerToken, type Signal, signal, type Signals } from "./tokenStatistics.ts";
import { type Rollout, rolloutsOf, type Trajectory } from "../episode/stream.ts";

export interface RejectionOptions {
  /** One value per token, or one per rollout: the sum, the mean or the largest of its tokens'. */
  readonly level: "token" | "sum" | "mean" | "max";
  /**
   * What is compared, with x = ln r: `k1` the inverse ratio e^−x (for `sum` and `mean` that of x summed or averaged), kept within
   * [min, max]; `k2` ½x² and `k3` e^x − x − 1, kept up to max. All three estimate KL(sampler ‖ learner), as in verl.
   */
  readonly estimator: "k1" | "k2" | "k3";
  readonly max: number;
  readonly min?: number;
}

export interface CorrectionOptions {
  /** `token`: each token's own r; `sequence`: their product over the rollout. Default `token`. */
  readonly level?: "token" | "sequence";
  /** `truncate` (TIS): min(r, max). `mask` (IcePop, MIS): r within [min, max], else 0. `none`: 1, for a rejection alone. Default `truncate`. */
  readonly mode?: "truncate" | "mask" | "none";
  /** Default 2 */
  readonly max?: number;
  /** Default 0; `mask` only */
  readonly min?: number;
  /** Divide by the mean weight of the step; default false. */
  readonly normalize?: boolean;
  readonly reject?: RejectionOptions;
  /**
   * Drop rollouts with negative advantage whose tokens the learner finds this much less likely than the sampler did, as the mean of
   * ln(μ/π) (off-policy sequence mask, DeepSeek-V3.2, arXiv 2512.02556). Default none.
   */
  readonly offPolicyMask?: number;
}

export interface Correction {
  readonly name: string;
  readonly needs: readonly Signal[];
  /** A factor on each trained token's weight. */
  weights(trajectories: readonly Trajectory[], signals: Signals, advantages: PerToken): Float64Array[];
}

/** ln r of a rollout's tokens. */
const logRatios = ({ tokens }: Rollout, logProbs: PerToken, trajectories: readonly Trajectory[]): number[] =>
  tokens.map(({ row, t }) => logProbs[row]![t]! - trajectories[row]!.stream.oldLogProbs[t]!);

const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
const mean = (values: readonly number[]): number => sum(values) / values.length;

/** Which tokens of a rollout are kept. */
function kept(ratios: readonly number[], { level, estimator, min = 0, max }: RejectionOptions): boolean[] {
  const per = ratios.map((x) => (estimator === "k1" ? x : estimator === "k2" ? 0.5 * x * x : Math.expm1(x) - x));
  const within = (x: number): boolean => {
    const value = estimator === "k1" ? Math.exp(-x) : x;
    return value >= min && value <= max;
  };
  if (level === "token") return per.map(within);
  const whole =
    level === "sum" ? sum(per) : level === "mean" ? mean(per) : per.reduce((a, b) => Math.max(a, b), -Infinity);
  return per.map(() => within(whole));
}

/** TIS (Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy training"), IcePop (Ring-1T, arXiv 2510.18855). */
export function correction(options: CorrectionOptions = {}): Correction {
  checkKeys("correction", options, ["level", "mode", "max", "min", "normalize", "reject", "offPolicyMask"]);
  const { level = "token", mode = "truncate", max = 2, min = 0, normalize = false, reject, offPolicyMask } = options;
  check(level === "token" || level === "sequence", () => `correction: level must be "token" or "sequence", got ${String(level)}`); // prettier-ignore
  check(["truncate", "mask", "none"].includes(mode), () => `correction: unknown mode "${mode}", expected truncate, mask, none`); // prettier-ignore
  check(max > 0 && min >= 0 && min < max, () => `correction: expected 0 ≤ min < max, got min ${min} and max ${max}`);
  check(mode === "mask" || options.min === undefined, () => "correction: min is for mode \"mask\"; a truncation has only max"); // prettier-ignore
  if (reject) checkKeys("correction.reject", reject, ["level", "estimator", "max", "min"]);
  const bounded = (r: number): number =>
    mode === "none" ? 1 : mode === "truncate" ? Math.min(r, max) : r >= min && r <= max ? r : 0;
  return {
    name: mode === "truncate" ? `tis_${level}` : mode === "mask" ? `icepop_${level}` : "rejection",
    needs: ["logProbs"],
    weights(trajectories, signals, advantages) {
      const logProbs = signal(signals, "logProbs", "correction");
      const rollouts = rolloutsOf(trajectories);
      const perRollout = rollouts.map((rollout) => {
        const ratios = logRatios(rollout, logProbs, trajectories);
        const weights = level === "token" ? ratios.map((x) => bounded(Math.exp(x))) : ratios.map(() => bounded(Math.exp(sum(ratios)))); // prettier-ignore
        const keep = reject ? kept(ratios, reject) : ratios.map(() => true);
        const first = rollout.tokens[0];
        const isBad = first !== undefined && advantages[first.row]![first.t]! < 0;
        const isFar = offPolicyMask !== undefined && isBad && -mean(ratios) > offPolicyMask;
        return { weights, factor: weights.map((w, k) => (keep[k] && !isFar ? w : 0)) };
      });
      // The mean is over tokens or over sequences, as the weights are.
      const all = perRollout.flatMap(({ weights }) => (level === "token" ? weights : weights.slice(0, 1)));
      const scale = normalize && all.length > 0 ? 1 / mean(all) : 1;
      const columns = trajectories.map(({ stream }) => new Float64Array(stream.ids.length).fill(1));
      rollouts.forEach(({ tokens }, i) => {
        tokens.forEach(({ row, t }, k) => (columns[row]![t] = perRollout[i]!.factor[k]! * scale));
      });
      return columns;
    },
  };
}

/** How far the learner is from the sampler, under verl's names. Empty without a trained token. */
export function offPolicyMetrics(trajectories: readonly Trajectory[], logProbs: PerToken): Record<string, number> {
  // Groups without spread may be left out of a step, and are then not scored.
  const isScored = ({ tokens }: Rollout): boolean => tokens.every(({ row, t }) => !Number.isNaN(logProbs[row]![t]!));
  const rollouts = rolloutsOf(trajectories).filter((r) => r.tokens.length > 0 && isScored(r));
  if (rollouts.length === 0) return {};
  const perRollout = rollouts.map((rollout) => {
    const ratios = logRatios(rollout, logProbs, trajectories);
    const learner = -mean(rollout.tokens.map(({ row, t }) => logProbs[row]![t]!));
    return { ratios, learner, sampler: learner + mean(ratios) };
  });
  const ratios = perRollout.flatMap((r) => r.ratios);
  const differences = perRollout.map((r) => r.learner - r.sampler);
  const metrics = {
    kl: -mean(ratios),
    k3_kl: mean(ratios.map((x) => Math.expm1(x) - x)),
    training_ppl: mean(perRollout.map((r) => Math.exp(r.learner))),
    training_log_ppl: mean(perRollout.map((r) => r.learner)),
    rollout_ppl: mean(perRollout.map((r) => Math.exp(r.sampler))),
    rollout_log_ppl: mean(perRollout.map((r) => r.sampler)),
    log_ppl_diff: mean(differences),
    log_ppl_abs_diff: mean(differences.map(Math.abs)),
    log_ppl_diff_max: differences.reduce((a, b) => Math.max(a, b)),
    log_ppl_diff_min: differences.reduce((a, b) => Math.min(a, b)),
    ppl_ratio: mean(differences.map(Math.exp)),
    chi2_token: mean(ratios.map((x) => Math.exp(2 * x))) - 1,
    chi2_seq: mean(perRollout.map((r) => Math.exp(2 * sum(r.ratios)))) - 1,
  };
  return Object.fromEntries(Object.entries(metrics).map(([name, value]) => [`rollout_corr/${name}`, value]));
}
