/**
 * Denominators, importance corrections, world models and token weights where goldens and random batches do not look:
 * exact bounds, rows that continue a rollout, nothing to train, defaults. Each of these was found by `npm run mutate`:
 * before it was here, an edit of that place went unnoticed.
 */
import { describe, expect, it } from "vitest";
import { aggregationWeights } from "../../rl/objective/aggregation.ts";
import {
  importanceCorrection,
  type ImportanceCorrectionOptions,
  offPolicyMetrics,
} from "../../methods/importanceCorrection.ts";
import { echo, observations, observationTokens } from "../../rl/objective/echo.ts";
import { actFocus, uncertaintyWeights, quantile, topEntropy } from "../../methods/tokenWeights.ts";
import { paw, transitionsOf } from "../../methods/paw.ts";
import { append, emptyStream, type Role, type Trajectory } from "../../rl/episode/stream.ts";
import { madeUpSignals, randomBatch } from "../support/rlBatches.ts";
import { episode, trajectoryOf } from "../support/rlToy.ts";

const rows = (weights: readonly Float64Array[]): number[][] => weights.map((row) => [...row]);

describe("denominators", () => {
  it("a sequence counts once, also if only one of its rows has anything to train", () => {
    const masks = [[true, true], [false], [true], [false]];
    const sequences = [[0, 1], [2], [3]];
    expect(rows(aggregationWeights(masks, "seq-mean-token-sum", { sequences }))).toEqual([[0.5, 0.5], [0], [0.5], [0]]);
    expect(rows(aggregationWeights(masks, "prompt-mean-token-mean", { sequences }))).toEqual([
      [0.25, 0.25],
      [0],
      [0.5],
      [0],
    ]);
    // Tasks 4, 4, 7: the first has three tokens, the second nothing, and does not count.
    expect(rows(aggregationWeights(masks, "prompt-mean-token-mean", { sequences, groups: [4, 4, 7] }))).toEqual([
      [1 / 3, 1 / 3],
      [0],
      [1 / 3],
      [0],
    ]);
    const more = [[true], [true, true], [true, true, true, true]];
    expect(rows(aggregationWeights(more, "prompt-mean-token-mean", { groups: [1, 1, 0] })).map(([w]) => w)).toEqual([
      1 / 6,
      1 / 6,
      1 / 8,
    ]);
  });
});

describe("corrections", () => {
  /** A rollout of these ln r, each a token. */
  const played = (ratios: number[], more: Partial<Trajectory> = {}): { t: Trajectory; logProbs: Float64Array } => ({
    t: episode(
      [
        ["prompt", [1]],
        ["action", ratios.map(() => 2)],
      ],
      more,
    ), // recorded at −1
    logProbs: Float64Array.of(NaN, ...ratios.map((x) => -1 + x)),
  });
  const factors = (
    options: ImportanceCorrectionOptions,
    batch: { t: Trajectory; logProbs: Float64Array }[],
    A: (t: number) => number = () => 1,
  ): number[][] =>
    rows(
      importanceCorrection(options).weights(
        batch.map(({ t }) => t),
        { logProbs: batch.map(({ logProbs }) => logProbs) },
        batch.map(({ t }) => Float64Array.from(t.stream.ids, (_, k) => A(k))),
      ),
    ).map(([, ...own]) => own);
  const one = (options: ImportanceCorrectionOptions, ratios: number[], A?: (t: number) => number): number[] =>
    factors(options, [played(ratios)], A)[0]!;

  it("where nothing is within the bounds, or every ratio is 0, all weights are 0, normalised or not", () => {
    for (const level of ["token", "sequence"] as const) {
      const masked = { mode: "mask", min: 0.9, max: 1.1, level } as const;
      for (const normalize of [false, true]) {
        expect(one({ ...masked, normalize }, [-4, -4])).toEqual([0, 0]);
        expect(one({ level, normalize }, [-800, -800])).toEqual([0, 0]);
      }
    }
    // So small that 1/mean is infinite.
    expect(one({ normalize: true }, [-744, -744])).toEqual([1, 1]);
  });

  it("defaults: truncated at 2, no lower bound; names", () => {
    const [kept, cut] = one({}, [-3, 3]);
    expect(kept).toBeCloseTo(Math.exp(-3), 12);
    expect(cut).toBe(2);
    expect(one({ mode: "mask" }, [-3, 3]).map((w) => w > 0)).toEqual([true, false]);
    const named = ["truncate", "mask", "none"] as const;
    expect(named.map((mode) => importanceCorrection({ mode, level: "sequence" }).name)).toEqual([
      "tis_sequence",
      "icepop_sequence",
      "rejection",
    ]);
  });

  it("ratios on the bound are within it", () => {
    for (const bounds of [
      { min: 1, max: 2 },
      { min: 0.5, max: 1 },
    ]) {
      expect(one({ mode: "mask", ...bounds }, [0])).toEqual([1]);
      expect(one({ mode: "none", reject: { level: "token", estimator: "k1", ...bounds } }, [0])).toEqual([1]);
    }
  });

  it("rejection by k2 and by k3 are two things: at ln r ±1 they are ½, ½ and .72, .37", () => {
    const of = (estimator: "k2" | "k3", max: number): number[] =>
      one({ mode: "none", reject: { level: "token", estimator, max } }, [1, -1]);
    expect([of("k2", 0.6), of("k2", 0.4), of("k3", 0.6), of("k3", 0.4), of("k3", 0.3)]).toEqual([
      [1, 1],
      [0, 0],
      [0, 1],
      [0, 1],
      [0, 0],
    ]);
  });

  it("the off-policy mask: strictly beyond its bound, strictly negative advantages, those of the first token", () => {
    const of = (bound: number, A: (t: number) => number): number[] =>
      one({ mode: "none", offPolicyMask: bound }, [-0.5, -0.5], A);
    expect(of(0.4, () => -1)).toEqual([0, 0]);
    expect(of(0.5, () => -1)).toEqual([1, 1]);
    expect(of(0.4, () => 0)).toEqual([1, 1]);
    expect(of(0.4, (t) => (t === 1 ? -1 : 1))).toEqual([0, 0]);
    const silent = { t: episode([["prompt", [1, 1]]]), logProbs: Float64Array.of(NaN, NaN) };
    expect(factors({ mode: "none", offPolicyMask: 0.4 }, [silent, played([-1])], () => -1)).toEqual([[1], [0]]);
  });

  it("normalised by sequences, each counts once, whatever its length; without a token nothing happens", () => {
    const batch = [played([Math.log(0.5)]), played([Math.log(1.7), 0, 0])];
    const [a, b] = factors({ level: "sequence", normalize: true }, batch);
    expect(a![0]).toBeCloseTo(0.5 / 1.1, 12);
    for (const w of b!) expect(w).toBeCloseTo(1.7 / 1.1, 12);
    const silent = { t: episode([["prompt", [1, 1]]]), logProbs: Float64Array.of(NaN, NaN) };
    expect(factors({ normalize: true }, [silent])).toEqual([[1]]);
    expect(one({ normalize: true }, [0.3])).toEqual([1]);
  });

  it("metrics: rollouts that are not scored, or have no token, are left out; nothing at all is empty", () => {
    const [own, half, silent] = [
      played([0.5, -0.25]),
      played([0.1, NaN]),
      { t: episode([["prompt", [1, 1]]]), logProbs: new Float64Array(2) },
    ];
    const of = (batch: { t: Trajectory; logProbs: Float64Array }[]): Record<string, number> =>
      offPolicyMetrics(
        batch.map(({ t }) => t),
        batch.map(({ logProbs }) => logProbs),
      );
    expect(of([half, own, silent, played([NaN, 0.1])])).toEqual(of([own]));
    expect(of([own])["rollout_corr/kl"]).toBeCloseTo(-0.125, 12);
    expect(of([half, silent])).toEqual({});
    const { metrics } = importanceCorrection();
    expect(metrics!([own.t], { logProbs: [own.logProbs] })).toEqual(of([own]));
    expect(metrics!([own.t], {})).toEqual({}); // nothing was scored
  });
});

/** A row with one token of each role, all observations targets, one turn per entry or the turns given. */
function row(
  roles: readonly Role[],
  turns: readonly number[] = roles.map(() => 0),
  more: Partial<Trajectory> = {},
): Trajectory {
  const stream = emptyStream();
  roles.forEach((role, t) => append(stream, role, turns[t]!, [t]));
  return trajectoryOf(stream, more);
}

describe("what the world model reads", () => {
  const read = (t: Trajectory, continues?: boolean): boolean[] => {
    const { all, targets } = observationTokens(t, continues);
    expect(all).toBe(targets.filter(Boolean).length);
    return targets;
  };

  it("observations after the first action, or all of a row that continues; never position 0", () => {
    const t = row(["observation", "observation", "action", "observation"]);
    expect(read(t)).toEqual([false, false, false, true]);
    expect(read(t, true)).toEqual([false, true, false, true]);
    expect(read(row(["prompt", "observation", "observation"]))).toEqual([false, false, false]);
    expect(read(row(["prompt", "observation", "observation"]), true)).toEqual([false, true, true]);
    expect(read({ ...t, masked: true }, true)).toEqual([false, false, false, false]);
  });

  it("the second row of a rollout continues the first, a row of another does not", () => {
    const part = (rollout: number): Trajectory =>
      row(["prompt", "observation", "action", "observation"], undefined, { rollout });
    expect(observations([part(1), part(1), part(2), part(1)]).map(({ all }) => all)).toEqual([1, 2, 1, 2]);
    // |O| of the paper's normalisation is the rollout's: 1/(2·5) for the first, 1/(2·1) for the other.
    const weights = echo({ lambda: 1 }).weights([part(1), part(1), part(2), part(1)], 0);
    expect(weights.map((w) => w[3])).toEqual([0.1, 0.1, 0.5, 0.1]);
  });
});

describe("PaW", () => {
  it("a transition is an action, without the thoughts before it if it has any, and the answer", () => {
    const roles: Role[] = ["prompt", "thought", "action", "scaffold", "observation", "thought", "observation"];
    const found = transitionsOf([row(roles, [0, 0, 0, 0, 0, 1, 1])]);
    expect(found.map(({ turn, action, targets, length }) => ({ turn, action, targets, length }))).toEqual([
      { turn: 0, action: [[0, 2]], targets: [[0, 4]], length: 1 },
      { turn: 1, action: [[0, 5]], targets: [[0, 6]], length: 1 },
    ]);
    // Position 0 is nothing that was predicted.
    expect(transitionsOf([row(["action", "action", "observation"])]).map(({ action }) => action)).toEqual([[[0, 1]]]);
    expect(transitionsOf([row(["action", "observation"])])).toEqual([]);
    // An answer to nothing that was sampled here, and an action without an answer.
    expect(
      transitionsOf([
        row(["prompt", "action", "observation", "prompt", "observation", "action"], [0, 0, 0, 1, 1, 2]),
      ]).map(({ turn }) => turn),
    ).toEqual([0]);
  });

  it("defaults are those that the options say", () => {
    const batch = randomBatch(4);
    const of = (options: object): unknown => paw(options).weights(batch, 2, madeUpSignals(batch));
    const defaults = {
      alpha: 0.75,
      selection: "entropy",
      rewardMax: 1,
      clamp: [0, 1],
      coefficient: 1,
      weight: "adaptive",
    };
    expect(of({ clamp: null })).toEqual(of({ ...defaults, clamp: null }));
    for (const [key, other] of Object.entries({
      alpha: 0.3,
      rewardMax: 2,
      coefficient: 2,
      weight: "constant",
      clamp: [-1, 2],
    }))
      expect(of({ [key]: other }), key).not.toEqual(of(defaults));
    expect(of({})).toEqual(of(defaults));
    // 1 − R̄/R_max is above 1 for negative returns.
    const poor = batch.map((t) => ({ ...t, reward: -0.5 }));
    const ofPoor = (options: object): unknown => paw(options).weights(poor, 2, madeUpSignals(poor));
    expect(ofPoor({})).toEqual(ofPoor(defaults));
    expect(ofPoor({ clamp: [0, 2] })).not.toEqual(ofPoor(defaults));
    expect(of({ selection: "random" })).toEqual(of({ selection: "random", seed: 0 }));
  });

  it("PaW's largest reward is told where a larger one would be cut off: adaptive weights with bounds", () => {
    expect([paw(), paw({ rewardMax: 3 })].map(({ rewardMax }) => rewardMax)).toEqual([1, 3]);
    for (const options of [{ weight: "constant" as const }, { clamp: null }])
      expect(paw(options)).not.toHaveProperty("rewardMax");
    expect(paw({ weight: "constant", clamp: null })).not.toHaveProperty("rewardMax");
  });

  it("a random share is drawn: others at another step or seed, not the first, not those of high entropy", () => {
    const batch = [0, 1, 2, 3].flatMap((seed) => randomBatch(seed + 20)).map((t, group) => ({ ...t, group }));
    const chosen = (step: number, options: object): string =>
      paw({ alpha: 0.5, weight: "constant", ...options })
        .weights(batch, step, madeUpSignals(batch))
        .map((w) => [...w].map((x) => (x > 0 ? "x" : "-")).join(""))
        .join(" ");
    const random = { selection: "random" };
    const all = [chosen(0, random), chosen(1, random), chosen(0, { ...random, seed: 1 }), chosen(0, {})];
    expect(new Set(all).size).toBe(4);
    expect(chosen(1, random)).toBe(all[1]);
    const transitions = transitionsOf(batch);
    const firstHalf = transitions.slice(0, Math.ceil(transitions.length / 2));
    const isDrawn = (n: number): boolean =>
      firstHalf.every(({ targets: [[at, t] = [0, 0]] }) => all[n]!.split(" ")[at]![t] === "x");
    expect([0, 1, 2].some(isDrawn)).toBe(false);
  });
});

describe("token weights", () => {
  it("ActFocus adds 1e-8 to the variance, which shows where that is as small; defaults .1 and .5", () => {
    const z = 5e-5 / Math.sqrt(2.5e-9 + 1e-8);
    const [low, high] = uncertaintyWeights([0, 1e-4], 0.5);
    expect(low).toBeCloseTo(1 + 0.5 / (1 + Math.exp(z)), 12);
    expect(high).toBeCloseTo(1 + 0.5 / (1 + Math.exp(-z)), 12);
    const batch = randomBatch(6);
    const of = (options: object): unknown => actFocus(options).weights(batch, madeUpSignals(batch));
    expect(of({})).toEqual(of({ alpha: 0.1, beta: 0.5, uncertainty: "energy" }));
  });

  it("quantiles: of values in any order, between two of them in proportion, of none NaN", () => {
    expect([0, 0.25, 0.5, 0.875, 1].map((q) => quantile([8, 1, 4, 2], q))).toEqual([1, 1.75, 3, 6.5, 8]);
    expect(quantile([], 0.5)).toBe(NaN);
  });

  it("top entropy: the threshold itself is in; a fifth unless given", () => {
    const t = row(["prompt", ...Array<Role>(11).fill("action")]);
    const entropy = [Float64Array.from({ length: 12 }, (_, k) => k)];
    const count = (options: object): number =>
      topEntropy(options)
        .weights([t], { entropy })[0]!
        .reduce((a, b) => a + b, 0);
    expect([count({ share: 1 }), count({ share: 0.2 }), count({}), count({ share: 0.4 })]).toEqual([11, 3, 3, 5]);
  });
});
