/**
 * What an episode earns that was cut short (rl/tasks/truncated.ts): the rule by hand, what estimators make of it, where
 * it reaches, and that no method drifts towards running out of tokens in a world where turns cost. Reports of such
 * drifts: thinking-machines-lab/tinker-cookbook#506, Tencent-Hunyuan/UniRL#19.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import { ADVANTAGES, biLevelGae, gae, rae, remax, vapo, vtrace } from "../../methods/advantages/index.ts";
import type { Advantages } from "../../rl/objective/estimator.ts";
import { rewardsOfTokens, rewardsOfTurns, rolloutsOf, type Trajectory } from "../../rl/episode/stream.ts";
import { bestOf } from "../../run/best.ts";
import { metricsOfScore } from "../../run/heldOut.ts";
import type { MetricsRecord } from "../../run/records.ts";
import { Rng } from "../../engine/random.ts";
import { evaluate, type Evaluation, evaluationOf } from "../../rl/evaluate.ts";
import { grpo } from "../../rl/objective/grpo.ts";
import { trrPlusPlus } from "../../methods/advantages/group.ts";
import { verifierJudge } from "../../papers/preferences/judges.ts";
import { trainSelfRewarding } from "../../papers/preferences/selfReward.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import { advantagesOf } from "../../rl/train/advantages.ts";
import { withBaseline } from "../../rl/train/episodes.ts";
import { weigh } from "../../rl/train/weights.ts";
import { trainRl } from "../../rl/train/loop.ts";
import { trainRlAsync } from "../../distribute/async/train.ts";
import { finishStep, type PlayedPart, type PlayOptions } from "../../rl/tasks/play.ts";
import { type TruncatedReward, withTruncatedReward } from "../../rl/tasks/truncated.ts";
import { HARD_WORLDS } from "../support/hardWorlds.ts";
import { wasm } from "../support/rlExecutors.ts";
import { paramsOf, reportsOf, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel, episode, letters, toySpec, toyTemplate } from "../support/rlToy.ts";

/** An episode of a group with these step rewards, as it was played. */
const played = (group: number, stepRewards: readonly number[], more: Partial<Trajectory> = {}): Trajectory => {
  const reward = stepRewards.reduce((a, b) => a + b, 0);
  const turns = stepRewards.flatMap(() => [["action", [1, 2]] as const, ["observation", [3]] as const]);
  const isCut = more.stopReason !== undefined && more.stopReason !== "completed" && more.stopReason !== "max_turns";
  const last = isCut || turns.length === 0 ? ([["action", [1, 2, 3]]] as const) : [];
  return episode([["prompt", [1]], ...turns, ...last], {
    group,
    stepRewards,
    reward: isCut ? Math.min(0, reward) : reward,
    stopReason: "completed",
    ...more,
  });
};
const cut = (group: number, stepRewards: readonly number[], more: Partial<Trajectory> = {}): Trajectory =>
  played(group, stepRewards, { stopReason: "max_tokens", ...more });
const turn = -0.2;
const whole = [turn, turn, turn];
const returns = (episodes: readonly Trajectory[], rule?: TruncatedReward): number[] =>
  withTruncatedReward(episodes, rule).map(({ reward }) => Number(reward.toFixed(9)));

describe("the rule", () => {
  it("by default it is twice the lowest return of the group, for all that were cut short, and at most 0", () => {
    const group = [played(0, whole), played(0, [turn]), cut(0, []), cut(0, [turn, turn])];
    expect(returns(group)).toEqual([-0.6, -0.2, -1.2, -1.2]);
    expect(returns([cut(0, [-2]), played(0, [turn])])).toEqual([-4, -0.2]); // it has paid more than any end
    expect(returns([played(0, [1]), played(0, [0.5]), cut(0, [0.7])])).toEqual([1, 0.5, 0]);
    expect(returns([played(0, [1]), played(0, [-0.5]), cut(0, [0.7])])).toEqual([1, -0.5, -1]);
  });

  it("where rewards are 0 or 1 it is 0, as before (arXiv 2605.24517)", () => {
    const classic = [played(0, [0, 1]), played(0, [0, 0]), cut(0, [0]), cut(1, []), cut(1, [0, 0])];
    for (const rule of ["worst", "zero"] as const) expect(returns(classic, rule)).toEqual([1, 0, 0, 0, 0]);
  });

  it("other groups do not count, unless nobody of the group came to an end; then all of the batch do", () => {
    const batch = [played(0, [-5]), cut(0, []), played(1, [turn]), cut(1, []), cut(2, []), cut(2, [turn])];
    expect(returns(batch)).toEqual([-5, -10, -0.2, -0.4, -10, -10]);
    // A group of one has nobody to compare with.
    expect(returns([cut(0, []), played(1, [turn]), played(2, whole)])).toEqual([-1.2, -0.2, -0.6]);
    // Nobody came to an end: all are equal, whoever babbled first.
    expect(returns([cut(0, []), cut(0, [turn]), cut(1, [turn, turn])])).toEqual([-0.8, -0.8, -0.8]);
    expect(returns([cut(0, []), cut(1, [])])).toEqual([0, 0]);
  });

  it("what failed or cannot be scored does not count, and stays as it is", () => {
    const masked = played(0, [-9], { masked: true, stopReason: "tool_error" });
    const episodes = [masked, played(0, [NaN]), played(0, [turn]), cut(0, []), cut(0, [NaN])];
    expect(returns(episodes)).toEqual([-9, NaN, -0.2, -0.4, NaN]);
    expect(returns(episodes, "zero")).toEqual([-9, NaN, -0.2, 0, NaN]);
  });

  it("words and numbers: keep, zero, soft, −3; context_overflow and parse_error as max_tokens", () => {
    for (const stopReason of ["max_tokens", "context_overflow", "parse_error"] as const) {
      const batch = [played(0, whole), cut(0, [turn, 1], { stopReason })];
      expect(returns(batch, "keep")).toEqual([-0.6, 0.8]);
      expect(returns(batch, "zero")).toEqual([-0.6, 0]);
      expect(returns(batch, "soft")).toEqual([-0.6, -0.2]); // Σ − 1: DAPO eq. 13 at the limit
      expect(returns(batch, -3)).toEqual([-0.6, -3]);
      expect(returns(batch)).toEqual([-0.6, -1.2]);
    }
    const turnsUp = [played(0, whole), played(0, [turn], { stopReason: "max_turns" })];
    expect(withTruncatedReward(turnsUp)).toBe(turnsUp); // every turn was paid: nothing was cut short
  });

  it("an episode that its environment has scored keeps that, and counts as an end", () => {
    const scored = cut(0, [turn, -1], { scoredAtEnd: true, reward: -1.2 });
    expect(returns([scored, cut(0, []), cut(1, [])])).toEqual([-1.2, -2.4, -2.4]);
    expect(returns([scored], "zero")).toEqual([-1.2]);
  });

  it("is the same when a step is put together of groups that were scored one by one", () => {
    const groups = [[played(0, whole), cut(0, [])], [cut(1, []), cut(1, [turn])], [played(2, [turn])]];
    const parts = groups.map((group, step): PlayedPart => ({
      step,
      requests: [],
      trajectories: withTruncatedReward(group),
      metrics: {},
      choices: new Map(),
    }));
    expect(parts[1]!.trajectories.map(({ reward }) => reward)).toEqual([-0.4, -0.4]);
    const options = { rollout: {} } as PlayOptions;
    const step = finishStep(options, 0, parts).trajectories;
    expect(step.map(({ reward }) => Number(reward.toFixed(9)))).toEqual(returns(groups.flat()));
  });
});

describe("what estimators make of it", () => {
  const group = [played(0, whole), played(0, whole), cut(0, []), cut(0, [turn, turn])];
  const ofGroups = ["grpo", "centred", "rloo", "opo", "max_rl", "pass_at_k", "gpg"];

  it.each(ofGroups)("%s: nothing that was cut short is praised, and `zero` praises it", (name) => {
    const estimate = (rule: TruncatedReward): number[] => {
      const judged = withTruncatedReward(group, rule);
      return ADVANTAGES[name]!.make()
        .estimate(judged)
        .perToken.map((row) => Math.max(...row));
    };
    const [first, second, early, late] = estimate("worst");
    expect(Math.max(early!, late!)).toBeLessThanOrEqual(0);
    expect(Math.min(first!, second!)).toBeGreaterThanOrEqual(0);
    if (name !== "max_rl" && name !== "pass_at_k") expect(estimate("zero")[2]).toBeGreaterThan(0);
  });

  it("trr++: an episode that was cut off before its family was told is compared with those of its task", () => {
    const told = { info: { family: "f" } };
    const of = (batch: readonly Trajectory[]): number[] =>
      trrPlusPlus()
        .estimate(withTruncatedReward(batch))
        .perToken.map((row) => row.find((a) => a !== 0) ?? 0);
    const group = [played(0, [1], told), played(0, [0], told), played(0, [0], told), cut(0, [])];
    expect(of(group)).toEqual(of(group.map((t) => ({ ...t, ...told }))));
    expect(of(group)[3]).toBeLessThan(0);
    expect(of(group)[3]).toBe(of(group)[1]); // no better than an honest failure
    // The same task in another group, and a whole group that was cut off: compared with all of its environment.
    const again = [...group.slice(0, 3).map((t) => ({ ...t, task: "go" })), cut(1, [], { task: "go" })];
    expect(of(again)).toEqual(of(again.map((t) => ({ ...t, ...told }))));
    const other = { task: "else", seed: 9 };
    const lost = [...group.slice(0, 3), cut(1, [], other), cut(1, [], other)];
    expect(
      of(lost)
        .slice(3)
        .every((a) => a < 0),
    ).toBe(true);
    // In another environment nobody is known.
    expect(of([...group.slice(0, 3), cut(1, [], { ...other, env: "b" })])[3]).toBe(0);
  });

  it("equal ends and nothing cut short: exactly 0", () => {
    const { perToken } = grpo().estimate(withTruncatedReward([played(0, whole), played(0, whole)]));
    expect(perToken.flatMap((row) => [...row]).every((a) => a === 0)).toBe(true);
  });

  it("per token: no refund is on the tokens that ran out of room, whatever the option is", () => {
    const late = cut(0, [turn, turn]);
    const tokens = (rule: TruncatedReward): number[] => {
      const judged = withTruncatedReward([played(0, whole), late], rule).slice(1);
      const [rollout] = rolloutsOf(judged);
      const sum = rewardsOfTurns(rollout!, judged).reduce((a, b) => a + b, 0);
      expect(sum).toBeCloseTo(judged[0]!.reward, 12);
      return rewardsOfTokens(rollout!, judged).map((r) => Number(r.toFixed(9)));
    };
    expect(tokens("worst")).toEqual([0, turn, 0, turn, 0, 0, -0.8]);
    expect(tokens("keep")).toEqual([0, turn, 0, turn, 0, 0, 0]);
    expect(tokens("soft")).toEqual([0, turn, 0, turn, 0, 0, -1]);
    // Above what was paid: the costs are void, and not paid back by the last token.
    expect(tokens("zero")).toEqual([0, 0, 0, 0, 0, 0, 0]);
    expect(tokens(-0.1)).toEqual([0, 0, 0, 0, 0, 0, -0.1]);
  });

  it("maskTruncated: out of the policy term and of the statistics; the others are as if it were not there", () => {
    const objective = { advantage: grpo(), policyLoss: ppoClip(), aggregation: "token-mean" as const };
    const batch = [played(0, [1]), played(0, [0]), played(0, [0]), cut(0, [0])];
    const masked = advantagesOf({ ...objective, maskTruncated: true }, batch, 0).perToken;
    const alone = advantagesOf(objective, batch.slice(0, 3), 0).perToken;
    expect(masked.slice(0, 3)).toEqual(alone);
    expect([...masked[3]!].every((a) => a === 0)).toBe(true);
    expect(advantagesOf(objective, batch, 0).perToken.slice(0, 3)).not.toEqual(alone);
    // A group in which only what was cut short differs has no spread.
    const even = [played(0, [1]), played(0, [1]), cut(0, [])];
    const strict = { ...objective, maskTruncated: true, dropConstantGroups: true };
    const estimated = advantagesOf(strict, even, 0);
    expect(estimated.fracRewardZeroStd).toBe(1);
    expect(weigh(strict, even, estimated, 0).every(({ wPolicy }) => wPolicy.every((w) => w === 0))).toBe(true);
  });
});

describe("a step in which nobody came to an end", () => {
  const ends = [played(0, whole), played(1, whole)];
  const babbled = withTruncatedReward([cut(0, []), cut(1, [])]);
  const objective = { policyLoss: ppoClip(), aggregation: "token-mean" as const };
  const last = (rows: readonly Float64Array[]): number[] => rows.map((row) => Number(row.at(-1)!.toFixed(9)));

  it("has bounds for returns, until it is put together with one that has an end; other rules are numbers", () => {
    const bounds = (episodes: readonly Trajectory[]): boolean[] => episodes.map((t) => t.rewardIsBound === true);
    expect(bounds(babbled)).toEqual([true, true]);
    expect(bounds(withTruncatedReward([...babbled, ...ends]))).toEqual([false, false, false, false]);
    for (const rule of ["zero", "keep", "soft", -3] as const)
      expect(bounds(withTruncatedReward([cut(0, []), cut(1, [])], rule))).toEqual([false, false]);
    expect(bounds(withTruncatedReward([cut(0, []), cut(0, [-1], { scoredAtEnd: true })]))).toEqual([false, false]);
  });

  it("rae: worth twice the lowest end so far, and b stays; where nothing costs all is as it was", () => {
    const memory = rae();
    memory.observe!(ends);
    const b = 0.95 * 0.05 * -0.6 + 0.05 * -0.6;
    expect(last(memory.estimate(babbled).perToken)).toEqual([-1.2 - b, -1.2 - b].map((x) => Number(x.toFixed(9))));
    const state = memory.state!();
    memory.observe!(babbled);
    expect(memory.state!()).toEqual(state);
    expect(state).toEqual({
      toy: { mean: expect.closeTo(b, 12) as number, lowest: expect.closeTo(-0.6, 12) as number },
    });
    const costless = rae({ decay: 0.5 });
    costless.observe!([played(0, [1])]);
    expect(last(costless.estimate(babbled).perToken)).toEqual([-0.5, -0.5]);
    costless.observe!([babbled[0]!]);
    expect(costless.state!()).toEqual({ toy: { mean: 0.25, lowest: 0 } });
  });

  const critics = [
    gae({ lambda: 1, whiten: false }),
    vapo({ whiten: false }),
    biLevelGae({ whiten: false }),
    vtrace(),
  ] as const;
  it.each(critics)("$name: worth twice what the critic expects, which has no target; else as it was", (advantage) => {
    const estimated = (value: number, episodes: readonly Trajectory[]): Advantages =>
      advantagesOf({ ...objective, advantage, critic: {} }, episodes, 0, {
        values: episodes.map(({ stream }) => new Float64Array(stream.ids.length).fill(value)),
        logProbs: episodes.map(({ stream }) => Float64Array.from(stream.oldLogProbs)),
      });
    const low = estimated(-0.6, babbled);
    expect(last(low.perToken)).toEqual([-0.6, -0.6]);
    expect(Math.max(...low.perToken.flatMap((row) => [...row]))).toBe(0);
    expect(low.returns!.every((row) => row.every(Number.isNaN))).toBe(true);
    const plain = babbled.map((t) => ({ ...t, rewardIsBound: false }));
    expect(estimated(0.5, babbled)).toEqual(estimated(0.5, plain));
    expect(last(estimated(-0.6, plain).perToken)).toEqual([0.6, 0.6]); // as a number, a return of 0 praises it
  });

  it("remax: worth twice the greedy return", () => {
    const beside = (greedyReward: number): number[] =>
      last(remax().estimate(babbled.map((t) => ({ ...t, greedyReward }))).perToken);
    expect([beside(-2), beside(0.5), beside(NaN)]).toEqual([
      [-2, -2],
      [-0.5, -0.5],
      [0, 0],
    ]);
  });

  it("with a KL in the reward such an episode has no advantage beside a memory that expects less", () => {
    const kl = { beta: 0.1, estimator: "k1", in: "reward" } as const;
    const memory = rae();
    memory.observe!(ends);
    const refLogProbs = babbled.map(({ stream }) => new Float64Array(stream.ids.length));
    expect(last(advantagesOf({ ...objective, advantage: memory, kl }, babbled, 0, { refLogProbs }).perToken)).toEqual([
      0, 0,
    ]);
  });
});

describe("an evaluation", () => {
  const rewardOf = (episodes: readonly Trajectory[]): number => evaluationOf(episodes).meanReward;

  it("refunds nothing: being cut off is worth less than playing, however far an episode got", () => {
    const plays = Array.from({ length: 4 }, (_, i) => played(i, whole));
    expect(rewardOf(plays)).toBeCloseTo(-0.6, 12);
    for (const babbled of [cut(4, []), cut(4, [turn]), cut(4, [turn, turn], { stopReason: "parse_error" })])
      expect(rewardOf([...plays, babbled])).toBeCloseTo((4 * -0.6 - 1.2) / 5, 12);
    // What the environment has scored itself counts as that.
    expect(rewardOf([...plays, cut(4, [-1], { scoredAtEnd: true, reward: -1 })])).toBeCloseTo(-3.4 / 5, 12);
    // One that broke its environment is no end to compare with.
    const broke = played(4, [turn], { stopReason: "tool_error", masked: true });
    expect(rewardOf([cut(0, []), broke])).toBeNaN();
  });

  it("where nobody came to an end there is no mean reward, and every episode failed", () => {
    const score = evaluationOf([cut(0, []), cut(1, [turn])]);
    expect(score).toMatchObject({ episodes: 2, successes: 0, unscored: 0, meanReward: NaN, rewardStd: 0 });
    const line = (step: number, of: readonly Trajectory[]): MetricsRecord => {
      const losses = { worldLoss: 1, worldLossRandom: 1, worldLossOnPolicy: 1 };
      return { step, phase: "eval", ...metricsOfScore({ ...evaluationOf(of), ...losses }) };
    };
    const [babbles, half, plays] = [
      line(0, [cut(0, []), cut(1, [])]),
      line(1, [cut(0, []), played(1, whole)]),
      line(2, [played(0, whole), played(1, whole)]),
    ];
    expect(babbles).not.toHaveProperty("reward");
    // The best checkpoint is the one that plays, in whatever order they come.
    expect(bestOf([babbles, half, plays], [0, 1, 2])!.step).toBe(2);
    expect(bestOf([plays, half, babbles], [0, 1, 2])!.step).toBe(2);
    expect(bestOf([half, babbles], [0, 1, 2])!.step).toBe(1);
    expect(bestOf([babbles, { ...half, step: 5 }, half], [0, 1, 2])!.step).toBe(1);
  });

  it("where all were cut short, but scored there, that is what they are worth", () => {
    const score = evaluationOf([-1, 2].map((reward, i) => cut(i, [reward], { scoredAtEnd: true, reward })));
    expect(score).toMatchObject({ episodes: 2, unscored: 0, meanReward: 0.5 });
    expect(score.rewardStd).toBeCloseTo(Math.sqrt(4.5), 12); // ddof 1
  });

  it("where all broke their environments, and none was cut short, their returns are known", () => {
    const broke = [-1, -2].map((reward, i) => played(i, [reward], { stopReason: "tool_error", masked: true }));
    expect(evaluationOf(broke)).toMatchObject({ episodes: 2, successes: 0, meanReward: -1.5 });
  });

  it("an episode that could not be scored is none of those that count, unless it broke its environment", () => {
    const unknown = played(0, whole, { reward: NaN });
    const broke = played(1, whole, { reward: NaN, stopReason: "tool_error", masked: true });
    const score = evaluationOf([unknown, broke, played(2, [1])]);
    expect(score).toMatchObject({ episodes: 2, notPlayed: 0, unscored: 1, meanReward: 1 });
    expect(score.families).toEqual({ all: { successes: score.successes, episodes: 2 } });
  });

  it("where no return is negative nothing changes", () => {
    expect(rewardOf([played(0, [1]), played(1, [0.5]), cut(2, [0.7]), cut(3, [])])).toBe(1.5 / 4);
  });
});

describe("in training", () => {
  let device: Device;
  beforeAll(async () => void (device = await wasm.open()));
  afterAll(() => device.dispose());
  const rollout = { maxActionTokens: 12, maxTurns: 4 };
  const isCut = ({ stopReason }: Trajectory): boolean =>
    stopReason === "max_tokens" || stopReason === "context_overflow";

  it(
    "trainRl, trainRlAsync and a `reward` function get the returns of the option; `reward` is their mean",
    { timeout: 60_000 },
    async () => {
      const env = HARD_WORLDS.costs;
      const options = (more: object) =>
        toyRlOptions(endingModel(device), { env, rollout, groupSize: 6, steps: 1, ...more });
      const runs = (more: object) => [
        trainRl(options(more)),
        trainRlAsync({ ...options(more), workers: 1, maxStaleness: 0 }),
        trainRl(options({ ...more, reward: ({ reward }: Trajectory) => ({ reward, parts: {} }) })),
      ];
      for (const [rule, expected] of [
        [undefined, -1.2],
        ["zero", 0],
        [-7, -7],
      ] as const) {
        for (const run of runs(rule === undefined ? {} : { truncatedReward: rule })) {
          const [report] = await reportsOf(run);
          const episodes = report!.rows.map(({ trajectory }) => trajectory);
          const ended = episodes.filter((t) => !isCut(t));
          expect(ended.length).toBeGreaterThan(0);
          expect(ended.length).toBeLessThan(episodes.length);
          for (const t of episodes) expect(t.reward).toBeCloseTo(isCut(t) ? expected : -0.6, 9);
          const mean = episodes.reduce((sum, { reward }) => sum + reward, 0) / episodes.length;
          expect(report!.metrics["reward"]).toBeCloseTo(mean, 9);
        }
      }
    },
  );

  it("where nothing costs, the default changes no bit of a run with `zero`", async () => {
    const trained = async (truncatedReward: TruncatedReward | undefined): Promise<number[][]> => {
      const model = endingModel(device);
      const rule = truncatedReward === undefined ? {} : { truncatedReward };
      const options = toyRlOptions(model, { env: toySpec(letters(2)), rollout: { maxActionTokens: 4 }, ...rule });
      const reports = await reportsOf(trainRl(options));
      expect(reports.some(({ rows }) => rows.some(({ trajectory }) => isCut(trajectory)))).toBe(true);
      return paramsOf(model);
    };
    expect(await trained(undefined)).toEqual(await trained("zero"));
  });

  it("an evaluation in a world of costs: who is cut off at once scores no better than who plays", async () => {
    const seeds = Array.from({ length: 16 }, (_, i) => i);
    const evaluated = (maxActionTokens: number): Promise<Evaluation> =>
      evaluate({
        model: endingModel(device),
        template: toyTemplate,
        env: HARD_WORLDS.costs,
        envOptions: {},
        seeds,
        rng: new Rng(1),
        rollout: { maxActionTokens, maxTurns: 4 },
      });
    const [often, seldom] = [await evaluated(3), await evaluated(40)];
    const cutOff = ({ trajectories }: Evaluation): number => trajectories.filter(isCut).length;
    expect([cutOff(often) > cutOff(seldom), cutOff(often) < 16]).toEqual([true, true]);
    expect(often.meanReward).toBeLessThan(seldom.meanReward);
    expect(often.meanReward).toBeCloseTo(-0.6 - (0.6 * cutOff(often)) / 16, 9);
  });

  it("judges that read returns do not prefer what was cut off (trainSelfRewarding)", { timeout: 60_000 }, async () => {
    const model = endingModel(device);
    const { env, template, optimizer, lr, rng } = toyRlOptions(model, { env: HARD_WORLDS.costs });
    const self = { model, template, optimizer, lr, rng, env, envOptions: {}, iterations: 1, steps: 1, batchSize: 2 };
    const judges = [verifierJudge()];
    const sizes = { groups: 4, groupSize: 6, rollout: { maxActionTokens: 8, maxTurns: 4 }, comparisons: 0 };
    for await (const { pairs } of trainSelfRewarding({ ...self, ...sizes, judges })) {
      expect(pairs.length).toBeGreaterThan(0);
      for (const { chosen, rejected } of pairs) expect([isCut(chosen), isCut(rejected)]).toEqual([false, true]);
    }
  });

  it("remax: a greedy rollout that was cut short is compared with the ends of the sampled ones", async () => {
    const options = {
      ...toyRlOptions(endingModel(device), { groups: 1, groupSize: 1 }),
      objective: { advantage: remax(), policyLoss: ppoClip(), aggregation: "token-mean" as const },
    };
    const requests = [{ spec: options.env, options: {}, seed: 0, group: 0, rng: new Rng(1) }];
    const greedyOf = async (sampled: Trajectory, greedy: Trajectory): Promise<number | undefined> =>
      (await withBaseline(options, { requests, trajectories: [sampled] }, () => Promise.resolve([greedy])))[0]!
        .greedyReward;
    expect(await greedyOf(played(0, whole), cut(0, []))).toBeCloseTo(-1.2, 12);
    expect(await greedyOf(cut(0, []), cut(0, []))).toBe(0);
    expect(await greedyOf(cut(0, []), played(0, whole))).toBeCloseTo(-0.6, 12);
  });

  it("a word that is none is refused in one line", async () => {
    const run = reportsOf(trainRl(toyRlOptions(endingModel(device), { truncatedReward: "none" as "zero" })));
    await expect(run).rejects.toThrow(
      'trainRl: truncatedReward must be "worst", "keep", "zero", "soft" or a finite number, got "none"',
    );
  });
});
