/** The simulation of many workers: what queueing theory and arithmetic know of it, and the page that shows it. */
import { describe, expect, test } from "vitest";
import { assumedCase, pointOf, resultOf } from "../../bench/scale/cases.ts";
import { Events } from "../../bench/scale/events.ts";
import { lineThrough, readMeasured } from "../../bench/scale/measured.ts";
import { chartData, markdown, renderScale } from "../../bench/scale/render.ts";
import { HELP, parseScale, type ScaleOptions } from "../../bench/scale/settings.ts";
import { type Plan, simulate, type World } from "../../bench/scale/simulate.ts";
import { withHashes } from "../../run/page/assets.ts";
import { escapeHtml } from "../../run/page/frame.ts";

const plan: Plan = { workers: 4, places: 4, groups: 8, groupSize: 4, staleness: 2, steps: 16, seed: 1 };
const TOKENS = 100;
/** Episodes of 2 s, and everything else for nothing. */
const free: World = {
  episode: () => ({ seconds: 2, tokens: TOKENS, bytes: 0 }),
  learn: () => 0,
  weights: 0,
  link: Infinity,
  latency: 0,
};
const random: World = {
  ...free,
  episode: (rng) => ({ seconds: 2 * Math.exp(0.8 * rng.normal()), tokens: 50 + rng.int(100), bytes: 4000 }),
  learn: (rng, tokens) => 1e-4 * tokens * (0.5 + rng.uniform()),
  weights: 1e5,
  link: 1e6,
  latency: 0.01,
};
const defaults = parseScale([]) as ScaleOptions;

describe("limits that are known in closed form", () => {
  test("workers alone: every place plays all the time", () => {
    for (const workers of [1, 2, 4]) {
      const { tokensPerSecond, workers: taken } = simulate({ ...plan, workers }, free);
      expect(tokensPerSecond).toBeCloseTo((workers * plan.places * TOKENS) / 2, 6);
      expect(taken).toBeCloseTo(1, 9);
    }
  });

  test("the learner alone: tokens per second are those of learning, and it never waits", () => {
    const { tokensPerSecond, learner } = simulate({ ...plan, workers: 100 }, { ...free, learn: (_, n) => n / 50 });
    expect(tokensPerSecond).toBeCloseTo(50, 6);
    expect(learner).toBeCloseTo(1, 9);
  });

  test("the link alone: a step sends its version, and every worker reads it, and its episodes come back", () => {
    const world = {
      ...free,
      episode: () => ({ seconds: 0.001, tokens: TOKENS, bytes: 50 }),
      weights: 1000,
      link: 1000,
    };
    const { secondsPerStep, link } = simulate({ ...plan, workers: 8, staleness: 0 }, world);
    // 1 s to publish, 8 to read, 32 episodes of 0.05 s, the first of which come while others still read.
    expect(secondsPerStep).toBeCloseTo(1 + 8 + 32 * 0.05, 1);
    expect(link).toBeGreaterThan(0.99);
  });

  test("staleness 0: a step publishes, reads, plays, stores and learns, one after another", () => {
    const world: World = {
      ...free,
      episode: () => ({ seconds: 2, tokens: TOKENS, bytes: 100 }),
      learn: () => 3,
      weights: 1000,
      link: 1000,
      latency: 0.5,
    };
    const one = { ...plan, workers: 1, groups: 1, groupSize: 1, places: 1, staleness: 0 };
    const { secondsPerStep, staleness, oldest } = simulate(one, world);
    expect(secondsPerStep).toBeCloseTo(1 + 0.5 + (1 + 0.5) + 2 + (0.1 + 0.5) + 3, 9);
    expect([staleness, oldest]).toEqual([0, 0]);
  });
});

describe("laws that hold for all distributions", () => {
  test.each([1, 5, 40])("Little's law and the utilisation law, %i workers", (workers) => {
    const { whole } = simulate({ ...plan, workers }, random);
    // The number of groups under way, over time, is the sum of the times that each of them takes.
    expect(whole.area / whole.sojourn).toBeCloseTo(1, 9);
    // Episodes that are being played at the end have taken a place and are not over.
    expect(whole.taken).toBeGreaterThanOrEqual(whole.episodes - 1e-9);
    expect(whole.taken - whole.episodes).toBeLessThan(0.2 * whole.taken);
    expect(whole.arrived).toBeGreaterThanOrEqual(plan.steps * plan.groups);
  });

  test.each([0, 1, 3])("no group is older than the bound, %i", (staleness) => {
    const { oldest, staleness: mean } = simulate({ ...plan, workers: 40, staleness }, random);
    expect(oldest).toBeLessThanOrEqual(staleness);
    expect(mean).toBeLessThanOrEqual(oldest);
  });

  test("more workers give more, until something else is busy all the time; then as much", () => {
    // Without time to read weights: every worker that reads them costs the others.
    const world = { ...random, weights: 0, learn: (_: unknown, tokens: number) => 1e-3 * tokens };
    const many = { ...plan, groups: 32 };
    const results = [1, 2, 4, 8, 16, 32, 64].map((workers) => simulate({ ...many, workers }, world));
    const rates = results.map(({ tokensPerSecond }) => tokensPerSecond);
    rates.slice(1).forEach((rate, i) => expect(rate).toBeGreaterThan(0.98 * rates[i]!));
    expect(rates[1]! / rates[0]!).toBeCloseTo(2, 1);
    expect(results.at(-1)!.learner).toBeGreaterThan(0.98);
    expect(rates.at(-1)!).toBeCloseTo(1000, -1);
  });

  test("a run is a function of its seed", () => {
    const [a, b] = [simulate(plan, random), simulate(plan, random)];
    expect(a).toEqual(b);
    expect(simulate({ ...plan, seed: 2 }, random).tokensPerSecond).not.toBe(a.tokensPerSecond);
  });

  test("a plan that cannot be", () => {
    expect(() => simulate({ ...plan, workers: 0 }, free)).toThrow("workers must be an integer ≥ 1, got 0");
    expect(() => simulate({ ...plan, staleness: -1 }, free)).toThrow("maxStaleness must be an integer ≥ 0");
  });
});

test("events come by time, and in their order at one time", () => {
  const events = new Events();
  const seen: string[] = [];
  for (const [time, name] of [
    [3, "d"],
    [1, "a"],
    [2, "b"],
    [2, "c"],
    [0.5, "first"],
  ] as const)
    events.add(time, () => seen.push(name));
  while (!events.isEmpty) events.next().run();
  expect(seen).toEqual(["first", "a", "b", "c", "d"]);
});

describe("what limits", () => {
  const common = { ...defaults.common, steps: 8 };
  const few = { ...defaults.assumed, groups: 16 };
  const limitOf = (workers: number, changes: Partial<typeof few>): string | undefined =>
    pointOf(assumedCase({ weights: 1e6, what: "weights" }, { ...few, ...changes }, common), workers).limit;

  test("is found by making each thing twice as good", () => {
    expect(limitOf(1, {})).toBe("workers");
    expect(limitOf(20, { step: 100 })).toBe("learner");
    expect(limitOf(16, { link: 1e5, step: 0 })).toBe("link");
  });

  test("is said for the largest number of workers, with the first that gives nine tenths of the most", () => {
    const one = assumedCase({ weights: 1e6, what: "an adapter" }, few, common);
    const { points, most, saturatesAt, name } = resultOf(one, [1, 4, 64]);
    expect(name).toBe("assumed: an adapter of 1 MB");
    expect(most).toBe(Math.max(...points.map(({ result }) => result.tokensPerSecond)));
    expect(saturatesAt).toBe(points.find(({ result }) => result.tokensPerSecond >= 0.9 * most)!.workers);
  });
});

describe("flags", () => {
  test("each assumption has one, with its default in the help", () => {
    expect(parseScale(["--weights", "2e6", "--group-size=4", "--measure"])).toMatchObject({
      assumed: { weights: 2e6, groupSize: 4 },
      measure: true,
    });
    expect(parseScale(["--help"])).toBe("help");
    expect(HELP).toContain("--token-bytes X");
  });

  test.each([
    [["--weigths", "1"], "unknown flag --weigths; did you mean --weights?"],
    [["--weights", "many"], 'weights must be ≥ 0, got "many"'],
    [["--groups", "0"], "groups must be an integer ≥ 1, got 0"],
    [["--link", ""], 'link must be > 0, got ""'],
  ])("%j is a mistake, in one line", (args, message) => expect(() => parseScale(args)).toThrow(message));
});

test("a rate and a constant of transfers", () => {
  const transfers = [1000, 5000, 9000].map((bytes) => ({ bytes, publish: [], fetch: [0.25 + bytes / 1000] }));
  const { bytesPerSecond, latency } = lineThrough(transfers);
  expect([bytesPerSecond, latency]).toEqual([expect.closeTo(1000, 6), expect.closeTo(0.25, 9)]);
  expect(() => lineThrough([1, 2].map((bytes) => ({ bytes, publish: [], fetch: [1 / bytes] })))).toThrow("take longer");
});

describe("the page", () => {
  const measured = readMeasured(new URL("../../bench/scale/measured.json", import.meta.url).pathname);
  const one = assumedCase(
    { weights: 1e6, what: "an <adapter>" },
    { ...defaults.assumed, groups: 4 },
    { ...defaults.common, steps: 4 },
  );
  const page = { measured, results: [resultOf(one, [1, 8])], config: defaults };

  test("is one file with the tables, the assumptions and the data of its curves, escaped", () => {
    const html = renderScale(page, withHashes({ script: "0;", style: "" }));
    expect(html).toMatch(/^<!doctype html>/);
    expect(html).toContain("assumed: an &lt;adapter&gt; of 1 MB");
    expect(html).not.toContain("an <adapter>");
    expect(html.match(/<table>/g)).toHaveLength(3);
    expect(html).toContain('<div class="case" id="case-0">');
    for (const assumption of one.assumptions) expect(html).toContain(escapeHtml(assumption));
    const data = /<script type="application\/json" id="data">(.*?)<\/script>/s.exec(html)![1]!;
    expect(JSON.parse(data)).toEqual(chartData(page.results));
    expect(html).not.toMatch(/src=|href=/);
  });

  test("says the same in Markdown", () => {
    const text = markdown(page);
    expect(text).toContain("| processes that play | tokens/s | simulated |");
    expect(text).toMatch(/- assumed: an <adapter> of 1 MB: At most [\d,.]+ tokens\/s; nine tenths of that with \d/);
  });

  test("the measurement in the repository has 1, 2 and 4 processes in both settings", () => {
    for (const { runs } of measured.settings) {
      expect(runs.map(({ workers }) => workers)).toEqual([1, 2, 4]);
      for (const { seconds, episodes, steps, tokensPerSecond } of runs) {
        expect(Math.min(...seconds, ...steps.map(([took]) => took), tokensPerSecond)).toBeGreaterThan(0);
        expect(episodes.every(([tokens, bytes]) => tokens > 0 && bytes > tokens)).toBe(true);
      }
    }
    expect(measured.machine.cores).toBe(2);
  });
});
