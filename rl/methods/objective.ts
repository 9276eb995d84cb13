/**
 * The objective: one loss over one forward pass, a table *role → (loss form, weight)*,
 *
 *     L = Σ wPolicy·ℓ_policy + Σ wWorld·ℓ_world + Σ wKl·k − Σ wEntropy·H + Σ wValue·ℓ_value
 *
 * An `Objective` says which functions fill in the columns (columns.ts); `weigh` (rl/train/weights.ts) fills them for the episodes of one
 * optimiser step, with every denominator already folded into the weights, so the step may be split into micro-batches in any way.
 */
import { check } from "../../engine/errors.ts";
import { checkKeys } from "../../engine/options.ts";
import { flag, number, options, type OptionsOf } from "../../engine/optionTable.ts";
import type { AdvantageEstimator } from "./advantages/estimator.ts";
import type { Aggregation } from "./aggregation.ts";
import type { Correction } from "./importanceCorrection.ts";
import { checkRolloutFilter, type RolloutFilter } from "./filter.ts";
import type { WorldObjective } from "./world/echo.ts";
import type { TokenFocus } from "./tokenWeights.ts";
import { AdaptiveEntropy } from "./losses/entropy.ts";
import { AdaptiveKl, type KlClamp, type KlEstimator, KL_ESTIMATORS } from "./losses/kl.ts";
import type { PolicyLoss } from "./losses/policyLoss.ts";
import { checkRange, type Signal, SIGNALS } from "./tokenStatistics.ts";

export interface KlOptions {
  /** β, the coefficient of the penalty; a number, or a controller that follows the KL. */
  readonly beta: number | AdaptiveKl;
  readonly estimator: KlEstimator;
  /** A term of the loss, or r̃_t = r_t − β·kl_t before advantages are estimated. On the agent's tokens in both. Default `loss`. */
  readonly in?: "loss" | "reward";
  readonly clamp?: KlClamp;
  /** Multiply the penalty by the ratio, gradient included (TRL's `use_bias_correction_kl`). Default false. */
  readonly importance?: boolean;
}

export const CRITIC = options("critic", {
  coefficient: number(0.1, "of the value loss in the sum", { min: 0 }),
  clip: number(0.2, "how far a value may move from what it was before it is held back", { above: 0 }),
  trunk: flag(true, "whether the value loss also trains the transformer"),
});
export type CriticOptions = OptionsOf<typeof CRITIC>;

export interface Objective {
  readonly advantage: AdvantageEstimator;
  readonly policyLoss: PolicyLoss;
  readonly aggregation: Aggregation;
  /** L_max of `seq-mean-token-sum-norm`. */
  readonly maxLength?: number;
  /** Losses on what the environment wrote; none: plain RL. */
  readonly world?: WorldObjective | readonly WorldObjective[];
  /** A penalty that keeps the policy near a reference; none: no reference model is needed. */
  readonly kl?: KlOptions;
  /** How much each of the agent's tokens counts in the policy term; none: all the same. */
  readonly focus?: TokenFocus;
  /** Weights for a sampler that is not the learner. */
  readonly correction?: Correction;
  /** The value loss, where the estimator needs values. */
  readonly critic?: CriticOptions;
  /** The bonus −coefficient·H on the agent's tokens: a number, or a controller that follows the entropy. Default 0. */
  readonly entropy?: number | AdaptiveEntropy;
  /**
   * μ, the weight of −lp on the tokens of successful rollouts, a mean over all of these tokens in the step: what worked is also
   * imitated (positive-example NLL, VAPO, arXiv 2504.05118, eq. 10, 11). Default 0.
   */
  readonly imitation?: number;
  /** Leave groups without spread out of the policy term's denominators (DAPO); the world model still learns from them. */
  readonly dropConstantGroups?: boolean;
  /** Leave groups of little spread out of the policy term and its denominators (RAGEN); the world model still learns from them. */
  readonly rolloutFilter?: RolloutFilter;
  /**
   * Leave rollouts that ran out of tokens out of the policy term and its denominators (TRL's `mask_truncated_completions`): their
   * reward of 0 says nothing of what was written. They count in the statistics of their group, and the world model learns from them.
   */
  readonly maskTruncated?: boolean;
  /**
   * The first step that looks at rewards; before it every advantage is 0, no success is imitated and no value is learnt: what is left
   * is to predict what the environment answers. Default 0.
   */
  readonly rewardFrom?: number;
}

export const OBJECTIVE_KEYS: readonly string[] = ["advantage", "policyLoss", "aggregation", "maxLength", "world", "kl", "focus", "correction", "critic", "entropy", "imitation", "dropConstantGroups", "rolloutFilter", "maskTruncated", "rewardFrom"]; // prettier-ignore

export const worldsOf = ({ world }: Pick<Objective, "world">): readonly WorldObjective[] =>
  world === undefined ? [] : "name" in world ? [world] : world;

/** ρ of the world objectives with a clipped error; they have to agree. */
export function clipOf(objective: Pick<Objective, "world">): number | undefined {
  const clips = worldsOf(objective).flatMap(({ clip }) => (clip === undefined ? [] : [clip]));
  check(new Set(clips).size < 2, () => `objective: world losses with different clips: ${clips.join(", ")}`);
  return clips[0];
}

export const betaOf = ({ kl }: Pick<Objective, "kl">): number =>
  kl === undefined ? 0 : typeof kl.beta === "number" ? kl.beta : kl.beta.beta;

export const entropyOf = ({ entropy = 0 }: Pick<Objective, "entropy">): number =>
  typeof entropy === "number" ? entropy : entropy.coefficient;

/** The signals that some part of the objective reads, in the order of SIGNALS. */
export function signalsOf(objective: Objective): Signal[] {
  const { advantage, policyLoss, focus, correction, kl } = objective;
  const wanted = new Set<Signal>([
    ...(advantage.needs ?? []),
    ...(policyLoss.needs ?? []),
    ...(policyLoss.prepare ? (["logProbs"] as const) : []),
    ...(focus?.needs ?? []),
    ...(correction?.needs ?? []),
    ...worldsOf(objective).flatMap(({ needs }) => needs ?? []),
    ...(kl ? (["refLogProbs"] as const) : []),
  ]);
  return SIGNALS.filter((name) => wanted.has(name));
}

/** Throws one clear line if the parts do not fit together. */
export function checkObjective(objective: Objective): void {
  checkKeys("objective", objective, OBJECTIVE_KEYS);
  const { advantage, policyLoss, kl, critic, correction, imitation = 0, rolloutFilter, rewardFrom = 0 } = objective;
  const beta = betaOf(objective);
  check(Number.isFinite(beta) && beta >= 0, () => `objective: kl.beta must be ≥ 0, got ${beta}`);
  if (kl) {
    checkKeys("kl", kl, ["beta", "estimator", "in", "clamp", "importance"]);
    check(KL_ESTIMATORS.includes(kl.estimator), () => `kl: unknown estimator "${kl.estimator}", expected ${KL_ESTIMATORS.join(", ")}`); // prettier-ignore
    check(kl.in === undefined || kl.in === "loss" || kl.in === "reward", () => `kl: in must be "loss" or "reward", got "${String(kl.in)}"`); // prettier-ignore
    check(kl.in !== "reward" || (!kl.importance && !kl.clamp), () => "kl: importance and clamp are for a penalty in the loss"); // prettier-ignore
    check(kl.in !== "reward" || advantage.readsReturn !== false, () => `kl: the advantage "${advantage.name}" does not look at the return, so that a penalty in the reward would change nothing; use in: "loss"`); // prettier-ignore
  }
  const needsValues = advantage.needs?.includes("values") ?? false;
  check(!needsValues || critic !== undefined, () => `objective: the advantage "${advantage.name}" needs a critic; add critic: {} (and a value head to the learner)`); // prettier-ignore
  check(needsValues || critic === undefined, () => `objective: a critic, but the advantage "${advantage.name}" reads no values`); // prettier-ignore
  if (critic) CRITIC.read(critic);
  check(!(advantage.offPolicy && correction), () => `objective: the advantage "${advantage.name}" and the correction ${correction?.name} both correct for π/μ, which would count twice; use one of them`); // prettier-ignore
  checkRange("objective", "entropy", entropyOf(objective), 0);
  checkRange("objective", "imitation", imitation, 0);
  check(Number.isInteger(rewardFrom) && rewardFrom >= 0, () => `objective: rewardFrom must be an integer ≥ 0, got ${rewardFrom}`); // prettier-ignore
  if (rolloutFilter) checkRolloutFilter(rolloutFilter);
  check(!policyLoss.name.startsWith("dpo"), () => `objective: ${policyLoss.name} learns from pairs, not from rewards; use trainPreference`); // prettier-ignore
  clipOf(objective);
}

/** Where the tokens of an update may not be the policy's own, as it is then. Options of the training loops. */
export interface OffPolicySources {
  /** Of the asynchronous loop. */
  readonly maxStaleness?: number;
  readonly replay?: unknown;
  readonly offPolicy?: boolean;
  readonly iterations?: number;
}

/**
 * A loss without a ratio is the policy gradient of the policy that wrote the tokens. A correction or V-trace makes up for an older one,
 * once in a step; what a step's own passes have changed since then only a ratio knows.
 * @throws if nothing makes up for an older policy, or for the passes before
 */
export function checkOffPolicy(
  { advantage, policyLoss, correction }: Objective,
  { maxStaleness = 0, replay, offPolicy = false, iterations = 1 }: OffPolicySources,
): void {
  if (policyLoss.ratio !== false) return;
  const older =
    maxStaleness > 0
      ? `a policy that is up to ${maxStaleness} steps old`
      : replay
        ? "the older policies that wrote what is replayed"
        : "the older policy of offPolicy";
  check(
    (maxStaleness === 0 && !replay && !offPolicy) || advantage.offPolicy || correction !== undefined,
    () => `objective: ${policyLoss.name} has no ratio, and nothing else makes up for ${older}; use a correction (tis), the advantage vtrace, or a loss with a ratio`, // prettier-ignore
  );
  check(
    iterations === 1,
    () => `objective: ${policyLoss.name} has no ratio, and nothing else makes up for the passes before in a step of ${iterations} iterations; use one iteration, or a loss with a ratio`, // prettier-ignore
  );
}
