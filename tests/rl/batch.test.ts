/**
 * From plans to the arrays of a forward pass, column by column, and the columns of every part of a plan by hand. Goldens and properties
 * see them through a model only, where a column that is shifted or left out may look like any other.
 */
import { describe, expect, it } from "vitest";
import { advantagesOf } from "../../rl/train/advantages.ts";
import { gae, gdpo, grpo } from "../../rl/methods/advantages/index.ts";
import { pack, type PackOptions } from "../../rl/train/pack.ts";
import { importanceCorrection } from "../../rl/methods/importanceCorrection.ts";
import { ppoClip } from "../../rl/methods/losses/index.ts";
import type { Objective } from "../../rl/methods/objective.ts";
import { COLUMN_NAMES, type Columns, COLUMNS, rowOf, type TokenRow } from "../../rl/methods/columns.ts";
import { paw } from "../../rl/methods/world/paw.ts";
import { weighStep } from "../support/rlBatches.ts";
import { preferenceRows, sftRows } from "../../rl/train/supervised.ts";
import { append, emptyStream, isTruncated, outcomeOf, rewardsOfTokens, rolloutsOf, type Trajectory, turnCount } from "../../rl/episode/stream.ts"; // prettier-ignore
import { episode } from "../support/rlToy.ts";

/** A column of distinct numbers. */
const numbers = (length: number, from: number): Float64Array => Float64Array.from({ length }, (_, t) => from + t / 100);

/** An action of `length` − 1 tokens with nothing to train. */
function plain(length: number): TokenRow {
  const trajectory = episode([["prompt", [1]], ["action", Array.from({ length: length - 1 }, (_, k) => 2 + k)]], { old: (t) => -t / 8 }); // prettier-ignore
  return rowOf(trajectory);
}

describe("packing", () => {
  const padId = 99;

  it("every column has each token's own number, the longest row first", () => {
    const weighted = [3, 4].map((length, i): TokenRow => {
      const of = (from: number): Float64Array => numbers(length, from + 50 * i);
      const { trajectory } = plain(length);
      const temperatures = trajectory.stream.temperatures.map((_, t) => 0.5 + t / 10 + i);
      const columns = COLUMN_NAMES.filter((name) => name !== "temperatures").map((name, k) => [name, of(k + 1)]);
      return rowOf({ ...trajectory, stream: { ...trajectory.stream, temperatures } }, Object.fromEntries(columns) as Partial<Columns>); // prettier-ignore
    });
    const batches = [...pack(weighted, { padId, maxTokens: 8 })];
    expect(batches.length).toBe(1);
    const { rows, length, ids, index, targets, episode: of, token, segment, segments, columns } = batches[0]!;
    expect([rows, length, segments]).toEqual([2, 4, 2]);
    expect([...ids]).toEqual([1, 2, 3, 4, 1, 2, 3, 99]);
    expect([...of]).toEqual([1, 1, 1, 0, 0]);
    expect([...token]).toEqual([1, 2, 3, 1, 2]);
    expect([...index]).toEqual([0, 1, 2, 4, 5]);
    expect([...targets]).toEqual([2, 3, 4, 2, 3]);
    expect([...segment]).toEqual([0, 0, 0, 1, 1]);
    const at = (from: (i: number) => ArrayLike<number>): number[] => Array.from(of, (i, n) => from(i)[token[n]!]!);
    expect([...columns.temperatures]).toEqual(at((i) => weighted[i]!.trajectory.stream.temperatures));
    expect(Object.keys(columns)).toEqual(Object.keys(COLUMNS));
    for (const name of COLUMN_NAMES) expect([...columns[name]], name).toEqual(at((i) => weighted[i]![name]));
  });

  it("what nobody gave is 0; the old log-probabilities are the recorded ones", () => {
    const [{ columns } = { columns: undefined }] = pack([plain(3)], { padId, scored: () => true });
    for (const [name, values] of Object.entries(columns!)) {
      const expected = name === "oldLogProbs" ? [-1 / 8, -2 / 8] : name === "temperatures" ? [1, 1] : [0, 0];
      expect([...values], name).toEqual(expected);
    }
  });

  it.each(["mask", "wWorld", "wKl", "wClipped", "wEntropy", "wValue"] as const)(
    "%s alone has a token scored",
    (name) => {
      const base = plain(4);
      const weighted = { ...base, [name]: Float64Array.of(5, 0, 5, 0) }; // what is at position 0 nothing predicts
      const [batch] = pack([base, weighted], { padId });
      expect([[...batch!.episode], [...batch!.token]]).toEqual([[1], [2]]);
    },
  );

  it("a mask has its tokens scored whatever their weight, and says what is in the policy term", () => {
    const masked = { ...plain(4), mask: Float64Array.of(0, 0, 1, 1), wPolicy: Float64Array.of(0, 3, 0, 2) };
    const [batch] = pack([masked, plain(4)], { padId });
    expect([...batch!.token]).toEqual([2, 3]);
    expect([...batch!.columns.mask]).toEqual([1, 1]);
    expect([...pack([plain(4), { ...plain(4), wWorld: Float64Array.of(1, 0, 0, 0) }], { padId })]).toEqual([]);
  });

  it("rows of equal length keep their order; as many as fit exactly; at most 8192 tokens by default", () => {
    const of = (lengths: number[], options: Partial<PackOptions> = {}): number[][] =>
      Array.from(pack(lengths.map(plain), { padId, scored: (_, t) => t === 1, ...options }), (b) => [...b.episode]);
    expect(of([3, 4, 3, 4, 3], { maxTokens: 8 })).toEqual([[1, 3], [0, 2], [4]]); // prettier-ignore
    expect(of([4, 4], { maxTokens: 7 })).toEqual([[0], [1]]);
    expect(of([4096, 4096])).toEqual([[0, 1]]);
    expect(of([2731, 2731, 2731])).toEqual([[0, 1], [2]]); // 8193 // prettier-ignore
  });
});

describe("weights by hand", () => {
  const objective: Objective = { advantage: grpo(), policyLoss: ppoClip(), aggregation: "token-mean" };
  const played = (reward: number, group = 0, more: Partial<Trajectory> = {}): Trajectory =>
    episode(
      [
        ["prompt", [1]],
        ["action", [2, 3]],
        ["observation", [4]],
      ],
      { reward, group, stepRewards: [reward], ...more },
    );
  const list = (columns: readonly Float64Array[]): number[][] => columns.map((row) => [...row]);
  const isZero = (column: Float64Array): boolean => column.every((x) => x === 0);
  const values = (x: number): Float64Array => Float64Array.of(NaN, x, x, NaN);

  it("a critic: weights on tokens with a target, a mean over them, times the coefficient, by default 0.1", () => {
    const batch = [played(1), played(2), played(NaN)];
    const signals = { values: batch.map(() => values(0.25)) };
    const of = (critic: object): readonly TokenRow[] =>
      weighStep({ ...objective, advantage: gae({ lambda: 1 }), critic }, batch, 0, signals);
    const rows = of({ coefficient: 0.6 });
    expect(list(rows.map((e) => e.wValue))).toEqual([[0, 0.15, 0.15, 0], [0, 0.15, 0.15, 0], [0, 0, 0, 0]]); // prettier-ignore
    expect(list(rows.map((e) => e.returns))).toEqual([[NaN, 1, 1, NaN], [NaN, 2, 2, NaN], [NaN, NaN, NaN, NaN]]); // prettier-ignore
    expect(of({})[0]!.wValue[1]).toBeCloseTo(0.1 / 4, 12);
    expect(weighStep(objective, batch, 0).every((e) => isZero(e.wValue) && isZero(e.returns))).toBe(true);
  });

  it("a critic where nothing could be scored; the share of groups that taught nothing is the estimator's own", () => {
    const nothing = weighStep({ ...objective, advantage: gae(), critic: {} }, [played(NaN)], 0, {
      values: [values(1)],
    });
    expect(isZero(nothing[0]!.wValue)).toBe(true);
    const parts = [[1, 0], [0, 1]].map(([a, b]) => played(1, 0, { rewardParts: { a: a!, b: b! } })); // prettier-ignore
    expect(advantagesOf({ ...objective, advantage: gdpo() }, parts, 0).fracRewardZeroStd).toBe(0);
    expect(advantagesOf(objective, parts, 0).fracRewardZeroStd).toBe(1);
  });

  it("entropy and KL in the loss: the denominators of the policy term, times their coefficients", () => {
    const batch = [played(1), played(2)];
    const rows = weighStep({ ...objective, entropy: 0.4, kl: { beta: 0.8, estimator: "k1" } }, batch, 0);
    expect(list(rows.map((e) => e.wEntropy))).toEqual([[0, 0.1, 0.1, 0], [0, 0.1, 0.1, 0]]); // prettier-ignore
    expect(list(rows.map((e) => e.wKl))).toEqual([[0, 0.2, 0.2, 0], [0, 0.2, 0.2, 0]]); // prettier-ignore
    const none = weighStep(objective, batch, 0);
    expect(isZero(none[0]!.wEntropy)).toBe(true);
    expect(advantagesOf(objective, batch, 0)).not.toHaveProperty("kl");
    expect(list(none.map((e) => e.wKl)).flat()).toEqual([0, 0, 0, 0, 0, 0, 0, 0]);
  });

  it("KL in the reward: each rollout pays for its own, groups without spread are those of the outcomes", () => {
    const batch = [played(1), played(1), played(1, 1), played(2, 1)];
    // k1 = lp − ref: 1 and 2 a token
    const refLogProbs = [-2, -3, -2, -3].map((ref) => Float64Array.of(NaN, ref, ref, NaN));
    const withKl: Objective = { ...objective, advantage: grpo({ eps: 0 }), kl: { beta: 0.25, estimator: "k1", in: "reward" } }; // prettier-ignore
    const rows = weighStep(withKl, batch, 0, { refLogProbs });
    const { kl, fracRewardZeroStd } = advantagesOf(withKl, batch, 0, { refLogProbs });
    expect([kl, fracRewardZeroStd]).toEqual([1.5, 0.5]);
    // Rewards ½, 0 | ½, 1
    expect(list(rows.map((e) => e.advantages)).map((row) => Math.round(row[1]! * 1e6) / 1e6)).toEqual([0.707107, -0.707107, -0.707107, 0.707107]); // prettier-ignore
    expect(list(rows.map((e) => e.wKl)).flat().every((w) => w === 0)).toBe(true); // prettier-ignore
    const single = episode([
      ["prompt", [1]],
      ["action", [2]],
    ]);
    expect(advantagesOf(withKl, [single], 0, { refLogProbs: [Float64Array.of(NaN, -3)] }).kl).toBe(2);
    const silent = { ...episode([["prompt", [1, 1]]]), reward: 1 };
    expect(advantagesOf(withKl, [silent], 0, { refLogProbs: [new Float64Array(2)] }).kl).toBe(0);
  });

  it("imitation of successes that can be scored: −lp on their tokens, weights that sum to its own", () => {
    const [yes, no] = [{ info: { success: true } }, { info: { success: false } }];
    const batch = [played(1, 0, yes), played(0, 0, no), played(NaN, 0, yes), played(1, 0, { ...yes, masked: true })];
    const rows = weighStep({ ...objective, imitation: 0.8 }, batch, 0);
    expect(list(rows.map((e) => e.wWorld))).toEqual([[0, 0.4, 0.4, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]); // prettier-ignore
  });

  it("groups without spread and rollouts that ran out of tokens leave the denominators if asked", () => {
    const batch = [played(1), played(2), played(3, 1), played(3, 1), played(0, 2, { stopReason: "max_tokens" }), played(1, 2, { stopReason: "context_overflow" })]; // prettier-ignore
    const share = (more: Partial<Objective>): number[] =>
      weighStep({ ...objective, ...more }, batch, 0).map((e) => e.wPolicy[1]!);
    expect(share({})).toEqual(batch.map(() => 1 / 12));
    expect(share({ dropConstantGroups: true })).toEqual([1 / 8, 1 / 8, 0, 0, 1 / 8, 1 / 8]);
    expect(share({ maskTruncated: true })).toEqual([1 / 8, 1 / 8, 1 / 8, 1 / 8, 0, 0]);
    expect(batch.map(isTruncated)).toEqual([false, false, false, false, true, true]);
    // Both rows of a rollout, although only the second was cut short.
    const rows = [played(1, 0, { rollout: 7 }), played(1, 0, { rollout: 7, stopReason: "max_tokens" }), played(2)];
    expect(weighStep({ ...objective, maskTruncated: true }, rows, 0).map((e) => e.wPolicy[1]!)).toEqual([0, 0, 0.5]); // prettier-ignore
  });

  it("a correction weighs the policy term alone; what is behind the mask stays 0 whatever it says", () => {
    const batch = [played(1), played(2)];
    const logProbs = [0.5, 1.5].map((r) => Float64Array.of(NaN, -1 + Math.log(r), -1 + Math.log(r), NaN));
    const rows = weighStep({ ...objective, importanceCorrection: importanceCorrection({ max: 9 }), entropy: 1 }, batch, 0, { logProbs }); // prettier-ignore
    rows.forEach((e, i) => [0, 0.5 + i, 0.5 + i, 0].forEach((r, t) => expect(e.wPolicy[t]).toBeCloseTo(r / 4, 12)));
    expect([...rows[0]!.wEntropy]).toEqual([0, 0.25, 0.25, 0]);
    const wild = { name: "wild", needs: [], weights: () => batch.map(() => Float64Array.of(NaN, 1, 1, Infinity)) };
    expect(list(weighStep({ ...objective, importanceCorrection: wild }, batch, 0).map((e) => e.wPolicy))).toEqual([[0, 0.25, 0.25, 0], [0, 0.25, 0.25, 0]]); // prettier-ignore
  });

  it("PaW's clipped error has a column of its own, its cross-entropy that of ECHO", () => {
    const batch = [played(0), played(0)];
    const of = (loss: "clipped" | "cross-entropy"): TokenRow =>
      weighStep({ ...objective, world: paw({ selection: "all", loss }) }, batch, 0)[1]!;
    expect(list([of("clipped").wClipped, of("clipped").wWorld])).toEqual([[0, 0, 0, 0.5], [0, 0, 0, 0]]); // prettier-ignore
    expect([...of("cross-entropy").wWorld]).toEqual([0, 0, 0, 0.5]);
    expect(isZero(of("cross-entropy").wClipped)).toBe(true);
  });

  it("supervised: a mean over the agent's tokens, answers beside them if asked, DFT in the policy term", () => {
    const batch = [
      played(1),
      episode([
        ["prompt", [1]],
        ["action", [2]],
        ["observation", [4, 4]],
      ]),
    ];
    const of = (options: object): TokenRow[] => sftRows(batch, options);
    expect(list(of({}).map((e) => e.wWorld))).toEqual([[0, 1 / 3, 1 / 3, 0], [0, 1 / 3, 0, 0]]); // prettier-ignore
    expect(list(of({}).map((e) => e.wPolicy)).flat().some((w) => w !== 0)).toBe(false); // prettier-ignore
    expect(list(of({ observationWeight: 0.6 }).map((e) => e.wWorld))).toEqual([[0, 1 / 3, 1 / 3, 0.6 / 3], [0, 1 / 3, 0.6 / 3, 0.6 / 3]]); // prettier-ignore
    expect(list(of({ loss: "dft", observationWeight: 0.6 }).map((e) => e.wWorld))).toEqual([[0, 0, 0, 0.6 / 3], [0, 0, 0.6 / 3, 0.6 / 3]]); // prettier-ignore
    expect(list(of({ loss: "dft" }).map((e) => e.wPolicy))).toEqual([[0, 1 / 3, 1 / 3, 0], [0, 1 / 3, 0, 0]]); // prettier-ignore
    // A mistake that is not imitated leaves the denominators, too.
    expect(list(of({ observationWeight: 0.6, imitate: (_: Trajectory, t: number) => t === 1 }).map((e) => e.wWorld))).toEqual([[0, 0.5, 0, 0.3], [0, 0.5, 0.3, 0.3]]); // prettier-ignore
  });

  it("preferences: sides, weights that sum to one a pair, imitation of the chosen one", () => {
    const rejected = episode([
      ["prompt", [1]],
      ["action", [2]],
      ["observation", [4]],
    ]);
    const rows = preferenceRows([{ chosen: played(1), rejected }, { chosen: played(1), rejected }], { imitation: 0.8 }); // prettier-ignore
    expect(list(rows.map((e) => e.advantages)).slice(2)).toEqual([[0, 1, 1, 0], [0, -1, 0]]); // prettier-ignore
    expect(list(rows.map((e) => e.wPolicy)).slice(2)).toEqual([[0, 1 / 6, 1 / 6, 0], [0, 1 / 6, 0]]); // prettier-ignore
    expect(list(rows.map((e) => e.wWorld)).slice(2)).toEqual([[0, 0.2, 0.2, 0], [0, 0, 0]]); // prettier-ignore
    expect(rows.map((e) => e.segment)).toEqual([0, 0, 1, 1]);
    expect(list(preferenceRows([{ chosen: played(1), rejected }]).map((e) => e.wWorld)).flat().some((w) => w !== 0)).toBe(false); // prettier-ignore
  });
});

describe("streams", () => {
  it("what was not recorded is 0, the temperature 1, the version −1", () => {
    const stream = emptyStream();
    append(stream, "action", 0, [5, 6]);
    append(stream, "action", 0, [7, 8], { versions: [3, 4], oldLogProbs: [-1, -2], temperature: 0.5 });
    expect(stream.oldLogProbs).toEqual([0, 0, -1, -2]);
    expect(stream.temperatures).toEqual([1, 1, 0.5, 0.5]);
    expect(stream.versions).toEqual([-1, -1, 3, 4]);
  });

  it("an outcome is the return, unless it is known apart from what shapes the return", () => {
    expect([outcomeOf({ reward: 0.3 }), outcomeOf({ reward: 0.3, outcome: 0 })]).toEqual([0.3, 0]);
  });

  it("turns are counted by what the agent wrote", () => {
    expect(turnCount(episode([["prompt", [1]], ["action", [2]], ["observation", [3]], ["thought", [2]], ["observation", [3]]]))).toBe(2); // prettier-ignore
    const stream = emptyStream();
    append(stream, "action", 0, [1]);
    append(stream, "observation", 1, [1]);
    expect(turnCount({ ...episode([]), stream })).toBe(1);
  });

  it("a rollout with one masked row is masked; rows without a rollout's number are rollouts of their own", () => {
    const row = (more: Partial<Trajectory>): Trajectory =>
      episode(
        [
          ["prompt", [1]],
          ["action", [2]],
        ],
        more,
      );
    expect(rolloutsOf([row({ rollout: 1 }), row({ rollout: 1, masked: true })]).map((r) => r.scorable)).toEqual([false]); // prettier-ignore
    expect(rolloutsOf([row({}), row({}), row({ rollout: 0 }), row({})]).map((r) => r.rows)).toEqual([[0], [1], [2], [3]]); // prettier-ignore
  });

  it("rewards of tokens: all rows have to say them; a turn without a step's reward has 0; rounding is no reward", () => {
    const of = (more: Partial<Trajectory>[]): number[] => {
      const rows = more.map((m) =>
        episode(
          [
            ["prompt", [1]],
            ["action", [2, 3]],
          ],
          { rollout: 1, ...m },
        ),
      );
      return rewardsOfTokens(rolloutsOf(rows)[0]!, rows);
    };
    expect(of([{ tokenRewards: [0, 1, 2] }, { tokenRewards: [0, 4, 8] }])).toEqual([1, 2, 4, 8]);
    expect(of([{ tokenRewards: [0, 1, 2], reward: 3, stepRewards: [3] }, {}])).toEqual([0, 0, 0, 3]);
    expect(of([{ reward: -2 }])).toEqual([0, -2]);
    const turns = episode([
      ["prompt", [1]],
      ["action", [2, 2]],
      ["observation", [3]],
      ["action", [2]],
    ]);
    expect(rewardsOfTokens(rolloutsOf([turns])[0]!, [turns])).toEqual([0, 0, 0]);
    const single = episode(
      [
        ["prompt", [1]],
        ["action", [2]],
      ],
      { reward: 5 },
    );
    expect(rewardsOfTokens(rolloutsOf([single])[0]!, [single])).toEqual([5]);
    expect(of([{ reward: 0.3, stepRewards: [0.1 + 0.2] }])).toEqual([0, 0.1 + 0.2]);
    for (const scale of [1, -1]) {
      expect(of([{ reward: 1e9 * scale, stepRewards: [(1e9 + 1e-6) * scale] }])).toEqual([0, (1e9 + 1e-6) * scale]);
      expect(of([{ reward: scale, stepRewards: [(1 + 1.5e-12) * scale] }])[1]).toBe(scale);
      expect(of([{ reward: 0, stepRewards: [5e-13 * scale] }])[1]).toBe(5e-13 * scale);
    }
    expect(rewardsOfTokens(rolloutsOf([episode([["prompt", [1]]], { reward: 1 })])[0]!, [episode([["prompt", [1]]], { reward: 1 })])).toEqual([]); // prettier-ignore
  });
});
