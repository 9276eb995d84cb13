/**
 * What is read off curves, against hand computations: areas, smoothing, the way to a target, ratios, and the choice of
 * a trial, at an edge of the grid or not.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { withHashes } from "../../run/page/assets.ts";
import { areaUnder, bestSmoothed, envStepsTo, type Point, smoothed, successAt } from "../../studies/ablate/points.ts";
import { renderAblation } from "../../studies/ablate/render.ts";
import { type CellResult, type Results, resultsOf } from "../../studies/ablate/results.ts";
import { mean, pairedRatio } from "../../run/figures/statistics.ts";
import { tablesOf } from "../../studies/ablate/tables.ts";
import { chooseTrial, type TrialSettings, type Tuning } from "../../studies/ablate/tune.ts";

const resultsAt = (cells: readonly CellResult[], arms: readonly string[]): Results =>
  resultsOf(cells, {
    arms,
    threshold: 0.7,
    trainingEpisodes: 12,
    heldOutEpisodes: 15,
    shown: [],
    tuning: [],
    rewarded: () => [],
  });

/** Points at these places with these successes. */
const curve = (places: readonly number[], successes: readonly number[]): Point[] =>
  places.map((envSteps, i) => ({
    step: i,
    envSteps,
    flops: 0,
    success: successes[i]!,
    turns: 1,
    worldLoss: 0,
    worldLossRandom: 0,
    worldLossOnPolicy: 0,
    worldLossExcess: undefined,
    passAt: undefined,
    reward: null,
    shown: {},
  }));

describe("what is read off a curve", () => {
  it("the area under it is that of its trapezoids, to the budget and no farther", () => {
    const points = curve([0, 10, 40], [0, 0.4, 1]);
    // 10·0.2 + 30·0.7 = 23
    expect(areaUnder(points, 40)).toBeCloseTo(23 / 40, 12);
    // to 25, where it is 0.7: 2 + 15·0.55
    expect(areaUnder(points, 25)).toBeCloseTo(10.25 / 25, 12);
    // beyond its end it stays where it is
    expect(areaUnder(points, 50)).toBeCloseTo(33 / 50, 12);
    expect(areaUnder(points, 2, "step")).toBeCloseTo(0.45, 12);
    expect(areaUnder(points, 0)).toBeNaN();
  });

  it("the area lies between the lowest and the highest value, and is what many small steps add up to", () => {
    const successes = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 2, maxLength: 8 });
    const gaps = fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 8, maxLength: 8 });
    fc.assert(
      fc.property(successes, gaps, fc.integer({ min: 1, max: 300 }), (values, widths, budget) => {
        const places = values.map((_, i) => widths.slice(0, i).reduce((a, b) => a + b, 0));
        const points = curve(places, values);
        const area = areaUnder(points, budget);
        const n = 4000;
        const sum = mean(Array.from({ length: n }, (_, i) => successAt(points, ((i + 0.5) / n) * budget)));
        expect(Math.abs(area - sum)).toBeLessThan(2e-3);
      }),
      { numRuns: 50 },
    );
  });

  it("smoothing is the mean with the neighbours that there are", () => {
    expect(smoothed(curve([0, 1, 2, 3], [0, 0.3, 0.9, 0.6]))).toEqual([
      0.15,
      expect.closeTo(0.4),
      expect.closeTo(0.6),
      0.75,
    ]);
    expect(bestSmoothed(curve([0, 1, 2, 3], [1, 0.3, 0.9, 0.6]))).toBe(0.75); // the start is nobody's merit
  });

  it("the way to a target is linear between smoothed evaluations; the start does not count", () => {
    const points = curve([0, 10, 20, 30], [0, 0.3, 0.9, 0.6]); // smoothed 0.15, 0.4, 0.6, 0.75
    expect(envStepsTo(points, 0.5)).toBeCloseTo(15, 12);
    expect(envStepsTo(points, 0.4)).toBeCloseTo(10, 12);
    expect(envStepsTo(points, 0.1)).toBe(10);
    expect(envStepsTo(points, 0.76)).toBe(null);
    expect(envStepsTo(points, bestSmoothed(points))).toBe(30);
  });

  it("a ratio is a geometric mean over seeds, and a lower bound where not all got there", () => {
    const both = pairedRatio([
      { time: 50, horizon: 100, base: 100 },
      { time: 200, horizon: 300, base: 100 },
    ])!;
    expect(both).toMatchObject({ reached: 2, seeds: 2 });
    expect([both.value, both.low, both.high].map((x) => Number(x.toFixed(9)))).toEqual([1, 0.5, 2]);
    const one = pairedRatio([
      { time: 50, horizon: 100, base: 100 },
      { time: null, horizon: 100, base: 25 },
    ])!;
    expect([one.reached, one.value, one.mean.value]).toEqual([1, expect.closeTo(Math.sqrt(2)), 75]);
    expect(pairedRatio([])).toBe(null);
  });

  it("an arm that learns twice as fast as the baseline takes half of its steps, with every seed", () => {
    const of = (arm: string, seed: number, places: readonly number[]): CellResult => {
      const points = curve(places, [0.1, 0.2 + seed / 50, 0.4, 0.6 + seed / 50, 0.5]);
      return { env: "a", arm, seed, warm: points[0]!, points, families: { before: {}, after: {} } };
    };
    const seeds = [0, 1, 2, 3, 4];
    const cells = seeds.flatMap((seed) => [
      of("grpo", seed, [0, 100, 200, 300, 400]),
      of("echo", seed, [0, 50, 100, 150, 200]),
    ]);
    const results = resultsAt(cells, ["grpo", "echo"]);
    const [grpo, echo] = results.environments[0]!.arms;
    expect(grpo!.speed).toMatchObject({ value: 1, reached: 5 });
    expect(echo!.speed!.value).toBeCloseTo(0.5, 12);
    expect(echo!.speed!.high).toBeCloseTo(0.5, 12);
    expect(results.environments[0]!.budget).toBe(200);
    expect(echo!.areaDifference!.higher).toBe(5);
    const [speed] = tablesOf(results);
    expect(speed!.rows[1]![2]).toEqual({ text: "0.50 [0.50, 0.50]", tone: "good" });
    // One that never gets there is slower than it can say.
    const late = seeds.map((seed) => ({
      ...of("late", seed, [0, 90, 180, 270, 360]),
      points: curve([0, 90, 180, 270, 360], [0, 0, 0, 0, 0]),
    }));
    const [table] = tablesOf(resultsAt([...cells, ...late], ["grpo", "late"]));
    expect((table!.rows[1]![2] as { text: string; tone?: string }).text).toMatch(/^≥ /);
    expect(table!.rows[1]![2]).not.toHaveProperty("tone", "good");
  });
});

describe("the choice of a trial", () => {
  const at = { env: "a", arm: "grpo", seeds: [100, 101] };
  it("is the largest mean area to what the most sparing trial took; of equals the first", () => {
    const quick = { settings: { lr: "2" }, curves: [curve([0, 10, 20], [0, 1, 1]), curve([0, 10, 40], [0, 0, 0])] };
    const slow = { settings: { lr: "1" }, curves: [curve([0, 20], [0, 1]), curve([0, 40], [0, 1])] };
    const { tuning, settings } = chooseTrial(at, [slow, quick, quick]);
    expect(tuning.budget).toBe(20);
    // slow: 0.5 and, half-way, 0.25; quick: 0.75 and 0
    expect(tuning.trials.map(({ areas }) => areas)).toEqual([
      [0.5, 0.25],
      [0.75, 0],
      [0.75, 0],
    ]);
    expect(settings).toEqual({ lr: "1" });
    expect(tuning.chosen).toBe("lr=1");
  });

  it("is by optimiser steps for what plays nothing", () => {
    const silent = (end: number): Point[] => curve([0, 0, 0], [0, 0.5, end]);
    const played = [0.5, 1].map((end) => ({ settings: { lr: String(end) }, curves: [silent(end), silent(end)] }));
    expect(chooseTrial(at, played).tuning).toMatchObject({ axis: "step", budget: 2, chosen: "lr=1" });
  });

  /** @param grid settings, the best of which comes first */
  const chosenOf = (grid: readonly TrialSettings[]): Tuning => {
    const played = grid.map((settings, i) => ({
      settings,
      curves: [curve([0, 10], [0, 1 - i / 100]), curve([0, 10], [0, 1])],
    }));
    return chooseTrial(at, played).tuning;
  };
  const grid = (best: TrialSettings, rates: readonly string[], weights: readonly string[]): TrialSettings[] => [
    best,
    ...rates.flatMap((rate) => weights.map((weight) => ({ "rl.lr": rate, lambda: weight }))),
  ];

  it.each([
    ["5e-4", []],
    ["1e-4", [{ key: "rl.lr", value: "1e-4", end: "smallest", of: 3 }]],
    ["0.001", [{ key: "rl.lr", value: "0.001", end: "largest", of: 3 }]],
  ])("of three numbers, rl.lr=%s, says whether it lies at an edge; of two each does", (rate, edges) => {
    expect(chosenOf(grid({ "rl.lr": rate, lambda: "0.05" }, ["5e-4", "1e-3", "1e-4"], ["0.05", "0.2"])).edges).toEqual(
      edges,
    );
  });

  it("what is no number has no edge, and one number written twice is one", () => {
    const words = ["0:0.2,50:0.05", "0.1", "0.5"].map((lambda) => ({ lambda }));
    for (const best of words) expect(chosenOf([best, ...words]).edges).toEqual([]);
    expect(chosenOf(["1e-3", "0.001", "5e-4"].map((rate) => ({ "rl.lr": rate }))).edges).toEqual([]);
    expect(chosenOf([{}]).edges).toEqual([]);
  });

  it("at an edge is a warning under the table of the trials, on the page, too", () => {
    const tuning = [
      chosenOf(grid({ "rl.lr": "1e-3", lambda: "0.05" }, ["5e-4", "1e-3", "1e-4"], ["0.05", "0.1", "0.2"])),
    ];
    const points = curve([0, 10], [0, 1]);
    const results = {
      ...resultsAt(
        [{ env: "a", arm: "grpo", seed: 0, warm: points[0]!, points, families: { before: {}, after: {} } }],
        ["grpo"],
      ),
      tuning,
    };
    const warning =
      "Warning: the best lies at the edge of what was tried, rl.lr=1e-3 (the largest of 3) and lambda=0.05 (the " +
      "smallest of 3), so that a better one may lie outside.";
    expect(tablesOf(results).at(-1)!.note).toContain(`${warning} On seeds that are not reported`);
    const page = { name: "x", settings: {}, results, planned: 1, linkOf: () => "" };
    expect(renderAblation(page, withHashes({ script: "", style: "" }))).toContain(warning);
    const inside = [
      chosenOf(grid({ "rl.lr": "5e-4", lambda: "0.1" }, ["5e-4", "1e-3", "1e-4"], ["0.05", "0.1", "0.2"])),
    ];
    expect(tablesOf({ ...results, tuning: inside }).at(-1)!.note).toMatch(/^On seeds/);
  });
});
