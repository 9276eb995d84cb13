/** When a run stops because its environment fails, and what an evaluation counts of which episodes were not played. */
import { describe, expect, it, vi } from "vitest";
import { WorldgradError } from "../../engine/errors.ts";
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { checkMeasured, FailedSteps, placeOf, playScripts } from "../../run/failures.ts";
import { type HeldOutScore, metricsOfScore, passAtPowers } from "../../run/heldOut.ts";
import { chosenTries } from "../../run/verification.ts";
import { evaluationOf } from "../../rl/evaluate.ts";
import { append, emptyStream, type StopReason, type Trajectory } from "../../rl/episode/stream.ts";
import { comparisonTable, missingNote, scoreLine } from "../../run/display/table.ts";
import { toyTemplate } from "../support/rlToy.ts";
import { QUIET } from "../support/tinyRun.ts";

const episode = (stopReason: StopReason, info: Trajectory["info"] = {}, reward = 0): Trajectory => ({
  stream: emptyStream(),
  group: 0,
  stepRewards: [],
  env: "toy",
  task: "",
  seed: 0,
  reward,
  stopReason,
  info,
  masked: stopReason === "timeout" || stopReason === "tool_error",
});
const won = episode("completed", { success: true }, 1);
const lost = episode("completed", { success: false });
const gone = episode("tool_error", { error: "gone", success: true }, NaN);
const late = episode("timeout", { error: "late" }, NaN);

/** The agent had acted before its environment failed. */
const broke: Trajectory = {
  ...episode("tool_error", { error: "no such move" }, NaN),
  stream: (() => {
    const stream = emptyStream();
    append(stream, "action", 0, [1], { oldLogProbs: [-1] });
    return stream;
  })(),
};

describe("an episode of a script", () => {
  const spec = { name: "toy" } as EnvironmentSpec;
  const played = (thrown: unknown, signal?: AbortSignal): Promise<number[]> =>
    playScripts(spec, {}, 3, (i) => (i === 1 ? Promise.reject(thrown) : Promise.resolve(i)), signal);

  it("that throws ends the run with the environment and the place", async () => {
    const message = /^toy: an episode of a script, for demonstrations or an evaluation, failed: away \(at .*\)$/;
    const error = new TypeError("away");
    const told = await played(error).catch((caught: unknown) => caught);
    expect(told).toMatchObject({ name: "WorldgradError", cause: error });
    expect((told as Error).message).toMatch(message);
    await expect(played("no error")).rejects.toThrow("failed: no error");
    expect(await playScripts(spec, {}, 2, (i) => Promise.resolve(i))).toEqual([0, 1]);
  });

  it("that was told, is too late, or was stopped is left as it is", async () => {
    const late = Object.assign(new Error("toy.step: no answer within 1 ms"), { name: "TimeoutError" });
    const system = Object.assign(new Error("connect ECONNREFUSED"), { syscall: "connect" });
    for (const error of [new WorldgradError("toy.step: expected …"), late, system])
      await expect(played(error)).rejects.toBe(error);
    const reason = new Error("stopped");
    await expect(played(reason, AbortSignal.abort(reason))).rejects.toBe(reason);
  });
});

describe("steps of which nothing was played", () => {
  const rows = (...episodes: Trajectory[]) => episodes.map((trajectory) => ({ trajectory }));

  it("the first has to be saved, and one that was played begins anew", () => {
    const failed = new FailedSteps();
    const told = (...steps: ReturnType<typeof rows>[]) => steps.map((step) => [failed.isFirst(step), failed.count]);
    expect(told(rows(lost, gone), rows(gone, late), rows(gone))).toEqual([
      [false, 0],
      [true, 1],
      [false, 2],
    ]);
    expect(told(rows(won), rows(gone), rows(late))).toEqual([
      [false, 0],
      [true, 1],
      [false, 2],
    ]);
  });

  it("the very first step may be the first of them", () => {
    const failed = new FailedSteps();
    expect([failed.isFirst(rows(gone)), failed.isFirst(rows(gone))]).toEqual([true, false]);
  });

  it("a step without episodes has not failed", () => {
    const failed = new FailedSteps();
    for (let i = 0; i < 5; i++) expect(failed.isFirst([])).toBe(false);
  });

  it("the pause is ten seconds, and no millisecond more", async () => {
    vi.useFakeTimers();
    try {
      const failed = new FailedSteps();
      failed.isFirst(rows(gone));
      let isOver = false;
      const pause = failed.pause({ observer: QUIET, signal: new AbortController().signal }).then(() => (isOver = true));
      await vi.advanceTimersByTimeAsync(9999);
      expect(isOver).toBe(false);
      await vi.advanceTimersByTimeAsync(1);
      expect(isOver).toBe(true);
      await pause;
    } finally {
      vi.useRealTimers();
    }
  });

  it("is followed by a pause, which the end of the run ends; others by none", async () => {
    const notes: string[] = [];
    const stop = new AbortController();
    const watch = { observer: { ...QUIET, note: (text: string) => void notes.push(text) }, signal: stop.signal };
    const took = async (failed: FailedSteps): Promise<number> => {
      const start = performance.now();
      await failed.pause(watch);
      return performance.now() - start;
    };
    const short = new FailedSteps(0.05);
    short.isFirst(rows(won));
    expect(await took(short)).toBeLessThan(900);
    expect(notes).toEqual([]);
    short.isFirst(rows(gone));
    const pause = await took(short);
    expect(pause).toBeGreaterThan(48);
    expect(pause).toBeLessThan(900);
    expect(notes).toEqual([
      "every episode of this step failed; the next one begins in 0.05 s (--resume begins before them)",
    ]);

    const long = new FailedSteps();
    long.isFirst(rows(gone));
    setTimeout(() => stop.abort(), 50);
    expect(await took(long)).toBeLessThan(5000);
    expect(notes[1]).toBe(
      "every episode of this step failed; the next one begins in 10 s (--resume begins before them)",
    );
    expect(await took(long)).toBeLessThan(5000); // after the end at once
    expect(notes).toHaveLength(2);
  });
});

describe("an evaluation of which some episodes were not played", () => {
  it("is of the others, and says how many there were", () => {
    const named = { ...won, info: { success: true, family: "a" } };
    const tasks = [named, gone, { ...lost, info: { family: "a" } }, late, lost, lost];
    const score = evaluationOf(tasks.map((t, i) => ({ ...t, group: i, seed: i })));
    expect(score).toMatchObject({ episodes: 4, notPlayed: 2, successes: 1, meanReward: 0.25, meanTurns: 0 });
    expect(score.families).toEqual({ a: { successes: 1, episodes: 2 }, unknown: { successes: 0, episodes: 2 } });
    expect(score.trajectories).toHaveLength(6);
    const losses = { worldLoss: 1, worldLossRandom: 1, worldLossOnPolicy: 1 };
    const whole: HeldOutScore = { ...score, ...losses };
    expect(metricsOfScore(whole)).toMatchObject({ success: 0.25, episodes: 4, not_played: 2 });
    expect(metricsOfScore({ ...evaluationOf([won, lost]), ...losses })).not.toHaveProperty("not_played");
  });

  it("counts an environment that failed after an action as a failure of the agent", () => {
    const score = evaluationOf([won, broke, late, lost]);
    // Its reward is not known, so the mean is of the other two.
    expect(score).toMatchObject({ episodes: 3, notPlayed: 1, successes: 1, meanReward: 0.5 });
    expect(passAtPowers([broke, won, late, won], 2, 2)).toEqual({ 1: 0.5, 2: 1 });
    expect(() => checkMeasured([broke, broke, won])).not.toThrow();
    expect(() => checkMeasured([broke, broke, late])).toThrow(
      "every episode of the evaluation failed. The first error: no such move",
    );
  });

  it("is refused if fewer than half were played", () => {
    expect(() => checkMeasured([won, gone])).not.toThrow();
    expect(() => checkMeasured([won, lost, late])).not.toThrow();
    expect(() => checkMeasured([])).not.toThrow();
    expect(() => checkMeasured([won, late, gone])).toThrow(
      /^the evaluation could play only 1 of its 3 episodes, and needs half of them. The first error: late$/,
    );
    expect(() => checkMeasured([gone])).toThrow("only 0 of its 1 episodes");
  });

  it("pass@k is of the tasks that were played k times", () => {
    // Two tasks, three tries each: the first is played twice and solved once, the second never fails to be played.
    const tries = [won, lost, gone, lost, lost, won];
    const rates = passAtPowers(tries, 2, 3);
    expect(Object.keys(rates)).toEqual(["1", "2", "3"]);
    expect([rates["1"], rates["2"]].map((rate) => rate!.toFixed(9))).toEqual([(5 / 12).toFixed(9), (5 / 6).toFixed(9)]);
    expect(rates["3"]).toBe(1);
    expect(passAtPowers([won, gone], 1, 2)).toEqual({ 1: 1 });
  });

  it("nothing is chosen from tries that were not played", () => {
    // The first task's best try and all of the second's were not played.
    expect(chosenTries([gone, gone, lost, late], [0.9, 0.9, 0.1, 0.9], toyTemplate, 2)).toEqual({
      best: 0,
      vote: 0,
      majority: 0,
    });
  });

  it("is shown with their number", () => {
    const score = { episodes: 180, notPlayed: 20, successes: 74 };
    expect(scoreLine(score)).toBe("held-out tasks: 41.1 % of 180 solved (20 of 200 not played)");
    expect(scoreLine({ episodes: 200, successes: 82 })).toBe("held-out tasks: 41.0 % of 200 solved");
    expect(missingNote({ episodes: 5, notPlayed: 0 })).toBe("");
    const before = { label: "before", episodes: 200, successes: 10 };
    const { rows } = comparisonTable({ before, after: { ...score, label: "after" }, facts: {} });
    expect(rows.slice(-2)).toEqual([
      ["episodes", "200", "180", ""],
      ["not played", "0", "20", ""],
    ]);
  });
});

const thrown = (make: () => Error): Error => {
  try {
    throw make();
  } catch (error) {
    return error as Error;
  }
};

it("where foreign code threw is the innermost line of its stack", () => {
  const error = thrown(() => new TypeError("x is undefined"));
  expect(placeOf(error)).toMatch(/^ \(at .*failures\.test\.ts:\d+:\d+\)?\)$/);
});

it.each([
  ["an error of the library, which says what was wrong", new WorldgradError("toy.step: expected a string")],
  ["a call that took too long", new DOMException("toy: step: no answer within 5 ms", "TimeoutError")],
  ["an error without a stack", Object.assign(new Error("gone"), { stack: undefined })],
  ["an error whose stack is its message alone", Object.assign(new Error("gone"), { stack: "Error: gone" })],
  ["what is no error", { code: 7 }],
  ["nothing", undefined],
])("where it was thrown is not told of %s", (_, cause) => {
  expect(placeOf(cause)).toBe("");
});
