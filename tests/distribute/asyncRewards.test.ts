/**
 * Rewards that are promises: the run is the one of the same rewards at once, whoever answers first; time limits, how
 * many are awaited at a time, and what becomes of episodes whose reward fails.
 */
import { getEventListeners } from "node:events";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { fail } from "../../engine/errors.ts";
import { trainRlAsync } from "../../distribute/async/train.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { remax } from "../../methods/advantages/index.ts";
import { type EpisodeReward, rewarded, type RewardFunction } from "../../rl/tasks/scoring.ts";
import { type RlOptions, trainRl } from "../../rl/train/loop.ts";
import type { StepReport } from "../../rl/train/report.ts";
import { common, toyAsyncOptions } from "../support/rlAsync.ts";
import { paramsOf, reportsOf, toyObjective, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel, episode } from "../support/rlToy.ts";

vi.setConfig({ testTimeout: 60_000 }); // runs with timers, on a machine that may be busy

let device: Device;
beforeAll(async () => {
  device = await makeDevice("wasm");
});
afterAll(() => device.dispose());

/** The share of the token "a" (id 0) or "b" among what the episode has. */
const worth = ({ stream: { ids } }: Trajectory): EpisodeReward => {
  const share = ids.filter((id) => id < 2).length / ids.length;
  return { reward: share, parts: { share } };
};
const after = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

interface Run {
  readonly reports: readonly StepReport[];
  readonly params: readonly number[][];
}
async function run(overrides: Partial<RlOptions>): Promise<Run> {
  const model = endingModel(device);
  const reports = await reportsOf(trainRl(toyRlOptions(model, overrides)));
  return { reports, params: await paramsOf(model) };
}

/** Episodes of one token each, whose ids say which is which. */
const episodes = (count: number): Trajectory[] =>
  Array.from({ length: count }, (_, i) => episode([["action", [i]]], { group: i }));
const idOf = ({ stream }: Trajectory): number => stream.ids[0]!;

describe("a promised reward", () => {
  it("gives the run of the same reward at once, bit for bit, whoever answers first", async () => {
    const atOnce = await run({ reward: worth });
    let asked = 0;
    const later: RewardFunction = async (t) => {
      await after([9, 0, 5][asked++ % 3]!);
      return worth(t);
    };
    const promised = await run({ reward: later });
    expect(promised.reports.map(({ metrics }) => metrics)).toEqual(atOnce.reports.map(({ metrics }) => metrics));
    expect(promised.params).toEqual(atOnce.params);
    expect(atOnce.params).not.toEqual((await run({})).params);
    expect(asked).toBe(18);
    expect(atOnce.reports.map(({ metrics }) => metrics["rewards/failed"])).toEqual([0, 0, 0]);
  });

  it("also with workers, and with a greedy baseline, which is scored too", async () => {
    const objective = { ...toyObjective, advantage: remax() };
    const reward: RewardFunction = async (t) => {
      await after(t.stream.ids.length % 4);
      return worth(t);
    };
    const one = await run({ objective, reward: worth });
    const model = endingModel(device);
    const reports = await reportsOf(trainRlAsync(toyAsyncOptions(model, { objective, reward })));
    expect(reports.map(common)).toEqual(one.reports.map(({ metrics }) => metrics));
    expect(await paramsOf(model)).toEqual(one.params);
  });

  it("is awaited with few others at a time, in the order of the episodes, over all parts of a run", async () => {
    const begun: number[] = [];
    let [now, most] = [0, 0];
    const reward: RewardFunction = async (t) => {
      begun.push(idOf(t));
      most = Math.max(most, ++now);
      await after(7 - idOf(t));
      now--;
      return { reward: idOf(t), parts: {} };
    };
    const options = { reward, rewardLimits: { concurrency: 3 } };
    const [first, second] = await Promise.all([
      rewarded(options, episodes(7)),
      rewarded(options, episodes(7).slice(4)),
    ]);
    expect(first.map((t) => t.reward)).toEqual([0, 1, 2, 3, 4, 5, 6]);
    expect(second.map((t) => t.reward)).toEqual([4, 5, 6]);
    expect(begun.slice(0, 3)).toEqual([0, 1, 2]);
    expect(begun.toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 4, 5, 5, 6, 6]);
    expect([most, now]).toEqual([3, 0]);
  });

  it("one at a time means that each is asked when the one before has answered, however it did", async () => {
    const log: string[] = [];
    const reward: RewardFunction = async (t) => {
      log.push(`ask ${idOf(t)}`);
      await after(1);
      log.push(`say ${idOf(t)}`);
      if (idOf(t) === 1) throw new Error("no");
      return { reward: 1, parts: {} };
    };
    await rewarded({ reward, rewardLimits: { concurrency: 1 } }, episodes(3));
    expect(log).toEqual(["ask 0", "say 0", "ask 1", "say 1", "ask 2", "say 2"]);
  });
});

describe("a reward that fails", () => {
  it("masks its episode and says why: too late, thrown at once or later, no reward", async () => {
    const signals: AbortSignal[] = [];
    const answers: readonly RewardFunction[] = [
      () => ({ reward: 0.5, parts: { a: 1 }, outcome: 0.25 }),
      (_, signal) => {
        signals.push(signal);
        return new Promise(() => {});
      },
      () => {
        throw new Error("at once");
      },
      () => Promise.reject(new Error("later")),
      () => Promise.resolve({ reward: Infinity, parts: {} }),
      () => 1 as never,
      () => undefined as never,
      () => ({ reward: NaN, parts: {} }), // cannot be scored, which is no failure
      // A part that is a text would be added to others as a text.
      () => ({ reward: 1, parts: { a: "1" as never } }),
      () => ({ reward: 1, parts: null as never }),
      () => Promise.resolve({ reward: 1, parts: { a: Infinity } }),
      () => {
        throw Object.create(null); // has no words
      },
      () => Promise.reject(Object.create(null) as Error),
      () => Promise.reject(new Error("x".repeat(10_000_000))),
      () => Promise.resolve("x".repeat(10_000_000) as never),
      () => Object.defineProperty({}, [..."then"].join(""), { value: () => fail("no promise") }) as never,
    ];
    const reward: RewardFunction = (t, signal) => answers[idOf(t)]!(t, signal);
    const given = episodes(16);
    const scored = await rewarded({ reward, rewardLimits: { timeout: 20 } }, given);
    const expected = "reward: expected { reward, parts } with finite numbers or NaN, got";
    expect(scored.map(({ masked, info }) => (masked ? info["rewardError"] : "fine"))).toEqual([
      "fine",
      "reward: no answer within 20 ms",
      "at once",
      "later",
      expect.stringContaining(expected),
      `${expected} 1 (rewardFunction makes one of a function of numbers)`,
      `${expected} missing`,
      "fine",
      `${expected} {"reward":1,"parts":{"a":"1"}}`,
      `${expected} {"reward":1,"parts":null}`,
      expect.stringContaining(expected),
      "a value without words, of type object",
      "a value without words, of type object",
      `${"x".repeat(2_000)}...`,
      `${expected} "${"x".repeat(56)}...`,
      "no promise",
    ]);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    expect(scored[0]).toEqual({ ...given[0], reward: 0.5, rewardParts: { a: 1 }, outcome: 0.25 });
    expect(scored[7]!.reward).toBeNaN();
  });

  it("nothing of a call stays on the signal of the run", async () => {
    const run = new AbortController();
    const reward: RewardFunction = () => Promise.resolve({ reward: 1, parts: {} });
    await rewarded({ reward }, episodes(50), run.signal);
    expect(getEventListeners(run.signal, "abort")).toHaveLength(1); // one for all calls
    // Where Node keeps the signals that depend on this one, each for ever (AbortSignal.any, Node 20).
    const own = Object.getOwnPropertySymbols(run.signal).map((key) => (run.signal as never)[key] as unknown);
    expect(own.flatMap((value) => (value instanceof Set ? [value.size] : []))).toEqual([]);
  });

  it("an episode whose environment failed is not scored", async () => {
    const reward = vi.fn<RewardFunction>(worth);
    const [only] = await rewarded({ reward }, [{ ...episodes(1)[0]!, masked: true, stopReason: "tool_error" }]);
    expect(only!.rewardParts).toBeUndefined();
    expect(reward).not.toHaveBeenCalled();
  });

  it("is trained on as an episode whose environment failed, and counted", async () => {
    const broken = (t: Trajectory): boolean => t.stream.ids.length % 2 === 0;
    const reward: RewardFunction = (t) => (broken(t) ? Promise.reject(new Error("no")) : worth(t));
    const { reports } = await run({ reward });
    let failures = 0;
    for (const { rows, metrics } of reports) {
      const masked = rows.filter(({ trajectory }) => trajectory.masked);
      failures += masked.length;
      expect(masked.map(({ trajectory }) => broken(trajectory))).toEqual(masked.map(() => true));
      expect([metrics["rewards/failed"], metrics["masked"]]).toEqual([masked.length, masked.length]);
      for (const { wPolicy, wWorld } of masked) expect([...wPolicy, ...wWorld].every((w) => w === 0)).toBe(true);
    }
    expect(failures).toBeGreaterThan(0);
    expect(failures).toBeLessThan(18);
  });

  it("a run in which each fails ends with an error that names the first; one that recovers goes on", async () => {
    const failing: RewardFunction = () => Promise.reject(new Error("the judge is down"));
    const message = (since: number, step: number): string =>
      `trainRl: every reward has failed since step ${since}; ` +
      `of 6 episodes of step ${step} the first: the judge is down`;
    await expect(run({ reward: failing, steps: 9 })).rejects.toThrow(message(0, 2));
    await expect(run({ reward: failing, rewardLimits: { patience: 1 } })).rejects.toThrow(message(0, 0));
    let asked = 0;
    // Steps 0, 1 and 3, 4, 5 have no reward.
    const moody: RewardFunction = (t, signal) => (Math.floor(asked++ / 6) === 2 ? worth(t) : failing(t, signal));
    await expect(run({ reward: moody, steps: 9 })).rejects.toThrow(message(3, 5));
    expect(asked).toBe(36);
    const model = endingModel(device);
    const workers = trainRlAsync(toyAsyncOptions(model, { reward: failing, steps: 5 }));
    await expect(reportsOf(workers)).rejects.toThrow(message(0, 2));
  });

  it("a run that is stopped waits for no reward", async () => {
    const stop = new AbortController();
    const signals: AbortSignal[] = [];
    const reward: RewardFunction = (_, signal) => {
      signals.push(signal);
      setTimeout(() => stop.abort(), 5);
      return new Promise(() => {});
    };
    const rollout = { maxActionTokens: 5, maxTurns: 3, signal: stop.signal };
    const { reports } = await run({ reward, rollout, rewardLimits: { timeout: Infinity, concurrency: 2 } });
    expect(reports).toEqual([]);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
    const model = endingModel(device);
    const more = new AbortController();
    const late: RewardFunction = () => {
      setTimeout(() => more.abort(), 5);
      return new Promise(() => {});
    };
    const own = { reward: late, rollout: { ...rollout, signal: more.signal } };
    expect(await reportsOf(trainRlAsync(toyAsyncOptions(model, own)))).toEqual([]);
  });
});

it("refuses limits that make no sense", async () => {
  const bad = (options: object): Promise<Run> => run(options);
  await expect(bad({ reward: worth, rewardLimits: { timeout: 0 } })).rejects.toThrow(
    "trainRl: rewardLimits: timeout must be > 0 or Infinity, got 0",
  );
  await expect(bad({ reward: worth, rewardLimits: { concurrency: 0.5 } })).rejects.toThrow(
    "trainRl: rewardLimits: concurrency must be an integer ≥ 1, got 0.5",
  );
  await expect(bad({ reward: worth, rewardLimits: { patient: 1 } })).rejects.toThrow("did you mean 'patience'?");
  await expect(bad({ rewardLimits: {} })).rejects.toThrow("trainRl: rewardLimits without a reward");
  await expect(bad({ reward: 1 })).rejects.toThrow("trainRl: reward must be a function of an episode, got 1");
});
