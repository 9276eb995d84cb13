/**
 * TRL's `GRPOConfig`, where its fields mean something here: an objective, and what the loop and the sampler are to be told. A
 * field that is not known, or a value that cannot be honoured, is an error: a setting that is silently dropped is another experiment.
 */
import { check, fail } from "../engine/errors.ts";
import { checkKeys, showValue } from "../engine/options.ts";
import { centred, grpo } from "./advantages.ts";
import { type Aggregation, aggregationByName } from "./aggregation.ts";
import { correction, type CorrectionOptions } from "./correction.ts";
import { topEntropy } from "./focus.ts";
import { cispo, gspo, type PolicyLoss, ppoClip, sapo, vespo } from "./losses.ts";
import { checkObjective, type Objective } from "./objective.ts";

/** Fields of TRL's configuration that are understood, with their types; see TRL's documentation for what they mean. */
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
  readonly top_entropy_quantile?: number;
  readonly entropy_coef?: number;
  readonly use_bias_correction_kl?: boolean;
  readonly off_policy_mask_threshold?: number | null;
  readonly vllm_importance_sampling_correction?: boolean;
  readonly vllm_importance_sampling_mode?: string;
  readonly vllm_importance_sampling_clip_max?: number;
  readonly vllm_importance_sampling_clip_min?: number | null;
  readonly num_iterations?: number;
  readonly num_generations?: number;
  readonly max_completion_length?: number;
  readonly learning_rate?: number;
  readonly temperature?: number;
  readonly top_p?: number;
  readonly top_k?: number;
  readonly min_p?: number | null;
}
const FIELDS = [
  "loss_type", "importance_sampling_level", "scale_rewards", "beta", "epsilon", "epsilon_high", "delta", "sapo_temperature_pos",
  "sapo_temperature_neg", "vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg", "top_entropy_quantile", "entropy_coef",
  "use_bias_correction_kl", "off_policy_mask_threshold", "vllm_importance_sampling_correction", "vllm_importance_sampling_mode",
  "vllm_importance_sampling_clip_max", "vllm_importance_sampling_clip_min", "num_iterations", "num_generations",
  "max_completion_length", "learning_rate", "temperature", "top_p", "top_k", "min_p",
] as const satisfies readonly (keyof GrpoConfigLike)[]; // prettier-ignore

export interface FromGrpoConfig {
  readonly objective: Objective;
  /** For `trainRl` and its sampler; only what the configuration says. */
  readonly training: {
    readonly iterations?: number;
    readonly groupSize?: number;
    readonly learningRate?: number;
    readonly rollout: {
      readonly temperature?: number;
      readonly topP?: number;
      readonly topK?: number;
      readonly minP?: number;
    };
  };
}

/** Those of the given properties that are there. */
function present<T extends object>(object: T): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(object).filter(([, v]) => v !== undefined && v !== null)) as { [K in keyof T]?: NonNullable<T[K]> }; // prettier-ignore
}

/**
 * @throws on fields that mean nothing here (`GRPOConfig: unknown option 'num_generation'; did you mean 'num_generations'?`) and on
 *   values that contradict each other
 */
export function objectiveFromGrpoConfig(config: GrpoConfigLike): FromGrpoConfig {
  checkKeys("GRPOConfig", config, FIELDS);
  const { beta = 0, entropy_coef: entropy = 0, top_entropy_quantile: share = 1 } = config;
  const objective: Objective = {
    advantage: advantageOf(config.scale_rewards ?? "group"),
    ...lossOf(config),
    ...(beta > 0 ? { kl: { beta, estimator: "k3", ...present({ importance: config.use_bias_correction_kl }) } } : {}),
    ...(entropy > 0 ? { entropy } : {}),
    ...(share < 1 ? { focus: topEntropy({ share }) } : {}),
    ...correctionOf(config),
  };
  checkObjective(objective);
  return {
    objective,
    training: {
      ...present({ iterations: config.num_iterations, groupSize: config.num_generations, learningRate: config.learning_rate }), // prettier-ignore
      rollout: present({ temperature: config.temperature, topP: config.top_p, topK: config.top_k || undefined, minP: config.min_p }), // prettier-ignore
    },
  };
}

function advantageOf(scale: string | boolean): Objective["advantage"] {
  if (scale === "group" || scale === true) return grpo();
  if (scale === "batch") return grpo({ scale: "batch" });
  if (scale === "none" || scale === false) return centred();
  return fail(`GRPOConfig: scale_rewards must be "group", "batch" or "none", got ${showValue(scale)}`);
}

/** TRL's `loss_type` names a loss and an aggregation at once. */
function lossOf(config: GrpoConfigLike): Pick<Objective, "policyLoss" | "aggregation" | "maxLength"> {
  const { loss_type: type = "dapo", importance_sampling_level: level = "token", epsilon = 0.2 } = config;
  const epsilonHigh = config.epsilon_high ?? epsilon;
  check(level === "token" || level === "sequence", () => `GRPOConfig: importance_sampling_level must be "token" or "sequence", got ${showValue(level)}`); // prettier-ignore
  const { delta } = present({ delta: config.delta });
  const clipped = (): PolicyLoss => {
    check(level === "token" || delta === undefined, () => "GRPOConfig: delta is for importance_sampling_level \"token\""); // prettier-ignore
    return level === "sequence" ? gspo({ epsilon, epsilonHigh }) : ppoClip({ epsilon, epsilonHigh, ...(delta === undefined ? {} : { delta }) }); // prettier-ignore
  };
  const tokenLevel = (): void => check(level === "token", () => `GRPOConfig: loss_type "${type}" has no importance_sampling_level "sequence"`); // prettier-ignore
  switch (type) {
    case "grpo":
    case "bnpo":
    case "dapo":
      return { policyLoss: clipped(), aggregation: aggregationByName(type) };
    case "dr_grpo": {
      const maxLength = config.max_completion_length;
      check(maxLength !== undefined, () => "GRPOConfig: loss_type \"dr_grpo\" needs max_completion_length"); // prettier-ignore
      return { policyLoss: clipped(), aggregation: aggregationByName(type), maxLength };
    }
    case "luspo":
      check(level === "sequence", () => "GRPOConfig: loss_type \"luspo\" needs importance_sampling_level \"sequence\""); // prettier-ignore
      return { policyLoss: clipped(), aggregation: "seq-mean-token-sum" };
    case "cispo":
      tokenLevel();
      check(typeof config.epsilon_high === "number", () => "GRPOConfig: loss_type \"cispo\" needs epsilon_high, its absolute cap"); // prettier-ignore
      return { policyLoss: cispo({ cap: "absolute", epsilonHigh }), aggregation: "token-mean" };
    case "sapo": {
      tokenLevel();
      const options = present({ temperaturePositive: config.sapo_temperature_pos, temperatureNegative: config.sapo_temperature_neg }); // prettier-ignore
      return { policyLoss: sapo(options), aggregation: "seq-mean-token-mean" satisfies Aggregation };
    }
    case "vespo": {
      tokenLevel();
      const options = present({ kPos: config.vespo_k_pos, lambdaPos: config.vespo_lambda_pos, kNeg: config.vespo_k_neg, lambdaNeg: config.vespo_lambda_neg }); // prettier-ignore
      return { policyLoss: vespo(options), aggregation: "token-mean" };
    }
    default:
      return fail(
        `GRPOConfig: unknown loss_type "${type}", expected grpo, bnpo, dapo, dr_grpo, luspo, cispo, sapo, vespo`,
      );
  }
}

function correctionOf(config: GrpoConfigLike): Pick<Objective, "correction"> {
  const offPolicyMask = config.off_policy_mask_threshold ?? undefined;
  // TRL turns it on by itself because its sampler is another engine; here sampler and learner are one unless it is asked for.
  const wanted = config.vllm_importance_sampling_correction ?? config.vllm_importance_sampling_mode !== undefined;
  if (!wanted && offPolicyMask === undefined) return {};
  const name = config.vllm_importance_sampling_mode ?? "sequence_mask";
  const [, level, mode] = /^(token|sequence)_(truncate|mask)$/.exec(name) ?? fail(`GRPOConfig: unknown vllm_importance_sampling_mode "${name}"`); // prettier-ignore
  const min = config.vllm_importance_sampling_clip_min ?? undefined;
  const options: CorrectionOptions = wanted
    ? { level: level as "token" | "sequence", mode: mode as "truncate" | "mask", max: config.vllm_importance_sampling_clip_max ?? 3, ...(min === undefined ? {} : { min }) } // prettier-ignore
    : { mode: "none" };
  return { correction: correction({ ...options, ...(offPolicyMask === undefined ? {} : { offPolicyMask }) }) };
}
