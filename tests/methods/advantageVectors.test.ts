/**
 * Advantages against numbers that papers and other projects' tests state for small inputs, beyond what the fixtures
 * hold.
 */
import { describe, expect, it } from "vitest";
import { gae, gigpo, maxRl, milestone, passAtK, rloo, vapo, vtrace } from "../../methods/advantages/index.ts";
import { grpo } from "../../rl/objective/grpo.ts";
import type { TokenStatistics } from "../../rl/objective/tokenStatistics.ts";
import { append, emptyStream, type Trajectory } from "../../rl/episode/stream.ts";
import { expectNear, sumOf } from "../support/rlVectors.ts";
import { episode, type Part, trajectoryOf } from "../support/rlToy.ts";

describe("advantages", () => {
  const task: Part = ["prompt", [1]];
  /** Episodes of one action token with these rewards, all of one group unless `groups` says otherwise. */
  const rewarded = (rewards: number[], groups = rewards.map(() => 0)): Trajectory[] =>
    rewards.map((reward, i) => episode([task, ["action", [2]]], { reward, group: groups[i]!, stepRewards: [reward] }));
  /** The advantage of each episode's only action token. */
  const ofAction = (estimate: { perToken: readonly Float64Array[] }): number[] =>
    estimate.perToken.map((row) => row[1]!);

  it("RLOO [3, −3, −3, 3, 0] (SkyRL); MaxRL [3, −1, −1, −1] (prime-rl)", () => {
    expectNear(ofAction(rloo().estimate(rewarded([6, 3, 3, 6, 9], [0, 0, 1, 1, 2]))), [3, -3, -3, 3, 0]);
    expectNear(ofAction(maxRl().estimate(rewarded([1, 0, 0, 0]))), [3, -1, -1, -1]);
    expectNear(ofAction(maxRl().estimate(rewarded([-1, 0]))), [0, 0]);
    // Leave-one-out baselines [2.5, 2, 1.5] and [5.5, 5, 4.5], and ±.7071 (NeMo-RL).
    const twoGroups = rewarded([1, 2, 3, 4, 5, 6], [0, 0, 0, 1, 1, 1]);
    expectNear(ofAction(rloo().estimate(twoGroups)), [-1.5, 0, 1.5, -1.5, 0, 1.5]);
    expectNear(ofAction(grpo({ eps: 0 }).estimate(rewarded([0, 1]))), [-Math.SQRT1_2, Math.SQRT1_2]);
  });

  it("pass@k without the deviation: the margin itself", () => {
    expectNear(ofAction(passAtK({ std: false }).estimate(rewarded([1, 0.25, 0]))), [0.75, 0, 0]);
    expectNear(ofAction(passAtK({ std: false }).estimate(rewarded([1, 1, 0]))), [0, 0, 0]);
  });

  it("a batch's deviation: R − group mean over the std of all rewards", () => {
    const batch = rewarded([1, 0, 5, 1], [0, 0, 1, 1]);
    const std = Math.sqrt([1, 0, 5, 1].reduce((s, r) => s + (r - 1.75) ** 2, 0) / 3);
    const expected = [0.5, -0.5, 2, -2].map((margin) => margin / std);
    expectNear(ofAction(grpo({ scale: "batch", eps: 0 }).estimate(batch)), expected);
  });

  /** A prompt token and an action token for each reward, by default all in one turn. */
  const tokenRewarded = (rewards: number[], turnOf: (k: number) => number = () => 0): Trajectory => {
    const stream = emptyStream();
    append(stream, "prompt", 0, [0]);
    rewards.forEach((_, k) => append(stream, "action", turnOf(k), [1], { oldLogProbs: [-1] }));
    return trajectoryOf(stream, { reward: sumOf(rewards), tokenRewards: [0, ...rewards] });
  };
  /** A critic's values and the policy's log-probabilities of those action tokens. */
  const statistics = (values: number[], logProbs: number[] = values.map(() => -1)): TokenStatistics => ({
    values: [Float64Array.of(NaN, ...values)],
    logProbs: [Float64Array.of(NaN, ...logProbs)],
  });
  /** A column of such an episode without the prompt's token. */
  const ofActions = ([, ...tokens]: Float64Array): number[] => tokens;

  it("GAE, r [1, 2, 3], v [.5, 1, 1.5]: returns by γ and λ (SkyRL)", () => {
    const returnsWith = (gamma: number, lambda: number): number[] => {
      const { returns } = gae({ gamma, lambda }).estimate([tokenRewarded([1, 2, 3])], statistics([0.5, 1, 1.5]));
      return ofActions(returns![0]!);
    };
    expectNear(returnsWith(1, 1), [6, 5, 3]);
    expectNear(returnsWith(0.5, 1), [2.75, 3.5, 3]);
    expectNear(returnsWith(1, 0.5), [3.625, 4.25, 3]);
  });

  it("GAE with λ 0 looks one step ahead: v [1, 2, 3], R 5 → [2, 3, 5]", () => {
    const { returns } = gae({ lambda: 0 }).estimate([tokenRewarded([0, 0, 5])], statistics([1, 2, 3]));
    expectNear(ofActions(returns![0]!), [2, 3, 5]);
  });

  it("one value a turn: γ and λ act between turns, and the critic is asked at a turn's first token", () => {
    const twoTurns = (rewards: number[]): Trajectory => tokenRewarded(rewards, (k) => (k < 2 ? 0 : 1));
    const { perToken, returns } = gae({ gamma: 0.5, lambda: 1, level: "step", whiten: false }).estimate(
      [twoTurns([0, 1, 0, 2])],
      statistics([0.5, 9, 1, 9]),
    );
    expectNear(ofActions(perToken[0]!), [1.5, 1.5, 1, 1]); // 1 + .5·2 − .5, and 2 − 1
    expect(ofActions(returns![0]!)).toEqual([2, NaN, 2, NaN]);
    // α counts turns there: λ = 1 − 1/2.
    const adaptive = gae({ alpha: 1, level: "step", whiten: false }).estimate(
      [twoTurns([0, 0, 0, 1])],
      statistics([0.2, 9, 0.4, 9]),
    );
    expectNear(ofActions(adaptive.perToken[0]!), [0.5, 0.5, 0.6, 0.6]);
  });

  it("VAPO: λ_policy = 1 − 1/(α·len), λ_value = 1, clamped for short answers", () => {
    const rewards = Array.from({ length: 40 }, (_, k) => (k === 39 ? 1 : 0));
    const long = tokenRewarded(rewards);
    const values = statistics(rewards.map((_, k) => 0.1 + k / 100));
    const { perToken, returns } = vapo({ alpha: 0.05, whiten: false }).estimate([long], values);
    const byHand = gae({ lambda: 0.5, whiten: false }).estimate([long], values);
    expectNear(ofActions(perToken[0]!), ofActions(byHand.perToken[0]!));
    expectNear(ofActions(returns![0]!), Array<number>(40).fill(1));
    // 1 − 1/(.05·2) < 0: λ is 0.
    const short = vapo({ whiten: false }).estimate([tokenRewarded([0, 1])], statistics([0.2, 0.4]));
    expectNear(ofActions(short.perToken[0]!), [0.2, 0.6]);
  });

  it("V-trace on its own policy is GAE's target, and A looks one step ahead of it", () => {
    const rewards = [1, 0, 2];
    const values = [0.5, -1, 0.25];
    const batch = [tokenRewarded(rewards)];
    for (const lambda of [1, 0.7]) {
      const trace = vtrace({ gamma: 0.9, lambda }).estimate(batch, statistics(values));
      const target = ofActions(gae({ gamma: 0.9, lambda }).estimate(batch, statistics(values)).returns![0]!);
      expectNear(ofActions(trace.returns![0]!), target);
      const ahead = rewards.map((r, k) => r + 0.9 * (target[k + 1] ?? 0) - values[k]!);
      expectNear(ofActions(trace.perToken[0]!), ahead);
    }
  });

  it("V-trace off its policy: ρ and c are capped, by hand", () => {
    // π/μ = 2 and 1/2: ρ = [1.5, .5], c = [1, .5].
    const off = statistics([1, 2], [-1 + Math.log(2), -1 + Math.log(0.5)]);
    const trace = vtrace({ gamma: 0.5, rhoBar: 1.5, cBar: 1 }).estimate([tokenRewarded([1, 3])], off);
    const v1 = 2 + 0.5 * (3 - 2);
    const v0 = 1 + 1.5 * (1 + 0.5 * 2 - 1) + 0.5 * 1 * (v1 - 2);
    expectNear(ofActions(trace.returns![0]!), [v0, v1]);
    expectNear(ofActions(trace.perToken[0]!), [1.5 * (1 + 0.5 * v1 - 1), 0.5 * (3 - 2)]);
  });

  it("GiGPO: the default anchor is what was observed before; a state seen once gives 0", () => {
    const played = (observed: number, stepRewards: number[]): Trajectory =>
      episode([task, ["action", [2]], ["observation", [observed]], ["action", [3]]], {
        stepRewards,
        reward: sumOf(stepRewards),
      });
    const ofLastAction = (batch: Trajectory[]): number[] =>
      gigpo({ gamma: 1 })
        .estimate(batch)
        .perToken.map((row) => row[3]!);
    expectNear(ofLastAction([played(7, [0, 1]), played(7, [0, 0])]), [1, -1]); // ½ of the episode, ½ of the step
    expectNear(ofLastAction([played(7, [0, 1]), played(8, [0, 0])]), [0.5, -0.5]);
  });

  /** An episode of two tokens an action, with these step rewards. */
  const acting = (stepRewards: number[]): Trajectory => {
    const turns = stepRewards.flatMap((_, turn): Part[] => [
      ["action", [2, 2]],
      ["observation", [turn]],
    ]);
    return episode(turns, { stepRewards, reward: sumOf(stepRewards) });
  };

  it("BEACON's vector: 5 steps, milestones of 10 after steps 1 and 3, γ .9: 9, 10, 9, 10, 0", () => {
    const other = [0, 0, 0, 0, 0];
    const { perToken } = milestone({ gamma: 0.9 }).estimate([acting([0, 10, 0, 10, 0]), acting(other)]);
    // Episodes ±10. The first segment is compared with five steps of the other, which never ends it: mean 19 / 7.
    const values = [9 - 19 / 7, 10 - 19 / 7, 9 - 9.5, 10 - 9.5, 0].map((r) => 10 + r);
    expectNear(
      [1, 4, 7, 10, 13].map((t) => perToken[0]![t]!),
      values,
    );
  });

  it("milestones: steps of equal episodes differ by their distance from one, also of one alone (BEACON's code)", () => {
    for (const count of [1, 4]) {
      const { perToken, fracRewardZeroStd } = milestone().estimate(Array.from({ length: count }, () => acting([0, 1])));
      expect(fracRewardZeroStd).toBe(1); // all returns are equal
      for (const row of perToken) expectNear([row[1]!, row[3]!], [-0.025, 0.025]); // .95 and 1, mean .975
    }
    // Equal values, too: exactly 0.
    const flat = milestone().estimate([acting([1, 1]), acting([1, 1])]).perToken;
    expect(flat.flatMap((row) => [...row]).every((a) => a === 0)).toBe(true);
  });

  it("milestones: R·γ^(t_k − t) within a segment, against those in the same segment", () => {
    const { perToken } = milestone({ gamma: 0.5, lambda: 2 }).estimate([acting([0, 1]), acting([0, 0])]);
    // Values .5, 1 and 0, 0 in the first segment: mean .375; episodes ±.5. Tokens 0 of a row are never trained.
    expectNear(perToken[0]!, [0, 0.5 + 2 * 0.125, 0, 0.5 + 2 * 0.625, 0.5 + 2 * 0.625, 0]);
    expectNear(perToken[1]!, [0, -0.5 - 2 * 0.375, 0, -0.5 - 2 * 0.375, -0.5 - 2 * 0.375, 0]);
  });
});
