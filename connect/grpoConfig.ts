/**
 * TRL's `GRPOConfig`, translated into a method and into options of the loop and the sampler. An unknown field, or a
 * value that has no counterpart here, is an error: dropping a setting silently would be a different experiment.
 */
import { check, fail } from "../engine/errors.ts";
import { checkKeys, showValue } from "../engine/options.ts";
import type { ImportanceCorrectionOptions } from "../methods/importanceCorrection.ts";
import { objectiveOf } from "../methods/presets.ts";
import type { MethodChoice } from "../methods/choice.ts";
import type { Objective } from "../rl/objective/objective.ts";

/** The fields of TRL's configuration that are understood. TRL's documentation explains them. */
export interface GrpoConfigLike {
  readonly loss_type?: string;
  readonly importance_sampling_level?: string;
  readonly scale_rewards?: string | boolean;
  readonly beta?: number;
  readonly epsilon?: number;
  readonly epsilon_high?: number | null;
  readonly delta?: number | null;
  readonly sapo_temperature_pos?: number;
  readonly sapo_temperature_neg?: number;
  readonly vespo_k_pos?: number;
  readonly vespo_lambda_pos?: number;
  readonly vespo_k_neg?: number;
  readonly vespo_lambda_neg?: number;
  readonly multi_objective_aggregation?: string;
  readonly mask_truncated_completions?: boolean;
  readonly top_entropy_quantile?: number;
  readonly entropy_coef?: number;
  readonly use_adaptive_entropy?: boolean;
  readonly entropy_coef_min?: number;
  readonly entropy_coef_max?: number;
  readonly entropy_coef_delta?: number;
  readonly entropy_target?: number;
  readonly use_bias_correction_kl?: boolean;
  readonly off_policy_mask_threshold?: number | null;
  readonly vllm_importance_sampling_correction?: boolean;
  readonly vllm_importance_sampling_mode?: string;
  readonly vllm_importance_sampling_clip_max?: number;
  readonly vllm_importance_sampling_clip_min?: number | null;
  /** The old name of `vllm_importance_sampling_clip_max`, which TRL accepts until 2.0. */
  readonly vllm_importance_sampling_cap?: number | null;
  readonly num_iterations?: number;
  readonly num_generations?: number;
  /** For `dr_grpo` only. */
  readonly max_completion_length?: number;
  readonly learning_rate?: number;
  readonly temperature?: number;
  readonly top_p?: number;
  readonly top_k?: number;
  readonly min_p?: number | null;
}
type Kind = "number" | "string" | "boolean";
/** The types that each field may have; `null` is the same as leaving a field out. */
const FIELDS: Readonly<Record<keyof GrpoConfigLike, readonly Kind[]>> = {
  loss_type: ["string"],
  importance_sampling_level: ["string"],
  scale_rewards: ["string", "boolean"],
  beta: ["number"],
  epsilon: ["number"],
  epsilon_high: ["number"],
  delta: ["number"],
  sapo_temperature_pos: ["number"],
  sapo_temperature_neg: ["number"],
  vespo_k_pos: ["number"],
  vespo_lambda_pos: ["number"],
  vespo_k_neg: ["number"],
  vespo_lambda_neg: ["number"],
  multi_objective_aggregation: ["string"],
  mask_truncated_completions: ["boolean"],
  top_entropy_quantile: ["number"],
  entropy_coef: ["number"],
  use_adaptive_entropy: ["boolean"],
  entropy_coef_min: ["number"],
  entropy_coef_max: ["number"],
  entropy_coef_delta: ["number"],
  entropy_target: ["number"],
  use_bias_correction_kl: ["boolean"],
  off_policy_mask_threshold: ["number"],
  vllm_importance_sampling_correction: ["boolean"],
  vllm_importance_sampling_mode: ["string"],
  vllm_importance_sampling_clip_max: ["number"],
  vllm_importance_sampling_clip_min: ["number"],
  vllm_importance_sampling_cap: ["number"],
  num_iterations: ["number"],
  num_generations: ["number"],
  max_completion_length: ["number"],
  learning_rate: ["number"],
  temperature: ["number"],
  top_p: ["number"],
  top_k: ["number"],
  min_p: ["number"],
};

/** Fields of TRL's configuration that have no counterpart here, and what to do instead. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  reward_weights:
    "goes by the order of reward functions, and components have names here: " +
    "weigh them in composite(), or with --set reward.NAME=WEIGHT",
};

/**
 * The configuration without fields that are null. The types are checked because a configuration may come from a file,
 * where 0.2 may be the text "0.2".
 */
function checked(given: GrpoConfigLike): GrpoConfigLike {
  const isObject = typeof given === "object" && (given as unknown) !== null && !Array.isArray(given);
  check(isObject, () => `GRPOConfig: expected an object of fields, got ${showValue(given)}`);
  for (const [name, why] of Object.entries(ELSEWHERE)) {
    check(!Object.hasOwn(given, name), () => `GRPOConfig: ${name} ${why}`);
  }
  const unknown = Object.keys(given).filter((name) => !Object.hasOwn(FIELDS, name));
  check(
    unknown.length < 2,
    () =>
      `GRPOConfig: unknown options ${unknown.map((name) => `'${name}'`).join(", ")}; leave them out: only what ` +
      "describes the method and its sampling is read",
  );
  checkKeys("GRPOConfig", given, Object.keys(FIELDS) as (keyof GrpoConfigLike)[]);
  const config = present(given);
  for (const [name, value] of Object.entries(config) as [keyof GrpoConfigLike, unknown][]) {
    const isOfKind = FIELDS[name].some((kind) => typeof value === kind);
    check(isOfKind, () => `GRPOConfig: ${name} must be a ${FIELDS[name].join(" or a ")}, got ${showValue(value)}`);
  }
  const { beta = 0, entropy_coef: entropy = 0, top_entropy_quantile: share = 1, loss_type: type = "dapo" } = config;
  check(beta >= 0, () => `GRPOConfig: beta must be ≥ 0, got ${beta}`);
  check(entropy >= 0, () => `GRPOConfig: entropy_coef must be ≥ 0, got ${entropy}`);
  check(share > 0 && share <= 1, () => `GRPOConfig: top_entropy_quantile must be in (0, 1], got ${share}`);
  check(
    config.max_completion_length === undefined || type === "dr_grpo",
    () =>
      'GRPOConfig: max_completion_length is here the constant that loss_type "dr_grpo" divides by, ' +
      `and loss_type is "${type}"; completions are bounded by the rollout (maxTurns, maxActionTokens)`,
  );
  return config;
}

/** The options of `trainRl` and its sampler that the configuration sets. */
export interface GrpoTraining {
  readonly iterations?: number;
  readonly groupSize?: number;
  readonly learningRate?: number;
  readonly rollout: {
    readonly temperature?: number;
    readonly topP?: number;
    readonly topK?: number;
    readonly minP?: number;
  };
}

type Present<T> = { [K in keyof T]?: NonNullable<T[K]> };

/** The properties that are neither undefined nor null. */
function present<T extends object>(object: T): Present<T> {
  const entries = Object.entries(object).filter(([, value]) => value !== undefined && value !== null);
  return Object.fromEntries(entries) as Present<T>;
}

/**
 * The method and the training options of a configuration.
 * @throws on fields that mean nothing here (`GRPOConfig: unknown option 'num_generation'; did you mean
 *   'num_generations'?`) and on values that contradict each other
 */
export function methodFromGrpoConfig(given: GrpoConfigLike): { choice: MethodChoice; training: GrpoTraining } {
  const config = checked(given);
  const { beta = 0, top_entropy_quantile: share = 1 } = config;
  const { loss, aggregation, options, maxLength } = lossOf(config);
  return {
    choice: {
      method: share < 1 ? "grpo+top_entropy" : "grpo",
      ...advantageOf(config, { [loss]: options, ...(share < 1 ? { top_entropy: { share } } : {}) }),
      loss,
      aggregation,
      ...(maxLength === undefined ? {} : { maxLength }),
      ...(beta > 0 ? { kl: { beta, estimator: "k3", ...present({ importance: config.use_bias_correction_kl }) } } : {}),
      ...entropyOf(config),
      ...importanceCorrectionOf(config),
      maskTruncated: config.mask_truncated_completions ?? undefined,
    },
    training: {
      ...present({
        iterations: config.num_iterations,
        groupSize: config.num_generations,
        learningRate: config.learning_rate,
      }),
      rollout: present({
        temperature: config.temperature,
        topP: config.top_p,
        topK: config.top_k || undefined, // TRL's 0 means no limit
        minP: config.min_p,
      }),
    },
  };
}

/** The objective and the training options of a configuration; see `methodFromGrpoConfig`. */
export function objectiveFromGrpoConfig(config: GrpoConfigLike): { objective: Objective; training: GrpoTraining } {
  const { choice, training } = methodFromGrpoConfig(config);
  return { objective: objectiveOf(choice), training };
}

type Options = Readonly<Record<string, object>>;

function advantageOf(config: GrpoConfigLike, options: Options): Pick<MethodChoice, "advantage" | "options"> {
  const { scale_rewards: scale = "group", multi_objective_aggregation: order = "sum_then_normalize" } = config;
  check(
    ["sum_then_normalize", "normalize_then_sum"].includes(order),
    () =>
      'GRPOConfig: multi_objective_aggregation must be "sum_then_normalize" or "normalize_then_sum", ' +
      `got ${showValue(order)}`,
  );
  const isGroup = scale === "group" || scale === true;
  if (order === "normalize_then_sum") {
    check(
      isGroup,
      () =>
        'GRPOConfig: multi_objective_aggregation "normalize_then_sum" scales by group and batch; ' +
        `scale_rewards is ${showValue(scale)}`,
    );
    return { advantage: "gdpo", options };
  }
  if (isGroup) return { advantage: "grpo", options };
  if (scale === "batch") return { advantage: "grpo", options: { ...options, grpo: { scale: "batch" } } };
  if (scale === "none" || scale === false) return { advantage: "centred", options };
  return fail(`GRPOConfig: scale_rewards must be "group", "batch" or "none", got ${showValue(scale)}`);
}

interface LossChoice {
  readonly loss: string;
  readonly options: object;
  readonly aggregation: string;
  readonly maxLength?: number;
}

/** TRL's `loss_type` names a loss and an aggregation at once. */
function lossOf(config: GrpoConfigLike): LossChoice {
  const { loss_type: type = "dapo", importance_sampling_level: level = "token", epsilon = 0.2 } = config;
  const epsilonHigh = config.epsilon_high ?? epsilon;
  check(
    level === "token" || level === "sequence",
    () => `GRPOConfig: importance_sampling_level must be "token" or "sequence", got ${showValue(level)}`,
  );
  const { delta } = present({ delta: config.delta });
  const clipped = (): Pick<LossChoice, "loss" | "options"> => {
    check(level === "token" || delta === undefined, () => 'GRPOConfig: delta is for importance_sampling_level "token"');
    return level === "sequence"
      ? { loss: "gspo", options: { epsilon, epsilonHigh } }
      : { loss: "ppo", options: { epsilon, epsilonHigh, ...(delta === undefined ? {} : { delta }) } };
  };
  const tokenLevel = (): void =>
    check(level === "token", () => `GRPOConfig: loss_type "${type}" has no importance_sampling_level "sequence"`);
  switch (type) {
    case "grpo":
    case "bnpo":
    case "dapo":
      return { ...clipped(), aggregation: type };
    case "dr_grpo": {
      const maxLength = config.max_completion_length;
      check(maxLength !== undefined, () => 'GRPOConfig: loss_type "dr_grpo" needs max_completion_length');
      return { ...clipped(), aggregation: type, maxLength };
    }
    case "luspo":
      check(level === "sequence", () => 'GRPOConfig: loss_type "luspo" needs importance_sampling_level "sequence"');
      return { ...clipped(), aggregation: type };
    case "cispo":
      tokenLevel();
      check(
        typeof config.epsilon_high === "number",
        () => 'GRPOConfig: loss_type "cispo" needs epsilon_high, its absolute cap',
      );
      return { loss: type, options: { cap: "absolute", epsilonHigh }, aggregation: type };
    case "sapo": {
      tokenLevel();
      const options = present({
        temperaturePositive: config.sapo_temperature_pos,
        temperatureNegative: config.sapo_temperature_neg,
      });
      return { loss: type, options, aggregation: type };
    }
    case "vespo": {
      tokenLevel();
      const options = present({
        kPos: config.vespo_k_pos,
        lambdaPos: config.vespo_lambda_pos,
        kNeg: config.vespo_k_neg,
        lambdaNeg: config.vespo_lambda_neg,
      });
      return { loss: type, options, aggregation: type };
    }
    default:
      return fail(
        `GRPOConfig: unknown loss_type "${type}", expected grpo, bnpo, dapo, dr_grpo, luspo, cispo, sapo, vespo`,
      );
  }
}

function entropyOf(config: GrpoConfigLike): Pick<MethodChoice, "entropy"> {
  const { entropy_coef: coefficient = 0, use_adaptive_entropy: isAdaptive = false } = config;
  if (!isAdaptive) return coefficient > 0 ? { entropy: coefficient } : {};
  const { entropy_target: target = 0.2, entropy_coef_min: min, entropy_coef_max: max } = config;
  const bounds = present({ min, max, delta: config.entropy_coef_delta });
  return { entropy: { target, coefficient, ...bounds } };
}

function importanceCorrectionOf(config: GrpoConfigLike): Pick<MethodChoice, "importanceCorrection"> {
  const offPolicyMask = config.off_policy_mask_threshold ?? undefined;
  // TRL corrects by default because its sampler is another engine. Here the sampler is the learner's model, so the
  // configuration has to ask for a correction.
  const wanted = config.vllm_importance_sampling_correction ?? config.vllm_importance_sampling_mode !== undefined;
  if (!wanted && offPolicyMask === undefined) return {};
  const name = config.vllm_importance_sampling_mode ?? "sequence_mask";
  const [, level, mode] =
    /^(token|sequence)_(truncate|mask)$/.exec(name) ??
    fail(`GRPOConfig: unknown vllm_importance_sampling_mode "${name}"`);
  const { vllm_importance_sampling_cap: cap, vllm_importance_sampling_clip_min: min } = config;
  const { vllm_importance_sampling_clip_max: max = cap ?? 3 } = config;
  check(
    cap === undefined || cap === max,
    () =>
      `GRPOConfig: vllm_importance_sampling_cap ${cap} is the old name of vllm_importance_sampling_clip_max, ` +
      `which is ${max}; give one of them`,
  );
  const options: ImportanceCorrectionOptions = wanted
    ? { level: level as "token" | "sequence", mode: mode as "truncate" | "mask", max, ...present({ min }) }
    : { mode: "none" };
  return { importanceCorrection: { ...options, ...(offPolicyMask === undefined ? {} : { offPolicyMask }) } };
}
