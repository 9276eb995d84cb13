/**
 * What has no flag of its own: `--set`, schedules, TRL's configuration. Each reaches the objective or the loop, stands
 * in config.json, and makes the same run again from there. dataSettings.test.ts has the flags of the data, and settings
 * that contradict each other.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { objectiveFor } from "../../run/methods.ts";
import type { Preset } from "../../run/preset.ts";
import { longestCompletion } from "../../run/template.ts";
import { UsageError } from "../../run/usage.ts";
import { presetOf } from "../../run/presets.ts";
import { rewardOf } from "../../run/rewards.ts";
import { createRun } from "../../run/node/runFolder.ts";
import { parseSchedule, scheduleOf, showSchedule } from "../../run/schedules.ts";
import { listSettings } from "../../run/settings.ts";
import { showSettings } from "../../run/shownSettings.ts";
import { device, tensor, type Tensor } from "../../engine/index.ts";
import { gae } from "../../methods/advantages/index.ts";
import { AdaptiveKl } from "../../methods/kl.ts";
import { type Objective, worldsOf } from "../../rl/objective/objective.ts";
import { presetOfFlags, set } from "../support/presetOfFlags.ts";
import { madeUpSignals, randomBatch } from "../support/rlBatches.ts";
import { episode as episodeOf, type Part, toyTemplate } from "../support/rlToy.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-settings-"));
const config = join(folder, "grpo.json");
const GRPO_CONFIG = {
  loss_type: "cispo",
  epsilon_high: 4,
  beta: 0.02,
  num_generations: 5,
  num_iterations: 2,
  temperature: 0.8,
  top_p: 0.9,
  learning_rate: 1e-4,
  mask_truncated_completions: true,
  entropy_coef: 0.01,
};
beforeAll(() => writeFileSync(config, JSON.stringify(GRPO_CONFIG)));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const objectiveOfPreset = (preset: Preset): Objective => objectiveFor(preset.rl, longestCompletion(preset));
const objectiveOf = (...args: string[]): Objective => objectiveOfPreset(presetOfFlags(...args));
const sum = (rows: readonly Float64Array[]): number => rows.reduce((s, row) => s + row.reduce((a, b) => a + b, 0), 0);

describe("schedules", () => {
  test.each([
    ["0.05", [0.05, 0.05, 0.05]],
    ["1..0.5@10", [1, 0.75, 0.5]],
    ["1..0.25@10:exponential", [1, 0.5, 0.25]],
    ["1..0.5@10:cosine", [1, 0.75, 0.5]],
    ["0:1,5:0.5,10:0", [1, 0.5, 0]],
  ])("%s", (text, [first, middle, last]) => {
    const plan = parseSchedule("x", text);
    const at = scheduleOf(JSON.parse(JSON.stringify(plan)) as typeof plan);
    expect(at(0)).toBeCloseTo(first!, 12);
    expect(at(5)).toBeCloseTo(middle!, 12);
    expect(at(10)).toBeCloseTo(last!, 12);
    expect(at(1000)).toBeCloseTo(last!, 12);
    expect(showSchedule(plan)).toBe(text);
  });

  test.each(["", "a", "1..2", "1..2@0", "1..0@9:cosine", "1..2@5:round", "1:0.5", "0:1,0:2", "0:1,x:2", "-1", "0:1:2"])(
    '"%s" is one clear line',
    (text) => {
      expect(() => parseSchedule("--temperature", text)).toThrow(UsageError);
      expect(() => parseSchedule("--temperature", text)).toThrow(/^--temperature: .*(got|colon)/);
    },
  );
});

describe("--set", () => {
  test("reaches the part that it names, on top of what the job has", async () => {
    expect(objectiveOf(...set("ppo.epsilonHigh=0.4")).policyLoss.clip).toEqual({ low: 0.8, high: 1.4 });
    const dapo = objectiveOf("--method", "dapo", ...set("ppo.epsilon=0.1", "rl.dropConstantGroups=false"));
    expect(dapo.policyLoss.clip).toEqual({ low: 0.9, high: 1.28 });
    expect(dapo.dropConstantGroups).toBe(undefined);
    const on = await device("reference");
    const lossAt = async (p: number, ...flags: string[]): Promise<number> => {
      const { tokenLoss } = worldsOf(objectiveOf("--method", "paw", ...flags))[0]!;
      const one = (x: number): Tensor => tensor([x], { device: on });
      return (await tokenLoss!({ logProbs: one(Math.log(p)), weighted: one(1) }).read())[0]!;
    };
    expect(await lossAt(0.3)).toBe(0); // above ρ = 0.2
    expect(await lossAt(0.3, ...set("paw.rho=0.4"))).toBeCloseTo(0.7, 12);
    on.dispose();
    const paw = objectiveOf("--method", "paw", ...set("paw.entropy=sampled", "paw.clamp=none"));
    expect(paw.world).not.toHaveProperty("0.needs");
    const actfocus = objectiveOf("--method", "actfocus", ...set("actfocus.uncertainty=nll"));
    expect(actfocus.tokenWeights!.needs).toEqual(["refNll"]);
    const regularized = objectiveOf(...set("rl.entropy=0.02", "rl.maskTruncated=true"));
    expect(regularized).toMatchObject({ entropy: 0.02, maskTruncated: true });
    expect(objectiveOf("--method", "ppo", ...set("critic.coefficient=0.5")).critic).toEqual({ coefficient: 0.5 });
    const icepop = objectiveOf("--importance-correction", "icepop", ...set("importanceCorrection.level=sequence"));
    expect(icepop.importanceCorrection!.name).toBe("icepop_sequence");
    const rejecting = objectiveOf(...set("rejection.level=sum", "rejection.estimator=k1", "rejection.max=1.5"));
    expect(rejecting.importanceCorrection!.name).toBe("rejection");
    const { kl } = objectiveOf("--kl", "0.1", "--kl-target", "0.01", ...set("kl.in=reward"));
    expect(kl).toMatchObject({ estimator: "k1", in: "reward" });
    expect(kl!.beta).toBeInstanceOf(AdaptiveKl);
    // γ and λ of GAE: the estimate is that of the function with these options.
    const batch = randomBatch(3);
    const own = objectiveOf("--method", "ppo", ...set("gae.gamma=0.9", "gae.lambda=0.5", "gae.whiten=false"));
    const expected = gae({ gamma: 0.9, lambda: 0.5, whiten: false }).estimate(batch, madeUpSignals(batch));
    expect(own.advantage.estimate(batch, madeUpSignals(batch))).toEqual(expected);
  });

  test("a number out of its range is refused, as the part itself refuses it", () => {
    expect(() => presetOfFlags("--set", "kl.beta=-1")).toThrow("--set kl.beta must be ≥ 0, got -1");
    expect(() => presetOfFlags("--set", "ppo.epsilon=-0.1")).toThrow("--set ppo.epsilon must be");
  });

  test("ECHO's λ may change with the steps, its normalisation is one of three", () => {
    const [world] = worldsOf(objectiveOf("--set", "echo.lambda=0.1..0@10", "--set", "echo.normalization=token-mean"));
    const at = (step: number): number => sum(world!.weights(randomBatch(1), step));
    expect(at(0)).toBeCloseTo(0.1, 12);
    expect(at(5)).toBeCloseTo(0.05, 12);
    expect(presetOfFlags("--set", "echo.lambda=0.2").rl.options).toEqual({ echo: { lambda: 0.2 } });
    expect(presetOfFlags("--lambda", "0.2").rl.options).toEqual({ echo: { lambda: 0.2 } });
    // The flag and another option of the same part go together.
    const both = presetOfFlags("--lambda", "0.2", "--set", "echo.normalization=selected");
    expect(both.rl.options).toEqual({ echo: { lambda: 0.2, normalization: "selected" } });
  });

  test("the warm start: its loss and its sizes", () => {
    const { sft } = presetOfFlags(...set("sft.loss=dft", "sft.steps=7"), "--quick");
    expect(sft).toMatchObject({ loss: "dft", steps: 7, batchSize: 8 });
    expect(presetOfFlags().sft.loss).toBeUndefined();
  });

  test("sizes of the loop and the sampler; --quick keeps them", () => {
    const flags = set("rl.groupSize=6", "rl.lr=0.001", "rl.iterations=2", "rollout.topK=20", "rollout.maxTurns=3");
    for (const quick of [[], ["--quick"]]) {
      const { rl, rollout } = presetOfFlags(...flags, ...quick);
      expect(rl).toMatchObject({ groupSize: 6, lr: 0.001, iterations: 2 });
      expect(rollout).toMatchObject({ topK: 20, maxTurns: 3 });
    }
  });

  test("how often gradients are compared; 0 is never, and nothing said is the library's interval", () => {
    expect(presetOfFlags("--set", "rl.gradEvery=5", "--quick").rl.gradEvery).toBe(5);
    expect(presetOfFlags("--set", "rl.gradEvery=0").rl.gradEvery).toBe(0);
    expect("gradEvery" in presetOfFlags().rl).toBe(false);
  });

  test("a composite return: capped parts beside the outcome, which GDPO weighs as they are weighed", () => {
    const [episode] = randomBatch(2);
    const score = rewardOf({ format: 0.2, tools: 0.1, cap: 0.15 }, { template: toyTemplate, maxLength: 40 });
    const { reward, parts } = score({ ...episode!, reward: 1, info: { toolErrors: 0 } });
    expect(parts).toMatchObject({ outcome: 1, format: 1 });
    expect(reward).toBeCloseTo(1.15, 12);
    // An action that was cut off is worth less than a mistake.
    const cut: Part[] = [
      ["prompt", [1]],
      ["action", [2, 2, 2]],
    ];
    const cutOff = score(episodeOf(cut, { stopReason: "max_tokens" }));
    const mistaken = score({ ...episode!, reward: 0, info: { toolErrors: 1 } });
    expect([cutOff, mistaken].map(({ parts: { format } }) => format)).toEqual([0, 0.5]);
    expect(cutOff.reward).toBe(0);
    const { advantage } = objectiveOf("--method", "gdpo", "--set", "reward.format=0.2");
    const batch = randomBatch(2).map((t, i) => ({ ...t, rewardParts: { outcome: i, format: i % 2 } }));
    expect(() => advantage.estimate(batch)).not.toThrow();
    expect(() => advantage.estimate(randomBatch(2))).toThrow('gdpo: a weight for "outcome"');
  });

  test("gdpo without a word about components has the customary ones; they stand in config.json", () => {
    expect(presetOfFlags("--method", "gdpo").rl.reward).toEqual({ format: 0.2, tools: 0.1 });
    expect(presetOfFlags("--advantage", "gdpo", "--set", "reward.overlong=0.1").rl.reward).toEqual({ overlong: 0.1 });
    expect("reward" in presetOfFlags().rl).toBe(false);
  });

  test("a summary says what was exchanged, and what a rejection is", () => {
    const loop = set("rl.iterations=2", "rl.dropConstantGroups=true");
    const rejection = set("rejection.level=sum", "rejection.estimator=k1", "rejection.max=1.5");
    const preset = presetOfFlags("--advantage", "rloo", ...loop, ...rejection);
    expect(showSettings(preset).split(", ").toSorted()).toEqual([
      "importanceCorrection.mode=none",
      "rejection.estimator=k1",
      "rejection.level=sum",
      "rejection.max=1.5",
      "rl.advantage=rloo",
      "rl.dropConstantGroups=true",
      "rl.iterations=2",
    ]);
    expect(showSettings(presetOfFlags())).toBe("");
  });

  test("--list names every option", () => {
    const list = listSettings();
    for (const name of ["paw", "echo", "correction", "curriculum", "echo.normalization"]) expect(list).toContain(name);
    for (const values of ["full-observation | selected | token-mean", "0.2; in (0, 1)"]) expect(list).toContain(values);
  });
});

describe("config.json", () => {
  test.each([
    [
      "--set",
      "echo.lambda=0.1..0@10",
      "--importance-correction",
      "tis",
      "--set",
      "importanceCorrection.max=3",
      "--set",
      "reward.format=0.1",
    ],
    ["--method", "paw", "--set", "paw.clamp=0..2", "--kl", "0.1", "--set", "kl.estimator=k2"],
    ["--grpo-config", config, "--method", "echo"],
    [
      "--curriculum",
      "failed+learnability",
      "--replay",
      "2",
      "--set",
      "replay.order=priority",
      "--dynamic-sampling",
      "--expert-prefix",
      "--explore",
      "0.2..0@10",
      "--temperature",
      "1..0.7@20",
    ],
  ])("is enough to make the run again: %j %j %j %j", (...flags) => {
    const preset = presetOfFlags(...flags);
    const saved = createRun(join(folder, String(flags.join("").length)), { preset });
    const again = presetOf(saved);
    expect(again).toEqual(JSON.parse(JSON.stringify(preset)));
    expect(showSettings(again)).toBe(showSettings(preset));
    expect(showSettings(again)).not.toBe("");
    const [one, other] = [objectiveOfPreset(preset), objectiveOfPreset(again)];
    expect(JSON.stringify(one)).toBe(JSON.stringify(other));
  });
});

describe("--grpo-config", () => {
  test("says method, sizes and sampling; add-ons go on top", () => {
    const { rl, rollout } = presetOfFlags("--grpo-config", config, "--method", "echo", "--lambda", "0.1");
    expect(rl).toMatchObject({
      method: "grpo+echo",
      loss: "cispo",
      aggregation: "token-mean",
      groupSize: 5,
      iterations: 2,
      lr: 1e-4,
      maskTruncated: true,
      entropy: 0.01,
    });
    expect(rl.options).toMatchObject({ echo: { lambda: 0.1 } });
    expect(rollout).toMatchObject({ temperature: 0.8, topP: 0.9 });
    const objective = objectiveOf("--grpo-config", config, "--method", "echo");
    expect(objective.policyLoss.clip).toEqual({ low: 0, high: 4 });
    expect(objective.kl).toMatchObject({ beta: 0.02, estimator: "k3" });
    expect(worldsOf(objective).map((w) => w.name)).toEqual(["echo"]);
  });

  test.each([
    [["--loss", "ppo"], "--grpo-config says what --loss says"],
    [["--kl", "0.1"], "--grpo-config says what --kl says"],
    [["--method", "dapo"], "of --method it takes add-ons only, not dapo"],
    [["--set", "cispo.epsilonHigh=3"], "--grpo-config says what --set cispo.epsilonHigh says; give one of them"],
    [["--set", "rl.groupSize=3"], "--grpo-config says what --set rl.groupSize says"],
    [["--temperature", "1"], "--grpo-config says what --temperature says"],
  ])("%j contradicts it", (flags, message) => {
    expect(() => presetOfFlags("--grpo-config", config, ...flags)).toThrow(UsageError);
    expect(() => presetOfFlags("--grpo-config", config, ...flags)).toThrow(message);
  });

  test.each([
    ["{", "--grpo-config: "],
    ["[]", "expected an object of GRPOConfig's fields"],
    ['{ "num_generation": 4 }', "--grpo-config: unknown option 'num_generation'; did you mean 'num_generations'?"],
    ['{ "loss_type": "pop" }', '--grpo-config: unknown loss_type "pop"'],
    ['{ "epsilon": "0.2" }', '--grpo-config: epsilon must be a number, got "0.2"'],
    ['{ "scale_rewards": 1 }', "--grpo-config: scale_rewards must be a string or a boolean, got 1"],
    ['{ "beta": -0.1 }', "--grpo-config: beta must be ≥ 0, got -0.1"],
    [
      '{ "max_completion_length": 64 }',
      '--grpo-config: max_completion_length is here the constant that loss_type "dr_grpo" divides by',
    ],
    ['{ "reward_weights": [1, 0.2] }', "--grpo-config: reward_weights goes by the order of reward functions"],
  ])("%s is one clear line", (text, message) => {
    const path = join(folder, "bad.json");
    writeFileSync(path, text);
    expect(() => presetOfFlags("--grpo-config", path)).toThrow(UsageError);
    expect(() => presetOfFlags("--grpo-config", path)).toThrow(message);
    expect(() => presetOfFlags("--grpo-config", join(folder, "none.json"))).toThrow("no such file");
  });
});
