/**
 * Corrections for a sampler that is not the learner: it may have been an older policy, or the same weights run through
 * other kernels. The learner's policy before the update is compared with what the sampler recorded,
 * r = π_learner/π_sampler. Tokens are weighed by r (truncated importance sampling), dropped where r is out of bounds
 * (IcePop, masked IS), or dropped where a divergence is too large (rejection). The weights are constants of the step. A
 * dropped token still counts in the denominators.
 */
import { check } from "../engine/errors.ts";
import { flag, inCode, number, oneOf, options, type OptionsOf, REQUIRED } from "../engine/optionTable.ts";
import { type PerToken, statistic } from "../rl/objective/tokenStatistics.ts";
import type { ImportanceCorrection } from "../rl/objective/weighting.ts";
import { type Rollout, rolloutsOf, type Trajectory } from "../rl/episode/stream.ts";

/** All three estimators estimate KL(sampler ‖ learner), as in verl. In their formulas x = ln r. */
export const REJECTION = options("importanceCorrection.reject", {
  level: oneOf(
    ["token", "sum", "mean", "max"],
    REQUIRED,
    "what is kept or dropped: each token by its own value, or the whole rollout by the sum, the mean or the " +
      "largest of its tokens' values",
  ),
  estimator: oneOf(
    ["k1", "k2", "k3"],
    REQUIRED,
    "what is compared, with x = ln r: `k1` e^−x, which must be within [min, max]; `k2` ½x² or `k3` e^x − x − 1, up " +
      "to max",
  ),
  max: number(REQUIRED, "largest value that is kept"),
  min: number(0, "smallest value that is kept"),
});
/**
 * Options of `reject` in `importanceCorrection`, which drops tokens or rollouts whose divergence of sampler and learner
 * is out of bounds. `level`, `estimator` and `max` have to be given; `min` is 0 by default (docs/methods.md,
 * `rejection.…`).
 */
export type RejectionOptions = OptionsOf<typeof REJECTION>;

export const IMPORTANCE_CORRECTION = options("importanceCorrection", {
  level: oneOf(
    ["token", "sequence"],
    "token",
    "which ratio is used: each token's own r, or the product of all r of the rollout",
  ),
  mode: oneOf(
    ["truncate", "mask", "none"],
    "truncate",
    "`truncate` (TIS): min(r, max); `mask` (IcePop, MIS): r within [min, max], else 0; `none`: 1, for a rejection " +
      "alone",
  ),
  max: number(2, "largest weight", { above: 0 }),
  min: number(undefined, "smallest ratio that `mask` keeps; by default 0", { min: 0 }),
  normalize: flag(false, "whether the weights are divided by their mean over the step"),
  reject: inCode<RejectionOptions>("drops tokens or rollouts by a divergence", "an object of options", (value) =>
    Boolean(REJECTION.read(value as RejectionOptions)),
  ),
  offPolicyMask: number(
    undefined,
    "drops rollouts with A < 0 whose mean of ln(μ/π) is above this value (off-policy sequence mask, DeepSeek-V3.2, " +
      "arXiv 2512.02556); by default none is dropped",
  ),
});
/**
 * Options of `importanceCorrection`, with r = π_learner/π_sampler: by default each token is weighed by min(r, 2)
 * (docs/methods.md, `importanceCorrection.…`).
 */
export type ImportanceCorrectionOptions = OptionsOf<typeof IMPORTANCE_CORRECTION>;

/** ln r of a rollout's tokens. */
const logRatios = ({ tokens }: Rollout, logProbs: PerToken, trajectories: readonly Trajectory[]): number[] =>
  tokens.map(({ row, t }) => logProbs[row]![t]! - trajectories[row]!.stream.oldLogProbs[t]!);

const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
const mean = (values: readonly number[]): number => sum(values) / values.length;

/** Mask of the tokens of a rollout that are kept. */
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

/**
 * Truncated importance sampling (TIS, Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy
 * training"), or IcePop (Ring-1T, arXiv 2510.18855).
 */
export function importanceCorrection(given?: ImportanceCorrectionOptions): ImportanceCorrection {
  const { level, mode, max, normalize, reject, offPolicyMask, ...lower } = IMPORTANCE_CORRECTION.read(given);
  check(
    mode === "mask" || lower.min === undefined,
    () => `importanceCorrection: min is for mode "mask"; a truncation has only max`,
  );
  const { min = 0 } = lower;
  check(min < max, () => `importanceCorrection: min must be below max, got ${min} and ${max}`);
  const bounded = (r: number): number =>
    mode === "none" ? 1 : mode === "truncate" ? Math.min(r, max) : r >= min && r <= max ? r : 0;
  return {
    name: mode === "truncate" ? `tis_${level}` : mode === "mask" ? `icepop_${level}` : "rejection",
    needs: ["logProbs"],
    weights(trajectories, statistics, advantages) {
      const logProbs = statistic(statistics, "logProbs", "importanceCorrection");
      const rollouts = rolloutsOf(trajectories);
      const perRollout = rollouts.map((rollout) => {
        const ratios = logRatios(rollout, logProbs, trajectories);
        const whole = bounded(Math.exp(sum(ratios)));
        const weights = ratios.map((x) => (level === "token" ? bounded(Math.exp(x)) : whole));
        const keep = reject ? kept(ratios, reject) : ratios.map(() => true);
        const first = rollout.tokens[0];
        const isBad = first !== undefined && advantages[first.row]![first.t]! < 0;
        const isFar = offPolicyMask !== undefined && isBad && -mean(ratios) > offPolicyMask;
        return { weights, factor: weights.map((w, k) => (keep[k] && !isFar ? w : 0)) };
      });
      // The mean is over tokens or over rollouts, whichever have weights of their own.
      const all = perRollout.flatMap(({ weights }) => (level === "token" ? weights : weights.slice(0, 1)));
      const average = normalize ? mean(all) : 1; // NaN, unread, without a token
      const divisor = average === 0 ? 1 : average; // where nothing has a weight, all stay 0
      const columns = trajectories.map(({ stream }) => new Float64Array(stream.ids.length).fill(1));
      rollouts.forEach(({ tokens }, i) => {
        tokens.forEach(({ row, t }, k) => (columns[row]![t] = perRollout[i]!.factor[k]! / divisor));
      });
      return columns;
    },
    metrics: (trajectories, { logProbs }) => (logProbs ? offPolicyMetrics(trajectories, logProbs) : {}),
  };
}

/** Metrics of the distance between learner and sampler, under verl's names; none if no token is trained. */
export function offPolicyMetrics(trajectories: readonly Trajectory[], logProbs: PerToken): Record<string, number> {
  // A step may leave out groups without spread; their tokens were not scored and are NaN.
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
