/**
 * The flags and settings of the data, which become what `trainRl` takes; and flags and settings of all parts that
 * contradict each other or are out of range, each of which is one clear line. settings.test.ts has the settings of the
 * other parts.
 */
import { describe, expect, test } from "vitest";
import { showValue } from "../../engine/options.ts";
import { presetOf } from "../../run/presets.ts";
import { UsageError } from "../../run/usage.ts";
import { dataFor } from "../../run/dataOptions.ts";
import type { Preset } from "../../run/preset.ts";
import { presetOfFlags, set } from "../support/presetOfFlags.ts";

describe("data", () => {
  test("flags become what trainRl takes", () => {
    const schedules = ["--explore", "0.3", "--temperature", "1..0.5@4"];
    const choices = ["--curriculum", "pools", "--replay", "2", "--dynamic-sampling"];
    const settings = set("curriculum.tasks=5", "dynamicSampling.maxRefills=1");
    const preset = presetOfFlags(...schedules, ...choices, ...settings);
    const { options, memories } = dataFor(preset.data!, preset);
    expect(Object.keys(memories)).toEqual(["curriculum", "replay"]);
    expect(options.temperature!(2)).toBeCloseTo(0.75, 12);
    expect(options.plugins!.map(({ name }) => name)).toEqual([
      "exploration",
      "curriculum",
      "dynamicSampling",
      "replay",
    ]);
    expect(preset.data!.dynamicSampling).toEqual({ on: true, maxRefills: 1 });
    const [, curriculum] = options.plugins!;
    expect(Object.values(curriculum!.metrics!([])).reduce((a, b) => a + b, 0)).toBe(5);
    expect(curriculum!.state!()).toEqual(dataFor(preset.data!, preset).memories["curriculum"]!.state());
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
      expect(choose("--set", "rl.iterations=4", "--importance-correction", "tis")).toThrow(
        "makes up for the passes before in a step of 4",
      );
      for (const correction of ["tis", "icepop"]) {
        const { data } = choose("--replay", "4", "--importance-correction", correction)();
        expect(data?.replay).toEqual({ perStep: 4 });
      }
      expect(choose("--loss", "ppo", "--replay", "4", "--set", "rl.iterations=4")().rl.iterations).toBe(4);
    },
  );

  test.each([
    [["--curriculum", "learn"], "--curriculum must be learnability | failed | failed+learnability | pools, got"],
    [
      ["--curriculum", "pools", "--set", "curriculum.tasks=0"],
      "--set curriculum.tasks must be an integer in [1, 100000], got 0",
    ],
    [["--curriculum", "failed", "--set", "curriculum.share=2"], "--set curriculum.share must be in [0, 1], got 2"],
    [["--set", "curriculum.by=level"], "--set curriculum.by is about --curriculum"],
    [["--set", "replay.order=fifo"], "--set replay.order is about --replay N; add it"],
    [["--replay", "2", "--set", "replay.perStep=3"], "--replay says what --set replay.perStep says; give one of them"],
    [["--replay", "9", "--set", "replay.capacity=3"], "perStep 9 is more than the capacity, 3"],
    [["--set", "expertPrefix.maxPrefix=2"], "--set expertPrefix.maxPrefix is about --expert-prefix"],
    [["--set", "dynamicSampling.maxRefills=2"], "--set dynamicSampling.maxRefills is about --dynamic-sampling"],
    [["--explore", "1.5"], '--explore must be in [0, 1], or a schedule, got "1.5"'],
    [["--temperature", "1..0@9"], "--temperature must be > 0, or a schedule, got"],
    [
      ["--temperature", "1", "--set", "rollout.temperature=2"],
      "--temperature says what --set rollout.temperature says",
    ],
    [["--set", "rl.groupSize=1"], "--set rl.groupSize=1: the advantage grpo compares the episodes of a group"],
    [
      ["--steps", "4", "--set", "rl.warmup=100"],
      "--set rl.warmup: expected less than the 4 steps of the run, as the rate only rises until then, got 100",
    ],
    [["--steps", "4", "--set", "rl.warmup=4"], "--set rl.warmup: expected less than the 4 steps"],
    [["--set", "rl.groups=2.5"], "--set rl.groups must be an integer ≥ 1, got 2.5"],
    [["--set", "sft.noviceShare=1.5"], "--set sft.noviceShare must be in [0, 1], got 1.5"],
    [
      ["--curriculum", "pools", "--set", "curriculum.tasks=9e9"],
      "--set curriculum.tasks must be an integer in [1, 100000], got 9000000000",
    ],
    [["--set", "predictions.size=4"], "--set predictions.size is about --predict N; add it"],
    [["--set", "hindsight.weight=4"], "--set hindsight.weight is about --hindsight N; add it"],
    [["--hindsight", "2"], "--hindsight: terminal does not say what was achieved; those that do: household, web"],
    [["--hindsight", "2", "--env", "web", "--set", "hindsight.weight=0"], "--set hindsight.weight must be > 0, got 0"],
    [["--set", "imitateExpert.weight=4"], "--set imitateExpert.weight is about --imitate-expert N; add it"],
    [["--imitate-expert", "2", "--set", "imitateExpert.weight=0"], "--set imitateExpert.weight must be > 0, got 0"],
    [["--imitate-expert", "-1"], "--imitate-expert"],
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
      "--set rl.groupSize and --dynamic-sampling: dynamicSampling needs groups of at least 2, got groupSize 1",
    ],
    [["--replay", "0", "--set", "replay.order=fifo"], "--set replay.order is about --replay N; add it"],
    [["--set", "reward.cap=0.2"], "--set reward.cap bounds what the return has beside the outcome, which is nothing"],
    [
      ["--method", "gdpo", "--set", "reward.format=1", "--set", "reward.cap=0.2"],
      "gdpo compares the components one by one",
    ],
    [["--kl", "0.1", "--set", "kl.horizon=5"], "--set kl.horizon is about --kl-target X; add it"],
    [["--method", "paw", "--set", "paw.clamp=2..1"], '--set paw.clamp must be LOW..HIGH or none, got "2..1"'],
    [["--method", "rft", "--set", "rft.perTask=0"], "perTask must be an integer ≥ 1 or Infinity, got 0"],
    [["--set", "rl.lr=0"], "--set rl.lr must be > 0, got 0"],
    [["--set", "rl.clipNorm=0"], "--set rl.clipNorm must be > 0, got 0"],
    [["--set", "rl.gradEvery=2.5"], "--set rl.gradEvery must be an integer ≥ 0, got 2.5"],
    [["--set", "rl.gradEvery=-1"], "--set rl.gradEvery must be an integer ≥ 0, got -1"],
    [["--set", "sft.warmup=2.5"], "--set sft.warmup must be an integer ≥ 0, got 2.5"],
    [["--set", "sft.steps=30"], "--set sft.steps: expected more than sft.warmup, 50, in which the rate rises, got 30"],
    [["--method", "echo", "--advantage", "none", "--lambda", "0"], "--advantage none learns from no reward"],
    [["--set", "rejection.max=2"], '--set rejection: level must be "token", "sum", "mean" or "max", got missing'],
    [["--set", "rollout.topP=2"], "--set rollout.topP must be in (0, 1], got 2"],
    [["--set", "reward.format=0.2", "--set", "reward.cap=2"], "composite: cap must be in [0, 1)"],
    [["--set", "paw"], "--set: expected PART.OPTION=VALUE"],
    [["--set", "echo.lambda=1", "--lambda", "1"], "--lambda says what --set echo.lambda says"],
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
    [
      ["--kl", "0.1", "--set", "kl.in=reward", "--set", "kl.estimator=low_var_kl"],
      "kl: in the reward k3 drives a policy away from a reference that is less sharp; use estimator",
    ],
    [["--importance-correction", "tsi"], '--importance-correction: expected tis, icepop, got "tsi"'],
    [["--method", "grpo", "--advantage", "none"], "--advantage none learns from no reward"],
  ])("%j is one clear line", (flags, message) => {
    expect(() => presetOfFlags(...flags)).toThrow(UsageError);
    expect(() => presetOfFlags(...flags)).toThrow(message);
  });
});

test.each([null, 3, "x", [], {}])("a config.json with %j in the place of a plug-in's options is refused", (replay) => {
  const preset = presetOfFlags("--quick", "--env", "gridworld", "--method", "grpo");
  const folder = { path: "run", config: { preset: { ...preset, data: { replay } } } };
  expect(() => presetOf(folder)).toThrow(`data.replay: expected an object of options, got ${showValue(replay)}`);
});
