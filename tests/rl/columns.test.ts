/**
 * The columns of a step's rows by hand, for every part of an objective, for demonstrations and for preference pairs.
 * Goldens and properties see them through a model only, where a column that is shifted or left out may look like any
 * other.
 */
import { describe, expect, it } from "vitest";
import { isTruncated, type Trajectory } from "../../rl/episode/stream.ts";
import { gae, gdpo } from "../../methods/advantages/index.ts";
import { grpo } from "../../rl/objective/grpo.ts";
import type { ColumnName, TokenRow } from "../../rl/objective/columns.ts";
import { importanceCorrection } from "../../methods/importanceCorrection.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import type { CriticOptions, Objective } from "../../rl/objective/objective.ts";
import { paw } from "../../methods/paw.ts";
import { advantagesOf } from "../../rl/train/advantages.ts";
import { preferenceRows } from "../../methods/preference.ts";
import { type SftRowOptions, sftRows } from "../../methods/sft.ts";
import { weighStep } from "../support/rlBatches.ts";
import { episode, type Part } from "../support/rlToy.ts";

describe("weights by hand", () => {
  const objective: Objective = { advantage: grpo(), policyLoss: ppoClip(), aggregation: "token-mean" };
  const task: Part = ["prompt", [1]];
  /** A prompt token, an action of two tokens, and an observation. */
  const played = (reward: number, group = 0, more: Partial<Trajectory> = {}): Trajectory =>
    episode([task, ["action", [2, 3]], ["observation", [4]]], { reward, group, stepRewards: [reward], ...more });
  const column = (rows: readonly TokenRow[], name: ColumnName): number[][] => rows.map((row) => [...row[name]]);
  const isZero = (values: ArrayLike<number>): boolean => Array.from(values).every((x) => x === 0);
  /** A statistic of such an episode, the same for both action tokens. */
  const statistic = (x: number): Float64Array => Float64Array.of(NaN, x, x, NaN);

  it("a critic: weights on tokens with a target, a mean over them, times the coefficient, by default 0.1", () => {
    const batch = [played(1), played(2), played(NaN)];
    const values = batch.map(() => statistic(0.25));
    const weighed = (critic: CriticOptions): readonly TokenRow[] =>
      weighStep({ ...objective, advantage: gae({ lambda: 1 }), critic }, batch, 0, { values });
    const rows = weighed({ coefficient: 0.6 });
    expect(column(rows, "wValue")).toEqual([
      [0, 0.15, 0.15, 0],
      [0, 0.15, 0.15, 0],
      [0, 0, 0, 0],
    ]);
    expect(column(rows, "returns")).toEqual([
      [NaN, 1, 1, NaN],
      [NaN, 2, 2, NaN],
      [NaN, NaN, NaN, NaN],
    ]);
    expect(weighed({})[0]!.wValue[1]).toBeCloseTo(0.1 / 4, 12);
    const withoutCritic = weighStep(objective, batch, 0);
    expect(withoutCritic.every((row) => isZero(row.wValue) && isZero(row.returns))).toBe(true);
  });

  it("a critic where nothing could be scored; the share of groups that taught nothing is the estimator's own", () => {
    const withCritic: Objective = { ...objective, advantage: gae(), critic: {} };
    const [row] = weighStep(withCritic, [played(NaN)], 0, { values: [statistic(1)] });
    expect(isZero(row!.wValue)).toBe(true);
    const batch = [
      { a: 1, b: 0 },
      { a: 0, b: 1 },
    ].map((rewardParts) => played(1, 0, { rewardParts }));
    expect(advantagesOf({ ...objective, advantage: gdpo() }, batch, 0).fracRewardZeroStd).toBe(0);
    expect(advantagesOf(objective, batch, 0).fracRewardZeroStd).toBe(1);
  });

  it("entropy and KL in the loss: the denominators of the policy term, times their coefficients", () => {
    const batch = [played(1), played(2)];
    const rows = weighStep({ ...objective, entropy: 0.4, kl: { beta: 0.8, estimator: "k1" } }, batch, 0);
    expect(column(rows, "wEntropy")).toEqual([
      [0, 0.1, 0.1, 0],
      [0, 0.1, 0.1, 0],
    ]);
    expect(column(rows, "wKl")).toEqual([
      [0, 0.2, 0.2, 0],
      [0, 0.2, 0.2, 0],
    ]);
    const none = weighStep(objective, batch, 0);
    expect(isZero(none[0]!.wEntropy)).toBe(true);
    expect(advantagesOf(objective, batch, 0)).not.toHaveProperty("kl");
    expect(column(none, "wKl").flat()).toEqual([0, 0, 0, 0, 0, 0, 0, 0]);
  });

  it("KL in the reward: each rollout pays for its own, groups without spread are those of the outcomes", () => {
    const batch = [played(1), played(1), played(1, 1), played(2, 1)];
    const refLogProbs = [-2, -3, -2, -3].map(statistic); // k1 = lp − ref: 1 and 2 a token
    const kl = { beta: 0.25, estimator: "k1", in: "reward" } as const;
    const withKl: Objective = { ...objective, advantage: grpo({ eps: 0 }), kl };
    const rows = weighStep(withKl, batch, 0, { refLogProbs });
    const estimated = advantagesOf(withKl, batch, 0, { refLogProbs });
    expect([estimated.kl, estimated.fracRewardZeroStd]).toEqual([1.5, 0.5]);
    // Rewards ½, 0 | ½, 1
    const rounded = rows.map((row) => Math.round(row.advantages[1]! * 1e6) / 1e6);
    expect(rounded).toEqual([0.707107, -0.707107, -0.707107, 0.707107]);
    expect(isZero(column(rows, "wKl").flat())).toBe(true);
    const single = episode([task, ["action", [2]]]);
    expect(advantagesOf(withKl, [single], 0, { refLogProbs: [Float64Array.of(NaN, -3)] }).kl).toBe(2);
    const silent = { ...episode([["prompt", [1, 1]]]), reward: 1 };
    expect(advantagesOf(withKl, [silent], 0, { refLogProbs: [new Float64Array(2)] }).kl).toBe(0);
  });

  it("imitation of successes that can be scored: −lp on their tokens, weights that sum to its own", () => {
    const success = { info: { success: true } };
    const batch = [
      played(1, 0, success),
      played(0, 0, { info: { success: false } }),
      played(NaN, 0, success),
      played(1, 0, { ...success, masked: true }),
    ];
    const rows = weighStep({ ...objective, imitation: 0.8 }, batch, 0);
    expect(column(rows, "wWorld")).toEqual([
      [0, 0.4, 0.4, 0],
      [0, 0, 0, 0],
      [0, 0, 0, 0],
      [0, 0, 0, 0],
    ]);
  });

  it("groups without spread and rollouts that ran out of tokens leave the denominators if asked", () => {
    const batch = [
      played(1),
      played(2),
      played(3, 1),
      played(3, 1),
      played(0, 2, { stopReason: "max_tokens" }),
      played(1, 2, { stopReason: "context_overflow" }),
    ];
    const shares = (trajectories: readonly Trajectory[], more: Partial<Objective>): number[] =>
      weighStep({ ...objective, ...more }, trajectories, 0).map((row) => row.wPolicy[1]!);
    expect(shares(batch, {})).toEqual(batch.map(() => 1 / 12));
    expect(shares(batch, { dropConstantGroups: true })).toEqual([1 / 8, 1 / 8, 0, 0, 1 / 8, 1 / 8]);
    expect(shares(batch, { maskTruncated: true })).toEqual([1 / 8, 1 / 8, 1 / 8, 1 / 8, 0, 0]);
    expect(batch.map(isTruncated)).toEqual([false, false, false, false, true, true]);
    // Both rows of a rollout, although only the second was cut short.
    const rows = [played(1, 0, { rollout: 7 }), played(1, 0, { rollout: 7, stopReason: "max_tokens" }), played(2)];
    expect(shares(rows, { maskTruncated: true })).toEqual([0, 0, 0.5]);
  });

  it("a correction weighs the policy term alone; what is behind the mask stays 0 whatever it says", () => {
    const batch = [played(1), played(2)];
    const logProbs = [0.5, 1.5].map((ratio) => statistic(-1 + Math.log(ratio)));
    const corrected: Objective = { ...objective, importanceCorrection: importanceCorrection({ max: 9 }), entropy: 1 };
    const rows = weighStep(corrected, batch, 0, { logProbs });
    rows.forEach((row, i) => {
      const ratios = [0, 0.5 + i, 0.5 + i, 0];
      ratios.forEach((ratio, t) => expect(row.wPolicy[t]).toBeCloseTo(ratio / 4, 12));
    });
    expect([...rows[0]!.wEntropy]).toEqual([0, 0.25, 0.25, 0]);
    const wild = { name: "wild", needs: [], weights: () => batch.map(() => Float64Array.of(NaN, 1, 1, Infinity)) };
    expect(column(weighStep({ ...objective, importanceCorrection: wild }, batch, 0), "wPolicy")).toEqual([
      [0, 0.25, 0.25, 0],
      [0, 0.25, 0.25, 0],
    ]);
  });

  it("PaW's clipped error has a column of its own, its cross-entropy that of ECHO", () => {
    const batch = [played(0), played(0)];
    const weighed = (loss: "clipped" | "cross-entropy"): TokenRow =>
      weighStep({ ...objective, world: paw({ selection: "all", loss }) }, batch, 0)[1]!;
    expect([...weighed("clipped").weights["paw"]!]).toEqual([0, 0, 0, 0.5]);
    expect([...weighed("clipped").wWorld]).toEqual([0, 0, 0, 0]);
    expect([...weighed("cross-entropy").wWorld]).toEqual([0, 0, 0, 0.5]);
    expect(weighed("cross-entropy").weights).toEqual({});
  });

  it("supervised: a mean over the agent's tokens, answers beside them if asked, DFT in the policy term", () => {
    const batch = [played(1), episode([task, ["action", [2]], ["observation", [4, 4]]])];
    const weighed = (name: ColumnName, options: SftRowOptions): number[][] => column(sftRows(batch, options), name);
    expect(weighed("wWorld", {})).toEqual([
      [0, 1 / 3, 1 / 3, 0],
      [0, 1 / 3, 0, 0],
    ]);
    expect(isZero(weighed("wPolicy", {}).flat())).toBe(true);
    expect(weighed("wWorld", { observationWeight: 0.6 })).toEqual([
      [0, 1 / 3, 1 / 3, 0.6 / 3],
      [0, 1 / 3, 0.6 / 3, 0.6 / 3],
    ]);
    expect(weighed("wWorld", { loss: "dft", observationWeight: 0.6 })).toEqual([
      [0, 0, 0, 0.6 / 3],
      [0, 0, 0.6 / 3, 0.6 / 3],
    ]);
    expect(weighed("wPolicy", { loss: "dft" })).toEqual([
      [0, 1 / 3, 1 / 3, 0],
      [0, 1 / 3, 0, 0],
    ]);
    // A mistake that is not imitated leaves the denominators, too.
    expect(weighed("wWorld", { observationWeight: 0.6, imitate: (_, t) => t === 1 })).toEqual([
      [0, 0.5, 0, 0.3],
      [0, 0.5, 0.3, 0.3],
    ]);
  });

  it("preferences: sides, weights that sum to one a pair, imitation of the chosen one", () => {
    const rejected = episode([task, ["action", [2]], ["observation", [4]]]);
    const pair = { chosen: played(1), rejected };
    const rows = preferenceRows([pair, pair], { imitation: 0.8 });
    const ofSecondPair = (name: ColumnName): number[][] => column(rows, name).slice(2);
    expect(ofSecondPair("advantages")).toEqual([
      [0, 1, 1, 0],
      [0, -1, 0],
    ]);
    expect(ofSecondPair("wPolicy")).toEqual([
      [0, 1 / 6, 1 / 6, 0],
      [0, 1 / 6, 0],
    ]);
    expect(ofSecondPair("wWorld")).toEqual([
      [0, 0.2, 0.2, 0],
      [0, 0, 0],
    ]);
    expect(rows.map((row) => row.segment)).toEqual([0, 0, 1, 1]);
    expect(isZero(column(preferenceRows([pair]), "wWorld").flat())).toBe(true);
  });
});
