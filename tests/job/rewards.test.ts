/** `--reward`: which outcomes a run can be paid by, what they are worth, and what is refused. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { rewardOptionsOf } from "../../job/rewards.ts";
import type { RewardSettings } from "../../job/parts.ts";
import { showSettings } from "../../job/settings.ts";
import { UsageError } from "../../job/usage.ts";
import type { EpisodeReward } from "../../rl/tasks/scoring.ts";
import type { Model } from "../../nn/transformer.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { presetOfFlags, set } from "../support/presetOfFlags.ts";
import { episode, toyModel, toyTemplate } from "../support/rlToy.ts";

let device: Device;
let model: Model;
beforeAll(async () => {
  device = await makeDevice("wasm");
  model = toyModel(device);
});
afterAll(() => device.dispose());

const rewardOf = (...flags: readonly string[]): RewardSettings | undefined => presetOfFlags(...flags).rl.reward;
const played = (info: Trajectory["info"], changes: Partial<Trajectory> = {}): Trajectory =>
  episode(
    [
      ["prompt", [1]],
      ["action", [2]],
      ["observation", [3]],
    ],
    { info, stepRewards: [0], ...changes },
  );
const paid = (settings: RewardSettings, t: Trajectory): EpisodeReward | Promise<EpisodeReward> =>
  rewardOptionsOf(settings, { template: toyTemplate, model, maxLength: 40, seed: 0 }).reward!(
    t,
    new AbortController().signal,
  );

describe("flags", () => {
  it("--reward NAME is --set reward.name=NAME, beside components, and stands in the summary", () => {
    expect(rewardOf("--env", "code", "--reward", "coderl")).toEqual({ name: "coderl" });
    const both = rewardOf("--env", "patch", ...set("reward.name=swerl", "reward.format=0.1"));
    expect(both).toEqual({ name: "swerl", format: 0.1 });
    expect(showSettings({ reward: both })).toBe("reward.name=swerl, reward.format=0.1");
    const judges = set("reward.judges=verifier+approval", "reward.timeout=500");
    expect(rewardOf("--reward", "judges", ...judges)).toEqual({
      name: "judges",
      judges: "verifier+approval",
      timeout: 500,
    });
    const gdpo = rewardOf("--env", "code", "--method", "gdpo", "--reward", "coderl");
    expect(gdpo).toEqual({ name: "coderl", format: 0.2, tools: 0.1 });
    expect(rewardOf()).toBeUndefined();
  });

  it.each<[readonly string[], string]>([
    [["--reward", "code"], '--reward: expected coderl, ppocoder, swerl, toolrl, orm, judges, got "code"'],
    [["--reward", "coderl"], "--reward coderl is for the environments code, patch, not terminal"],
    [["--env", "code", "--reward", "swerl"], "--reward swerl is for the environments patch, not code"],
    [["--reward", "judges", ...set("reward.judges=form+formm")], 'unknown judge "formm"; did you mean "form"?'],
    [["--reward", "judges", ...set("reward.judges=form+form")], "--set reward.judges: form is there twice"],
    [["--reward", "judges", ...set("reward.control=chance")], "reward.control is about --reward coderl, ppocoder and"],
    [set("reward.judges=form"), "--set reward.judges is about --reward judges; add it"],
    [["--env", "code", "--reward", "coderl", ...set("reward.timeout=5")], "reward.timeout is about --reward judges"],
    [["--reward", "judges", ...set("reward.name=judges")], "--reward and --set reward.name are the same"],
    [["--reward", "judges", ...set("reward.cap=0.1")], "which is nothing"],
    [["--method", "sft", "--reward", "judges"], "--reward"],
    [
      ["--reward", "judges", "--workers", "2", ...set("reward.judges=approval")],
      "approval asks the learner's model while it learns; leave --workers out",
    ],
  ])("%j is refused", (flags, message) => {
    expect(() => presetOfFlags(...flags)).toThrow(UsageError);
    expect(() => presetOfFlags(...flags)).toThrow(message);
  });
});

describe("outcomes", () => {
  const info = { outcome: "failed test", syntaxMatch: 0.25, dataFlowMatch: 1, toolErrors: 1 };

  it("of programs, at once, and with components", () => {
    expect(paid({ name: "coderl" }, played(info))).toEqual({ reward: -0.3, parts: { coderl: -0.3 } });
    expect(paid({ name: "ppocoder" }, played(info))).toEqual({ reward: 2.25, parts: { ppocoder: 2.25 } });
    expect(paid({ name: "swerl" }, played(info))).toEqual({ reward: -1, parts: { swerl: -1 } });
    const both = paid({ name: "coderl", format: 0.2 }, played(info)) as EpisodeReward;
    expect(both).toMatchObject({ outcome: -0.3, parts: { coderl: -0.3, outcome: -0.3, format: 0 } });
    expect(both.reward).toBeCloseTo(-0.3, 12);
  });

  it("of programs, with chance for a grade: an episode's own, of the run's seed", () => {
    const settings = { name: "ppocoder", control: "chance" } as const;
    const worth = (seed: number): number => (paid(settings, played(info, { seed })) as EpisodeReward).reward;
    expect(worth(1)).toBe(worth(1));
    expect(new Set([1, 2, 3].map(worth)).size).toBe(3);
    expect(paid(settings, played({ ...info, success: true }))).toMatchObject({ reward: 2.25 });
  });

  it("of judges, as a promise: the verifier, the form and the tools vote, and the majority decides", async () => {
    const settings = { name: "judges" } as const;
    const votes = async (t: Trajectory): Promise<unknown> => {
      const said = paid(settings, t);
      expect(said).toBeInstanceOf(Promise);
      const { reward, parts } = await said;
      return [reward, parts["judge/verifier"], parts["judge/form"], parts["judge/tools"]];
    };
    expect(await votes(played({ success: true, toolErrors: 0 }))).toEqual([1, 1, 1, 1]);
    expect(await votes(played({ success: false, toolErrors: 0 }))).toEqual([1, 0, 1, 1]);
    expect(await votes(played({ success: false, toolErrors: 1 }))).toEqual([0, 0, 1, 0]);
    expect(await votes(played({ success: true, toolErrors: 1 }, { stepRewards: [] }))).toEqual([0, 1, 0, 0]);
    // A world that counts no mistakes: of two votes one is a tie, which fails.
    expect(await votes(played({ success: false }))).toEqual([0, 0, 1, NaN]);
    const shaped = await paid({ ...settings, tools: 0.1 }, played({ success: true, toolErrors: 0 }));
    expect(shaped).toMatchObject({ outcome: 1, parts: { "judge/verifier": 1, outcome: 1 } });
  });

  it("a judge may be the model that the run began with", async () => {
    const { reward, parts } = await paid({ name: "judges", judges: "approval" }, played({}));
    expect([0, 1]).toContain(reward);
    expect(parts["judge/approval"]).toBe(reward);
  });

  it("judges have a time limit", () => {
    const { rewardLimits } = rewardOptionsOf(
      { name: "judges", timeout: 7 },
      { template: toyTemplate, model, maxLength: 9, seed: 0 },
    );
    expect(rewardLimits).toEqual({ timeout: 7 });
  });
});
