/**
 * What success is, where environments report it and where they do not: one definition, `succeeded`, in every place that
 * asks. Right values are those of its docstring; Gymnasium and its trainers leave the question to each program
 * (Stable-Baselines3 reads `info["is_success"]`, and has no rate where it is absent).
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { metricsOfScore, passAtPowers, recordOf } from "../../run/heldOut.ts";
import { describeEpisodes, pickEpisodes } from "../../run/transcripts.ts";
import { chosenTries } from "../../run/verification.ts";
import type { Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import { rolloutMetrics } from "../../rl/episode/metrics.ts";
import { succeeded, successRate } from "../../rl/episode/outcomes.ts";
import type { StopReason, Trajectory } from "../../rl/episode/stream.ts";
import { evaluate, evaluationOf } from "../../rl/evaluate.ts";
import { filterRollouts } from "../../methods/filter.ts";
import { rowOf } from "../../rl/objective/columns.ts";
import { isTypeScript, projectFiles, readSource } from "../project/sources.ts";
import { HARD_WORLDS } from "../support/hardWorlds.ts";
import { comparisonTable, missingNote, scoreLine } from "../../run/display/table.ts";
import { wasm } from "../support/rlExecutors.ts";
import { endingModel, episode, toyModel, toyTemplate } from "../support/rlToy.ts";

const ended = (reward: number, info: Trajectory["info"] = {}, stopReason: StopReason = "completed"): Trajectory =>
  episode(
    [
      ["prompt", [1]],
      ["action", [2]],
      ["observation", [3]],
    ],
    { reward, stepRewards: [reward], info, stopReason },
  );

describe("an episode", () => {
  it.each([
    ["earned something", ended(1), true],
    ["earned a part", ended(0.25), true],
    ["earned nothing", ended(0), false],
    ["paid", ended(-0.6), false],
    ["has no score", ended(NaN), false],
    ["was cut off after a reward", ended(0.5, {}, "max_turns"), true],
    ["broke its environment after a reward", ended(1, { error: "gone" }, "tool_error"), false],
    ["was paid for its form only", { ...ended(0.2), outcome: 0 }, false],
    ["is reported as solved, at a cost", ended(-0.1, { success: true }), true],
    ["is reported as failed, for a part", ended(0.5, { success: false }), false],
    ["is reported as solved in words", ended(0, { success: "yes" }), false],
  ])("that %s", (_what, played, expected) => {
    expect(succeeded(played)).toBe(expected);
  });
});

describe("where nothing is reported, all places agree", () => {
  let device: Device;
  beforeAll(async () => void (device = await wasm.open()));
  afterAll(() => device.dispose());
  const [won, lost] = [ended(1), ended(0)];

  it("metrics, evaluations, pass@k, filters, choices among tries", () => {
    const all = [won, lost, ended(0.5), ended(-1)];
    expect(rolloutMetrics(all)["success"]).toBe(0.5);
    expect(successRate(all)).toBe(0.5);
    expect(evaluationOf(all)).toMatchObject({ successes: 2, episodes: 4, families: { all: { successes: 2 } } });
    expect(passAtPowers(all, 2, 2)).toEqual({ 1: 0.5, 2: 0.5 });
    expect(filterRollouts([lost, won])).toEqual([won]);
    expect(chosenTries([lost, won], [0, 1], toyTemplate, 1).best).toBe(1);
  });

  it("transcripts", async () => {
    const rows = [lost, won].map((t) => rowOf(t));
    expect(pickEpisodes(rows)).toEqual([rows[1], rows[0]]);
    const marks = await describeEpisodes(toyModel(device), toyTemplate, rows, "rl", 0);
    expect(marks.map(({ success }) => success)).toEqual([false, true]);
    // The family of an episode that was cut off before the environment told it is that of its task.
    const told = ended(1, { family: "f" });
    const [mark] = await describeEpisodes(toyModel(device), toyTemplate, rows.slice(0, 1), "rl", 0, [told]);
    expect(mark!.family).toBe("f");
  });

  it("an evaluation has a success and a reward", async () => {
    const seeds = Array.from({ length: 12 }, (_, i) => i);
    const score = await evaluate({
      model: endingModel(device),
      template: toyTemplate,
      env: HARD_WORLDS.silent,
      envOptions: {},
      seeds,
      rng: new Rng(1),
      rollout: { maxActionTokens: 12, maxTurns: 4 },
    });
    const rewards = score.trajectories.map(({ reward }) => reward);
    expect(new Set(rewards).size).toBeGreaterThan(1);
    expect(score.successes).toBe(rewards.filter((r) => r > 0).length);
    expect(score.meanReward).toBeCloseTo(rewards.reduce((a, b) => a + b) / 12, 12);
  });
});

it("the mean reward of an evaluation is of the episodes that have a score, as a 0 may be the best there is", () => {
  expect(evaluationOf([ended(-1), ended(NaN), ended(-3)])).toMatchObject({ meanReward: -2, rewardStd: Math.SQRT2 });
  expect(evaluationOf([ended(NaN)])).toMatchObject({ episodes: 0, unscored: 1, meanReward: NaN });
});

it("an evaluation counts what has no score out of success, as training does, and says how many there are", () => {
  const named = { family: "f", success: true };
  const all = [ended(NaN, named), ended(-0.5), ended(0), ended(1, { family: "f" })].map((t, i) => ({
    ...t,
    group: i,
    seed: i,
  }));
  const score = evaluationOf(all);
  expect(score).toMatchObject({ episodes: 3, unscored: 1, notPlayed: 0, successes: 1, meanReward: 1 / 6 });
  expect(score.successes / score.episodes).toBe(rolloutMetrics(all)["success"]);
  expect(score.families).toEqual({ unknown: { successes: 0, episodes: 2 }, f: { successes: 1, episodes: 1 } });
  expect(passAtPowers([ended(NaN, named), ended(0), ended(1), ended(1)], 2, 2)).toEqual({ 1: 0.75, 2: 1 });
  expect(chosenTries([ended(NaN, named), ended(0)], [1, 0], toyTemplate, 1)).toEqual({ best: 0, vote: 0, majority: 0 });
  // In lines of metrics, summaries and tables; nothing anywhere is NaN.
  const losses = { worldLoss: 1, worldLossRandom: 1, worldLossOnPolicy: 1 };
  expect(metricsOfScore({ ...score, ...losses })).toMatchObject({ success: 1 / 3, episodes: 3, unscored: 1 });
  const none = { ...evaluationOf([ended(NaN), ended(NaN)]), ...losses };
  expect(metricsOfScore(none)).not.toHaveProperty("success");
  expect(Object.values(metricsOfScore(none)).filter(Number.isNaN)).toEqual([]);
  expect(scoreLine(recordOf(none))).toMatch(/^held-out tasks: – of 0 solved \(2 of 2 without a score\)/);
  const both = { episodes: 180, notPlayed: 15, unscored: 5, successes: 90 };
  expect(missingNote(both)).toBe(" (15 of 200 not played, 5 without a score)");
  const [before, after] = [
    { ...recordOf({ ...score, ...losses }), label: "before" },
    { ...both, label: "after" },
  ];
  expect(comparisonTable({ before, after, facts: {} }).rows.slice(-3)).toEqual([
    ["episodes", "3", "180", ""],
    ["not played", "0", "15", ""],
    ["without a score", "1", "5", ""],
  ]);
});

it("nobody else reads of an episode whether it succeeded", () => {
  // Of an answer, where an environment's own code asks about itself: the control of graded rewards.
  const own = new Set(["papers/rewards/program.ts"]);
  const places = projectFiles().filter(
    (path) => isTypeScript(path) && /^(rl|job|tools|site|serve|cli|nats|remote|node|mcp)\//.test(path),
  );
  const asking = places.filter((path) => /\binfo(\.success|\["success"\]|\?\.success)/.test(readSource(path)));
  expect(asking.filter((path) => !own.has(path) && path !== "rl/episode/outcomes.ts")).toEqual([]);
});
