/**
 * Every property of every loss, penalty, estimator, world model and token weighting, from the one table
 * tests/support/rlMethods.ts. A property that a method cannot have is named there with the reason, and is expected to
 * fail or makes no sense.
 */
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import { grad, valueAndGrad } from "../../engine/grad.ts";
import { tensor } from "../../engine/ops/create.ts";
import { sum } from "../../engine/ops/reduce.ts";
import { Rng } from "../../engine/random.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { ADVANTAGES } from "../../methods/advantages/index.ts";
import { clippedErrorLoss } from "../../methods/paw.ts";
import { clippedValueLoss } from "../../rl/objective/value.ts";
import { KL_ESTIMATORS, klPenalty } from "../../rl/objective/kl.ts";
import { POLICY_LOSSES } from "../../methods/losses/index.ts";
import { rolloutsOf, type Trajectory } from "../../rl/episode/stream.ts";
import { difference } from "../support/opChecks.ts";
import { filtered, forked, lossAndGradient, madeUpSignals, randomBatch, toyStep } from "../support/rlBatches.ts";
import { everyExecutor, reference, relativeError, wasm, webgpu } from "../support/rlExecutors.ts";
import { ADVANTAGE_ROWS, KL_ROWS, LOSS_ROWS, type LossProperty } from "../support/rlMethods.ts";
import { OBJECTIVES } from "../support/rlObjectives.ts";
import {
  curvature,
  type Drawn,
  number,
  preparedColumn,
  type PlainAt,
  plainAt,
  type Run,
  run,
  sequences,
} from "../support/rlTokens.ts";
import { episode } from "../support/rlToy.ts";

const names = Object.keys(LOSS_ROWS);
const isPairLoss = (name: string): boolean => name.startsWith("dpo");
const having = (property: LossProperty): string[] => names.filter((n) => !LOSS_ROWS[n]!.exceptions?.[property]);

it("the tables are complete", () => {
  expect(names.toSorted()).toEqual(Object.keys(POLICY_LOSSES).toSorted());
  expect(Object.keys(ADVANTAGE_ROWS).toSorted()).toEqual(Object.keys(ADVANTAGES).toSorted());
  expect(Object.keys(KL_ROWS)).toEqual([...KL_ESTIMATORS]);
});

/** Advantages of a first step's sequences: of both signs, 0, and a sequence of one token. A pair has sides instead. */
const ROWS_AT_START = [[1.5, 1, -0.75], [0, 2], [-1]];
const PAIRS_AT_START = [
  [1, 1, -1, -1],
  [1, -1],
];

describe.each(everyExecutor)("on $name", ({ open, name: executor, tolerance }) => {
  let device: Device;
  beforeAll(async () => {
    device = await open();
  });
  afterAll(() => device.dispose());
  // WGSL may assume that NaN and infinities do not occur; there the masks are tried with finite values only.
  const wild = fc.constantFrom(1e30, -1e30, -120, 120, ...(executor === webgpu.name ? [] : [NaN, Infinity, -Infinity]));
  const junk = fc.record({ lp: wild, old: wild, advantage: wild, ref: wild });
  const runs = { numRuns: executor === webgpu.name ? 3 : executor === wasm.name ? 15 : 25, seed: 1 };

  it.each(names)("masked: %s", async (name) => {
    const loss = LOSS_ROWS[name]!.make();
    await fc.assert(
      fc.asyncProperty(
        sequences(isPairLoss(name)),
        fc.array(junk, { minLength: 15, maxLength: 15 }),
        async (rows, spoilt) => {
          let n = 0;
          const dirty = rows.map((row) => row.map((t) => (t.masked ? { ...t, ...spoilt[n++]! } : t)));
          const [clean, result] = [await run(device, loss, rows), await run(device, loss, dirty)];
          const all = (r: Run): number[] => [...r.perToken, ...r.gradient].map((x) => x + 0); // 0 for −0
          expect(all(clean).every(Number.isFinite)).toBe(true);
          expect(all(result)).toEqual(all(clean));
          rows.flat().forEach((t, i) => t.masked && expect(result.perToken[i]! + 0).toBe(0));
        },
      ),
      runs,
    );
  });

  it.each([
    [
      "the clipped value loss",
      (x: Tensor, old: Tensor, target: Tensor, mask: Tensor) => clippedValueLoss(x, old, target, mask, 0.2),
    ],
    ["PaW's clipped error", (x: Tensor, _old: Tensor, _target: Tensor, mask: Tensor) => clippedErrorLoss(x, mask, 0.3)],
  ] as const)("masked: %s", async (_, loss) => {
    const at = async (rows: readonly Drawn[]): Promise<number[]> => {
      const floats = (of: (t: Drawn) => number): Tensor =>
        tensor(Float64Array.from(rows, of), { device, dtype: device.float });
      const { grads, aux } = valueAndGrad((x: Tensor) => {
        const perToken = loss(
          x,
          floats((t) => t.old),
          floats((t) => t.ref),
          floats((t) => Number(!t.masked)),
        );
        return [sum(perToken), perToken];
      })(floats((t) => t.lp));
      return [...(await grads.read()), ...(await aux.read())].map((x) => x + 0);
    };
    await fc.assert(
      fc.asyncProperty(sequences(false), fc.array(junk, { minLength: 15, maxLength: 15 }), async (rows, spoilt) => {
        const clean = await at(rows.flat());
        expect(clean.every(Number.isFinite)).toBe(true);
        expect(await at(rows.flat().map((t, i) => (t.masked ? { ...t, ...spoilt[i]! } : t)))).toEqual(clean);
      }),
      runs,
    );
  });

  it.each(names)("start: %s", async (name) => {
    const { make, plain, exceptions } = LOSS_ROWS[name]!;
    const loss = make();
    const rows = (isPairLoss(name) ? PAIRS_AT_START : ROWS_AT_START).map((row, i) =>
      row.map((advantage, t) => {
        const lp = -0.5 - 0.25 * t - i; // exact in f32
        return { masked: i === 0 && t === 1, lp, old: lp, ref: lp, advantage };
      }),
    );
    const along = rows.flat().map((_, n) => 1 + (n % 3) / 2);
    const prepared = preparedColumn(loss, rows);
    const byDifferences = rows.flatMap((row, i) =>
      plainAt(plain, row, prepared?.[i], along.slice(rows.slice(0, i).flat().length)),
    );
    const { perToken, gradient } = await run(device, loss, rows, () => 1);
    const near = (actual: number[], of: (expected: PlainAt) => number, least: number): void =>
      expect(difference(actual, byDifferences.map(of))).toBeLessThan(Math.max(least, tolerance));
    near(perToken, ({ value }) => value, 1e-12);
    near(gradient, ({ slope }) => slope, 1e-6);
    if (exceptions?.start === undefined) {
      near(await curvature(device, loss, rows, along), (expected) => expected.curvature, 1e-5);
    }
  });

  // By hand, with d = ref − lp: the slope by lp and the second derivative, the latter where there is one.
  it.each([
    ["k1", 1, 0],
    ["k2", 0, 1],
    ["k3", 0, 1],
    ["abs", 0, undefined],
    ["k3+", 0, 1],
  ] as const)("start: KL %s, clamped and not, where the policy is its reference", async (estimator, slope, bend) => {
    const floats = (...values: number[]): Tensor => tensor(Float64Array.from(values), { device, dtype: device.float });
    for (const clamp of [undefined, { logRatio: 20, value: 10 }]) {
      const penalty = (lp: Tensor): Tensor => sum(klPenalty(estimator, lp, floats(-1, 0), floats(1, 1), clamp));
      const at = floats(-1, 0);
      expect(await penalty(at).item()).toBe(0);
      expect([...(await grad(penalty)(at).read())].map((x) => x + 0)).toEqual([slope, slope]);
      const second = grad((lp: Tensor) => sum(grad(penalty)(lp)))(at);
      if (bend !== undefined) expect([...(await second.read())].map((x) => x + 0)).toEqual([bend, bend]);
    }
  });

  it("start: value losses where the value is the old one and the target", async () => {
    const floats = (...values: number[]): Tensor => tensor(Float64Array.from(values), { device, dtype: device.float });
    const ones = floats(1, 1);
    const value = (v: Tensor): Tensor => sum(clippedValueLoss(v, floats(0, 2), floats(0, 2), ones, 0.2));
    const error = (v: Tensor): Tensor => sum(clippedErrorLoss(v, ones, 0.3));
    for (const [loss, at] of [
      [value, floats(0, 2)],
      [error, floats(0, -0)],
    ] as const) {
      expect(await loss(at).item()).toBe(0);
      expect([...(await grad(loss)(at).read())].map((x) => x + 0)).toEqual([0, 0]);
    }
  });

  it.each(KL_ESTIMATORS)("masked: KL %s, clamped and not", async (estimator) => {
    const at = async (rows: readonly Drawn[], clamp: boolean): Promise<number[]> => {
      const floats = (of: (t: Drawn) => number): Tensor =>
        tensor(Float64Array.from(rows, of), { device, dtype: device.float });
      const { grads, aux } = valueAndGrad((lp: Tensor) => {
        const penalty = klPenalty(
          estimator,
          lp,
          floats((t) => t.ref),
          floats((t) => Number(!t.masked)),
          clamp ? { logRatio: 20, value: 10 } : undefined,
        );
        return [sum(penalty), penalty];
      })(floats((t) => t.lp));
      return [...(await grads.read()), ...(await aux.read())].map((x) => x + 0);
    };
    await fc.assert(
      fc.asyncProperty(
        sequences(false),
        fc.array(junk, { minLength: 15, maxLength: 15 }),
        fc.boolean(),
        async (rows, spoilt, clamp) => {
          const dirty = rows.flat().map((t, i) => (t.masked ? { ...t, ...spoilt[i]! } : t));
          const clean = await at(rows.flat(), clamp);
          expect(clean.every(Number.isFinite)).toBe(true);
          expect(await at(dirty, clamp)).toEqual(clean);
        },
      ),
      runs,
    );
  });
});

describe("losses, on the f64 reference", () => {
  let device: Device;
  beforeAll(async () => {
    device = await reference.open();
  });
  afterAll(() => device.dispose());
  const runs = { numRuns: 25, seed: 2 };

  it.each(having("gap"))("gap: %s", async (name) => {
    const loss = LOSS_ROWS[name]!.make();
    await fc.assert(
      fc.asyncProperty(sequences(isPairLoss(name)), async (rows) => {
        const compact = rows.map((row) => row.filter((t) => !t.masked)).filter((row) => row.length > 0);
        if (compact.length === 0) return;
        const [whole, deleted] = [await run(device, loss, rows), await run(device, loss, compact)];
        const keep = (values: number[]): number[] => values.filter((_, i) => !rows.flat()[i]!.masked);
        expect(relativeError(keep(whole.perToken), deleted.perToken)).toBeLessThan(1e-13);
        expect(relativeError(keep(whole.gradient), deleted.gradient)).toBeLessThan(1e-13);
      }),
      runs,
    );
  });

  it.each(having("order"))("order: %s", async (name) => {
    const loss = LOSS_ROWS[name]!.make();
    await fc.assert(
      fc.asyncProperty(sequences(isPairLoss(name)), async (rows) => {
        const [forth, back] = [await run(device, loss, rows), await run(device, loss, rows.toReversed())];
        const split = (values: number[], order: readonly (readonly Drawn[])[]): Map<Drawn, number> =>
          new Map(order.flat().map((t, i) => [t, values[i]!]));
        for (const part of ["perToken", "gradient"] as const) {
          const other = split(back[part], rows.toReversed());
          rows.flat().forEach((t, i) => expect(other.get(t)).toBeCloseTo(forth[part][i]!, 11));
        }
      }),
      runs,
    );
  });

  it.each(having("slope"))("slope: %s", async (name) => {
    const { make, plain } = LOSS_ROWS[name]!;
    const loss = make();
    await fc.assert(
      fc.asyncProperty(sequences(isPairLoss(name)), async (rows) => {
        const { perToken, gradient } = await run(device, loss, rows, () => 1);
        const prepared = preparedColumn(loss, rows);
        const expected = rows.flatMap((row, i) => plainAt(plain, row, prepared?.[i]));
        expected.forEach(({ value, slope }, n) => {
          expect(perToken[n]!).toBeCloseTo(value, 10);
          expect(gradient[n]!).toBeCloseTo(slope, 6);
        });
      }),
      { numRuns: 40, seed: 3 },
    );
  });

  describe("expectations over an enumerated vocabulary", () => {
    const logSoftmax = (x: number[]): number[] => x.map((v) => v - Math.log(x.reduce((s, w) => s + Math.exp(w), 0)));
    const lp = logSoftmax([0.3, -1.2, 2, 0.1, -0.4]);
    const ref = logSoftmax([0.1, 0.5, 1, -2, 0.3]);
    const rewards = [1, 0, -0.5, 2, 0.25];
    const p = lp.map(Math.exp);
    const mean = (values: readonly number[]): number => p.reduce((s, x, v) => s + x * values[v]!, 0);
    /** d/d logit_j of Σ_v g_v·lp_v */
    const throughSoftmax = (g: readonly number[]): number[] => {
      const all = g.reduce((a, b) => a + b, 0);
      return g.map((x, j) => x - p[j]! * all);
    };

    it.each(having("reward"))("reward: %s", async (name) => {
      const rows = lp.map((x, v) => [{ masked: false, lp: x, old: x, advantage: rewards[v]!, ref: ref[v]! }]);
      const { gradient } = await run(device, LOSS_ROWS[name]!.make(), rows, (t) => Math.exp(t.lp));
      throughSoftmax(gradient).forEach((g, j) => expect(g).toBeCloseTo(-p[j]! * (rewards[j]! - mean(rewards)), 12));
    });

    it.each(KL_ESTIMATORS)("slope, expectation, gradient: KL %s", async (estimator) => {
      const { value, slopeOf = value, exceptions = {} } = KL_ROWS[estimator];
      const floats = (values: readonly number[]): Tensor =>
        tensor(Float64Array.from(values), { device, dtype: device.float });
      const { grads, aux } = valueAndGrad((x: Tensor) => {
        const penalty = klPenalty(estimator, x, floats(ref), floats(p.map(() => 1)));
        return [sum(penalty), penalty];
      })(floats(lp));
      const [values, slopes] = [[...(await aux.read())], [...(await grads.read())]];
      const kl = mean(lp.map((x, v) => x - ref[v]!));
      lp.forEach((x, v) => {
        expect(values[v]!).toBeCloseTo(value(ref[v]! - x), 12);
        const h = 1e-6;
        expect(slopes[v]!).toBeCloseTo((slopeOf(ref[v]! - x - h) - slopeOf(ref[v]! - x + h)) / (2 * h), 6);
      });
      const isValue = Math.abs(mean(values) - kl) < 1e-12;
      expect(isValue).toBe(exceptions.expectation === undefined);
      const trueGradient = p.map((x, j) => x * (lp[j]! - ref[j]! - kl));
      const own = throughSoftmax(slopes.map((s, v) => p[v]! * s));
      expect(own.every((g, j) => Math.abs(g - trueGradient[j]!) < 1e-12)).toBe(exceptions.gradient === undefined);
    });
  });
});

describe("advantages", () => {
  const actor = (reward: number, seed: number, group = 0): Trajectory =>
    episode(
      [
        ["prompt", [1]],
        ["action", [2, 3]],
      ],
      { reward, group, seed, greedyReward: 0.5, stepRewards: [reward] },
    );
  const estimate = (name: string, batch: readonly Trajectory[]): readonly Float64Array[] =>
    ADVANTAGE_ROWS[name]!.make().estimate(batch, madeUpSignals(batch)).perToken;
  const seeds = fc.integer({ min: 1, max: 10_000 });
  const having = (property: string): string[] =>
    Object.keys(ADVANTAGE_ROWS).filter((n) => !Object.hasOwn(ADVANTAGE_ROWS[n]!.exceptions ?? {}, property));
  const close = (actual: ArrayLike<number>, expected: ArrayLike<number>): void =>
    expect(relativeError(actual, expected)).toBeLessThan(1e-12);

  it.each(having("gap"))("gap: %s", (name) => {
    fc.assert(
      fc.property(seeds, (seed) => {
        const batch = randomBatch(seed);
        const isOwn = (t: Trajectory, k: number): boolean =>
          k === 0 || ["action", "thought"].includes(t.stream.roles[k]!);
        const compact = batch.map((t) => ({ ...t, stream: filtered(t.stream, (k) => isOwn(t, k)) }));
        const [whole, deleted] = [estimate(name, batch), estimate(name, compact)];
        batch.forEach((t, i) => {
          close(
            [...whole[i]!].filter((_, k) => isOwn(t, k)),
            deleted[i]!,
          );
          whole[i]!.forEach((a, k) => !isOwn(t, k) && expect(a).toBe(0));
        });
      }),
      { numRuns: 40, seed: 4 },
    );
  });

  it.each(having("order"))("order: %s", (name) => {
    fc.assert(
      fc.property(seeds, (seed) => {
        const batch = randomBatch(seed);
        const order = new Rng(seed).shuffle(batch.map((_, i) => i));
        const [straight, shuffled] = [
          estimate(name, batch),
          estimate(
            name,
            order.map((i) => batch[i]!),
          ),
        ];
        order.forEach((i, k) => close(shuffled[k]!, straight[i]!));
      }),
      { numRuns: 25, seed: 5 },
    );
  });

  it.each(having("groups"))("groups: %s", (name) => {
    const batch = randomBatch(11);
    const interleaved = [0, 3, 1, 4, 2, 5].map((i) => batch[i]!);
    const alone = estimate(name, batch.slice(0, 3));
    [0, 2, 4].forEach((k, i) => close(estimate(name, interleaved)[k]!, alone[i]!));
  });

  it.each(having("constant"))("constant: %s", (name) => {
    fc.assert(
      fc.property(number(-1e3, 1e3), fc.integer({ min: 1, max: 9 }), (reward, n) => {
        const batch = Array.from({ length: n }, (_, i) => actor(reward, i));
        expect(estimate(name, batch).every((row) => row.every((a) => a === 0))).toBe(true);
        const { fracRewardZeroStd } = ADVANTAGE_ROWS[name]!.make().estimate(batch, madeUpSignals(batch));
        expect(fracRewardZeroStd).toBe(1);
      }),
      { numRuns: 25, seed: 6 },
    );
    const mixed = [actor(1, 1, 0), actor(2, 2, 0), actor(3, 3, 1)];
    expect(ADVANTAGE_ROWS[name]!.make().estimate(mixed, madeUpSignals(mixed)).fracRewardZeroStd).toBe(0.5);
  });

  /** Rewards on purpose: none differs, one does, one is NaN, a group of one, and all of these at once. */
  const EDGES: Readonly<Record<string, readonly Trajectory[]>> = {
    "all rewards equal": [0, 0, 0, 0].map((reward, i) => actor(reward, i + 1)),
    "one is better": [0, 0, 1, 0].map((reward, i) => actor(reward, i + 1)),
    "one is worse": [1, 1, 0, 1].map((reward, i) => actor(reward, i + 1)),
    "one is NaN": [0, 0, NaN, 1].map((reward, i) => actor(reward, i + 1)),
    "all are NaN": [NaN, NaN].map((reward, i) => actor(reward, i + 1)),
    "a single member": [actor(1, 1)],
    "single members, and a group": [actor(1, 1, 0), actor(0, 2, 1), actor(0, 3, 2), actor(1, 4, 2)],
    "the ends of f32": [-1e30, 0, 1e30].map((reward, i) => actor(reward, i + 1)),
  };
  it.each(Object.keys(ADVANTAGE_ROWS))(
    "edges: %s is finite whatever the rewards are, and prefers the better one",
    (name) => {
      for (const [what, batch] of Object.entries(EDGES)) {
        for (const row of estimate(name, batch))
          expect([...row].every(Number.isFinite), `${what}: ${row.join()}`).toBe(true);
      }
      if (name === "none") return;
      const total = (row: Float64Array): number => row.reduce((a, b) => a + b, 0);
      const best = estimate(name, EDGES["one is better"]!).map(total);
      expect(
        best.every((x, i) => i === 2 || x < best[2]!),
        best.join(),
      ).toBe(true);
      const worst = estimate(name, EDGES["one is worse"]!).map(total);
      expect(
        worst.every((x, i) => i === 2 || x >= worst[2]!),
        worst.join(),
      ).toBe(true);
    },
  );

  it.each(having("unscorable"))("unscorable: %s", (name) => {
    const [low, high] = [actor(1, 1), actor(3, 3)];
    const batch = [low, actor(NaN, 7), high, { ...actor(100, 8), masked: true }];
    const [a, b, c, d] = estimate(name, batch);
    const without = estimate(name, [low, high]);
    close(a!, without[0]!);
    close(c!, without[1]!);
    for (const row of [b!, d!]) expect([...row]).toEqual([0, 0, 0]);
    expect([...a!, ...c!].some((x) => x !== 0)).toBe(name !== "none");
  });

  it.each(having("fork"))("fork: %s: both rows have the rollout's advantages", (name) => {
    fc.assert(
      fc.property(seeds, (seed) => {
        const batch = randomBatch(seed);
        const rows = batch.flatMap((t, i) => (i % 2 === 0 ? forked(t, i) : [t]));
        const [whole, parts] = [estimate(name, batch), estimate(name, rows)];
        const own = (trajectories: readonly Trajectory[], columns: readonly Float64Array[]): number[][] =>
          rolloutsOf(trajectories).map(({ tokens }) => tokens.map(({ row, t }) => columns[row]![t]!));
        own(batch, whole).forEach((values, i) => close(own(rows, parts)[i]!, values));
      }),
      { numRuns: 25, seed: 7 },
    );
  });
});

describe.each([
  { ...reference, tolerance: 1e-11 },
  { ...wasm, tolerance: 1e-5 },
])("through a model on $name", ({ open, tolerance }) => {
  let device: Device;
  beforeAll(async () => {
    device = await open();
  });
  afterAll(() => device.dispose());

  it.each(Object.keys(OBJECTIVES))("split and fork: %s", async (name) => {
    const learner = toyStep(device, OBJECTIVES[name]!);
    const batch = randomBatch(7);
    const rows = batch.flatMap((t, i) => (i % 2 === 0 ? forked(t, i) : [t]));
    const whole = await lossAndGradient(learner, batch, 10_000);
    expect(whole.leaves.flat().some((g) => g !== 0)).toBe(true);
    const unforkable = name.startsWith("loss ") && LOSS_ROWS[name.slice(5)]!.exceptions?.fork !== undefined;
    const others = [await lossAndGradient(learner, batch, 30)];
    if (!unforkable) others.push(await lossAndGradient(learner, rows, 40));
    for (const { value, leaves } of others) {
      expect(Math.abs(value - whole.value)).toBeLessThanOrEqual(tolerance * Math.max(1, Math.abs(whole.value)));
      leaves.forEach((leaf, i) => expect(relativeError(leaf, whole.leaves[i]!)).toBeLessThanOrEqual(tolerance));
    }
  });
});
