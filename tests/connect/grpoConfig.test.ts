/** TRL's `GRPOConfig` as an objective: the parts that its fields name, and what is said of fields that do not fit. */
import { describe, expect, it } from "vitest";
import { methodFromGrpoConfig, objectiveFromGrpoConfig } from "../../connect/grpoConfig.ts";

describe("TRL's GRPOConfig", () => {
  it("gives an objective, and what the loop is to be told", () => {
    const { objective, training } = objectiveFromGrpoConfig({
      loss_type: "grpo",
      epsilon: 0.2,
      epsilon_high: 0.28,
      num_iterations: 2,
      num_generations: 8,
      temperature: 0.8,
      top_k: 0,
      min_p: null,
      beta: 0.04,
      learning_rate: 1e-6,
      entropy_coef: 0.01,
      top_entropy_quantile: 0.2,
    });
    expect(objective.advantage.name).toBe("grpo");
    expect(objective.policyLoss.name).toBe("ppo");
    expect(objective.aggregation).toBe("seq-mean-token-mean");
    expect(objective.kl).toEqual({ beta: 0.04, estimator: "k3", in: "loss", importance: false });
    expect([objective.entropy, objective.tokenWeights!.name]).toEqual([0.01, "top_entropy"]);
    expect(training).toEqual({ iterations: 2, groupSize: 8, learningRate: 1e-6, rollout: { temperature: 0.8 } });
    expect(objectiveFromGrpoConfig({}).objective.aggregation).toBe("token-mean"); // TRL's default is dapo
  });

  it.each([
    [
      { loss_type: "dr_grpo", max_completion_length: 64, scale_rewards: "none" },
      ["centred", "ppo", "seq-mean-token-sum-norm"],
    ],
    [{ loss_type: "cispo", epsilon_high: 5 }, ["grpo", "cispo", "token-mean"]],
    [{ loss_type: "luspo", importance_sampling_level: "sequence" }, ["grpo", "gspo", "seq-mean-token-sum"]],
    [{ loss_type: "grpo", importance_sampling_level: "sequence" }, ["grpo", "gspo", "seq-mean-token-mean"]],
    [{ loss_type: "sapo" }, ["grpo", "sapo", "seq-mean-token-mean"]],
    [{ loss_type: "vespo", scale_rewards: "batch" }, ["grpo", "vespo", "token-mean"]],
  ] as const)("%j", (config, parts) => {
    const { objective } = objectiveFromGrpoConfig(config);
    expect([objective.advantage.name, objective.policyLoss.name, objective.aggregation]).toEqual(parts);
  });

  it("corrections by TRL's names", () => {
    const correctionOf = (config: object): string | undefined =>
      objectiveFromGrpoConfig(config).objective.importanceCorrection?.name;
    expect(correctionOf({ vllm_importance_sampling_mode: "token_truncate" })).toBe("tis_token");
    expect(correctionOf({ vllm_importance_sampling_correction: true })).toBe("icepop_sequence");
    expect(correctionOf({ off_policy_mask_threshold: 0.1 })).toBe("rejection");
    const off = { vllm_importance_sampling_correction: false, vllm_importance_sampling_mode: "token_mask" };
    expect(correctionOf(off)).toBe(undefined);
  });

  it("vllm_importance_sampling_cap is the old name of clip_max, valid until TRL 2.0", () => {
    const bound = { vllm_importance_sampling_mode: "token_truncate", vllm_importance_sampling_cap: 1.5 };
    const choiceOf = (config: object) => methodFromGrpoConfig(config).choice.importanceCorrection;
    expect(choiceOf(bound)).toEqual({ level: "token", mode: "truncate", max: 1.5 });
    expect(choiceOf({ ...bound, vllm_importance_sampling_clip_max: 1.5 })).toEqual(choiceOf(bound));
    expect(choiceOf({ ...bound, vllm_importance_sampling_cap: null })).toMatchObject({ max: 3 });
    expect(() => choiceOf({ ...bound, vllm_importance_sampling_clip_max: 2 })).toThrow(
      "vllm_importance_sampling_cap 1.5 is the old name of vllm_importance_sampling_clip_max, which is 2",
    );
  });

  it.each([
    [{ num_generation: 8 }, "GRPOConfig: unknown option 'num_generation'; did you mean 'num_generations'?"],
    [{ bf16: true }, "GRPOConfig: unknown option 'bf16'"],
    [{ bf16: true, beta: 0, save_steps: 1 }, "GRPOConfig: unknown options 'bf16', 'save_steps'; leave them out"],
    [{ loss_type: "ppo" }, 'GRPOConfig: unknown loss_type "ppo", expected grpo'],
    [{ loss_type: "cispo" }, 'loss_type "cispo" needs epsilon_high'],
    [{ loss_type: "dr_grpo" }, "needs max_completion_length"],
    [{ loss_type: "luspo" }, 'needs importance_sampling_level "sequence"'],
    [{ loss_type: "sapo", importance_sampling_level: "sequence" }, 'has no importance_sampling_level "sequence"'],
    [{ scale_rewards: "bath" }, 'scale_rewards must be "group", "batch" or "none", got "bath"'],
    [{ vllm_importance_sampling_mode: "truncate" }, 'unknown vllm_importance_sampling_mode "truncate"'],
  ])("%j is one clear error", (config, message) => {
    expect(() => objectiveFromGrpoConfig(config as object)).toThrow(message);
  });
});
