/** The parts of the benchmark that measure nothing: statistics, flags, names, verdicts, data, the report. */
import { describe, expect, test } from "vitest";
import { chooseCases } from "../../bench/cases/case.ts";
import { allCases } from "../../bench/cases/index.ts";
import { matmulCase } from "../../bench/cases/matmul.ts";
import { forwardFlops, nameOf, SIZES, stepFlops } from "../../bench/cases/model.ts";
import { gptParameters } from "../../bench/cases/task.ts";
import { noise, sample, samplePlaces, trainingBatch } from "../../bench/data.ts";
import type { Measurement } from "../../bench/measure.ts";
import { parseBench, splitWords } from "../../bench/options.ts";
import { barPlot, linePlot } from "../../bench/plots.ts";
import { checkPromises, type Claim, judge } from "../../bench/promises.ts";
import { growthOf, newest, performancePage, shortTable } from "../../bench/report.ts";
import type { ResultLine } from "../../bench/results.ts";
import { ContenderProcess } from "../../bench/process.ts";
import { casesFor } from "../../bench/run.ts";
import { leastMs } from "../../bench/roofline.ts";
import { fittedExponent, median, ratio, relativeError, summarize } from "../../bench/statistics.ts";

describe("statistics", () => {
  test("median, of an odd and an even number of values", () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([4, 1, 3, 2])).toBe(2.5);
    expect(() => median([])).toThrow("there are no values");
    expect(summarize([3, 1, 2])).toEqual({ median: 2, min: 1, max: 3 });
  });

  test("a ratio is taken within rounds: a machine that slows down for both changes nothing", () => {
    expect(ratio([2, 20, 200], [1, 10, 100])).toBe(2);
    expect(ratio([2, 20, 200, 5], [1, 10, 100])).toBe(2);
  });

  test("the exponent of a power law, also with a factor and with noise", () => {
    expect(fittedExponent([1, 2, 4, 8].map((x) => [x, 7 * x ** 1.5]))).toBeCloseTo(1.5, 12);
    const noisy = [1, 2, 4, 8, 16].map((x, i): [number, number] => [x, x ** 2 * (i % 2 === 0 ? 1.05 : 0.95)]);
    expect(fittedExponent(noisy)).toBeCloseTo(2, 1);
    expect(() => fittedExponent([[1, 1]])).toThrow("two points");
    expect(() =>
      fittedExponent([
        [1, 1],
        [1, 2],
      ]),
    ).toThrow("all x are equal");
    expect(() =>
      fittedExponent([
        [0, 1],
        [1, 2],
      ]),
    ).toThrow("positive");
  });

  test("the relative error is large where something is wrong", () => {
    expect(relativeError([1, 2], [1, 2])).toBe(0);
    expect(relativeError([1, 2.2], [1, 2])).toBeCloseTo(0.1, 12);
    expect(relativeError([1], [1, 2])).toBe(Infinity);
    expect(relativeError([1, NaN], [1, 2])).toBe(Infinity);
  });

  test("the roofline is the slower of arithmetic and memory", () => {
    const machine = { flops: 1e9, bytes: 1e9 };
    expect(leastMs({ flops: 5e6, bytes: 1e6 }, machine)).toBe(5);
    expect(leastMs({ flops: 1e6, bytes: 5e6 }, machine)).toBe(5);
  });
});

test("a contender that does not answer in time is ended, and says so", async () => {
  const limits = { threads: 1, env: {}, patience: 0.001 };
  await expect(ContenderProcess.start({ name: "reference" }, limits)).rejects.toThrow("no answer within 0.001 s");
});

describe("flags", () => {
  test("words and flags in any order", () => {
    const options = parseBench(["step", "--rounds", "3", "matmul/NN", "--json"], 2);
    expect(options).toMatchObject({ words: ["step", "matmul/NN"], rounds: 3, threads: 2, json: true, mode: "run" });
    expect(parseBench(["--results", "none"], 16)).toMatchObject({ results: undefined, threads: 8 });
    expect(parseBench(["--help"], 2)).toBe("help");
  });

  test.each([
    [["--round", "3"], "unknown flag --round; did you mean --rounds?"],
    [["--rounds", "0"], '--rounds: expected an integer ≥ 1, got "0"'],
    [["--patience", "0"], '--patience: expected an integer ≥ 1, got "0"'],
    [["--threads", "two"], '--threads: expected an integer ≥ 1, got "two"'],
    [["--contenders", "keras"], 'got "keras"'],
    [["--check", "--report"], "--check and --report exclude each other"],
  ])("%j is a mistake, in one line", (args, message) => {
    expect(() => parseBench(args, 2)).toThrow(message);
  });

  test("--check refuses words that are no lines: a check of nothing would pass", async () => {
    const options = parseBench(["--check", "step"], 2);
    if (options === "help") throw new Error("expected options");
    await expect(checkPromises(options, "")).rejects.toThrow('expected lines out of 1, 2, 3, 4, 5, got "step"');
  });

  test("shapes of matrix products are cases of their own", () => {
    expect(splitWords(["matmul", "NT:64x128x512"])).toEqual({ shapes: ["NT:64x128x512"], names: [] });
    expect(splitWords(["matmul", "step"])).toEqual({ shapes: [], names: ["matmul", "step"] });
    const { task, flops } = matmulCase("4*TN:128x2048x512");
    expect(task).toMatchObject({ batch: 4, m: 128, k: 2048, n: 512, transA: true, transB: false });
    expect(flops).toBe(2 * 4 * 128 * 2048 * 512);
  });
});

describe("cases", () => {
  const cases = allCases();

  test("names are distinct, and their beginnings choose them", () => {
    expect(new Set(cases.map(({ name }) => name)).size).toBe(cases.length);
    expect(chooseCases(cases, ["step"])).toHaveLength(SIZES.length);
    expect(chooseCases(cases, ["step/B4"])).toHaveLength(1);
    expect(() => casesFor(["stepp"])).toThrow('there is no case "stepp"');
    expect(casesFor(["matmul", "NT:64x128x500"]).map(({ name }) => name)).toEqual(["matmul/NT:64x128x500"]);
  });

  test("the FLOPs of a step are 6 per weight and token, and those of attention", () => {
    const shape = { B: 8, T: 512, C: 384, H: 6, L: 6, V: 65 };
    const matrices = gptParameters(shape).filter(({ name, shape }) => shape.length > 1 && name !== "positions");
    const weights = matrices.reduce((total, { shape }) => total + shape[0]! * shape[1]!, 0);
    // A query meets (T + 1) / 2 keys on average, in two products of 2C FLOPs for each of them.
    const attention = shape.L * (513 / 2) * 2 * 2 * shape.C;
    expect(forwardFlops(shape)).toBe(shape.B * shape.T * (2 * weights + attention));
    expect(stepFlops(shape)).toBe(3 * forwardFlops(shape));
  });

  test("data is a function of seed and position; targets are the ids one place on", () => {
    expect([...noise(1, 3)]).toEqual([...noise(1, 1000)].slice(0, 3));
    expect([...noise(1, 3)]).not.toEqual([...noise(2, 3)]);
    const drawn = [...noise(7, 1000)];
    expect(new Set(drawn).size).toBe(1000);
    expect(Math.min(...drawn)).toBeCloseTo(-1, 1);
    expect(Math.max(...drawn)).toBeCloseTo(1, 1);
    drawn.forEach((x) => expect(x >= -1 && x < 1).toBe(true));
    expect([...noise(7, 3, 4)]).toEqual(drawn.slice(0, 3).map((x) => 4 * x));
    const { ids, targets } = trainingBatch(0, 2, 4, 65);
    expect([...targets.subarray(0, 3)]).toEqual([...ids.subarray(1, 4)]);
  });

  test("samples hold the first and the last element", () => {
    expect(samplePlaces(1000)).toHaveLength(64);
    expect([samplePlaces(1000)[0], samplePlaces(1000).at(-1)]).toEqual([0, 999]);
    expect(sample([5])).toEqual([5]);
  });
});

describe("promises and report", () => {
  const measured = (rounds: number[]): Measurement => ({
    contender: "worldgrad",
    description: "",
    rounds,
    ms: summarize(rounds),
  });
  const results = new Map([["a", new Map([["worldgrad", measured([1, 2, 3])]])]]);
  const claim = (limit: Claim["limit"], more: Partial<Claim> = {}): Claim => ({
    line: 1,
    what: "a",
    figure: (r) => r.get("a")?.get("worldgrad")?.ms?.median,
    limit,
    unit: " ms",
    ...more,
  });

  test("a figure holds, falls short, or is missing", () => {
    expect(judge(claim({ atMost: 2 }), results)).toEqual({ verdict: "ok", text: "1  a: 2.00 ms, ≤ 2 ms" });
    expect(judge(claim({ atLeast: 3 }), results).verdict).toBe("short");
    expect(judge(claim({ atLeast: 3 }), new Map()).verdict).toBe("missing");
    expect(judge(claim({ atLeast: 3 }, { optional: true }), new Map()).verdict).toBe("left out");
  });

  const line = (test: string, ms: number, time = "2026-01-01T00:00:00Z"): ResultLine => ({
    time,
    commit: "abc",
    machine: { cpu: "CPU", cores: 2, memoryGiB: 8, node: "v20", os: "linux x64" },
    adapter: "none",
    command: "npm run bench",
    threads: 2,
    case: test,
    flops: 1e9,
    bytes: 0,
    work: { amount: 256, unit: "tok/s" },
    result: measured([ms]),
  });

  test("the newest line of a case counts, in the short table and on the page", () => {
    const step = `step/${nameOf(SIZES[0]!)}`;
    const [machine] = newest([line(step, 50), line(step, 20)]);
    expect(machine!.lines).toHaveLength(1);
    expect(shortTable(machine!)).toContain(`| \`${step}\` | 20.0 |`);
    const { page, plots } = performancePage([machine!]);
    expect(page).toContain("12,800 tok/s");
    expect(Object.keys(plots)).toEqual(["step-1.svg"]);
  });

  const beside = (test: string, own: Measurement, trl: Measurement): ResultLine[] => [
    { ...line(test, 0), result: own },
    { ...line(test, 0), result: { ...trl, contender: "trl" } },
  ];
  const taking = (rounds: number[], processorMs: number): Measurement => ({ ...measured(rounds), processorMs });
  const pageOf = (lines: readonly ResultLine[]): string => performancePage(newest(lines)).page;

  test("what is said beside TRL are the ratios of the lines, in three ways", () => {
    const said = pageOf([
      // The machine slows down for both: its rounds' ratios are 2, 4 and 3, that of the medians 40 / 10.
      ...beside("grpo/27K", taking([5, 10, 20], 8), taking([10, 40, 60], 12)),
      ...beside("grpo/1M", taking([100, 100, 100], 100), taking([50, 60, 40], 75)),
    ]);
    expect(said).toContain(
      "TRL's time over ours, in the order of the table: 3.00, 0.50 (median over rounds of the ratio within a round), " +
        "4.00, 0.50 (ratio of the medians in the table), 1.50, 0.75 (ratio of processor times).",
    );
  });

  test("a case that only one of the two has done is not compared, and without any nothing is said", () => {
    const [own, trl] = beside("grpo/27K", taking([10], 10), taking([20], 30));
    const { processorMs: _, ...older } = taking([2], 0);
    expect(pageOf(beside("grpo/27K", older, taking([3], 30)))).toContain(
      "1.50 (ratio of the medians in the table), – (ratio of",
    );
    const failed: Measurement = { contender: "trl", description: "", rounds: [], reason: "out of memory" };
    const more = beside("grpo/1M", taking([1], 1), failed);
    expect(pageOf([own!, trl!, ...more])).toContain("in the order of the table: 2.00 (median");
    for (const lines of [[own!], [trl!], more]) expect(pageOf(lines)).not.toContain("TRL's time over ours");
  });

  test("growth is fitted from the cases of its dimension", () => {
    const lines = [32, 64, 128].map((T) => line(`growth/T/B2-T${T}-C128-L2-V65`, T / 8));
    expect(growthOf(lines)).toEqual([
      {
        dimension: "T",
        exponent: expect.closeTo(1, 9),
        points: [
          [32, 4],
          [64, 8],
          [128, 16],
        ],
      },
    ]);
  });

  test("plots are closed SVG with escaped text", () => {
    const bars = barPlot({ title: "a < b", unit: "ms", groups: [{ name: "g", bars: [{ name: "x", value: 1 }] }] });
    const lines = linePlot({
      title: "t",
      x: "x",
      y: "y",
      lines: [
        {
          name: "l",
          points: [
            [1, 2],
            [10, 20],
          ],
        },
      ],
    });
    for (const svg of [bars, lines]) expect(svg).toMatch(/^<svg [^]*<\/svg>\n$/);
    expect(bars).toContain("a &lt; b");
    expect(lines).not.toContain("NaN");
  });
});
