/** Scoring without a run: what counts as a reward, what is left as it is, and when a run has seen enough failures. */
import { describe, expect, it } from "vitest";
import type { Trajectory } from "../../rl/episode/stream.ts";
import {
  checkRewards,
  type EpisodeReward,
  REWARD_LIMITS,
  rewarded,
  type RewardFunction,
  rewardMetrics,
} from "../../rl/tasks/scoring.ts";
import { RunWatch } from "../../rl/train/watch.ts";
import { episode } from "../support/rlToy.ts";
import { toyObjective } from "../support/rlRuns.ts";

const played = (more: Partial<Trajectory> = {}): Trajectory => episode([["action", [1]]], more);
const one = async (answer: () => EpisodeReward | Promise<EpisodeReward>): Promise<Trajectory> =>
  (await rewarded({ reward: answer }, [played()]))[0]!;
const reward: RewardFunction = () => ({ reward: 1, parts: {} });

it("limits have their defaults; one reward at a time and one step of patience are allowed", () => {
  expect(REWARD_LIMITS.read()).toEqual({ timeout: 60_000, concurrency: 16, patience: 3 });
  expect(() => checkRewards({ reward, rewardLimits: { concurrency: 1, patience: 1, timeout: 0.5 } })).not.toThrow();
  expect(() => checkRewards({ reward, rewardLimits: { patience: 0 } })).toThrow("patience must be an integer ≥ 1");
  expect(() => checkRewards({ reward, rewardLimits: { concurrency: 0 } })).toThrow("concurrency must be an integer");
  expect(() => checkRewards({ reward, rewardLimits: { timeout: 0 } })).toThrow("timeout must be > 0 or Infinity");
  expect(() => checkRewards({ rewardLimits: {} })).toThrow("rewardLimits without a reward");
});

describe("a reward", () => {
  it("is taken as it is said, with what it has and nothing else", async () => {
    const plain = await one(() => ({ reward: 0.5, parts: { a: NaN } }));
    expect(plain).toMatchObject({ reward: 0.5, rewardParts: { a: NaN }, masked: false });
    for (const name of ["outcome", "tokenShares"]) expect(plain).not.toHaveProperty(name);
    const full = await one(async () => ({ reward: 1, parts: {}, outcome: 0, tokenShares: [0.25] }));
    expect(full).toMatchObject({ reward: 1, outcome: 0, tokenShares: [0.25] });
    expect((await one(() => ({ reward: NaN, parts: {}, outcome: NaN }))).masked).toBe(false);
  });

  it.each<[string, unknown]>([
    ["no object", 1],
    ["nothing", undefined],
    ["Infinity", { reward: Infinity, parts: {} }],
    ["−Infinity", { reward: -Infinity, parts: {} }],
    ["a text", { reward: "1", parts: {} }],
    ["no parts", { reward: 1 }],
    ["null for parts", { reward: 1, parts: null }],
    ["a number for parts", { reward: 1, parts: 1 }],
    ["a text among the parts", { reward: 1, parts: { a: "1" } }],
    ["an outcome that is none", { reward: 1, parts: {}, outcome: "1" }],
    ["an infinite outcome", { reward: 1, parts: {}, outcome: Infinity }],
  ])("%s is none: the episode is masked", async (_, said) => {
    for (const answer of [() => said as EpisodeReward, () => Promise.resolve(said as EpisodeReward)]) {
      const { masked, info } = await one(answer);
      expect(masked).toBe(true);
      expect(info["rewardError"]).toContain("reward: expected { reward, parts } with finite numbers or NaN, got");
    }
  });

  it("at once is there at once: the next is asked before anything is waited for", async () => {
    const asked: number[] = [];
    const atOnce: RewardFunction = ({ group }) => {
      asked.push(group);
      return { reward: 1, parts: {} };
    };
    const options = { reward: atOnce, rewardLimits: { concurrency: 1 } };
    const both = rewarded(options, [played({ group: 1 }), played({ group: 2 })]);
    expect(asked).toEqual([1, 2]);
    await both;
  });

  it("that comes too late masks, and that of a run that is stopped leaves the episode as it was", async () => {
    const never: RewardFunction = () => new Promise(() => {});
    const [late] = await rewarded({ reward: never, rewardLimits: { timeout: 1 } }, [played()]);
    expect(late).toMatchObject({ masked: true, info: { rewardError: "reward: no answer within 1 ms" } });
    const stop = new AbortController();
    const given = [played(), played()];
    let asked = 0;
    const counted: RewardFunction = (...args) => (asked++, never(...args));
    const waiting = rewarded({ reward: counted, rewardLimits: { concurrency: 1 } }, given, stop.signal);
    stop.abort();
    const left = await waiting;
    expect(left[0]).toBe(given[0]);
    expect([left[1] === given[1], asked]).toEqual([true, 1]);
  });

  it("is not asked for of a masked episode, and lets the next in when it has failed", async () => {
    const asked: number[] = [];
    const failing: RewardFunction = async ({ group }) => {
      asked.push(group);
      throw new Error("no");
    };
    const given = [played({ group: 1, masked: true }), played({ group: 2 }), played({ group: 3 })];
    const options = { reward: failing, rewardLimits: { concurrency: 1 } };
    const scored = await rewarded(options, given);
    expect([asked, scored[0] === given[0]]).toEqual([[2, 3], true]);
    expect(scored.slice(1).map(({ info }) => info["rewardError"])).toEqual(["no", "no"]);
    expect((await rewarded(options, [played({ group: 4 })]))[0]!.masked).toBe(true);
    expect(asked).toEqual([2, 3, 4]);
    expect(await rewarded({}, given)).toBe(given);
  });

  it("several at a time, no more than is allowed, over all calls of a run", async () => {
    let [now, most] = [0, 0];
    const open: (() => void)[] = [];
    const slow: RewardFunction = async () => {
      most = Math.max(most, ++now);
      await new Promise<void>((resolve) => open.push(resolve));
      now--;
      return { reward: 1, parts: {} };
    };
    const options = { reward: slow, rewardLimits: { concurrency: 2 } };
    const all = Promise.all([
      rewarded(
        options,
        [1, 2, 3].map(() => played()),
      ),
      rewarded(options, [played()]),
    ]);
    for (let done = 0; done < 4; done++) {
      while (open.length === 0) await new Promise((resolve) => setTimeout(resolve, 0));
      open.shift()!();
    }
    expect((await all).flat().map((t) => t.reward)).toEqual([1, 1, 1, 1]);
    expect([most, now]).toEqual([2, 0]);
  });
});

describe("a run", () => {
  const failed = (more: Partial<Trajectory> = {}): Trajectory =>
    played({ masked: true, info: { rewardError: "down" }, ...more });

  it("counts what failed, if its rewards can fail", () => {
    expect(rewardMetrics({ reward }, [failed(), played(), failed()])).toEqual({ "rewards/failed": 2 });
    expect(rewardMetrics({}, [played()])).toEqual({});
  });

  /** A watch over rewards: what it sees of a step, and what it has said. */
  const watching = (
    patience: number,
  ): { see: (episodes: readonly Trajectory[], step: number) => void; said: string[] } => {
    const [watch, said] = [new RunWatch(), [] as string[]];
    const options = { rewardLimits: { patience }, warn: (text: string) => void said.push(text) };
    return { see: (episodes, step) => watch.see(episodes, step, toyObjective, options), said };
  };

  it("ends after so many steps in a row in which each failed, and says why at the first that failed", () => {
    const { see, said } = watching(2);
    const message = "every reward has failed since step 3; of 2 episodes of step 4 the first: down";
    see([played()], -1);
    expect(said).toEqual([]);
    see([played(), failed(), failed({ info: { rewardError: "another" } })], 0);
    const because = "failed: down. Nothing is trained from such episodes; the metric rewards/failed counts them";
    expect(said).toEqual([expect.stringMatching(/^trainRl: the reward of an episode of .* in step 0/)]);
    expect(said[0]).toContain(because);
    see([failed(), played()], 1);
    see([failed()], 2);
    see([played()], 2.5);
    see([failed()], 3);
    expect(() => see([failed(), failed()], 4)).toThrow(message);
    expect(said).toHaveLength(1);
  });

  it("hands over what the reward threw, with its place", async () => {
    const thrown = new TypeError("x is undefined");
    const [unpaid] = await rewarded({ reward: () => Promise.reject(thrown) }, [played()]);
    const causes: unknown[] = [];
    new RunWatch().see([unpaid!, played()], 0, toyObjective, { warn: (_text, cause) => void causes.push(cause) });
    expect(causes).toEqual([thrown]);
  });

  it("steps in which nothing was to be scored say nothing, nor do environments that failed", () => {
    const broken = played({ masked: true, stopReason: "tool_error" });
    expect(() => watching(1).see([], 0)).not.toThrow();
    expect(() => watching(1).see([broken], 0)).not.toThrow();
    expect(() => watching(1).see([broken, failed()], 0)).toThrow("of 1 episodes of step 0");
    // Masked for another reason, or scored although it was cut off: these were asked for.
    expect(() => watching(1).see([played({ masked: true }), failed()], 0)).not.toThrow();
    expect(() => watching(1).see([played({ stopReason: "tool_error" }), failed()], 0)).not.toThrow();
    // An environment that failed in an episode whose reward failed, too, was asked for.
    expect(() => watching(1).see([failed({ stopReason: "tool_error" })], 0)).toThrow("the first: down");
    const both = watching(2);
    both.see([failed()], 0);
    both.see([broken], 1);
    expect(() => both.see([failed()], 2)).toThrow("every reward has failed since step 1");
  });
});
