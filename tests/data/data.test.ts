/** The data side of RL, piece by piece and without a model: what is drawn, kept, tried again, and restored. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { armsOf, drawIndex, Learnability } from "../../data/curriculum.ts";
import { drawInformative, informativeGroups } from "../../data/dynamic.ts";
import { prefixedGroup, prefixedRequest, retryWithPrefix } from "../../data/expertPrefix.ts";
import { isHelped, type TaskChoice, type TaskOutcome } from "../../rl/tasks/plugin.ts";
import { DifficultyPools, FailedTasks } from "../../data/pools.ts";
import { exploration, temperatureSchedule } from "../../data/exploration.ts";
import { gridworld } from "../../environments/gridworld/index.ts";
import type { EpisodeRequest } from "../../rl/play/episode.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { episode, type Part, toySpec } from "../support/rlToy.ts";

const PLAYED: Part[] = [
  ["prompt", [1]],
  ["action", [2, 3]],
  ["observation", [4]],
];
const rowsOf = (group: number, rewards: readonly number[], more: Partial<Trajectory> = {}): Trajectory[] =>
  rewards.map((reward) => episode(PLAYED, { group, reward, ...more }));
const json = <T>(state: T): T => JSON.parse(JSON.stringify(state)) as T;
const share = (n: number, of: (i: number) => boolean): number =>
  Array.from({ length: n }, (_, i) => i).filter(of).length / n;

describe("temperature schedules", () => {
  it("begin and end where they should, monotonic between, constant after", () => {
    const shape = fc.constantFrom("linear" as const, "cosine" as const, "exponential" as const);
    const positive = fc.double({ min: 0.1, max: 3, noNaN: true });
    fc.assert(
      fc.property(positive, positive, fc.integer({ min: 1, max: 20 }), shape, (from, to, steps, kind) => {
        const at = temperatureSchedule({ from, to, steps, shape: kind });
        expect(at(0)).toBeCloseTo(from, 12);
        expect(at(steps)).toBeCloseTo(to, 12);
        expect(at(steps + 7)).toBe(at(steps));
        const sign = Math.sign(to - from);
        for (let i = 0; i < steps; i++) expect(sign * (at(i + 1) - at(i))).toBeGreaterThan(-1e-12);
      }),
    );
    expect(temperatureSchedule({ from: 1, to: 0.25, steps: 2, shape: "exponential" })(1)).toBeCloseTo(0.5, 12);
    expect(() => temperatureSchedule({ from: 1, to: 0, steps: 2 })).toThrow("to must be > 0, got 0");
    expect(() => temperatureSchedule({ from: 1, to: 2, steps: 0 })).toThrow("steps must be an integer ≥ 1, got 0");
  });
});

const request = (group: number, rng: Rng = new Rng(group)): EpisodeRequest => ({
  spec: toySpec(),
  options: {},
  seed: group,
  group,
  rng,
});

describe("ε-tool exploration", () => {
  const env = toySpec().make();
  const choose = (rng: Rng, task: string): string => `${task}${rng.int(1000)}`;

  it("forces an action with probability ε, as a function of the stream and the turn alone", () => {
    const forced = exploration({ epsilon: 0.3, choose }).request!(request(4), 0).forced!;
    const rate = share(5000, (turn) => forced(turn, "t", env) !== undefined);
    expect(Math.abs(rate - 0.3)).toBeLessThan(4 * Math.sqrt((0.3 * 0.7) / 5000));
    const turns = Array.from({ length: 50 }, (_, turn) => turn);
    const forward = turns.map((turn) => forced(turn, "t", env));
    expect(turns.toReversed().map((turn) => forced(turn, "t", env))).toEqual(forward.toReversed());
    const other = exploration({ epsilon: 0.3, choose }).request!(request(5), 0).forced!;
    expect(turns.map((turn) => other(turn, "t", env))).not.toEqual(forward);
  });

  it("0 never, 1 always; a schedule is asked with the step; what is forced already stays", () => {
    const count = (epsilon: number | ((step: number) => number), step = 0): number =>
      share(
        50,
        (turn) => exploration({ epsilon, choose }).request!(request(1), step).forced!(turn, "", env) !== undefined,
      );
    expect([
      count(0),
      count(1),
      count((step) => (step > 2 ? 0 : 1), 2),
      count((step) => (step > 2 ? 0 : 1), 3),
    ]).toEqual([0, 1, 1, 0]);
    const given = { ...request(1), forced: (turn: number) => (turn === 0 ? "given" : undefined) };
    const forced = exploration({ epsilon: 1 }).request!(given, 0).forced!;
    expect([forced(0, "", env), forced(1, "", env)]).toEqual(["given", "b"]); // "b": the environment's random baseline
    expect(() => exploration({ epsilon: 1.5 })).toThrow(
      "epsilon must be in [0, 1], or a function of the step, got 1.5",
    );
    expect(() => count(() => -1, 3)).toThrow("exploration at step 3: epsilon must be in [0, 1], got -1");
  });
});

describe("dynamic sampling", () => {
  it("draws until enough groups have spread, never more than its bound, and keeps all that it drew", async () => {
    const cases = fc.record({ wanted: fc.integer({ min: 1, max: 5 }), maxRefills: fc.nat(4), seed: fc.nat(1000) });
    await fc.assert(
      fc.asyncProperty(cases, async ({ wanted, maxRefills, seed }) => {
        const hasSpread = (group: number): boolean => new Rng(seed).split(group).uniform() < 0.4;
        const calls: [number, number][] = [];
        const { trajectories, metrics } = await drawInformative(wanted, { maxRefills }, async (first, count) => {
          calls.push([first, count]);
          return Array.from({ length: count }, (_, i) =>
            rowsOf(first + i, hasSpread(first + i) ? [0, 1] : [1, 1]),
          ).flat();
        });
        const drawn = calls.reduce((n, [, count]) => n + count, 0);
        const kept = share(drawn, hasSpread) * drawn;
        expect(metrics["dynamic_sampling/drawn_groups"]).toBe(drawn);
        expect(metrics["dynamic_sampling/kept_groups"]).toBeCloseTo(kept, 9);
        expect(metrics["dynamic_sampling/refills"]).toBe(calls.length - 1);
        expect(kept).toBeLessThanOrEqual(wanted + 1e-9);
        expect(calls.length - 1).toBeLessThanOrEqual(maxRefills);
        if (calls.length - 1 < maxRefills) expect(kept).toBeCloseTo(wanted, 9);
        // Each round asks for what is missing, under the next free numbers.
        expect(trajectories.map((t) => t.group)).toEqual(
          Array.from({ length: 2 * drawn }, (_, i) => Math.floor(i / 2)),
        );
        expect(informativeGroups(trajectories)).toBeCloseTo(kept, 9);
      }),
    );
    const equal = async (first: number, count: number): Promise<Trajectory[]> =>
      Array.from({ length: count }, (_, i) => rowsOf(first + i, [1, 1])).flat();
    const strict = { maxRefills: 2, exhausted: "fail" } as const;
    await expect(drawInformative(4, strict, equal)).rejects.toThrow(
      "expected 4 groups to learn from; 0 of 12 groups have outcomes that differ, after 2 refills",
    );
    // A run that is stopped ends without an error.
    expect((await drawInformative(4, strict, equal, () => true)).trajectories).toHaveLength(8);
    await expect(drawInformative(1, { maxRefills: -1 }, async () => [])).rejects.toThrow(
      "maxRefills must be an integer ≥ 0, got -1",
    );
    await expect(drawInformative(1, { maxRounds: 1 } as object, async () => [])).rejects.toThrow(
      "unknown option 'maxRounds'",
    );
  });
});

describe("retry with a prefix", () => {
  /** Group g needs `need[g]` given actions; at `whole[g]` the prefix is the whole solution. */
  async function retried(need: readonly number[], maxPrefix: number, whole = Infinity) {
    const requests = need.flatMap((_, g) => [
      request(g, new Rng(1).split(2 * g)),
      request(g, new Rng(1).split(2 * g + 1)),
    ]);
    const played = need.flatMap((n, g) => rowsOf(g, n === 0 ? [0, 1] : [0, 0], { seed: g }));
    const lengths: number[][] = need.map(() => []);
    const result = await retryWithPrefix(requests, played, { maxPrefix, action: () => "x" }, async (asked) =>
      asked.map((r, i) => {
        const turns = Array.from({ length: 20 }, (_, turn) => turn);
        const length = turns.filter((turn) => r.forced!(turn, "", r.spec.make()) === "x").length;
        if (i % 2 === 0) lengths[r.seed]!.push(length);
        const parts = length >= whole ? PLAYED.slice(0, 1) : PLAYED;
        return episode(parts, { group: r.group, seed: r.seed, reward: Number(length >= need[r.seed]! && i % 2 === 0) });
      }),
    );
    return { ...result, lengths };
  }

  it("tries 1, 2, … actions where all failed, and stops at the first that helps", async () => {
    const needs = fc.array(fc.nat(6), { minLength: 1, maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(needs, fc.integer({ min: 1, max: 5 }), async (need, maxPrefix) => {
        const { requests, trajectories, metrics, lengths } = await retried(need, maxPrefix);
        const helped = need.map((n) => n > 0 && n <= maxPrefix);
        lengths.forEach((tried, g) =>
          expect(tried).toEqual(Array.from({ length: Math.min(need[g]!, maxPrefix) }, (_, k) => k + 1)),
        );
        expect(metrics["expert_prefix/failed_groups"]).toBe(need.filter((n) => n > 0).length);
        expect(metrics["expert_prefix/helped_groups"]).toBe(helped.filter(Boolean).length);
        expect(new Set(trajectories.map((t) => t.group))).toEqual(
          new Set(helped.flatMap((h, g) => (h ? [prefixedGroup(g)] : []))),
        );
        expect(trajectories.every(isHelped)).toBe(true);
        expect(requests.map((r) => r.group)).toEqual(trajectories.map((t) => t.group));
        // Each try has random numbers of its own.
        expect(new Set(requests.map((r) => r.rng.key.join())).size).toBe(requests.length);
      }),
    );
  });

  it("every length has random numbers of its own", () => {
    const keys = [1, 2].map((length) => prefixedRequest(request(3), length).rng.key.join());
    expect(new Set([...keys, request(3).rng.key.join()]).size).toBe(3);
  });

  it("a prefix that is the whole solution teaches nothing: the group is given up", async () => {
    const { trajectories, lengths, metrics } = await retried([3], 5, 2);
    expect([trajectories.length, lengths, metrics["expert_prefix/helped_groups"]]).toEqual([0, [[1, 2]], 0]);
    await expect(retried([1], 0)).rejects.toThrow("expertPrefix: maxPrefix must be an integer ≥ 1, got 0");
  });
});

const ARMS: readonly TaskChoice[] = ["easy", "half", "hard"].map((name) => ({ name }));
const outcome = (choice: TaskChoice, success: number, seed = choice.seed ?? 0): TaskOutcome => ({
  choice,
  seed,
  success,
});

describe("learnability", () => {
  const learnt = (rates: readonly number[], floor = 0.1): Learnability => {
    const curriculum = new Learnability({ arms: rates.map((_, k) => ({ name: `${k}` })), floor, memory: 0 });
    curriculum.observe(rates.map((p, k) => outcome({ name: `${k}` }, p)));
    return curriculum;
  };

  it("probabilities sum to 1, keep the floor, and rank by p(1 − p)", () => {
    const rates = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(rates, fc.double({ min: 0, max: 1, noNaN: true }), (p, floor) => {
        const shares = learnt(p, floor).probabilities();
        expect(shares.reduce((a, b) => a + b, 0)).toBeCloseTo(1, 9);
        for (const s of shares) expect(s).toBeGreaterThanOrEqual(floor / p.length - 1e-12);
        const value = (k: number): number => p[k]! * (1 - p[k]!);
        p.forEach((_, i) =>
          p.forEach((__, j) => value(i) > value(j) && expect(shares[i]!).toBeGreaterThanOrEqual(shares[j]! - 1e-12)),
        );
      }),
    );
    // .25 : .09 : 0 of what the floor leaves.
    const expected = [0.9 * (0.25 / 0.34), 0.9 * (0.09 / 0.34), 0].map((x) => x + 0.1 / 3);
    learnt([0.5, 0.9, 1])
      .probabilities()
      .forEach((s, k) => expect(s).toBeCloseTo(expected[k]!, 12));
    expect(
      learnt([0, 1, 0])
        .probabilities()
        .map((s) => s.toFixed(6)),
    ).toEqual(Array(3).fill("0.333333"));
  });

  it("draws with these probabilities (χ², 2 degrees of freedom, 1 in 10,000)", () => {
    const curriculum = learnt([0.5, 0.9, 1]);
    const [n, rng] = [6000, new Rng(3)];
    const counts = [0, 0, 0];
    for (let i = 0; i < n; i++) counts[Number(curriculum.task(rng.split(i)).name)]!++;
    const chi2 = curriculum.probabilities().reduce((sum, p, k) => sum + (counts[k]! - n * p) ** 2 / (n * p), 0);
    expect(chi2).toBeLessThan(18.42);
  });

  it("follows a learner: what is half solved is played most, and mastered kinds fall back to the floor", () => {
    const curriculum = new Learnability({ arms: ARMS, memory: 0.8 });
    const rng = new Rng(0);
    const truth: Record<string, number> = { easy: 1, half: 0.5, hard: 0 };
    for (let i = 0; i < 300; i++) {
      const choice = curriculum.task(rng.split(i));
      const group = share(
        8,
        (k) =>
          rng
            .split("play")
            .split(8 * i + k)
            .uniform() < truth[choice.name]!,
      );
      curriculum.observe([outcome(choice, group)]);
    }
    const [easy, half, hard] = curriculum.probabilities() as [number, number, number];
    expect(half).toBeGreaterThan(0.8);
    expect(Math.max(easy, hard)).toBeLessThan(0.1);
    expect(curriculum.metrics()["curriculum/easy/success"]).toBeGreaterThan(0.9);
  });

  it("makes kinds of families and levels, and says what is wrong", () => {
    const families = armsOf(gridworld, "family");
    expect(families.map((a) => a.name)).toEqual(gridworld.families.map((f) => f.name));
    const levels = armsOf(gridworld, "level", { levels: [1, 2] });
    expect(levels.map((a) => a.name)).toEqual(
      [...new Set(gridworld.families.map((f) => f.level))]
        .filter((l) => l <= 2)
        .toSorted((a, b) => a - b)
        .map((l) => `level ${l}`),
    );
    for (const arm of [...families, ...levels]) expect(() => gridworld.make(arm.options)).not.toThrow();
    expect(() => armsOf(gridworld, "family", { levels: [99, 100] })).toThrow("no family that the options admit");
    expect(() => new Learnability({ arms: [] })).toThrow("there are no tasks to choose from");
    expect(() => new Learnability({ arms: [...ARMS, ARMS[0]!] })).toThrow("two kinds of tasks have one name");
    expect(() => new Learnability({ arms: ARMS, floor: 2 })).toThrow("floor must be in [0, 1], got 2");
    expect(() => new Learnability({ arms: ARMS }).observe([outcome({ name: "other" }, 1)])).toThrow('told of "other"');
    expect(() => new Learnability({ arms: ARMS }).restore({ rates: { easy: 1 } })).toThrow(
      "expected a rate in [0, 1] for each of easy, half, hard",
    );
    for (const rate of [7, -3, NaN])
      expect(() => new Learnability({ arms: ARMS }).restore({ rates: { easy: rate, half: 0, hard: 1 } })).toThrow(
        "expected a rate in [0, 1] for each of easy, half, hard",
      );
    expect(() => drawIndex([0, 0], new Rng(0))).toThrow("not all 0");
  });
});

describe("failed tasks", () => {
  it("come back until they are solved, and no more than there is room for", () => {
    const curriculum = new FailedTasks({ share: 1, capacity: 2 });
    const fresh: TaskChoice = { name: "task" };
    expect(curriculum.task(new Rng(0))).toEqual(fresh);
    curriculum.observe([outcome(fresh, 0, 7), outcome(fresh, 0.25, 8), outcome(fresh, 1, 9)]);
    expect([curriculum.size, curriculum.task(new Rng(0))]).toEqual([1, { name: "task", seed: 7, again: true }]);
    curriculum.observe([outcome({ ...fresh, seed: 7, again: true }, 0.25)]); // better, not yet solved
    expect(curriculum.size).toBe(1);
    curriculum.observe([outcome({ ...fresh, seed: 7, again: true }, 0.5)]);
    expect([curriculum.size, curriculum.metrics()["curriculum/failed_tasks_solved"]]).toEqual([0, 1]);
    curriculum.observe([1, 2, 3].map((seed) => outcome(fresh, 0, seed)));
    const seeds = Array.from({ length: 40 }, (_, i) => curriculum.task(new Rng(i)).seed);
    expect(new Set(seeds)).toEqual(new Set([2, 3])); // the oldest is forgotten
  });

  it("variants are new tasks of a failed one's kind, with their share, and teach the base", () => {
    const base = new Learnability({ arms: ARMS, memory: 0 });
    const curriculum = new FailedTasks({ base, share: 1, variants: 0.25 });
    curriculum.observe([outcome(ARMS[0]!, 0, 5)]);
    const draws = Array.from({ length: 3000 }, (_, i) => curriculum.task(new Rng(i)));
    const fresh = draws.filter(({ again }) => !again);
    expect(Math.abs(fresh.length / 3000 - 0.25)).toBeLessThan(4 * Math.sqrt(0.1875 / 3000));
    expect(new Set(fresh.map((choice) => JSON.stringify(choice)))).toEqual(new Set([JSON.stringify(ARMS[0])]));
    expect(draws.find(({ again }) => again)).toEqual({ ...ARMS[0]!, seed: 5, again: true });
    const before = base.state();
    curriculum.observe([outcome(fresh[0]!, 1, 6)]);
    expect(base.state()).not.toEqual(before);
  });

  it("are tried with their share; the base learns from new tasks only", () => {
    const base = new Learnability({ arms: ARMS, memory: 0 });
    const curriculum = new FailedTasks({ base, share: 0.3 });
    curriculum.observe([outcome(ARMS[0]!, 0, 5)]);
    const rate = share(3000, (i) => curriculum.task(new Rng(i)).again === true);
    expect(Math.abs(rate - 0.3)).toBeLessThan(4 * Math.sqrt(0.21 / 3000));
    const before = base.state();
    curriculum.observe([outcome({ ...ARMS[0]!, seed: 5, again: true }, 1)]);
    expect(base.state()).toEqual(before);
    expect(() => new FailedTasks({ variants: 0.5 })).toThrow("variants are of a kind, which only a base draws");
    expect(() => new FailedTasks({ capacity: 0 })).toThrow("capacity must be an integer ≥ 1, got 0");
    expect(() => new FailedTasks({ solvedAt: 0 })).toThrow("solvedAt must be in (0, 1], got 0");
    expect(() => curriculum.restore(null)).toThrow("FailedTasks.restore: expected { tasks, solved, base }");
  });
});

describe("difficulty pools", () => {
  const tasks = [1, 2, 3, 4].map((seed) => ({ name: "t", seed }));

  it("sort tasks by their success, and draw by weight", () => {
    const curriculum = new DifficultyPools({ tasks, memory: 0 });
    curriculum.observe([outcome(tasks[0]!, 0), outcome(tasks[1]!, 0.2), outcome(tasks[2]!, 0.8)]);
    expect(curriculum.pools().map((p) => p.tasks.map((t) => t.seed))).toEqual([[1], [2, 4], [3]]);
    expect(curriculum.metrics()["curriculum/pool/normal"]).toBe(2);
    const draws = Array.from({ length: 4500 }, (_, i) => curriculum.task(new Rng(i)).seed);
    // Weights 1 : 3 : .5, the 3 shared by two tasks.
    [1, 1.5, 0.5, 1.5].forEach((w, k) =>
      expect(Math.abs(draws.filter((s) => s === k + 1).length / 4500 - w / 4.5)).toBeLessThan(0.03),
    );
  });

  it("a retired pool is drawn from only if there is nothing else", () => {
    const pools = [
      { name: "open", from: 0, weight: 1 },
      { name: "done", from: 0.8, weight: 0 },
    ];
    const curriculum = new DifficultyPools({ tasks, pools, memory: 0 });
    curriculum.observe(tasks.slice(1).map((t) => outcome(t, 1)));
    expect(new Set(Array.from({ length: 30 }, (_, i) => curriculum.task(new Rng(i)).seed))).toEqual(new Set([1]));
    curriculum.observe([outcome(tasks[0]!, 1)]);
    expect(new Set(Array.from({ length: 60 }, (_, i) => curriculum.task(new Rng(i)).seed)).size).toBe(4);
    expect(() => new DifficultyPools({ tasks, pools: pools.toReversed() })).toThrow(
      "ascending order of from, the first at 0",
    );
    expect(() => new DifficultyPools({ tasks: [] })).toThrow("there are no tasks");
  });
});

describe("every curriculum", () => {
  const tasks = [1, 2, 3].map((seed) => ({ name: "half", seed }));
  it.each([
    ["learnability", () => new Learnability({ arms: ARMS })],
    ["failed tasks", () => new FailedTasks({ base: new Learnability({ arms: ARMS }), share: 0.5, capacity: 3 })],
    ["difficulty pools", () => new DifficultyPools({ tasks })],
  ])("%s: continues from its JSON as if it had never stopped", (_, make) => {
    fc.assert(
      fc.property(fc.nat(1000), fc.nat(20), (seed, stop) => {
        const rng = new Rng(seed);
        const whole = make();
        let resumed = make();
        for (let step = 0; step < 24; step++) {
          const [a, b] = [whole, resumed].map((c) => [0, 1].map((g) => c.task(rng.split(2 * step + g))));
          expect(b).toEqual(a);
          const outcomes = a!.map((choice, g) =>
            outcome(
              choice,
              rng
                .split("o")
                .split(2 * step + g)
                .int(3) / 2,
              choice.seed ?? rng.split(step).int(50),
            ),
          );
          for (const c of [whole, resumed]) c.observe(outcomes);
          if (step !== stop) continue;
          const state = json(resumed.state());
          resumed = make();
          resumed.restore(state);
        }
        expect(resumed.state()).toEqual(whole.state());
        expect(resumed.metrics()).toEqual(whole.metrics());
      }),
      { numRuns: 25 },
    );
  });
});
