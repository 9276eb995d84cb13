/**
 * The objective: one loss over one forward pass. Each token has a role, and a table *role → (loss form, weight)* gives
 * its share of
 *
 *     L = Σ wPolicy·ℓ_policy + Σ wWorld·ℓ_world + Σ wKl·k − Σ wEntropy·H + Σ wValue·ℓ_value + …
 *
 * An `Objective` names the functions that compute these terms. `weigh` (rl/train/weights.ts) turns the episodes of one
 * optimiser step into columns of weights (columns.ts), one weight per token and term. Every denominator is already
 * folded into the weights, so the step may be split into micro-batches in any way.
 */
import { check } from "../../engine/errors.ts";
import { checkKeys, checkMethods, showValue } from "../../engine/options.ts";
import { flag, number, options, type OptionsOf } from "../../engine/optionTable.ts";
import type { AdvantageEstimator } from "./estimator.ts";
import { type Aggregation, AGGREGATIONS } from "./aggregation.ts";
import type { WorldObjective } from "./echo.ts";
import { checkTerms, type LossTerm } from "./terms.ts";
import { type KlClamp, type KlController, type KlEstimator, KL_ESTIMATORS } from "./kl.ts";
import type { PolicyLoss } from "./policyLoss.ts";
import { checkRange, type TokenStatistic, TOKEN_STATISTICS } from "./tokenStatistics.ts";
import type { ImportanceCorrection, RolloutFilter, TokenWeighting } from "./weighting.ts";

/** A penalty β·KL(π ‖ reference) on the agent's tokens, as `Objective.kl` has it. It needs a reference model. */
export interface KlOptions {
  /** β, the coefficient of the penalty: a number, or a controller that changes it from step to step. */
  readonly beta: number | KlController;
  readonly estimator: KlEstimator;
  /**
   * `loss`: a term of the loss. `reward`: r̃_t = r_t − β·kl_t before advantages are estimated. Both concern the agent's
   * tokens only. Default `loss`.
   *
   * The estimator in the reward is k1, whose policy gradient is that of the KL (arXiv 2512.21852). As a reward the
   * others lack the slope of the estimate itself: they drive a policy that is sharper than the reference away from it.
   *
   * If the advantage divides by the deviation of a group, the penalty alone judges a group of equal returns, and at
   * full size, as the division removes β (verl does the same). `dropConstantGroups` leaves such groups out.
   */
  readonly in?: "loss" | "reward";
  readonly clamp?: KlClamp;
  /**
   * Whether the penalty is multiplied by the ratio, gradient included (TRL's `use_bias_correction_kl`). Default false.
   */
  readonly importance?: boolean;
}

/** A coefficient of the entropy bonus that changes from step to step. */
export interface EntropyController {
  /** The coefficient for the next step. */
  readonly coefficient: number;
  /** After a step. @param entropy the mean over the step's trained tokens, in nats; NaN if there were none */
  update(entropy: number): void;
}

export const CRITIC = options("critic", {
  coefficient: number(0.1, "weight of the value loss in the total loss", { min: 0 }),
  clip: number(0.2, "how far a value may move from its old value before the value loss is clipped", { above: 0 }),
  trunk: flag(true, "whether the value loss also trains the transformer"),
  pretrain: number(
    0,
    "number of steps at the start in which only the value head learns, from whole returns (VAPO); the policy stays",
    { integer: true, min: 0 },
  ),
  rate: number(1, "learning rate of the value head, as a multiple of the policy's", { above: 0 }),
});
/**
 * Options of the value loss: `coefficient` 0.1, `clip` 0.2, `trunk` true, `pretrain` 0 steps and `rate` 1 by default
 * (docs/methods.md, `critic.…`).
 */
export type CriticOptions = OptionsOf<typeof CRITIC>;

/** Numbers and switches of an objective, which a method has under the same names. */
export const SWITCHES = options("objective", {
  /** The mean of −lp over all tokens of the step's successes (positive-example NLL, arXiv 2504.05118, eq. 10, 11). */
  imitation: number(undefined, "μ, the weight of imitating successful rollouts; by default the preset's (VAPO: 0.1)", {
    min: 0,
  }),
  /** World models still learn from these groups. */
  dropConstantGroups: flag(
    undefined,
    "whether groups without spread are left out of the denominators; by default the preset's (DAPO: true)",
  ),
  /**
   * Truncated rollouts count as if they could not be scored; world models still learn from them. TRL's
   * `mask_truncated_completions` leaves them in the statistics of their group, where their return pushes the others up
   * or down.
   */
  maskTruncated: flag(
    false,
    "whether rollouts that ran out of tokens are left out of the policy term and of all statistics of rewards",
  ),
  trainObservations: flag(
    false,
    "a mistake, there to be seen in a sick run: whether the policy term also trains what the environment answered, " +
      "as if the agent had chosen it",
  ),
  /** Before this step advantages are 0, no success is imitated and no value is learnt: only the world model learns. */
  rewardFrom: number(0, "the first step that looks at rewards", { integer: true, min: 0 }),
});

/** The objective of training, as functions and numbers. */
export interface Objective extends OptionsOf<typeof SWITCHES> {
  /** The advantage estimator: rewards → an advantage for each of the agent's tokens: `grpo()`, `gae()`, …. */
  readonly advantage: AdvantageEstimator;
  /** The loss of one of the agent's tokens: `ppoClip()`, `gspo()`, …. */
  readonly policyLoss: PolicyLoss;
  /** The aggregation of the tokens' losses into one number; TRL's `loss_type`. */
  readonly aggregation: Aggregation;
  /** L_max of `seq-mean-token-sum-norm`. */
  readonly maxLength?: number;
  /** Losses on the environment's tokens. Without any it is plain RL. */
  readonly world?: WorldObjective | readonly WorldObjective[];
  /** Further terms of the loss. One with a head needs it among the `heads` of the learner. */
  readonly terms?: readonly LossTerm[];
  /** A penalty that keeps the policy near a reference model. Without it no reference model is needed. */
  readonly kl?: KlOptions;
  /** The weights of the agent's tokens in the policy term. Default: all count the same. */
  readonly tokenWeights?: TokenWeighting;
  /** Weights for a sampler that is not the learner. */
  readonly importanceCorrection?: ImportanceCorrection;
  /** Options of the value loss; an estimator that reads values needs them. */
  readonly critic?: CriticOptions;
  /**
   * The coefficient of the term −coefficient·H on the agent's tokens: a number, or a controller that adjusts it to the
   * entropy. Default 0.
   */
  readonly entropy?: number | EntropyController;
  /**
   * Leaves groups of little spread out of the policy term and its denominators (RAGEN). World models still learn from
   * them.
   */
  readonly rolloutFilter?: RolloutFilter;
}

/** All keys of an `Objective`. */
const OBJECTIVE_KEYS = [
  "advantage",
  "policyLoss",
  "aggregation",
  "maxLength",
  "world",
  "terms",
  "kl",
  "tokenWeights",
  "importanceCorrection",
  "critic",
  "entropy",
  "rolloutFilter",
  ...(Object.keys(SWITCHES.fields) as (keyof typeof SWITCHES.fields)[]),
] as const;

export const worldsOf = ({ world }: Pick<Objective, "world">): readonly WorldObjective[] =>
  world === undefined ? [] : "name" in world ? [world] : world;

/** The terms of an objective beside those of every objective; a world objective with a `tokenLoss` is one of them. */
export const extraTermsOf = ({ world, terms = [] }: Pick<Objective, "world" | "terms">): readonly LossTerm[] => [
  ...worldsOf({ world }).flatMap((one) => (isTerm(one) ? [worldTerm(one)] : [])),
  ...terms,
];

const isTerm = (world: WorldObjective): world is WorldTerm => world.tokenLoss !== undefined;
type WorldTerm = WorldObjective & Required<Pick<WorldObjective, "tokenLoss">>;

const worldTerm = (world: WorldTerm): LossTerm => ({
  name: world.name,
  ...(world.needs ? { needs: world.needs } : {}),
  weigh: ({ trajectories, step, statistics }) => ({ weight: world.weights(trajectories, step, statistics) }),
  tokenLoss: (tokens) => world.tokenLoss(tokens),
});

/** β as it is now; 0 without a penalty. */
export const betaOf = ({ kl }: Pick<Objective, "kl">): number =>
  kl === undefined ? 0 : typeof kl.beta === "number" ? kl.beta : kl.beta.beta;

/** The entropy coefficient as it is now. */
export const entropyOf = ({ entropy = 0 }: Pick<Objective, "entropy">): number =>
  typeof entropy === "number" ? entropy : entropy.coefficient;

/** The statistics that some part of the objective reads, in the order of `TOKEN_STATISTICS`. */
export function statisticsOf(objective: Objective): TokenStatistic[] {
  const { advantage, policyLoss, tokenWeights, importanceCorrection, kl } = objective;
  const wanted = new Set<TokenStatistic>([
    ...(advantage.needs ?? []),
    ...(policyLoss.needs ?? []),
    ...(policyLoss.prepare ? (["logProbs"] as const) : []),
    ...(tokenWeights?.needs ?? []),
    ...(importanceCorrection?.needs ?? []),
    ...worldsOf(objective).flatMap(({ needs }) => needs ?? []),
    ...(objective.terms ?? []).flatMap(({ needs }) => needs ?? []),
    ...(kl ? (["refLogProbs"] as const) : []),
  ]);
  return TOKEN_STATISTICS.filter((name) => wanted.has(name));
}

/**
 * @param where the name of the group size there
 * @throws if the estimator compares the episodes of a group and there is only one, or if the size is no whole number
 */
export function checkGroupSize(
  { name, comparesGroup, singles }: AdvantageEstimator,
  groupSize: number,
  where = "trainRl: groupSize",
): void {
  check(Number.isInteger(groupSize) && groupSize >= 1, () => `${where} must be an integer ≥ 1, got ${groupSize}`);
  check(
    groupSize > 1 || !comparesGroup || singles === true,
    () => `${where}=1: the advantage ${name} compares the episodes of a group, which needs at least 2`,
  );
}

/** Throws if the parts do not fit together. */
export function checkObjective(objective: Objective): void {
  checkKeys("objective", objective, OBJECTIVE_KEYS);
  checkParts(objective);
  const { advantage, policyLoss, kl, critic, importanceCorrection, imitation = 0, rewardFrom = 0 } = objective;
  if (kl !== undefined) checkKl(kl, advantage);
  const needsValues = advantage.needs?.includes("values") ?? false;
  const estimator = `the advantage "${advantage.name}"`;
  check(
    !needsValues || critic !== undefined,
    () => `objective: ${estimator} needs a critic; add critic: {} (and a value head to the learner)`,
  );
  check(needsValues || critic === undefined, () => `objective: a critic, but ${estimator} reads no values`);
  if (critic) CRITIC.read(critic);
  check(
    !(advantage.offPolicy && importanceCorrection),
    () =>
      `objective: ${estimator} and the correction ${importanceCorrection?.name} both correct for π/μ, ` +
      "which would count twice; use one of them",
  );
  checkRange("objective", "entropy", entropyOf(objective), 0);
  checkRange("objective", "imitation", imitation, 0);
  check(
    Number.isInteger(rewardFrom) && rewardFrom >= 0,
    () => `objective: rewardFrom must be an integer ≥ 0, got ${rewardFrom}`,
  );
  checkAnswers(objective);
  check(
    policyLoss.beta === undefined,
    () => `objective: ${policyLoss.name} learns from pairs, not from rewards; use trainPreference`,
  );
  checkTerms(extraTermsOf(objective).map(({ name }) => name));
}

/** Throws if a part is missing, or is of another kind, such as the name of a part. */
function checkParts({ advantage, aggregation, world, tokenWeights, importanceCorrection, ...rest }: Objective): void {
  const where = "objective";
  checkMethods(where, "advantage", advantage, "an advantage estimator, such as grpo()", ["estimate"]);
  checkPolicyLoss(where, rest.policyLoss);
  check(
    AGGREGATIONS.includes(aggregation),
    () => `${where}: aggregation must be ${AGGREGATIONS.join(", ")}, got ${showValue(aggregation)}`,
  );
  for (const one of world === undefined ? [] : [world].flat())
    checkMethods(where, "world", one, "a world model's loss, such as echo()", ["weights"]);
  for (const one of rest.terms ?? [])
    checkMethods(where, "terms", one, "a term of the loss: { name, weigh, tokenLoss }", ["weigh", "tokenLoss"]);
  if (tokenWeights !== undefined)
    checkMethods(where, "tokenWeights", tokenWeights, "a token weighting, such as actFocus()", ["weights"]);
  if (importanceCorrection !== undefined)
    checkMethods(where, "importanceCorrection", importanceCorrection, "importanceCorrection(…)", ["weights"]);
  if (rest.rolloutFilter !== undefined)
    checkMethods(where, "rolloutFilter", rest.rolloutFilter, "rolloutFilter(…)", ["rowsLeftOut"]);
}

/** @throws if `loss` is none */
export function checkPolicyLoss(where: string, loss: PolicyLoss): void {
  checkMethods(where, "policyLoss", loss, "a policy loss, such as ppoClip()", ["tokenLoss"]);
  check(
    typeof (loss.clip as unknown) === "object",
    () => `${where}: policyLoss.clip must be { low, high }, or null without a clip, got ${showValue(loss.clip)}`,
  );
}

/** Throws if answers are trained as actions, with parts that read what only actions have, such as probabilities. */
function checkAnswers({ trainObservations, policyLoss, tokenWeights, importanceCorrection, kl }: Objective): void {
  if (!trainObservations) return;
  const reader =
    ((policyLoss.prepare ?? policyLoss.needs?.length) ? policyLoss.name : undefined) ??
    tokenWeights?.name ??
    importanceCorrection?.name ??
    (kl && kl.in !== "reward" ? "kl" : undefined);
  check(
    reader === undefined,
    () =>
      `objective: trainObservations trains answers as if they were actions, and ${reader} reads of actions what ` +
      "answers do not have; leave one of them out",
  );
}

function checkKl(kl: KlOptions, advantage: AdvantageEstimator): void {
  checkKeys("kl", kl, ["beta", "estimator", "in", "clamp", "importance"]);
  const { beta } = typeof kl.beta === "object" ? kl.beta : kl;
  const isWeight = typeof beta === "number" && Number.isFinite(beta) && beta >= 0;
  check(isWeight, () => `objective: kl.beta must be ≥ 0, got ${showValue(beta)}`);
  check(
    KL_ESTIMATORS.includes(kl.estimator),
    () =>
      `kl: ${kl.estimator === undefined ? "estimator is missing" : `unknown estimator "${kl.estimator}"`}, expected ` +
      KL_ESTIMATORS.join(", "),
  );
  check(
    kl.in === undefined || kl.in === "loss" || kl.in === "reward",
    () => `kl: in must be "loss" or "reward", got "${String(kl.in)}"`,
  );
  if (kl.in !== "reward") return;
  check(!kl.importance, () => "kl: importance is for a penalty in the loss");
  check(
    kl.estimator === "k1",
    () =>
      `kl: in the reward ${kl.estimator} drives a policy away from a reference that is less sharp; ` +
      'use estimator: "k1" there (arXiv 2512.21852), or in: "loss"',
  );
  check(
    advantage.readsReturn !== false,
    () =>
      `kl: the advantage "${advantage.name}" does not look at the return, ` +
      'so that a penalty in the reward would change nothing; use in: "loss"',
  );
}

/** Options of the training loops that let an update use tokens of an older policy. */
export interface OffPolicySources {
  /** The largest age of a policy in the asynchronous loop, in steps. */
  readonly maxStaleness?: number;
  readonly replay?: unknown;
  readonly offPolicy?: boolean;
  readonly iterations?: number;
}

/**
 * A loss without a ratio is a policy gradient for the policy that wrote the tokens. If that policy was an older one, a
 * correction or V-trace can make up for it, but only once per step. Only a ratio makes up for the changes by the step's
 * earlier passes.
 * @throws if nothing makes up for an older policy, or for earlier passes of the same step, or if answers are trained as
 *   actions, which have no recorded probability
 */
export function checkOffPolicy(
  { advantage, policyLoss, importanceCorrection, trainObservations = false }: Objective,
  { maxStaleness = 0, replay, offPolicy = false, iterations = 1 }: OffPolicySources,
): void {
  check(
    !trainObservations || (maxStaleness === 0 && !replay && !offPolicy && iterations === 1),
    () =>
      "objective: trainObservations trains answers as if they were actions, and answers have no recorded " +
      "probability, which older policies and several passes need; leave one of them out",
  );
  if (policyLoss.ratio !== false) return;
  const uncorrected = `objective: ${policyLoss.name} has no ratio, and nothing else makes up for`;
  const older =
    maxStaleness > 0
      ? `a policy that is up to ${maxStaleness} steps old`
      : replay
        ? "the older policies that wrote what is replayed"
        : "the older policy of offPolicy";
  check(
    (maxStaleness === 0 && !replay && !offPolicy) || advantage.offPolicy || importanceCorrection !== undefined,
    () => `${uncorrected} ${older}; use a correction (tis), the advantage vtrace, or a loss with a ratio`,
  );
  check(
    iterations === 1,
    () =>
      `${uncorrected} the passes before in a step of ${iterations} iterations; ` +
      "use one iteration, or a loss with a ratio",
  );
}
