/** `--reward`: which outcomes a run can be paid by, what they are worth, and what is refused. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { checkRewards, criticised, rewardOf as returnOf, rewardOptionsOf } from "../../run/rewards.ts";
import { rewardWeights } from "../../run/rewardWeights.ts";
import { PRM, type RewardSettings } from "../../run/rewardOptions.ts";
import { showSettings } from "../../run/shownSettings.ts";
import { UsageError } from "../../run/usage.ts";
import type { EpisodeReward } from "../../rl/tasks/scoring.ts";
import { approvalJudge } from "../../papers/preferences/judges.ts";
import { stepValues } from "../../run/judgements.ts";
import { zeros } from "../../engine/ops/create.ts";
import { Rng } from "../../engine/random.ts";
import { assign } from "../../engine/state.ts";
import { Template } from "../../rl/episode/template.ts";
import { initReaderHead, type Reader } from "../../methods/reader.ts";
import type { Model } from "../../nn/transformer.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { presetOfFlags, set } from "../support/presetOfFlags.ts";
import { episode, toyModel, toyTemplate, toyTokenizer } from "../support/rlToy.ts";

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
    expect(showSettings(presetOfFlags("--env", "patch", ...set("reward.name=swerl", "reward.format=0.1")))).toBe(
      "reward.name=swerl, reward.format=0.1",
    );
    const judges = set("reward.judges=verifier+approval", "reward.timeout=500");
    expect(rewardOf("--reward", "judges", ...judges)).toEqual({
      name: "judges",
      judges: "verifier+approval",
      timeout: 500,
    });
    const gdpo = rewardOf("--env", "code", "--method", "gdpo", "--reward", "coderl");
    expect(gdpo).toEqual({ name: "coderl", format: 0.2, tools: 0.1 });
    expect(rewardOf("--env", "code", "--method", "gdpo", ...set("reward.format=0.5"))).toEqual({ format: 0.5 });
    expect(rewardWeights({ name: "coderl", format: 0.5 })).toEqual({ outcome: 1, format: 0.5 });
    const orm = rewardOf("--env", "web", "--reward", "orm", ...set("orm.steps=3"));
    expect(orm).toEqual({ name: "orm", orm: { steps: 3 } });
    const prm = rewardOf(
      "--env",
      "web",
      "--reward",
      "prm",
      ...set("prm.samples=3", "prm.form=min", "reward.format=0.1"),
    );
    expect(prm).toEqual({ name: "prm", format: 0.1, prm: { samples: 3, form: "min" } });
    expect(PRM.read()).toMatchObject({ episodes: 64, samples: 8, labels: "hard", form: "difference" });
    expect(rewardOf()).toBeUndefined();
  });

  it.each<[readonly string[], string]>([
    [["--reward", "cod"], '--reward must be coderl | ppocoder | swerl | toolrl | orm | prm | judges | file, got "cod"'],
    [["--reward", "coderl"], "--reward coderl is for the environments code, patch, not terminal"],
    [["--env", "code", "--reward", "swerl"], "--reward swerl is for the environments patch, not code"],
    [["--reward", "judges", ...set("reward.judges=form+formm")], 'unknown judge "formm"; did you mean "form"?'],
    [["--reward", "judges", ...set("reward.judges=zzzzzz")], "expected verifier, form, tools, approval"],
    [["--reward", "judges", ...set("reward.judges=form+form")], "--set reward.judges: form is there twice"],
    [["--reward", "judges", ...set("reward.control=chance")], "reward.control is about --reward coderl or ppocoder"],
    [set("reward.judges=form"), "--set reward.judges is about --reward judges; add it"],
    [["--env", "code", "--reward", "coderl", ...set("reward.timeout=5")], "reward.timeout is about --reward judges"],
    [
      ["--reward", "judges", ...set("reward.name=judges")],
      "--reward says what --set reward.name says; give one of them",
    ],
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

  it("that model says yes if yes is likelier than no, and nothing if there is no room for the question", async () => {
    const votes = async (of: Model, ids: readonly number[] = [2]): Promise<number> => {
      const { reward } = rewardOptionsOf(
        { name: "judges", judges: "approval" },
        { template: toyTemplate, model: of, maxLength: 40, seed: 0 },
      );
      const said = await reward!(episode([["action", ids]]), new AbortController().signal);
      return said.parts["judge/approval"]!;
    };
    const models = Array.from({ length: 4 }, (_, seed) => toyModel(device, seed));
    const expected = await Promise.all(
      models.map(async (of) => {
        const [score] = await approvalJudge({ model: of }).score([episode([["action", [2]]])], {
          model: of,
          template: toyTemplate,
        });
        return Number(score! > 0.5);
      }),
    );
    expect(new Set(expected)).toEqual(new Set([0, 1]));
    expect(await Promise.all(models.map((of) => votes(of)))).toEqual(expected);
    await expect(votes(models[0]!, Array(60).fill(2))).rejects.toThrow("no judge of approval said anything");
  });

  it("that model says no where both are exactly as likely", async () => {
    const of = toyModel(device);
    assign(of.params.head!, zeros(of.params.head!.shape, { device }));
    const letterOf = (text: string): string => (text === "yes" ? "a" : text === "no" ? "b" : text);
    const template = new Template({ ...toyTokenizer, encode: (text) => toyTokenizer.encode(letterOf(text)) });
    expect(await approvalJudge({ model: of }).score([played({})], { model: of, template })).toEqual([0.5]);
    const { reward } = rewardOptionsOf(
      { name: "judges", judges: "approval" },
      { template, model: of, maxLength: 40, seed: 0 },
    );
    expect((await reward!(played({}), new AbortController().signal)).parts["judge/approval"]).toBe(0);
  });

  it("of tools by ToolRL, and components without another outcome", () => {
    const call = '[{"name":"f","parameters":{}}]';
    const right = { kinds: "call", wantedKinds: "call", calls: call, wantedCalls: call };
    expect(paid({ name: "toolrl" }, played(right))).toEqual({ reward: 4, parts: { toolrl: 4 } });
    const plain = paid({ format: 0.2 }, played({}, { reward: 2 })) as EpisodeReward;
    expect(plain).toMatchObject({ reward: 2.2, outcome: 2, parts: { outcome: 2, format: 1 } });
  });

  it("components: what each is worth, and the cap on all of them", () => {
    const of = (settings: RewardSettings, t: Trajectory): EpisodeReward =>
      returnOf(settings, { template: toyTemplate, maxLength: 40 })(t);
    const malformed = played({ toolErrors: 2 }, { stepRewards: [0, 0, 0] });
    expect(of({ malformed: 0.1 }, malformed).reward).toBeCloseTo(-0.2, 12);
    expect(of({ malformed: 0.1, cap: 0.15 }, malformed).reward).toBeCloseTo(-0.15, 12);
    const long = (length: number): number =>
      of({ overlong: 0.2 }, episode([["action", Array(length).fill(2)]])).parts["overlong"]!;
    [0, -0.5, -1, -1].forEach((price, i) => expect(long([32, 36, 40, 41][i]!)).toBeCloseTo(price, 12));
    expect(of({ tools: 0.1 }, played({}))).toMatchObject({ reward: 0 });
  });

  it("of an outcome model, and the shares of a critic, which leave the reward as it is", async () => {
    const reader = {} as Reader;
    const context = { template: toyTemplate, model, maxLength: 40, seed: 0, reader };
    const { signal } = new AbortController();
    expect(() => rewardOptionsOf({ name: "orm" }, { ...context, reader: undefined })).toThrow("no outcome model yet");
    expect(rewardOptionsOf({ name: "orm" }, context).reward).toBeTypeOf("function");
    expect(() => rewardOptionsOf({ name: "prm" }, { ...context, reader: undefined })).toThrow("no process model yet");
    expect(() => criticised(undefined, { ...context, reader: undefined })).toThrow("there is no critic yet");
    const t = played({}, { reward: 3 });
    const own = await criticised(undefined, context, { labels: "uniform" })(t, signal);
    expect(own).toEqual({ reward: 3, parts: {}, tokenShares: [0.25, 0.25, 0.25] });
    const other = (): EpisodeReward => ({ reward: 1, parts: { a: 1 } });
    const said = await criticised(other, context, { labels: "uniform" })(t, signal);
    expect(said).toMatchObject({ reward: 1, parts: { a: 1 } });
  });

  it("of a process model, step by step, also with components, which the policy's last turn gets", async () => {
    const reader = { model, head: initReaderHead(model, 1, new Rng(0)) };
    const context = { template: toyTemplate, model, maxLength: 40, seed: 0, reader };
    const ask = async (settings: RewardSettings): Promise<EpisodeReward> =>
      rewardOptionsOf(settings, context).reward!(played({ success: true }), new AbortController().signal);
    const [values] = await stepValues(reader, [played({})], toyTemplate.padId);
    const [v] = values!;
    const agreement = Number(v! >= 0.5);
    expect(await ask({ name: "prm" })).toEqual({ reward: v, stepRewards: [v], parts: { prm: v, agreement } });
    const ofOutcome = await ask({ name: "orm" });
    expect(ofOutcome).toEqual({ reward: agreement, parts: { orm: agreement, agreement } });
    const shaped = await ask({ name: "prm", format: 0.25 });
    expect(shaped).toMatchObject({ outcome: v, stepRewards: [v], parts: { prm: v, outcome: v, format: 1 } });
    expect(shaped.reward).toBeCloseTo(v! + 0.25, 12);
    Object.values(reader.head).forEach((x) => x.dispose());
  });

  it("of a trained model: its options are read before anything begins", () => {
    const run = { env: "tools" };
    expect(() => checkRewards({ name: "orm", orm: { steps: -1 } }, run)).toThrow("orm: steps must be an integer ≥ 0");
    expect(() => checkRewards({ name: "prm", prm: { samples: 0 } }, run)).toThrow(
      "prm: samples must be an integer ≥ 1",
    );
    expect(() => checkRewards({ name: "prm", prm: { steps: 0 } }, run)).not.toThrow();
  });

  it("judges have a time limit", () => {
    const { rewardLimits } = rewardOptionsOf(
      { name: "judges", timeout: 7 },
      { template: toyTemplate, model, maxLength: 9, seed: 0 },
    );
    expect(rewardLimits).toEqual({ timeout: 7 });
    const context = { template: toyTemplate, model, maxLength: 9, seed: 0 };
    expect(rewardOptionsOf({ name: "judges" }, context)).toHaveProperty("rewardLimits", undefined);
  });
});
