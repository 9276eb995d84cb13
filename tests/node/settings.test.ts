/**
 * What has no flag of its own: `--set`, schedules, TRL's configuration, the flags of the data. Each reaches the objective or the loop,
 * stands in config.json, and makes the same run again from there; what contradicts itself is one line.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { dataFor } from "../../node/job/data.ts";
import { Experiment } from "../../node/job/experiment.ts";
import { definedOf } from "../support/mainJob.ts";
import { UsageError } from "../../node/flags.ts";
import { parseStart, type StartOptions } from "../../node/job/commandLine.ts";
import type { Preset } from "../../node/job/preset.ts";
import { presetFor, presetOf } from "../../node/job/presets.ts";
import { rewardOf } from "../../node/job/rewards.ts";
import { createRun } from "../../node/runFolder.ts";
import { parseSchedule, scheduleOf, showSchedule } from "../../node/job/schedules.ts";
import { listSettings, showSettings } from "../../node/job/settings.ts";
import { gae } from "../../rl/methods/advantages/index.ts";
import { ENVIRONMENTS } from "../../environments/index.ts";
import { AdaptiveKl } from "../../rl/methods/losses/index.ts";
import { type Objective, worldsOf } from "../../rl/methods/objective.ts";
import { madeUpSignals, randomBatch } from "../support/rlBatches.ts";
import { episode as episodeOf, type Part, toyTemplate } from "../support/rlToy.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-settings-"));
const config = join(folder, "grpo.json");
beforeAll(
  () =>
  writeFileSync(config, JSON.stringify({ loss_type: "cispo", epsilon_high: 4, beta: 0.02, num_generations: 5, num_iterations: 2, temperature: 0.8, top_p: 0.9, learning_rate: 1e-4, mask_truncated_completions: true, entropy_coef: 0.01 })), // prettier-ignore
);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** In the terminal, where nothing else is said: these tests are about its numbers. */
const presetOfFlags = (...args: string[]): Preset =>
  presetFor({ env: "terminal", ...definedOf(parseStart(args) as StartOptions) });
const objectiveOf = (...args: string[]): Objective => new Experiment(presetOfFlags(...args)).objective();
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
  test("reaches the part that it names, on top of what the job has", () => {
    expect(objectiveOf("--set", "ppo.epsilonHigh=0.4").policyLoss.clip).toEqual({ low: 0.8, high: 1.4 });
    expect(objectiveOf("--method", "dapo", "--set", "ppo.epsilon=0.1").policyLoss.clip).toEqual({ low: 0.9, high: 1.28 }); // prettier-ignore
    expect(objectiveOf("--method", "paw", "--set", "paw.rho=0.4").world).toMatchObject([{ clip: 0.4 }]);
    expect(objectiveOf("--method", "paw", "--set", "paw.entropy=sampled", "--set", "paw.clamp=none").world).not.toHaveProperty("0.needs"); // prettier-ignore
    expect(objectiveOf("--method", "actfocus", "--set", "actfocus.uncertainty=nll").tokenWeights!.needs).toEqual([
      "refNll",
    ]);
    expect(objectiveOf("--set", "rl.entropy=0.02", "--set", "rl.maskTruncated=true")).toMatchObject({ entropy: 0.02, maskTruncated: true }); // prettier-ignore
    expect(objectiveOf("--method", "dapo", "--set", "rl.dropConstantGroups=false").dropConstantGroups).toBe(undefined);
    expect(objectiveOf("--method", "ppo", "--set", "critic.coefficient=0.5").critic).toEqual({ coefficient: 0.5 });
    expect(objectiveOf("--importance-correction", "icepop", "--set", "importanceCorrection.level=sequence").importanceCorrection!.name).toBe("icepop_sequence"); // prettier-ignore
    expect(objectiveOf("--set", "rejection.level=sum", "--set", "rejection.estimator=k1", "--set", "rejection.max=1.5").importanceCorrection!.name).toBe("rejection"); // prettier-ignore
    const { kl } = objectiveOf("--kl", "0.1", "--kl-target", "0.01", "--set", "kl.estimator=low_var_kl", "--set", "kl.in=reward"); // prettier-ignore
    expect(kl).toMatchObject({ estimator: "k3", in: "reward" });
    expect(kl!.beta).toBeInstanceOf(AdaptiveKl);
    // γ and λ of GAE: the estimate is that of the function with these options.
    const batch = randomBatch(3);
    const own = objectiveOf("--method", "ppo", "--set", "gae.gamma=0.9", "--set", "gae.lambda=0.5", "--set", "gae.whiten=false"); // prettier-ignore
    const expected = gae({ gamma: 0.9, lambda: 0.5, whiten: false }).estimate(batch, madeUpSignals(batch));
    expect(own.advantage.estimate(batch, madeUpSignals(batch))).toEqual(expected);
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
    expect(presetOfFlags("--set", "sft.loss=dft", "--set", "sft.steps=7", "--quick").sft).toMatchObject({ loss: "dft", steps: 7, batchSize: 8 }); // prettier-ignore
    expect("loss" in presetOfFlags().sft).toBe(false);
  });

  test("sizes of the loop and the sampler; --quick keeps them", () => {
    const flags = ["--set", "rl.groupSize=6", "--set", "rl.lr=0.001", "--set", "rl.iterations=2", "--set", "rollout.topK=20", "--set", "rollout.maxTurns=3"]; // prettier-ignore
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
    const score = rewardOf({ format: 0.2, tools: 0.1, cap: 0.15 }, toyTemplate, 40);
    const { reward, parts } = score({ ...episode!, reward: 1, info: { toolErrors: 0 } });
    expect(parts).toMatchObject({ outcome: 1, format: 1 });
    expect(reward).toBeCloseTo(1.15, 12);
    // An action that was cut off is worth less than a mistake.
    const cut: Part[] = [
      ["prompt", [1]],
      ["action", [2, 2, 2]],
    ];
    const paid = [score(episodeOf(cut, { stopReason: "max_tokens" })), score({ ...episode!, reward: 0, info: { toolErrors: 1 } })]; // prettier-ignore
    expect(paid.map((r) => r.parts["format"])).toEqual([0, 0.5]);
    expect(paid[0]!.reward).toBe(0);
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
    const { rl } = presetOfFlags("--advantage", "rloo", "--set", "rl.iterations=2", "--set", "rl.dropConstantGroups=true", "--set", "rejection.level=sum", "--set", "rejection.estimator=k1", "--set", "rejection.max=1.5"); // prettier-ignore
    expect(showSettings(rl)).toBe("--advantage rloo, importanceCorrection.mode=none, rejection.level=sum, rejection.estimator=k1, rejection.max=1.5, rl.dropConstantGroups=true, rl.iterations=2"); // prettier-ignore
    expect(showSettings(presetOfFlags().rl)).toBe("");
  });

  test("--list names every option", () => {
    for (const name of ["paw", "echo", "correction", "curriculum", "echo.normalization", "full-observation | selected | token-mean", "0.2; in (0, 1)"]) expect(listSettings()).toContain(name); // prettier-ignore
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
    ["--curriculum", "failed+learnability", "--replay", "2", "--set", "replay.order=priority", "--dynamic-sampling", "--expert-prefix", "--explore", "0.2..0@10", "--temperature", "1..0.7@20"], // prettier-ignore
  ])("is enough to make the run again: %j %j %j %j", (...flags) => {
    const preset = presetOfFlags(...flags);
    const saved = createRun(join(folder, String(flags.join("").length)), { preset });
    const again = presetOf(saved);
    expect(again).toEqual(JSON.parse(JSON.stringify(preset)));
    expect(showSettings(again.rl, again.data)).toBe(showSettings(preset.rl, preset.data));
    expect(showSettings(again.rl, again.data)).not.toBe("");
    const [one, other] = [new Experiment(preset).objective(), new Experiment(again).objective()];
    expect(JSON.stringify(one)).toBe(JSON.stringify(other));
  });
});

describe("--grpo-config", () => {
  test("says method, sizes and sampling; add-ons go on top", () => {
    const { rl, rollout } = presetOfFlags("--grpo-config", config, "--method", "echo", "--lambda", "0.1");
    expect(rl).toMatchObject({ method: "grpo+echo", loss: "cispo", aggregation: "token-mean", groupSize: 5, iterations: 2, lr: 1e-4, maskTruncated: true, entropy: 0.01 }); // prettier-ignore
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
    [["--set", "cispo.epsilonHigh=3"], "--set cispo.epsilonHigh: --grpo-config says it, too"],
    [["--set", "rl.groupSize=3"], "--set rl.groupSize: --grpo-config says it, too"],
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

describe("data", () => {
  test("flags become what trainRl takes", () => {
    const preset = presetOfFlags("--curriculum", "pools", "--set", "curriculum.tasks=5", "--replay", "2", "--explore", "0.3", "--temperature", "1..0.5@4", "--dynamic-sampling", "--set", "dynamicSampling.maxRefills=1"); // prettier-ignore
    const source = { env: ENVIRONMENTS["terminal"]!, envOptions: {}, seed: 3 };
    const { options, memories } = dataFor(preset.data!, source);
    expect(Object.keys(memories)).toEqual(["curriculum", "replay"]);
    expect(options.temperature!(2)).toBeCloseTo(0.75, 12);
    expect(options.dynamicSampling).toEqual({ maxRefills: 1 });
    expect(Object.values(options.curriculum!.metrics()).reduce((a, b) => a + b, 0)).toBe(5);
    expect(options.curriculum!.state()).toEqual(dataFor(preset.data!, source).options.curriculum!.state());
    expect(Object.keys(presetOfFlags("--replay", "0"))).not.toContain("data");
  });

  test.each(["rloo", "gpg", "opo", "max_rl", "rae", "rft", "remax", "otb"])(
    "%s has no ratio: replay needs a correction, and several passes over a batch another loss",
    (name) => {
      const choose =
        (...flags: string[]) =>
        (): Preset =>
          presetOfFlags("--method", name, ...flags);
      expect(choose("--replay", "4")).toThrow(UsageError);
      expect(choose("--replay", "4")).toThrow(
        "reinforce has no ratio, and nothing else makes up for the older policies",
      );
      expect(choose("--set", "rl.iterations=4")).toThrow(UsageError);
      // The weights of a correction are those of the step's first pass.
      expect(choose("--set", "rl.iterations=4", "--importance-correction", "tis")).toThrow("makes up for the passes before in a step of 4"); // prettier-ignore
      for (const correction of ["tis", "icepop"])
        expect(presetOfFlags("--method", name, "--replay", "4", "--importance-correction", correction).data?.replay).toEqual({ perStep: 4 }); // prettier-ignore
      expect(presetOfFlags("--method", name, "--loss", "ppo", "--replay", "4", "--set", "rl.iterations=4").rl.iterations).toBe(4); // prettier-ignore
    },
  );

  test.each([
    [["--curriculum", "learn"], '--curriculum: unknown name "learn"; expected learnability'],
    [
      ["--curriculum", "pools", "--set", "curriculum.tasks=0"],
      "--set curriculum.tasks must be an integer in [1, 100000], got 0",
    ],
    [["--curriculum", "failed", "--set", "curriculum.share=2"], "--set curriculum.share must be in [0, 1], got 2"],
    [["--set", "curriculum.by=level"], "--set curriculum.by is about --curriculum"],
    [["--set", "replay.order=fifo"], "--set replay.order is about --replay; add --replay N"],
    [["--replay", "2", "--set", "replay.perStep=3"], "--replay and --set replay.perStep are the same"],
    [["--replay", "9", "--set", "replay.capacity=3"], "perStep 9 is more than the capacity, 3"],
    [["--set", "expertPrefix.maxPrefix=2"], "--set expertPrefix.maxPrefix is about --expert-prefix"],
    [["--set", "dynamicSampling.maxRefills=2"], "--set dynamicSampling.maxRefills is about --dynamic-sampling"],
    [["--explore", "1.5"], "--explore: expected probabilities, got 1.5"],
    [["--temperature", "1..0@9"], "--temperature: expected numbers > 0"],
    [
      ["--temperature", "1", "--set", "rollout.temperature=2"],
      "--temperature and --set rollout.temperature are the same",
    ],
    [["--set", "rl.groupSize=1"], "the advantage grpo compares the episodes of a group"],
    [["--set", "rl.groups=2.5"], "--set rl.groups must be an integer ≥ 1, got 2.5"],
    [["--set", "sft.noviceShare=1.5"], "--set sft.noviceShare must be in [0, 1], got 1.5"],
    [["--curriculum", "pools", "--set", "curriculum.tasks=9e9"], "--set curriculum.tasks must be an integer in [1, 100000], got 9000000000"], // prettier-ignore
    [["--set", "predictions.size=4"], "--set predictions.size is about --predict; add --predict N"],
    [["--predict", "2", "--set", "predictions.size=1"], "--set predictions.size must be an integer ≥ 2, got 1"],
    [
      ["--predict", "2", "--method", "ppo"],
      "predictions are compared in groups, which a critic's values know nothing of",
    ],
    [["--predict", "2", "--method", "remax"], "predictions have no greedy rollout, which the advantage remax compares"],
    [
      ["--expert-prefix", "--set", "expertPrefix.maxPrefix=0"],
      "--set expertPrefix.maxPrefix must be an integer ≥ 1, got 0",
    ],
    [["--dynamic-sampling", "--set", "dynamicSampling.maxRefills=-1"], "--set dynamicSampling.maxRefills must be"],
    [
      ["--dynamic-sampling", "--method", "rae", "--set", "rl.groupSize=1"],
      "dynamicSampling needs groups of at least 2",
    ],
    [["--replay", "0", "--set", "replay.order=fifo"], "--set replay.order is about --replay; add --replay N"], // prettier-ignore
    [["--set", "reward.cap=0.2"], "--set reward.cap bounds what the return has beside the outcome, which is nothing"],
    [["--method", "gdpo", "--set", "reward.format=1", "--set", "reward.cap=0.2"], "gdpo compares the components one by one"], // prettier-ignore
    [["--kl", "0.1", "--set", "kl.horizon=5"], "--set kl.horizon is about --kl-target; add --kl-target X"],
    [["--method", "paw", "--set", "paw.clamp=2..1"], '--set paw.clamp must be LOW..HIGH or none, got "2..1"'],
    [["--method", "rft", "--set", "rft.perTask=0"], "perTask must be an integer ≥ 1 or Infinity, got 0"],
    [["--set", "rl.lr=0"], "--set rl.lr must be > 0, got 0"],
    [["--set", "rl.clipNorm=0"], "--set rl.clipNorm must be > 0, got 0"],
    [["--set", "rl.gradEvery=2.5"], "--set rl.gradEvery must be an integer ≥ 0, got 2.5"],
    [["--set", "rl.gradEvery=-1"], "--set rl.gradEvery must be an integer ≥ 0, got -1"],
    [["--set", "sft.warmup=2.5"], "--set sft.warmup must be an integer ≥ 0, got 2.5"],
    [["--set", "sft.steps=30"], "--set sft.steps: expected more than sft.warmup, 50, in which the rate rises, got 30"],
    [["--method", "echo", "--advantage", "none", "--lambda", "0"], "--advantage none learns from no reward"],
    [["--set", "rejection.max=2"], "--set rejection: expected rejection.level, rejection.estimator and rejection.max"],
    [["--set", "rollout.topP=2"], "--set rollout.topP must be in (0, 1], got 2"],
    [["--set", "reward.format=0.2", "--set", "reward.cap=2"], "composite: cap must be in [0, 1)"],
    [["--set", "paw"], "--set: expected PART.OPTION=VALUE"],
    [["--set", "echo.lambda=1", "--lambda", "1"], "--lambda and --set echo.lambda are the same"],
    [["--set", "ppo.epsilon=.1", "--set", "ppo.epsilon=.2"], "--set: ppo.epsilon is there twice"],
    [["--set", "gae.whiten=yes", "--method", "ppo"], '--set gae.whiten must be true or false, got "yes"'],
    [["--set", "echo.normalization=tokenmean"], 'got "tokenmean"; did you mean "token-mean"?'],
    [["--set", "critic.clip=1"], "--set critic.clip: the advantage grpo has no critic"],
    [
      ["--method", "vtrace", "--importance-correction", "tis"],
      'the advantage "vtrace" and the correction tis_token both correct for π/μ',
    ],
    [
      ["--method", "gdpo", "--kl", "0.1", "--set", "kl.in=reward"],
      'kl: the advantage "gdpo" does not look at the return',
    ],
    [["--importance-correction", "tsi"], '--importance-correction: expected tis, icepop, got "tsi"'],
    [["--method", "grpo", "--advantage", "none"], "--advantage none learns from no reward"],
  ])("%j is one clear line", (flags, message) => {
    expect(() => presetOfFlags(...flags)).toThrow(UsageError);
    expect(() => presetOfFlags(...flags)).toThrow(message);
  });
});
