/** The statistics of an ablation against values known otherwise: by hand, from closed formulas, from scipy and numpy. */
import { describe, expect, it } from "vitest";
import { type CellResult, curveOfCell, pointsOf, resultsOf, successAt } from "../../cli/ablate/results.ts";
import {
  bootstrap,
  differencesBySeed,
  drawsOf,
  interquartileMean,
  mean,
  meanOver,
  pairedDifference,
  quantile,
  timeTo,
} from "../../cli/ablate/statistics.ts";
import { tablesOf } from "../../cli/ablate/tables.ts";
import { presetFor } from "../../cli/presets.ts";
import type { MetricsRecord } from "../../cli/report/records.ts";
import { Rng } from "../../engine/random.ts";

const PRESET = presetFor({ env: "terminal", seed: 0, steps: 4, model: "tiny", device: "wasm", quick: true, name: undefined, resume: undefined }); // prettier-ignore

describe("quantiles and means", () => {
  it("are those of numpy and scipy", () => {
    // numpy.quantile([1, 2, 3, 4], [0.025, 0.5, 0.975])
    expect([0.025, 0.5, 0.975].map((q) => quantile([4, 1, 3, 2], q))).toEqual([1.075, 2.5, 3.925]);
    // scipy.stats.trim_mean(x, 0.25)
    expect(interquartileMean([10, 1, 2, 3, 4, 5, 6, 7, 8, 9])).toBe(5.5);
    expect(interquartileMean([100, 1, 2, 3, 4])).toBe(3);
    expect(interquartileMean([1, 2, 6])).toBe(3);
    expect(quantile([1, Infinity, 2], 0.5)).toBe(2);
    expect(quantile([1, Infinity, Infinity], 0.5)).toBe(Infinity);
  });
});

describe("the bootstrap", () => {
  it("of four zeros and a one has the quantiles of the binomial distribution", () => {
    // Binomial(5, 0.2): P(0) = 0.328, P(≤ 2) = 0.942, P(≤ 3) = 0.993
    expect(bootstrap([[0, 0, 1, 0, 0]], mean)).toEqual({ value: 0.2, low: 0, high: 0.6 });
  });

  it("of two values is one of them at either end", () => {
    // all of the lower: 1/4 of the resamples
    expect(meanOver([2, 4])).toEqual({ value: 3, low: 2, high: 4 });
  });

  it("comes near the interval of the normal distribution where there are many values", () => {
    const rng = new Rng(7);
    const values = Array.from({ length: 200 }, () => rng.normal());
    const m = mean(values);
    const se = Math.sqrt(mean(values.map((x) => (x - m) ** 2)) / 200);
    const { low, high } = meanOver(values);
    expect(Math.abs(low - (m - 1.96 * se))).toBeLessThan(0.1 * se);
    expect(Math.abs(high - (m + 1.96 * se))).toBeLessThan(0.1 * se);
  });

  it("draws within each stratum", () => {
    expect(bootstrap([[0, 0, 0], [1, 1, 1]], mean)).toEqual({ value: 0.5, low: 0.5, high: 0.5 }); // prettier-ignore
    const { low, high } = bootstrap([[0, 0, 0, 1, 1, 1]], mean);
    expect([low, high]).not.toEqual([0.5, 0.5]);
  });

  it("is the same every time, and another one with another stream", () => {
    const values = [0.1, 0.35, 0.2, 0.8, 0.41, 0.77, 0.3];
    expect(meanOver(values)).toEqual(meanOver(values));
    const [a, b] = [1, 2].map((seed) => bootstrap([values], mean, drawsOf([7], new Rng(seed), 100)));
    expect(a).not.toEqual(b);
  });

  it("of five normal values covers the truth in about 85 cases of 100, as the page says", () => {
    const rng = new Rng(3);
    const trials = 1500;
    let covered = 0;
    for (let i = 0; i < trials; i++) {
      const values = Array.from({ length: 5 }, () => rng.normal());
      const { low, high } = bootstrap([values], mean, drawsOf([5], rng.split(i), 400));
      if (low <= 0 && 0 <= high) covered++;
    }
    // P(|t₄| < 1.753) = 0.8455; three standard errors of this experiment are 0.028
    expect(Math.abs(covered / trials - 0.8455)).toBeLessThan(0.03);
  });

  it("says nothing about chance from a single value", () => {
    expect(meanOver([0.5])).toEqual({ value: 0.5, low: NaN, high: NaN });
  });
});

describe("differences", () => {
  it("are taken over the seeds that both have", () => {
    const baseline = new Map([[0, 0.5], [1, 0.25], [2, 0.5]]); // prettier-ignore
    const values = new Map([[1, 0.5], [2, 0.5], [3, 1]]); // prettier-ignore
    expect(differencesBySeed(values, baseline)).toEqual([0.25, 0]);
    expect(pairedDifference([differencesBySeed(values, baseline)])).toEqual({
      value: 0.125,
      low: 0,
      high: 0.25,
      higher: 1,
      equal: 1,
      seeds: 2,
    });
    expect(pairedDifference([[]])).toBe(null);
  });

  it("are narrow where seeds differ and methods do not", () => {
    const baseline = [0.1, 0.3, 0.5, 0.7, 0.9];
    const difference = pairedDifference([baseline.map((_, i) => 0.05 + 0.001 * i)])!;
    expect(difference.low).toBeGreaterThan(0.05);
    const { low } = meanOver(baseline);
    expect(low).toBeLessThan(mean(baseline) - 0.2);
  });
});

describe("times to a threshold", () => {
  it("that were not reached are later than all others, never left out", () => {
    expect(timeTo([10, 30, null], 100)).toMatchObject({ reached: 2, seeds: 3, median: 30 });
    expect(timeTo([10, 30, null], 100).restricted.value).toBeCloseTo(140 / 3);
    expect(timeTo([10, null, null], 100)).toMatchObject({ reached: 1, median: null });
    expect(timeTo([10, null], 100).median).toBe(null);
    expect(timeTo([null, null], 40).restricted).toEqual({ value: 40, low: 40, high: 40 });
    expect(timeTo([0, 0], 40)).toMatchObject({ reached: 2, median: 0 });
  });
});

describe("the curve of a cell", () => {
  const sft = PRESET.sft.steps;
  const rl = (step: number, reward: number, calls: number, masked = 0): MetricsRecord => ({
    step: sft + step,
    phase: "rl",
    reward,
    "tools/call_frequency": calls,
    masked,
  });
  const held = (step: number, success: number): MetricsRecord => ({
    step: sft + step,
    phase: "eval",
    success,
    "num_turns/mean": 2,
    world_loss: 1 - success,
  });

  it("counts environment steps over all episodes that were kept, and rewards since the evaluation before", () => {
    const lines = [{ step: 0, phase: "sft", loss: 4 }, held(0, 0.25), rl(0, 0.5, 2), rl(1, 0.25, 1.5, 2), held(2, 0.5), rl(2, 1, 1), held(3, 0.75)] as const; // prettier-ignore
    const episodes = PRESET.rl.groups * PRESET.rl.groupSize; // 12
    expect(pointsOf(lines, PRESET)).toEqual([
      { step: 0, envSteps: 0, success: 0.25, turns: 2, worldLoss: 0.75, reward: null },
      { step: 2, envSteps: 2 * episodes + 1.5 * (episodes - 2), success: 0.5, turns: 2, worldLoss: 0.5, reward: 0.375 },
      { step: 3, envSteps: 3 * episodes + 1.5 * (episodes - 2), success: 0.75, turns: 2, worldLoss: 0.25, reward: 1 },
    ]);
  });

  it("is read between evaluations after equally many environment steps", () => {
    const points = pointsOf([held(0, 0), rl(0, 0, 1), held(1, 0.5), rl(1, 0, 2), held(2, 1)], PRESET); // 0, 12, 36
    expect([0, 6, 12, 24, 36, 99].map((n) => successAt(points, n))).toEqual([0, 0.25, 0.5, 0.75, 1, 1]);
  });

  const cell = (env: string, method: string, seed: number, end: number, calls = 1): CellResult => ({
    env,
    method,
    seed,
    points: pointsOf([held(0, 0.1), rl(0, 0, calls), held(2, 0.2 + seed / 100), rl(2, 0, calls), held(4, end)], PRESET),
  });

  it("of all cells together: ends, paired differences, equal budgets, thresholds", () => {
    const cells = [0, 1, 2, 3, 4].flatMap((seed) => [
      cell("terminal", "grpo", seed, 0.5 + seed / 10),
      cell("terminal", "grpo+echo", seed, 0.55 + seed / 10, 2),
    ]);
    const { environments, overall } = resultsOf(cells, ["grpo", "grpo+echo"], 0.7, PRESET);
    const [first, second] = environments[0]!.methods;
    expect(overall).toEqual([]);
    expect(first!.success.value).toBeCloseTo(0.7);
    expect(first!.iqm.value).toBeCloseTo(0.7);
    expect(first!.difference).toBe(null);
    expect(second!.difference).toMatchObject({ higher: 5, equal: 0, seeds: 5 });
    expect(second!.difference!.low).toBeCloseTo(0.05);
    expect(second!.difference!.high).toBeCloseTo(0.05);
    // grpo took 24 environment steps in all; the other one 48, and 24 of them until its evaluation in the middle.
    expect(environments[0]!.budget).toBe(24);
    expect(second!.atBudget.value).toBeCloseTo(0.22);
    expect(first!.threshold).toMatchObject({ reached: 3, seeds: 5, median: 4 });
    expect(second!.threshold).toMatchObject({ reached: 3, median: 4 });
    expect(second!.worldDifference!.value).toBeCloseTo(-0.05);
    expect(first!.curve.steps).toEqual([0, 2, 4]);
    expect(first!.curve.reward[0]).toBe(null);
    const text = JSON.stringify(tablesOf(resultsOf(cells, ["grpo", "grpo+echo"], 0.7, PRESET)));
    expect(text).toContain('{"text":"+5.0 [+5.0, +5.0]","tone":"good"}');
    expect(text).toContain('{"text":"−0.050 [−0.050, −0.050]","tone":"good"}');
    expect(text).toContain("5 of 5");
  });

  it("a loss that is no number in one seed is none over seeds, in curves and tables, and leaves the rest alone", () => {
    const broken = cell("terminal", "rloo", 1, 0.5);
    const points = broken.points.map((point, i) => ({ ...point, worldLoss: i === 0 ? point.worldLoss : NaN }));
    const cells = [0, 1].map((seed) => cell("terminal", "grpo", seed, 0.5));
    const results = resultsOf([...cells, cell("terminal", "rloo", 0, 0.5), { ...broken, points }], ["grpo", "rloo"], 0.7, PRESET); // prettier-ignore
    const rloo = results.environments[0]!.methods[1]!;
    expect(rloo.curve.worldLoss.map((interval) => interval === null)).toEqual([false, true, true]);
    expect(rloo.success.value).toBe(0.5);
    const [success, , world] = tablesOf(results);
    expect(JSON.stringify(world!.rows[2])).toBe('["rloo","no number",{"text":"no number"},"","2"]');
    expect(JSON.stringify(success)).not.toContain("no number");
    expect(interquartileMean([NaN, 1, 2, 3])).not.toBeNaN(); // what would hide it
    expect(bootstrap([[NaN, 1, 2, 3]], interquartileMean).value).toBeNaN();
  });

  it("while the first method has no cell yet, nothing is compared with another one in its place", () => {
    const cells = [cell("a", "rloo", 0, 0.5), cell("a", "dapo", 0, 0.7)];
    const results = resultsOf(cells, ["grpo", "rloo", "dapo"], 0.7, PRESET);
    const [success] = tablesOf(results);
    expect(success!.head).toContain("against grpo");
    expect(results.environments[0]!.methods.map(({ difference }) => difference)).toEqual([null, null]);
  });

  it("a log that has lost its end is named", () => {
    const lines = [held(0, 0.1), rl(0, 0, 1), held(2, 0.2)];
    expect(() => curveOfCell("runs/x/terminal/grpo/seed0", lines, PRESET)).toThrow("runs/x/terminal/grpo/seed0: its log has evaluations from RL step 0 to 2, expected 0 to 4"); // prettier-ignore
    expect(() => curveOfCell("x", [], PRESET)).toThrow("from RL step – to –");
    expect(curveOfCell("x", [...lines, held(4, 0.3)], PRESET).map(({ step }) => step)).toEqual([0, 2, 4]);
  });

  it("a difference of fewer than five seeds is not coloured", () => {
    const cells = [0, 1].flatMap((seed) => [cell("a", "grpo", seed, 0.5), cell("a", "rloo", seed, 0.9)]);
    expect(JSON.stringify(tablesOf(resultsOf(cells, ["grpo", "rloo"], 0.7, PRESET)))).not.toContain("tone");
  });

  it("of several environments: the interquartile mean over all, and cells that are not there yet are no zeros", () => {
    const cells = [0, 1].flatMap((seed) => [
      cell("a", "grpo", seed, 0.5),
      cell("b", "grpo", seed, 0.7),
      cell("a", "rloo", seed, 0.9),
    ]);
    const { overall, environments } = resultsOf(cells, ["grpo", "rloo"], 0.7, PRESET);
    expect(overall.map(({ method, iqm }) => [method, iqm.value])).toEqual([["grpo", 0.6]]);
    expect(environments.map(({ methods }) => methods.length)).toEqual([2, 1]);
  });
});
