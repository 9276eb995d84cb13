/** What is written of an evaluation: its line of metrics, and what a summary keeps. */
import { expect, it } from "vitest";
import { episode } from "../support/rlToy.ts";
import { type HeldOutScore, metricsOfScore, overlapNote, recordOf } from "../../run/heldOut.ts";

/** Only what is always there. Families in another order than that of their names. */
const plain: HeldOutScore = {
  episodes: 4,
  notPlayed: 0,
  unscored: 0,
  failed: 0,
  successes: 3,
  meanReward: 0.5,
  rewardStd: 0.25,
  meanTurns: 2.5,
  families: {
    b: { successes: 1, episodes: 2 },
    c: { successes: 0, episodes: 0 },
    a: { successes: 2, episodes: 2 },
  },
  trajectories: [],
  worldLoss: 1.5,
  worldLossRandom: 1.75,
  worldLossOnPolicy: 1.25,
};
const whole: HeldOutScore = {
  ...plain,
  notPlayed: 2,
  unscored: 1,
  worldLossExcess: 0,
  generalLoss: 0,
  passAt: { 1: 0.75, 2: 1 },
  chosen: { best: 0.875 },
};

const line = {
  success: 0.75,
  reward: 0.5,
  reward_std: 0.25,
  episodes: 4,
  "num_turns/mean": 2.5,
  world_loss: 1.5,
  "world_loss/random": 1.75,
  "world_loss/on_policy": 1.25,
};

it("the line of metrics has what was measured, a 0 too, and no more", () => {
  expect(metricsOfScore(plain)).toStrictEqual(line);
  expect(metricsOfScore(whole)).toStrictEqual({
    ...line,
    not_played: 2,
    unscored: 1,
    world_loss_excess: 0,
    general_loss: 0,
    "pass@1": 0.75,
    "pass@2": 1,
    "chosen/best": 0.875,
  });
});

it("of one episode there is a success, of none there is not", () => {
  const of = (episodes: number): unknown => metricsOfScore({ ...plain, episodes, successes: episodes })["success"];
  expect([of(1), of(0)]).toEqual([1, undefined]);
  expect(metricsOfScore({ ...plain, episodes: 0 })).not.toHaveProperty("success");
});

it("without a score there is no reward, in neither", () => {
  const unscored = { ...plain, meanReward: NaN, rewardStd: 0 };
  const { reward: _, reward_std: __, ...others } = line;
  expect(metricsOfScore(unscored)).toStrictEqual(others);
  expect(Object.keys(recordOf(unscored))).not.toEqual(expect.arrayContaining(["meanReward"]));
  expect(Object.keys(recordOf(unscored))).not.toEqual(expect.arrayContaining(["rewardStd"]));
});

// jinyangwu/SEED#5, openai/procgen#100: evaluations on training tasks.
it("held-out tasks that read as those of training are named, and no others", () => {
  const heldOut = ["a", "b", "a", "c"].map((task) => episode([["prompt", [1]]], { task }));
  expect(overlapNote(heldOut, new Set(["a"]))).toMatch(
    /^2 of 4 held-out tasks have the same text as tasks of training/,
  );
  expect(overlapNote(heldOut, new Set(["d"]))).toBeUndefined();
  expect(overlapNote(heldOut, new Set())).toBeUndefined();
});

it("a summary keeps counts, losses and families by name", () => {
  const kept = {
    episodes: 4,
    successes: 3,
    meanReward: 0.5,
    rewardStd: 0.25,
    meanTurns: 2.5,
    worldLoss: 1.5,
    worldLossRandom: 1.75,
    worldLossOnPolicy: 1.25,
  };
  const { families, ...rest } = recordOf(plain);
  expect(rest).toStrictEqual(kept);
  expect(Object.entries(families!)).toEqual([
    ["a", { successes: 2, episodes: 2 }],
    ["b", { successes: 1, episodes: 2 }],
    ["c", { successes: 0, episodes: 0 }],
  ]);
  const { families: same, ...all } = recordOf(whole);
  expect(Object.keys(same!)).toEqual(["a", "b", "c"]);
  expect(all).toStrictEqual({ ...kept, notPlayed: 2, unscored: 1, worldLossExcess: 0, passAt: { 1: 0.75, 2: 1 } });
});
