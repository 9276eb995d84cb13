/**
 * The statistics of an ablation against values known otherwise: by hand, from closed formulas, from scipy and numpy.
 */
import { describe, expect, it } from "vitest";
import { curveOfCell, flopsPerToken, pointsOf, successAt } from "../../studies/ablate/points.ts";
import { type CellResult, type Results, resultsOf } from "../../studies/ablate/results.ts";
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
} from "../../run/figures/statistics.ts";
import { tablesOf } from "../../studies/ablate/tables.ts";
import type { Preset } from "../../run/preset.ts";
import { presetFor } from "../../run/presets.ts";
import type { MetricsRecord } from "../../run/records.ts";
import { Rng } from "../../engine/random.ts";

const PRESET = presetFor({
  env: "terminal",
  seed: 0,
  steps: 4,
  model: "tiny",
  device: "wasm",
  quick: true,
  name: undefined,
  resume: undefined,
});

const MODEL = { parameters: 1000, show: [] };

/** The results of cells at a threshold of 0.7; two families, of which one is rewarded. */
const resultsAt = (cells: readonly CellResult[], arms: readonly string[]): Results =>
  resultsOf(cells, {
    arms,
    threshold: 0.7,
    trainingEpisodes: 12,
    heldOutEpisodes: 15,
    shown: [],
    tuning: [],
    rewarded: () => ["read"],
  });

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
    expect(
      bootstrap(
        [
          [0, 0, 0],
          [1, 1, 1],
        ],
        mean,
      ),
    ).toEqual({ value: 0.5, low: 0.5, high: 0.5 });
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
    const baseline = new Map([
      [0, 0.5],
      [1, 0.25],
      [2, 0.5],
    ]);
    const values = new Map([
      [1, 0.5],
      [2, 0.5],
      [3, 1],
    ]);
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
    step_tokens: 100,
  });
  const held = (step: number, success: number): MetricsRecord => ({
    step: sft + step,
    phase: "eval",
    success,
    "num_turns/mean": 2,
    world_loss: 1 - success,
    "world_loss/random": 2,
    "world_loss/on_policy": success / 2,
  });
  /** The rest of a point of `held`, after so many steps of `rl` of 100 tokens. */
  const more = (success: number, steps: number): object => ({
    turns: 2,
    worldLoss: 1 - success,
    worldLossRandom: 2,
    worldLossOnPolicy: success / 2,
    shown: {},
    flops: steps * 100 * 8 * 1000,
  });

  it("counts environment steps over all episodes that were kept, and rewards since the evaluation before", () => {
    const lines = [
      { step: 0, phase: "sft", loss: 4 },
      held(0, 0.25),
      rl(0, 0.5, 2),
      rl(1, 0.25, 1.5, 2),
      held(2, 0.5),
      rl(2, 1, 1),
      held(3, 0.75),
    ] as const;
    const episodes = PRESET.rl.groups * PRESET.rl.groupSize; // 12
    expect(pointsOf(lines, PRESET, MODEL)).toEqual([
      { ...more(0.25, 0), step: 0, envSteps: 0, success: 0.25, reward: null },
      { ...more(0.5, 2), step: 2, envSteps: 2 * episodes + 1.5 * (episodes - 2), success: 0.5, reward: 0.375 },
      { ...more(0.75, 3), step: 3, envSteps: 3 * episodes + 1.5 * (episodes - 2), success: 0.75, reward: 1 },
    ]);
  });

  it("has the excess of the world loss where it was told, over seeds only where it is known of all", () => {
    const told = (step: number, excess: number): MetricsRecord => ({ ...held(step, 0.5), world_loss_excess: excess });
    const points = pointsOf([told(0, 0.5), rl(0, 0, 1), told(4, 0.25)], PRESET, MODEL);
    expect(points.map(({ worldLossExcess }) => worldLossExcess)).toEqual([0.5, 0.25]);
    const of = (arm: string, seed: number, own: typeof points): CellResult => ({
      env: "a",
      arm,
      seed,
      warm: points[0]!,
      points: own,
      families: { before: {}, after: {} },
    });
    const untold = pointsOf([held(0, 0.5), rl(0, 0, 1), held(4, 0.5)], PRESET, MODEL);
    expect(untold[0]!.worldLossExcess).toBe(undefined);
    const results = resultsAt(
      [of("grpo", 0, points), of("grpo", 1, points), of("rloo", 0, points), of("rloo", 1, untold)],
      ["grpo", "rloo"],
    );
    const [grpo, rloo] = results.environments[0]!.arms;
    expect(grpo!.worldLossExcess).toEqual({ value: 0.25, low: 0.25, high: 0.25 });
    expect(grpo!.curve.worldLossExcess.map((interval) => interval?.value)).toEqual([0.5, 0.25]);
    expect([rloo!.worldLossExcess, rloo!.curve.worldLossExcess]).toEqual([null, [null, null]]);
    const world = tablesOf(results).find(({ title }) => title.includes("world-model loss"))!;
    expect(world.head.at(-2)).toBe("excess");
    expect(world.rows.map((row) => row.at(-2))).toEqual(["0.500 [0.500, 0.500]", "0.250 [0.250, 0.250]", ""]);
    const without = tablesOf(resultsAt([{ ...of("grpo", 0, untold), warm: untold[0]! }], ["grpo"])).find(({ title }) =>
      title.includes("world-model loss"),
    )!;
    expect(without.head).not.toContain("excess");
  });

  it("has the metrics that were asked for: of training as means, of evaluations as they are; and pass@k", () => {
    const line = (step: number, entropy: number): MetricsRecord => ({ ...rl(step, 0, 1), entropy });
    const lines = [held(0, 0), line(0, 1), line(1, 3), { ...held(2, 0.5), "pass@1": 0.5, "pass@4": 0.75 }];
    const [first, second] = pointsOf(lines, PRESET, { ...MODEL, show: ["entropy", "eval/num_turns/mean", "kl"] });
    expect(first!.shown).toEqual({ entropy: null, "eval/num_turns/mean": 2, kl: null });
    expect(second!.shown).toEqual({ entropy: 2, "eval/num_turns/mean": 2, kl: null });
    expect(second!.passAt).toEqual({ 1: 0.5, 4: 0.75 });
    expect(first!.passAt).toBe(undefined);
  });

  it("counts 2 operations a parameter and token to play, 6 for every pass that learns, 2 for one that scores", () => {
    const of = (rlOptions: Partial<Preset["rl"]>): number =>
      flopsPerToken({ ...PRESET, rl: { ...PRESET.rl, ...rlOptions } });
    expect(of({})).toBe(8);
    expect(flopsPerToken({ ...PRESET, rl: { ...PRESET.rl, method: "grpo", kl: { beta: 0.1 } } })).toBe(10); // reference
    expect(of({ iterations: 2 })).toBe(14);
    expect(flopsPerToken({ ...PRESET, rl: { ...PRESET.rl, method: "sft" } })).toBe(6);
  });

  it("is read between evaluations after equally many environment steps", () => {
    // after 0, 12 and 36 environment steps
    const points = pointsOf([held(0, 0), rl(0, 0, 1), held(1, 0.5), rl(1, 0, 2), held(2, 1)], PRESET, MODEL);
    expect([0, 6, 12, 24, 36, 99].map((n) => successAt(points, n))).toEqual([0, 0.25, 0.5, 0.75, 1, 1]);
  });

  const cell = (env: string, arm: string, seed: number, end: number, calls = 1): CellResult => {
    const lines = [held(0, 0.1), rl(0, 0, calls), held(2, 0.2 + seed / 100), rl(2, 0, calls), held(4, end)];
    const points = pointsOf(lines, PRESET, MODEL);
    const rates = (successes: number): object => ({
      read: { successes, episodes: 4 },
      count: { successes: 1, episodes: 4 },
    });
    return { env, arm, seed, warm: points[0]!, points, families: { before: rates(1), after: rates(3) } } as CellResult;
  };

  it("of all cells together: ends, paired differences, equal budgets, thresholds", () => {
    const cells = [0, 1, 2, 3, 4].flatMap((seed) => [
      cell("terminal", "grpo", seed, 0.5 + seed / 10),
      cell("terminal", "grpo+echo", seed, 0.55 + seed / 10, 2),
    ]);
    const { environments, overall } = resultsAt(cells, ["grpo", "grpo+echo"]);
    const [first, second] = environments[0]!.arms;
    expect(overall).toEqual([]);
    expect(first!.success.value).toBeCloseTo(0.7);
    expect(first!.iqm.value).toBeCloseTo(0.7);
    expect(first!.difference).toBe(null);
    expect(second!.difference).toMatchObject({ higher: 5, equal: 0, seeds: 5 });
    expect(second!.difference!.low).toBeCloseTo(0.05);
    expect(second!.difference!.high).toBeCloseTo(0.05);
    // grpo took 24 environment steps in all; the other one 48, and 24 of them until its evaluation in the middle.
    expect(environments[0]!.budget).toBe(24);
    expect(second!.atBudget!.value).toBeCloseTo(0.22);
    expect(first!.threshold).toMatchObject({ reached: 3, seeds: 5, median: 4 });
    expect(second!.threshold).toMatchObject({ reached: 3, median: 4 });
    expect(second!.worldDifference!.value).toBeCloseTo(-0.05);
    expect(first!.curve.steps).toEqual([0, 2, 4]);
    expect(first!.curve.reward[0]).toBe(null);
    const text = JSON.stringify(tablesOf(resultsAt(cells, ["grpo", "grpo+echo"])));
    expect(text).toContain('{"text":"+5.0 [+5.0, +5.0]","tone":"good"}');
    expect(text).toContain('{"text":"−0.050 [−0.050, −0.050]","tone":"good"}');
    expect(text).toContain("5 of 5");
  });

  it("a loss that is no number in one seed is none over seeds, in curves and tables, and leaves the rest alone", () => {
    const broken = cell("terminal", "rloo", 1, 0.5);
    const points = broken.points.map((point, i) => ({ ...point, worldLoss: i === 0 ? point.worldLoss : NaN }));
    const cells = [0, 1].map((seed) => cell("terminal", "grpo", seed, 0.5));
    const results = resultsAt([...cells, cell("terminal", "rloo", 0, 0.5), { ...broken, points }], ["grpo", "rloo"]);
    const rloo = results.environments[0]!.arms[1]!;
    expect(rloo.curve.worldLoss.map((interval) => interval === null)).toEqual([false, true, true]);
    expect(rloo.success.value).toBe(0.5);
    const [, success, , world] = tablesOf(results);
    expect(JSON.stringify(world!.rows[2]!.slice(0, 4))).toBe('["rloo","no number",{"text":"no number"},""]');
    expect(JSON.stringify(success)).not.toContain("no number");
    expect(interquartileMean([NaN, 1, 2, 3])).not.toBeNaN(); // what would hide it
    expect(bootstrap([[NaN, 1, 2, 3]], interquartileMean).value).toBeNaN();
  });

  it("while the first method has no cell yet, nothing is compared with another one in its place", () => {
    const cells = [cell("a", "rloo", 0, 0.5), cell("a", "dapo", 0, 0.7)];
    const results = resultsAt(cells, ["grpo", "rloo", "dapo"]);
    const [success] = tablesOf(results);
    expect(success!.head).toContain("against grpo");
    expect(results.environments[0]!.arms.map(({ difference }) => difference)).toEqual([null, null]);
  });

  it("a log that has lost its end is named", () => {
    const lines = [held(0, 0.1), rl(0, 0, 1), held(2, 0.2)];
    expect(() => curveOfCell("runs/x/terminal/grpo/seed0", lines, PRESET, MODEL)).toThrow(
      "runs/x/terminal/grpo/seed0: its log has evaluations from RL step 0 to 2, expected 0 to 4",
    );
    expect(() => curveOfCell("x", [], PRESET, MODEL)).toThrow("from RL step – to –");
    expect(curveOfCell("x", [...lines, held(4, 0.3)], PRESET, MODEL).points.map(({ step }) => step)).toEqual([0, 2, 4]);
  });

  it("of the random player is what it is at the end; it begins with the warm start all the same", () => {
    const preset: Preset = { ...PRESET, rl: { ...PRESET.rl, method: "random" } };
    const { warm, points } = curveOfCell("x", [held(0, 0.4), held(4, 0.1)], preset, MODEL);
    expect(warm.success).toBe(0.4);
    expect(points.map(({ step, success }) => [step, success])).toEqual([
      [0, 0.1],
      [4, 0.1],
    ]);
  });

  it("a difference of fewer than five seeds is not coloured", () => {
    const cells = [0, 1].flatMap((seed) => [cell("a", "grpo", seed, 0.5), cell("a", "rloo", seed, 0.9)]);
    expect(JSON.stringify(tablesOf(resultsAt(cells, ["grpo", "rloo"])))).not.toContain("tone");
  });

  it("of several environments: the interquartile mean over all, and cells that are not there yet are no zeros", () => {
    const cells = [0, 1].flatMap((seed) => [
      cell("a", "grpo", seed, 0.5),
      cell("b", "grpo", seed, 0.7),
      cell("a", "rloo", seed, 0.9),
    ]);
    const { overall, environments } = resultsAt(cells, ["grpo", "rloo"]);
    expect(overall.map(({ arm, iqm }) => [arm, iqm.value])).toEqual([["grpo", 0.6]]);
    expect(environments.map(({ arms }) => arms.length)).toEqual([2, 1]);
  });

  it("what plays nothing is not compared by environment steps, and does not make the budget 0", () => {
    const silent = (arm: string, seed: number, end: number): CellResult => cell("a", arm, seed, end, 0);
    const cells = [0, 1].flatMap((seed) => [cell("a", "grpo", seed, 0.5), silent("expert", seed, 0.9)]);
    const [{ budget, arms, rewarded, warm }] = resultsAt(cells, ["grpo", "expert"]).environments as [
      Results["environments"][0],
    ];
    expect(budget).toBe(24);
    expect(arms[1]).toMatchObject({ plays: false, speed: null, area: null, areaDifference: null, atBudget: null });
    expect(arms[1]!.difference!.value).toBeCloseTo(0.4);
    expect([rewarded, warm.families["read"]!.value, arms[1]!.families["read"]!.value]).toEqual([["read"], 0.25, 0.75]);
    const tables = tablesOf(resultsAt(cells, ["grpo", "expert"]), () => [60, 120]);
    const families = tables.find(({ title }) => title.includes("by family"))!;
    expect(families.rows.map((row) => row.slice(0, 2))).toEqual([
      ["count", "never"],
      ["read", "yes"],
    ]);
    expect(tables.find(({ title }) => title.includes("what it takes"))!.rows[0]!.slice(0, 4)).toEqual([
      "grpo",
      "24",
      "1.6e6",
      "1:30",
    ]);
  });
});
