/**
 * Rewards of several components and what compares them (GDPO), baselines that remember (RAE), filtered rollouts as a
 * policy gradient (RFT), the mean over tasks, and rollouts that ran out of tokens. Numbers by TRL's formula, computed
 * in another language.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { gdpo, rae, rft } from "../../methods/advantages/index.ts";
import { grpo } from "../../rl/objective/grpo.ts";
import { aggregationWeights } from "../../rl/objective/aggregation.ts";
import { dynamicSampling, informativeGroups } from "../../data/dynamic.ts";
import { filterRollouts } from "../../methods/filter.ts";
import { succeeded } from "../../rl/episode/outcomes.ts";
import { rewarded } from "../../rl/tasks/scoring.ts";
import { play } from "../../rl/train/episodes.ts";
import { ReplayBuffer } from "../../data/replay.ts";
import { echo } from "../../rl/objective/echo.ts";
import { objectiveFromGrpoConfig } from "../../connect/grpoConfig.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import { reinforce } from "../../methods/losses/index.ts";
import { rolloutMetrics } from "../../rl/episode/metrics.ts";
import { objectiveOf } from "../../methods/presets.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import { composite } from "../../papers/rewards/composite.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { trainRl } from "../../rl/train/loop.ts";
import { forked, randomBatch, toyStep, trainOn, weighStep } from "../support/rlBatches.ts";
import { reportsOf, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel, episode } from "../support/rlToy.ts";

let device: Device;
beforeAll(async () => void (device = await makeDevice("wasm")));
afterAll(() => device.dispose());

/** Episodes of one trained token. */
const scored = (group: number, parts: Record<string, number>): Trajectory =>
  episode(
    [
      ["prompt", [1]],
      ["action", [2]],
    ],
    { group, rewardParts: parts, reward: Object.values(parts).reduce((a, b) => a + b, 0) },
  );
const advantagesOf = (batch: readonly Trajectory[], estimator = gdpo()): number[] =>
  estimator.estimate(batch).perToken.map((row) => row.at(-1)!);
const near = (actual: readonly number[], expected: readonly number[]): void => {
  expect(actual.length).toBe(expected.length);
  expected.forEach((x, i) => expect(actual[i]).toBeCloseTo(x, 8));
};

describe("GDPO", () => {
  const table = [
    [1, 0.2],
    [0, 1],
    [1, 0.6],
    [0, 0.5],
    [0, 0.5],
    [1, 0],
  ] as const;
  const batch = table.map(([a, b], i) => scored(Math.floor(i / 3), { right: a, short: b }));

  it("is TRL's normalize_then_sum with weights 1 and .5", () => {
    const expected = [0.15363348, -1.299800562, 1.146167081, -0.573182767, -0.573182767, 1.146365535];
    near(advantagesOf(batch, gdpo({ weights: { right: 1, short: 0.5 } })), expected);
  });

  it("a component that could not be scored is left out of its statistics and adds nothing", () => {
    const holed = batch.map((t, i) => (i === 0 ? { ...t, rewardParts: { right: 1, short: NaN } } : t));
    const expected = [1.045035987, -1.450236115, 0.405200128, -0.522608465, -0.522608465, 1.04521693];
    near(advantagesOf(holed, gdpo({ weights: { short: 0.5 } })), expected);
  });

  it("a group whose sums are equal and whose components differ is kept by refills and by a replay buffer", () => {
    const equal = [scored(0, { a: 1, b: 0 }), scored(0, { a: 0, b: 1 }), scored(1, { a: 1 }), scored(1, { a: 1 })];
    expect([informativeGroups(equal, gdpo().readsParts), informativeGroups(equal, grpo().readsParts)]).toEqual([1, 0]);
    const [buffer, plain] = [new ReplayBuffer(), new ReplayBuffer()];
    buffer.add(equal, 0, gdpo().readsParts);
    plain.add(equal, 0);
    expect(buffer.groups.map(({ trajectories }) => trajectories)).toEqual([equal.slice(0, 2)]);
    expect(plain.groups).toEqual([]);
  });

  it("is told to refills and to the buffer by the loop", async () => {
    let n = 0; // every second episode of a group is right, the others are short: all have the sum 1
    const reward = (): { reward: number; parts: Record<string, number> } => {
      const right = n++ % 2;
      return { reward: 1, parts: { right, short: 1 - right } };
    };
    const kept = async (objective: Objective): Promise<readonly [unknown, number]> => {
      const replay = new ReplayBuffer();
      const data = { reward, plugins: [dynamicSampling({ maxRefills: 0 }), replay] };
      const given = toyRlOptions(endingModel(device), { objective: { ...objective, policyLoss: ppoClip() }, ...data });
      const [report] = await reportsOf(trainRl({ ...given, steps: 1 }));
      return [report!.metrics["dynamic_sampling/kept_groups"], replay.groups.length];
    };
    const { groups } = toyRlOptions(endingModel(device));
    expect(await kept(objectiveOf({ method: "gdpo" }))).toEqual([groups, groups]);
    expect(await kept(objectiveOf({ method: "grpo" }))).toEqual([0, 0]);
  });

  it("tells (0, 1) from (0, 2) in their groups, which GRPO does not: the paper's example", () => {
    const two = [
      scored(0, { a: 0, b: 0 }),
      scored(0, { a: 0, b: 1 }),
      scored(1, { a: 0, b: 0 }),
      scored(1, { a: 1, b: 1 }),
    ];
    near(advantagesOf(two), [-0.547680128, 0.547680128, -1.095360257, 1.095360257]);
    const [, low, , high] = advantagesOf(two, grpo({ eps: 0 }));
    expect(low).toBe(high);
  });

  it("a group of equal sums learns if its components differ; one without any spread gets exactly 0", () => {
    const opposite = [scored(0, { a: 1, b: 0 }), scored(0, { a: 0, b: 0.9 }), scored(0, { a: 0, b: 1 })];
    const same = [scored(1, { a: 0.1, b: 0.2 }), scored(1, { a: 0.1, b: 0.2 })];
    const { perToken, fracRewardZeroStd } = gdpo().estimate([...opposite, ...same]);
    expect(perToken.slice(0, 3).every((row) => row.at(-1) !== 0)).toBe(true);
    expect(perToken.slice(3).map((row) => row.at(-1))).toEqual([0, 0]);
    expect(fracRewardZeroStd).toBe(0.5);
  });

  it("over tokens it is verl's whitening: mean 0 and deviation 1 over the trained tokens", () => {
    const rows = randomBatch(3);
    const values = gdpo({ batch: "token" })
      .estimate(rows)
      .perToken.flatMap((row) => [...row].filter((a) => a !== 0));
    const mean = values.reduce((a, b) => a + b, 0) / values.length;
    const variance = values.reduce((a, b) => a + (b - mean) ** 2, 0) / (values.length - 1);
    expect(mean).toBeCloseTo(0, 10);
    expect(variance).toBeCloseTo(1, 6);
  });

  it("an episode without components has its return as the one", () => {
    const rows = [1, 2, 4].map((reward) =>
      episode(
        [
          ["prompt", [1]],
          ["action", [2]],
        ],
        { reward },
      ),
    );
    const [a, b, c] = advantagesOf(rows) as [number, number, number];
    expect((b - a) / (c - b)).toBeCloseTo(0.5, 10);
  });

  it("refuses weights of what is no component, and is TRL's multi_objective_aggregation", () => {
    expect(() => advantagesOf(batch, gdpo({ weights: { rigth: 1 } }))).toThrow(
      'gdpo: a weight for "rigth", which is no component of the reward: right, short',
    );
    for (const weights of [null, 3, { right: -1 }, { right: 1, short: -0.5 }, { right: NaN }])
      expect(() => gdpo({ weights: weights as never })).toThrow("gdpo: weights must be an object of numbers ≥ 0");
    expect(advantagesOf(batch, gdpo({ weights: { short: 0 } }))).not.toEqual(advantagesOf(batch));
    const { objective } = objectiveFromGrpoConfig({
      multi_objective_aggregation: "normalize_then_sum",
      mask_truncated_completions: true,
    });
    expect([objective.advantage.name, objective.maskTruncated]).toEqual(["gdpo", true]);
    expect(() =>
      objectiveFromGrpoConfig({ multi_objective_aggregation: "normalize_then_sum", scale_rewards: "none" }),
    ).toThrow("scales by group and batch");
    expect(() => objectiveFromGrpoConfig({ multi_objective_aggregation: "both" })).toThrow(
      'must be "sum_then_normalize" or "normalize_then_sum"',
    );
  });

  it("components come from the option reward, go into the metrics, and through a saved replay buffer", async () => {
    const reward = (t: Trajectory): { reward: number; parts: Record<string, number> } => ({
      reward: t.reward + 0.1,
      parts: { outcome: t.reward, bonus: 0.1 * t.stepRewards.length },
    });
    const [report] = await reportsOf(
      trainRl(toyRlOptions(endingModel(device), { objective: objectiveOf({ method: "gdpo" }), reward, steps: 1 })),
    );
    const episodes = report!.rows.map((e) => e.trajectory);
    for (const t of episodes) expect(t.reward).toBeCloseTo(t.rewardParts!["outcome"]! + 0.1, 12);
    const turns = episodes.reduce((sum, t) => sum + t.stepRewards.length, 0) / episodes.length;
    expect(turns).toBeGreaterThan(0);
    expect(report!.metrics["rewards/bonus/mean"]).toBeCloseTo(0.1 * turns, 12);
    expect(report!.metrics["rewards/outcome/mean"]).toBeCloseTo(report!.metrics["reward"]! - 0.1, 10);
    expect("rewards/bonus/mean" in rolloutMetrics(randomBatch(1))).toBe(false);
    const [one, other] = [new ReplayBuffer(), new ReplayBuffer()];
    one.add(
      [scored(0, { a: 1, b: NaN }), scored(0, { a: 0, b: 1 })].map((t, i) => ({ ...t, reward: i })),
      0,
    );
    other.restore(JSON.parse(JSON.stringify(one.state())));
    expect(other.groups).toEqual(one.groups);
  });
});

// NovaSky-AI/SkyRL#2104: the groups for which GDPO was made are those of equal sums
it("of groups that GDPO compares those are left out that have no spread in any component", () => {
  const objective: Objective = {
    advantage: gdpo({ weights: { right: 2 } }),
    policyLoss: ppoClip(),
    aggregation: "token-mean",
    dropConstantGroups: true,
  };
  const parts = [
    { right: 1, form: 0 },
    { right: 0, form: 1 },
    { right: 0, form: 1 },
    { right: 0, form: NaN },
  ];
  const trained = (batch: readonly Trajectory[]): boolean[] =>
    weighStep(objective, batch, 0).map((e) => e.wPolicy.some((w) => w !== 0));
  expect(trained(parts.slice(0, 2).map((own) => scored(0, own)))).toEqual([true, true]);
  expect(trained(parts.slice(1).map((own) => scored(0, own)))).toEqual([false, false, false]);
});

describe("groups to leave out and success are asked of the outcome, not of what shapes the return", () => {
  /** Two groups of three: one of equal outcomes in different form, one of different outcomes. */
  const batch = [0, 0, 0, 0, 1, 1].map((outcome, i) => ({
    ...scored(Math.floor(i / 3), { outcome, format: (i % 3) / 10 }),
    outcome,
  }));

  it("DAPO's drop, the refills and the replay buffer", () => {
    const objective: Objective = {
      advantage: grpo(),
      policyLoss: ppoClip(),
      aggregation: "token-mean",
      dropConstantGroups: true,
    };
    const isTrained = weighStep(objective, batch, 0).map((e) => e.wPolicy.some((w) => w !== 0));
    expect(isTrained).toEqual([false, false, false, true, true, true]);
    expect(informativeGroups(batch)).toBe(1);
    const [one, other] = [new ReplayBuffer(), new ReplayBuffer()];
    one.add(batch, 0);
    expect(one.groups.map(({ trajectories }) => trajectories[0]!.group)).toEqual([1]);
    other.restore(JSON.parse(JSON.stringify(one.state())));
    expect(other.groups).toEqual(one.groups);
  });

  it("good form is no success; composite says what of a return is outcome", async () => {
    expect(batch.map(succeeded)).toEqual([false, false, false, false, true, true]);
    const score = composite<number>([
      { name: "outcome", weight: 2, kind: "outcome", score: (x) => x },
      { name: "format", weight: 0.2, kind: "shaping", score: () => 1 },
    ]);
    expect(score(0)).toMatchObject({ reward: 0.2, outcome: 0 });
    expect(score(1)).toMatchObject({ reward: 2.2, outcome: 2 });
    const [t] = await rewarded({ reward: () => score(0) }, [batch[5]!]);
    expect(t).toMatchObject({ reward: 0.2, outcome: 0 });
  });
});

describe("RAE", () => {
  const reward = (value: number, env = "toy"): Trajectory =>
    episode(
      [
        ["prompt", [1]],
        ["action", [2]],
      ],
      { reward: value, env },
    );

  it("is judged by the running mean from before the step, one for each environment", () => {
    const estimator = rae({ decay: 0.9 });
    const step = [reward(1), reward(2), reward(10, "other"), reward(NaN)];
    expect(advantagesOf(step, estimator)).toEqual([1, 2, 10, 0]);
    expect(advantagesOf(step, estimator)).toEqual([1, 2, 10, 0]); // asking changes nothing
    estimator.observe!(step);
    near(
      Object.values(estimator.state!() as Record<string, { mean: number }>).map(({ mean }) => mean),
      [0.9 * 0.1 + 0.1 * 2, 1],
    );
    near(advantagesOf(step, estimator), [1 - 0.29, 2 - 0.29, 9, 0]);
  });

  it("is told by every step that is learnt from, and continues from its JSON", async () => {
    const estimator = rae();
    const objective: Objective = { advantage: estimator, policyLoss: reinforce(), aggregation: "token-mean" };
    const learner = toyStep(device, objective);
    await trainOn(learner, randomBatch(1), 0);
    await trainOn(learner, randomBatch(2), 1);
    const state = JSON.parse(JSON.stringify(estimator.state!())) as Record<string, { mean: number }>;
    const told = [...randomBatch(1), ...randomBatch(2)].map(({ reward }) => reward);
    expect(state["toy"]!.mean).toBeCloseTo(
      told.reduce((b, reward) => 0.95 * b + 0.05 * reward, 0),
      12,
    );
    const again = rae();
    again.restore!(state);
    expect(advantagesOf(randomBatch(2), again)).toEqual(advantagesOf(randomBatch(2), estimator));
    expect(() => again.restore!({ toy: "much" })).toThrow("expected { mean, lowest } for each environment");
  });

  it("is not told of what is replayed, and of what was played with help", async () => {
    const [seen, replay] = [rae({ decay: 0 }), new ReplayBuffer()];
    const learner = {
      ...toyStep(device, { advantage: seen, policyLoss: ppoClip(), aggregation: "token-mean" }),
      plugins: [replay],
    };
    replay.add(
      randomBatch(1).map((t, i) => ({ ...t, group: 0, reward: 50 + i })),
      0,
    );
    const fresh = randomBatch(2).map((t, i) => ({ ...t, group: i === 0 ? -1 : 0, reward: i === 0 ? 50 : 0.5 }));
    const kept = replay.state();
    const source = { play: () => Promise.resolve({ trajectories: fresh, metrics: {} }) };
    const { trajectories, own, isOffPolicy } = (await play(learner, source, 1, { padId: learner.template.padId }))!;
    expect([trajectories.length > fresh.length, isOffPolicy]).toEqual([true, true]);
    expect(own).toEqual(fresh.slice(1));
    replay.restore(kept);
    await trainOn(learner, fresh, 1);
    expect(seen.state!()).toEqual({ toy: { mean: 0.5, lowest: 0 } });
  });
});

it("RFT: the gradient is that of imitating what filterRollouts keeps", () => {
  const batch = randomBatch(4).map((t, i) => ({ ...t, info: { success: i % 2 === 0 }, seed: 7, task: "one" }));
  const kept = new Set(filterRollouts(batch, { perTask: 2 }));
  expect(kept.size).toBe(2);
  const { perToken } = rft({ perTask: 2 }).estimate(batch);
  batch.forEach((t, i) => expect(perToken[i]!.some((a) => a !== 0)).toBe(kept.has(t)));
  expect(new Set(perToken.flatMap((row) => [...row]))).toEqual(new Set([0, 1]));
  expect(() => rft({ perTask: 0 })).toThrow("perTask must be an integer ≥ 1");
});

it("prompt-mean-token-mean: each task weighs the same, whatever its length (SkyRL)", () => {
  const masks = [
    [true, true, true],
    [true, false, false],
    [true, true, false],
    [false, false, false],
  ];
  const weights = aggregationWeights(masks, "prompt-mean-token-mean", { groups: [0, 0, 1, 2] });
  expect(weights.map((row) => [...row])).toEqual([
    [1 / 8, 1 / 8, 1 / 8],
    [1 / 8, 0, 0],
    [1 / 4, 1 / 4, 0],
    [0, 0, 0],
  ]);
  const rows = weighStep(
    { advantage: grpo(), policyLoss: ppoClip(), aggregation: "prompt-mean-token-mean" },
    randomBatch(2),
    0,
  );
  const ofGroup = (group: number): number =>
    rows.reduce((s, e) => s + (e.trajectory.group === group ? e.wPolicy.reduce((a, b) => a + b, 0) : 0), 0);
  expect(ofGroup(0)).toBeCloseTo(0.5, 12);
  expect(ofGroup(1)).toBeCloseTo(0.5, 12);
});

it("rollouts that ran out of tokens: in the world model, not in the policy term and no statistics", () => {
  const plain: Objective = { advantage: grpo(), policyLoss: ppoClip(), aggregation: "token-mean", world: echo() };
  const batch = randomBatch(5).map((t, i) => (i === 1 ? { ...t, stopReason: "max_tokens" as const, reward: 0 } : t));
  const rows = batch.flatMap((t, i) => (i < 2 ? forked(t, i) : [t])); // all rows of such a rollout
  const isCut = (t: Trajectory): boolean => t.stopReason === "max_tokens";
  for (const trajectories of [batch, rows]) {
    const [whole, masked] = [
      weighStep(plain, trajectories, 0),
      weighStep({ ...plain, maskTruncated: true }, trajectories, 0),
    ];
    const others = weighStep(
      plain,
      trajectories.filter((t) => !isCut(t) && t.rollout !== 1),
      0,
    );
    const kept = masked.filter(({ trajectory }) => others.some((o) => o.trajectory === trajectory));
    expect(kept.length).toBeGreaterThan(2);
    expect(kept.map(({ advantages }) => advantages)).toEqual(others.map(({ advantages }) => advantages));
    masked.forEach((e, i) => {
      if (isCut(e.trajectory)) expect(e.advantages.every((a) => a === 0)).toBe(true);
      expect(e.wWorld).toEqual(whole[i]!.wWorld);
      expect(e.wPolicy.some((w) => w !== 0)).toBe(!isCut(e.trajectory));
    });
    const total = masked.reduce((s, e) => s + e.wPolicy.reduce((a, b) => a + b, 0), 0);
    expect(total).toBeCloseTo(1, 12);
  }
});
