/**
 * Reductions on random shapes and axes against loops, and masked reductions: what a mask excludes has no influence at
 * all.
 */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { grad, type ReduceOptions, type Tensor } from "../../engine/index.ts";
import * as ops from "../../engine/ops/index.ts";
import { Rng } from "../../engine/random.ts";
import { shapes, sizes } from "../../fastCheck.ts";
import {
  agree,
  draw,
  type Executors,
  indicesOf,
  maskOf,
  offsetIn,
  openExecutors,
  seeds,
  valuesOn,
} from "../support/executors.ts";
import { difference } from "../support/opChecks.ts";
import { tries } from "../support/tries.ts";

// Compilers of software adapters take up to 0.3 s for a kernel that they have not seen.
vi.setConfig({ testTimeout: 300_000 });

let executors: Executors;
beforeAll(async () => {
  executors = await openExecutors();
});
afterAll(() => executors.dispose());

/** A shape and some of its axes, in any order and counted from either end. */
const cases = shapes().chain((shape) =>
  fc.record({
    shape: fc.constant(shape),
    axes: fc
      .tuple(fc.shuffledSubarray(shape.map((_, d) => d)), fc.boolean())
      .map(([axes, fromEnd]) => (fromEnd ? axes.map((a) => a - shape.length) : axes)),
    keepdims: fc.boolean(),
    seed: seeds,
  }),
);
const positive = (axes: readonly number[], rank: number): number[] => axes.map((a) => (a < 0 ? a + rank : a));

/** For each element of the result, where the elements that it comes from lie; row-major. */
function groupsOf(shape: readonly number[], axes: readonly number[]): number[][] {
  const small = shape.map((n, d) => (axes.includes(d) ? 1 : n));
  const groups = indicesOf(small).map((): number[] => []);
  indicesOf(shape).forEach((index, i) => groups[offsetIn(small, index)]!.push(i));
  return groups;
}

const average = (x: readonly number[]): number => x.reduce((a, b) => a + b, 0) / x.length;
const PLAIN: Record<string, [op: (x: Tensor, o: ReduceOptions) => Tensor, loop: (x: readonly number[]) => number]> = {
  sum: [ops.sum, (x) => x.reduce((a, b) => a + b, 0)],
  mean: [ops.mean, average],
  max: [ops.max, (x) => Math.max(...x)],
  min: [ops.min, (x) => Math.min(...x)],
  variance: [ops.variance, (x) => average(x.map((v) => (v - average(x)) ** 2))],
  logsumexp: [ops.logsumexp, (x) => Math.log(x.reduce((a, b) => a + Math.exp(b), 0))],
};

describe("reductions", () => {
  test.each(Object.keys(PLAIN))("%s over any axes is a loop over groups", async (name) => {
    const [op, loop] = PLAIN[name]!;
    await fc.assert(
      fc.asyncProperty(cases, async ({ shape, axes, keepdims, seed }) => {
        const x = draw(new Rng(seed), shape);
        const listed = positive(axes, shape.length);
        const small = shape.flatMap((n, d) => (!listed.includes(d) ? [n] : keepdims ? [1] : []));
        const [y] = await agree(executors, (make) => {
          const result = op(make(x, shape), { axis: axes, keepdims });
          expect(result.shape).toEqual(small);
          return [result];
        });
        const expected = groupsOf(shape, listed).map((group) => loop(group.map((i) => x[i]!)));
        expect(difference(y!, expected)).toBeLessThan(1e-12);
      }),
      { numRuns: tries(20), seed: 11 },
    );
  });

  test("argmax and argmin take the lowest position on a tie, along any axis", async () => {
    await fc.assert(
      fc.asyncProperty(shapes({ minRank: 1, maxRank: 3 }), fc.nat(2), seeds, async (shape, at, seed) => {
        const axis = at % shape.length;
        const rng = new Rng(seed);
        const x = draw(rng, shape).map(() => rng.int(3) - 1); // many ties
        const groups = groupsOf(shape, [axis]).map((group) => group.map((i) => x[i]!));
        const [most, least] = await agree(executors, (make) => {
          const t = make(x, shape);
          return [ops.argmax(t, { axis }), ops.argmin(t, { axis })];
        });
        expect(most).toEqual(groups.map((g) => g.indexOf(Math.max(...g))));
        expect(least).toEqual(groups.map((g) => g.indexOf(Math.min(...g))));
      }),
      { numRuns: tries(30), seed: 12 },
    );
  });

  test("ties share the gradient of max and min equally; it always sums to what came in", async () => {
    await fc.assert(
      fc.asyncProperty(shapes({ minRank: 1, maxRank: 3 }), seeds, async (shape, seed) => {
        const rng = new Rng(seed);
        const x = draw(rng, shape).map(() => rng.int(3));
        const [ofMax, ofMin] = await agree(executors, (make) => [
          grad((t: Tensor) => ops.max(t))(make(x, shape)),
          grad((t: Tensor) => ops.min(t))(make(x, shape)),
        ]);
        const share = (extreme: number): number[] =>
          x.map((v) => Number(v === extreme) / x.filter((w) => w === extreme).length);
        expect(difference(ofMax!, share(Math.max(...x)))).toBeLessThan(1e-12);
        expect(difference(ofMin!, share(Math.min(...x)))).toBeLessThan(1e-12);
      }),
      { numRuns: tries(20), seed: 13 },
    );
  });

  test("what makes no sense is named", () => {
    const x = ops.zeros([2, 3], { device: executors.reference });
    expect(() => ops.sum(x, { axis: 2 })).toThrow("sum: axis 2 is outside a tensor of rank 2");
    expect(() => ops.sum(x, { axis: [0, -2] })).toThrow("sum: an axis is listed twice in [0, -2]");
    expect(() => ops.sumTo(x, [2, 2])).toThrow("sumTo: [2, 2] does not broadcast to [2, 3]");
    expect(() => ops.maskedSum(x, ops.zeros([4], { device: executors.reference }))).toThrow(/\[4\].*\[2, 3\]/);
  });
});

type Masked = (x: Tensor, mask: Tensor) => Tensor;
const overRows = { axis: 1 };
const MASKED: Record<string, Masked> = {
  "maskedSum over all": (x, m) => ops.maskedSum(x, m),
  "maskedSum over rows": (x, m) => ops.maskedSum(x, m, overRows),
  "maskedMean over all": (x, m) => ops.maskedMean(x, m),
  "maskedMean over rows": (x, m) => ops.maskedMean(x, m, overRows),
  "maskedMean over columns": (x, m) => ops.maskedMean(x, m, { axis: 0, keepdims: true }),
  "maskedMax over all": (x, m) => ops.maskedMax(x, m),
  "maskedMax over rows": (x, m) => ops.maskedMax(x, m, overRows),
  "maskedVariance over all": (x, m) => ops.maskedVariance(x, m),
  "maskedVariance over rows": (x, m) => ops.maskedVariance(x, m, { ...overRows, ddof: 1 }),
  maskedWhiten: (x, m) => ops.maskedWhiten(x, m),
  "maskedWhiten without shift": (x, m) => ops.maskedWhiten(x, m, { shiftMean: false }),
  "masked softmax": (x, m) => ops.softmax(x, { mask: m }),
  // Excluded entries are the constant −1e30, which would drown the sum below.
  "masked log-softmax": (x, m) => ops.where(m, ops.logSoftmax(x, { mask: m }), 0),
};
const POISONS = [NaN, 1e30, -1e30, Infinity, -Infinity];

describe("masks", () => {
  test.each(Object.keys(MASKED))("%s: what is excluded changes neither value nor gradient", async (name) => {
    const f = MASKED[name]!;
    await fc.assert(
      fc.asyncProperty(sizes(), sizes(), fc.constantFrom(...POISONS), seeds, async (rows, cols, poison, seed) => {
        const rng = new Rng(seed);
        const shape = [rows, cols];
        const [x, mask] = [draw(rng, shape), maskOf(rng, shape)];
        const build =
          (values: readonly number[]) =>
          (make: (v: readonly number[], s: readonly number[]) => Tensor): Tensor[] => {
            const [t, m] = [make(values, shape), make(mask, shape)];
            // A weight for each result, so that no symmetry hides a gradient.
            const weighted = (y: Tensor): Tensor => ops.sum(ops.mul(y, ops.exp(ops.sin(y))));
            return [f(t, m), grad((u: Tensor) => weighted(f(u, m)))(t)];
          };
        // Whitening divides by a deviation that may be small: its error in f32 grows with the inverse.
        const clean = await agree(executors, build(x), name.includes("Whiten") ? 2e-3 : 5e-5);
        expect(clean[1]!.every((g, i) => mask[i] !== 0 || g === 0)).toBe(true);
        const poisoned = x.map((v, i) => (mask[i] === 0 ? poison : v));
        for (const on of [executors.reference, ...executors.kernels]) {
          expect(await valuesOn(on, build(poisoned)), on.kind).toEqual(await valuesOn(on, build(x)));
        }
      }),
      { numRuns: tries(20), seed: 14 },
    );
  });

  test.each(Object.keys(MASKED))("%s: an empty mask gives exactly 0 and no gradient", async (name) => {
    const f = MASKED[name]!;
    for (const value of [1, ...POISONS]) {
      for (const on of [executors.reference, ...executors.kernels]) {
        const results = await valuesOn(on, (make) => {
          const [t, m] = [make(new Array(6).fill(value), [2, 3]), make(new Array(6).fill(0), [2, 3])];
          return [f(t, m), grad((u: Tensor) => ops.sum(f(u, m)))(t)];
        });
        expect(
          results.flat().filter((v) => v !== 0),
          `${on.kind}, ${value}`,
        ).toEqual([]);
      }
    }
  });

  test("a mask is a set: shuffled together with the values, it gives the same", async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 40 }), seeds, async (n, seed) => {
        const rng = new Rng(seed);
        const [x, mask] = [draw(rng, [n]), maskOf(rng, [n])];
        const order = rng.shuffle(x.map((_, i) => i));
        const run = (permuted: boolean): Promise<number[][]> =>
          agree(executors, (make) => {
            const place = (v: readonly number[]): number[] => (permuted ? order.map((i) => v[i]!) : [...v]);
            const [t, m] = [make(place(x), [n]), make(place(mask), [n])];
            return [ops.maskedSum(t, m), ops.maskedMean(t, m), ops.maskedMax(t, m), ops.maskedVariance(t, m)];
          });
        const [straight, shuffled] = [await run(false), await run(true)];
        straight.forEach((y, k) => expect(difference(shuffled[k]!, y)).toBeLessThan(1e-12));
        const included = x.filter((_, i) => mask[i] !== 0);
        expect(straight[0]![0]).toBeCloseTo(
          included.reduce((a, b) => a + b, 0),
          10,
        );
        expect(straight[2]![0]).toBe(included.length === 0 ? 0 : Math.max(...included));
      }),
      { numRuns: tries(30), seed: 15 },
    );
  });
});

test("a mask excludes over no axis, too", async () => {
  for (const on of [executors.reference, ...executors.kernels]) {
    const [x, m] = [ops.tensor([1, NaN, 3], { device: on }), ops.tensor([1, 0, 1], { device: on })];
    for (const masked of [ops.maskedSum, ops.maskedMean, ops.maskedMax])
      expect([...(await masked(x, m, { axis: [] }).read())], on.kind).toEqual([1, 0, 3]);
  }
});
