/** What is kept of earlier steps: replayed groups, and rollouts to imitate. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { filterRollouts } from "../../methods/filter.ts";
import { succeeded, successRate } from "../../rl/episode/outcomes.ts";
import { renumbered, REPLAY, ReplayBuffer } from "../../data/replay.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { grpo } from "../../rl/objective/grpo.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import type { StepSoFar } from "../../rl/tasks/plugin.ts";
import { episode, type Part } from "../support/rlToy.ts";

const PLAYED: Part[] = [
  ["prompt", [1]],
  ["action", [2, 3]],
  ["observation", [4]],
];
const rowsOf = (group: number, rewards: readonly number[], more: Partial<Trajectory> = {}): Trajectory[] =>
  rewards.map((reward) => episode(PLAYED, { group, reward, ...more }));
const json = <T>(state: T): T => JSON.parse(JSON.stringify(state)) as T;

describe("replay", () => {
  const seedsOf = (groups: readonly { trajectories: readonly Trajectory[] }[]): number[] =>
    groups.map((g) => g.trajectories[0]!.seed);
  const grouped = (rewards: readonly (readonly number[])[], first = 0): Trajectory[] =>
    rewards.flatMap((r, i) => rowsOf(i, r, { seed: first + i }));

  it("is bounded in size, age and uses, in either order", () => {
    const options = fc.record({
      order: fc.constantFrom("fifo" as const, "priority" as const),
      capacity: fc.integer({ min: 2, max: 5 }),
      perStep: fc.integer({ min: 1, max: 2 }),
      maxStaleness: fc.integer({ min: 1, max: 4 }),
      maxUses: fc.integer({ min: 1, max: 3 }),
    });
    fc.assert(
      fc.property(options, fc.array(fc.array(fc.nat(5), { maxLength: 3 }), { maxLength: 12 }), (o, steps) => {
        const buffer = new ReplayBuffer(o);
        const uses = new Map<number, number>();
        steps.forEach((tops, step) => {
          const before = buffer.groups.filter((g) => step - g.version <= o.maxStaleness);
          const drawn = buffer.draw(step);
          expect(drawn.length).toBe(Math.min(o.perStep, before.length));
          for (const group of drawn) {
            expect(step - group.version).toBeLessThanOrEqual(o.maxStaleness);
            const seed = group.trajectories[0]!.seed;
            uses.set(seed, (uses.get(seed) ?? 0) + 1);
            expect(uses.get(seed)).toBeLessThanOrEqual(o.maxUses);
          }
          const rest = before.filter((g) => !drawn.includes(g));
          const key = (g: (typeof rest)[number]): number => (o.order === "fifo" ? -g.version : g.priority);
          for (const d of drawn) for (const r of rest) expect(key(d)).toBeGreaterThanOrEqual(key(r));
          buffer.add(
            grouped(
              tops.map((top) => [0, top]),
              10 * step,
            ),
            step,
          );
          expect(buffer.groups.length).toBeLessThanOrEqual(o.capacity);
          // Groups without spread ([0, 0]) are not kept.
          expect(buffer.groups.every((g) => g.trajectories[1]!.reward > 0)).toBe(true);
        });
      }),
    );
  });

  it("fifo: oldest first; priority: highest mean reward first, lowest dropped", () => {
    const rewards = [
      [0, 1],
      [0, 3],
      [0, 2],
    ];
    const fifo = new ReplayBuffer({ capacity: 2 });
    fifo.add(grouped(rewards), 0);
    expect([seedsOf(fifo.groups), seedsOf(fifo.draw(1)), seedsOf(fifo.draw(1)), fifo.draw(1)]).toEqual([
      [1, 2],
      [1],
      [2],
      [],
    ]);
    const priority = new ReplayBuffer({ capacity: 2, order: "priority", perStep: 2 });
    priority.add(grouped(rewards), 0);
    expect(seedsOf(priority.draw(1))).toEqual([1, 2]);
    const spread = new ReplayBuffer({ order: "priority", priority: (r) => -Math.max(...r), perStep: 3 });
    spread.add(grouped(rewards), 0);
    expect(seedsOf(spread.draw(0))).toEqual([0, 2, 1]);
  });

  it("a group waits until the probability of its successes is within the bounds, (.5, .95] in WebRL", () => {
    const middling = new ReplayBuffer({ minProbability: 0.5, maxProbability: 0.95, perStep: 9 });
    expect([middling.isFiltered, new ReplayBuffer().isFiltered]).toEqual([true, false]);
    expect(new ReplayBuffer({ minProbability: 0.1 }).isFiltered).toBe(true);
    expect(new ReplayBuffer({ maxProbability: 0.9 }).isFiltered).toBe(true);
    middling.add(grouped(Array.from({ length: 6 }, () => [0, 1])), 0);
    const geometric = (...lps: number[]): number => Math.exp(lps.reduce((a, b) => a + b, 0) / lps.length);
    const [kept, dropped] = [geometric(-0.1, -0.5), geometric(-0.01, -0.02)];
    expect([kept, dropped].map((p) => Number(p.toFixed(3)))).toEqual([0.741, 0.985]);
    expect(seedsOf(middling.draw(1, [kept, dropped, 0.5, 0.95, NaN, 0.501]))).toEqual([0, 3, 5]);
    expect(seedsOf(middling.groups)).toEqual([1, 2, 4]); // they wait
    expect(seedsOf(middling.draw(8, [0.1, 0.9, 0.1]))).toEqual([2]);
    expect(middling.fresh(9)).toEqual([]);
    expect(() => new ReplayBuffer({ minProbability: 1 })).toThrow("minProbability must be in [0, 1), got 1");
    expect(() => new ReplayBuffer({ maxProbability: 1.5 })).toThrow("maxProbability must be in (0, 1], got 1.5");
    expect(() => new ReplayBuffer({ minProbability: 0.9, maxProbability: 0.9 })).toThrow(
      "ReplayBuffer: minProbability 0.9 is not below maxProbability, 0.9",
    );
  });

  describe("the probability of successes, asked of the policy as it is now", () => {
    /** A step in which nothing new was played, and what the policy was asked. */
    const stepWith = async (
      buffer: ReplayBuffer,
      lpsOf: (row: Trajectory) => readonly number[] = () => [],
    ): Promise<{ drawn: number[]; isOffPolicy: boolean | undefined; asked: (readonly [number, number])[][] }> => {
      const asked: (readonly [number, number])[][] = [];
      const logProbs: StepSoFar["logProbs"] = (rows) => {
        asked.push(rows.map(({ seed, reward }) => [seed, reward]));
        return Promise.resolve(rows.map((row) => Float64Array.of(NaN, ...lpsOf(row), NaN)));
      };
      const objective = { advantage: grpo() } as Objective;
      const { trained = [], isOffPolicy } = await buffer.extend({
        step: 1,
        fresh: [],
        trained: [],
        objective,
        logProbs,
      } as unknown as StepSoFar);
      return { drawn: [...new Set(trained.map(({ seed }) => seed))], isOffPolicy, asked };
    };
    const middling = (...groups: readonly (readonly number[])[]): ReplayBuffer => {
      const buffer = new ReplayBuffer({ minProbability: 0.5, maxProbability: 0.95, perStep: 9 });
      buffer.add(grouped(groups), 0);
      return buffer;
    };

    it("is the geometric mean over all tokens of a group's successes, and of no other group's", async () => {
      const lps: Readonly<Record<number, readonly number[]>> = { 0: [-5, -4], 2: [-0.01, -0.02], 4: [-3, -9] };
      // Group 3: (−.1 − .5 − .3 − .9)/4 = −.45, which is .638; the sum would be .165.
      const lpsOf = ({ seed, reward }: Trajectory): readonly number[] =>
        seed === 3 ? (reward === 1 ? [-0.1, -0.5] : [-0.3, -0.9]) : lps[seed]!;
      const { drawn, asked, isOffPolicy } = await stepWith(middling([0, 1], [-1, 0], [1, 0], [2, 1, 0], [0, 1]), lpsOf);
      expect(asked).toEqual([
        [
          [0, 1],
          [2, 1],
          [3, 2],
          [3, 1],
          [4, 1],
        ],
      ]);
      expect([drawn, isOffPolicy]).toEqual([[3], true]);
    });

    it("of a single success too; without one the policy is not asked, and nothing is off-policy", async () => {
      expect(await stepWith(middling([0, 1]), () => [-0.3, -0.3])).toEqual({
        drawn: [0],
        isOffPolicy: true,
        asked: [[[0, 1]]],
      });
      expect(await stepWith(middling([-1, 0]))).toEqual({ drawn: [], isOffPolicy: false, asked: [] });
    });

    it("is not asked for where every group may come back", async () => {
      const buffer = new ReplayBuffer();
      buffer.add(grouped([[0, 1]]), 0);
      expect(await stepWith(buffer)).toEqual({ drawn: [0], isOffPolicy: true, asked: [] });
    });
  });

  it("a group of one has no spread and is not kept", () => {
    const buffer = new ReplayBuffer();
    buffer.add([...rowsOf(0, [1]), ...rowsOf(1, [0, 1])], 0);
    expect(buffer.groups.map(({ trajectories }) => trajectories.length)).toEqual([2]);
  });

  it("what leaves a full buffer: the oldest, or the lowest mean, whatever the others are", () => {
    const kept = (order: "fifo" | "priority", ...groups: readonly (readonly number[])[]): readonly number[] => {
      const buffer = new ReplayBuffer({ order, capacity: 2 });
      groups.forEach((rewards, i) => buffer.add(rowsOf(0, rewards, { seed: i }), i));
      return seedsOf(buffer.groups);
    };
    expect(kept("fifo", [0, 3], [0, 1], [0, 2])).toEqual([1, 2]);
    expect(kept("priority", [0, 3], [0, 1], [0, 2])).toEqual([0, 2]);
    expect(kept("priority", [0, 1], [0, 2], [0, 3])).toEqual([1, 2]);
    const buffer = new ReplayBuffer({ order: "priority" });
    buffer.add(
      grouped([
        [1, 0],
        [1, 0, 0, 1, 0],
      ]),
      0,
    );
    expect(buffer.groups.map(({ priority }) => priority)).toEqual([0.5, 0.4]);
  });

  it("the options have their defaults, and a use is counted", () => {
    expect(REPLAY.read({})).toEqual({
      perStep: 1,
      capacity: 64,
      order: "fifo",
      priority: undefined,
      maxStaleness: 8,
      maxUses: 1,
      minProbability: 0,
      maxProbability: 1,
    });
    const buffer = new ReplayBuffer({ maxUses: 3 });
    buffer.add(rowsOf(0, [0, 1]), 0);
    const uses = [1, 2, 3].map((step) => {
      buffer.draw(step);
      return buffer.groups.map((group) => group.uses);
    });
    expect(uses).toEqual([[1], [2], []]);
  });

  it("takes up a state that has room, and leaves out what a row does not have", () => {
    const buffer = new ReplayBuffer();
    buffer.add(
      grouped([
        [0, 1],
        [0, 2],
      ]),
      0,
    );
    const exact = new ReplayBuffer({ capacity: 2 });
    exact.restore(json(buffer.state()));
    expect(exact.groups).toHaveLength(2);
    expect(exact.groups[0]!.trajectories[0]).not.toHaveProperty("rewardParts");
    const message = "expected { groups } with at most 1 groups";
    expect(() => new ReplayBuffer({ capacity: 1 }).restore(buffer.state())).toThrow(message);
  });

  it("joins one group, or none, to a step that has nothing else", () => {
    const forked = rowsOf(5, [1, 0], { rollout: 7 });
    const one = renumbered([{ trajectories: forked, version: 2, priority: 0, uses: 0 }], [], 3);
    expect(one.trained.map(({ group, rollout }) => [group, rollout])).toEqual([
      [0, 0],
      [0, 0],
    ]);
    expect(one.metrics).toEqual({ "replay/groups": 1, "replay/staleness_mean": 1, "replay/staleness_max": 1 });
    expect(renumbered([], rowsOf(0, [1]), 3).metrics).toEqual({ "replay/groups": 0 });
  });

  it("survives JSON, unscorable rewards and token rewards included", () => {
    const buffer = new ReplayBuffer({ maxUses: 2 });
    const rows = rowsOf(0, [0, 1, NaN], {
      tokenRewards: Float64Array.of(0, 0.5, NaN, 0),
      greedyReward: NaN,
      stepRewards: [NaN, 1],
      rollout: 3,
    });
    buffer.add(
      rows.map((row, i) => ({ ...row, rollout: i })),
      4,
    );
    buffer.draw(5);
    expect(json(buffer.state())).toEqual(buffer.state()); // nothing is lost on the way
    const restored = new ReplayBuffer({ maxUses: 2 });
    restored.restore(json(buffer.state()));
    expect(restored.state()).toEqual(buffer.state());
    const [group] = restored.draw(6);
    expect(group!.trajectories.map((t) => t.reward)).toEqual([0, 1, NaN]);
    expect(group!.trajectories[0]).toMatchObject({
      stepRewards: [NaN, 1],
      tokenRewards: [0, 0.5, NaN, 0],
      greedyReward: NaN,
    });
    expect(group!.trajectories[0]!.stream).toEqual(rows[0]!.stream);
    expect(restored.groups).toEqual([]); // both uses are spent
  });

  it("joins a step under free group and rollout numbers", () => {
    const fresh = [...rowsOf(0, [0, 1]), ...rowsOf(2, [1, 0], { rollout: 9 })];
    const forked = [5, 5, 6].map((rollout, i) => episode(PLAYED, { group: 2, reward: i === 2 ? 1 : 0, rollout }));
    const replayed = [forked, rowsOf(0, [2, 1])].map((trajectories, k) => ({
      trajectories,
      version: 3 + k,
      priority: 0,
      uses: 0,
    }));
    const { trained, metrics } = renumbered(replayed, fresh, 6);
    expect(trained.map((t) => t.group)).toEqual([3, 3, 3, 4, 4]);
    expect(trained.map((t) => t.rollout)).toEqual([10, 10, 11, undefined, undefined]);
    expect(metrics).toEqual({ "replay/groups": 2, "replay/staleness_mean": 2.5, "replay/staleness_max": 3 });
  });

  it("says what is wrong", () => {
    expect(() => new ReplayBuffer({ capcity: 3 } as object)).toThrow("did you mean 'capacity'?");
    expect(() => new ReplayBuffer({ capacity: 0 })).toThrow("capacity must be an integer ≥ 1, got 0");
    expect(() => new ReplayBuffer({ priority: () => 1 })).toThrow('a priority is for order "priority"');
    expect(() => new ReplayBuffer({ capacity: 1, perStep: 2 })).toThrow("perStep 2 is more than the capacity, 1");
    const buffer = new ReplayBuffer({ order: "priority", priority: () => NaN });
    expect(() => buffer.add(rowsOf(0, [0, 1]), 0)).toThrow("the priority of rewards [0,1] is NaN");
    const later = new ReplayBuffer();
    later.add(rowsOf(0, [0, 1]), 3);
    expect(() => later.add(rowsOf(0, [0, 1]), 2)).toThrow("version 2 after 3; versions never go back");
    expect(() => later.restore({})).toThrow("expected { groups } with at most 64 groups");
  });
});

describe("filtered rollouts", () => {
  const ofLength = (length: number, more: Partial<Trajectory>): Trajectory =>
    episode(
      [
        ["prompt", [1]],
        ["action", Array(length).fill(length)],
      ],
      { reward: 1, ...more },
    );

  it("keep the shortest successes of each task, once each", () => {
    const all = [
      ofLength(4, { seed: 0 }),
      ofLength(2, { seed: 0 }),
      ofLength(2, { seed: 0 }),
      ofLength(3, { seed: 0 }),
      ofLength(1, { seed: 0, reward: 0 }),
      ofLength(1, { seed: 0, masked: true }),
      ofLength(1, { seed: 0, reward: NaN }),
      ofLength(1, { seed: 0, info: { success: false } }),
      ofLength(2, { seed: 1, reward: 0, info: { success: true } }),
      ofLength(0, { seed: 1 }),
    ];
    expect(filterRollouts(all, { perTask: 2 }).map((t) => all.indexOf(t))).toEqual([1, 3, 8]);
    expect(filterRollouts(all, { perTask: Infinity, keep: (t) => t.reward > 0 }).map((t) => all.indexOf(t))).toEqual([
      0, 1, 3, 7,
    ]);
    expect(filterRollouts([])).toEqual([]);
    const rows = [2, 1].map((length) => ofLength(length, { rollout: 1 })); // a rewritten history
    expect(filterRollouts([...rows, ofLength(2, { rollout: 2 })], { perTask: 1 })).toEqual([
      ofLength(2, { rollout: 2 }),
    ]);
    expect(filterRollouts(rows)).toEqual(rows);
    expect(() => filterRollouts(all, { perTask: 0 })).toThrow("perTask must be an integer ≥ 1 or Infinity, got 0");
  });

  it("success is what the environment says, else a positive return", () => {
    const [won, lost] = [
      ofLength(1, { reward: 0, info: { success: true } }),
      ofLength(1, { info: { success: false } }),
    ];
    expect([won, lost, ofLength(1, {}), ofLength(1, { reward: 0 })].map(succeeded)).toEqual([true, false, true, false]);
    expect(successRate([won, lost, ofLength(1, { masked: true })])).toBe(0.5);
    expect(successRate([ofLength(1, { reward: NaN })])).toBeUndefined();
  });
});
