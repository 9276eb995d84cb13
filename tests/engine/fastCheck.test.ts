/**
 * The arbitraries of `worldgrad/fast-check`: what they produce fits, covers what they promise, and shrinks to something
 * small.
 */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { device, type Device, matmul, mul, permute, scope, sum, Tensor, tensor } from "../../engine/index.ts";
import { broadcastShapes, sizeOf } from "../../engine/types.ts";
import * as arbitraries from "../../fastCheck.ts";
import { SPECIAL_FLOATS, type TensorData, withTensors } from "../../fastCheck.ts";

let on: Device;
beforeAll(async () => {
  on = await device("reference", { precision: "f32" });
});
afterAll(() => on.dispose());

const RUNS = 2000;
const drawn = <T>(arbitrary: fc.Arbitrary<T>): T[] => fc.sample(arbitrary, { numRuns: RUNS, seed: 1 });
/** What is left of a counterexample after shrinking, for several seeds. */
function smallest<T>(arbitrary: fc.Arbitrary<T>, holds: (value: T) => boolean): T[] {
  return [1, 2, 3, 4, 5].map((seed) => {
    const result = fc.check(fc.property(arbitrary, holds), { seed, numRuns: 1000 });
    if (!result.failed || result.counterexample === null) throw new Error("no counterexample was found");
    return result.counterexample[0];
  });
}
const toTensor = ({ shape, data, dtype }: TensorData): Tensor =>
  tensor(Float64Array.from(data), { shape, dtype, device: on });
const share = <T>(values: readonly T[], holds: (value: T) => boolean): number =>
  values.filter(holds).length / values.length;

describe("shapes", () => {
  test("have the ranks and sizes that were asked for, all of them, and ones often", () => {
    const shapes = drawn(arbitraries.shapes({ minRank: 1, maxRank: 3, maxSize: 5 }));
    expect(new Set(shapes.map((s) => s.length))).toEqual(new Set([1, 2, 3]));
    for (const rank of [1, 2, 3]) expect(share(shapes, (s) => s.length === rank)).toBeGreaterThan(0.15);
    const sizes = shapes.flat();
    expect(new Set(sizes)).toEqual(new Set([1, 2, 3, 4, 5]));
    expect(share(sizes, (n) => n === 1)).toBeGreaterThan(0.3);
    expect(share(sizes, (n) => n === 5)).toBeGreaterThan(0.08);
    expect(drawn(arbitraries.shapes()).some((s) => s.length === 0)).toBe(true);
    expect(drawn(arbitraries.shapes({ minSize: 2 })).flat()).not.toContain(1);
  });

  test("shrink to few axes and small sizes", () => {
    expect(smallest(arbitraries.shapes(), (s) => !s.some((n) => n > 2))).toEqual(Array(5).fill([3]));
    expect(smallest(arbitraries.shapes(), (s) => s.length < 3)).toEqual(Array(5).fill([1, 1, 1]));
  });

  test("that broadcast do, in every way", () => {
    const lists = drawn(arbitraries.broadcastableShapes({ count: 3, maxRank: 3 }));
    for (const list of lists) expect(broadcastShapes("test", list).length).toBeLessThanOrEqual(3);
    expect(lists.every((list) => list.length === 3)).toBe(true);
    expect(new Set(lists.flat().map((s) => s.length))).toEqual(new Set([0, 1, 2, 3]));
    const pairs = drawn(arbitraries.broadcastableShapes());
    expect(share(pairs, ([a, b]) => a.join() !== b.join())).toBeGreaterThan(0.5);
    expect(share(pairs, ([a, b]) => a.length !== b.length)).toBeGreaterThan(0.2);
    // Both grow, as in [2, 1] · [1, 3].
    const isMutual = ([a, b]: number[][]): boolean =>
      sizeOf(broadcastShapes("test", [a!, b!])) > Math.max(sizeOf(a!), sizeOf(b!));
    expect(share(pairs, isMutual)).toBeGreaterThan(0.07);
    const [least] = smallest(arbitraries.broadcastableShapes(), ([a, b]) => a.join() === b.join());
    expect(least!.flat().reduce((total, n) => total + n, 0)).toBeLessThanOrEqual(3);
  });

  test("of matrices fit each other", () => {
    const pairs = drawn(arbitraries.matmulShapes({ maxBatchRank: 2, maxSize: 4 }));
    const data = arbitraries.tensorLists(fc.constantFrom(...pairs.slice(0, 100)));
    for (const [a, b] of fc.sample(data, { numRuns: 30, seed: 2 })) {
      const product = scope(() => matmul(toTensor(a!), toTensor(b!)));
      expect(product.shape.slice(-2)).toEqual([a!.shape.at(-2), b!.shape.at(-1)]);
      product.dispose();
    }
    expect(pairs.every(([a, b]) => a.at(-1) === b.at(-2))).toBe(true);
    expect(new Set(pairs.flatMap(([a]) => a.length))).toEqual(new Set([2, 3, 4]));
    expect(drawn(arbitraries.matmulShapes()).every(([a, b]) => a.length === 2 && b.length === 2)).toBe(true);
  });

  test("permutations: all of them, and they shrink towards the identity", () => {
    const orders = drawn(arbitraries.permutations(3));
    expect(new Set(orders.map(String)).size).toBe(6);
    expect(orders.every((order) => order.toSorted((a, b) => a - b).join() === "0,1,2")).toBe(true);
    for (const order of smallest(arbitraries.permutations(4), (order) => order[3] === 3)) {
      expect(order.filter((axis) => axis !== 3)).toEqual([0, 1, 2]); // one axis has moved, the others have not
    }
    expect(drawn(arbitraries.permutations(0))[0]).toEqual([]);
    const x = tensor(new Float32Array(6), { shape: [1, 2, 3], device: on });
    const shapes = scope(() => orders.map((order) => permute(x, order).shape.join()));
    expect(new Set(shapes).size).toBe(6);
    x.dispose();
  });
});

describe("values", () => {
  test("lie in the range, away from what is avoided, and f32 holds them", () => {
    for (const options of [
      {},
      { min: 0.1, max: 0.2 },
      { min: 1000, max: 1001 },
      { min: -1e6, max: 1e12 },
      { min: -1e30, max: 1e30 },
    ]) {
      const { min, max } = { min: -3, max: 3, ...options };
      const values = drawn(arbitraries.values(options));
      expect(values.every((v) => min <= v && v <= max && Math.fround(v) === v)).toBe(true);
      // They spread: each tenth of the range has its share.
      const tenths = new Set(values.map((v) => Math.min(9, Math.floor((10 * (v - min)) / (max - min)))));
      expect(tenths.size, JSON.stringify(options)).toBe(10);
      expect(new Set(values).size).toBeGreaterThan(RUNS / 2);
    }
    const away = drawn(arbitraries.values({ avoid: [0, 1], margin: 0.25 }));
    expect(away.every((v) => Math.abs(v) >= 0.25 && Math.abs(v - 1) >= 0.25)).toBe(true);
    for (const side of [(v: number) => v < 0, (v: number) => v > 0 && v < 1, (v: number) => v > 1])
      expect(share(away, side)).toBeGreaterThan(0.03);
  });

  test("shrink to 0, or to what is next to the values that hold", () => {
    expect(smallest(arbitraries.values(), () => false)).toEqual(Array(5).fill(0));
    for (const v of smallest(arbitraries.values({ max: 9 }), (v) => v < 4.5)) expect([4.5, 5]).toContain(v);
    for (const v of smallest(arbitraries.values({ avoid: [0] }), () => false))
      expect(Math.abs(v)).toBeLessThanOrEqual(1);
  });

  test("special values come about one time in eight, each of them", () => {
    const values = drawn(arbitraries.values({ min: 1.5, max: 2, special: SPECIAL_FLOATS }));
    for (const special of SPECIAL_FLOATS)
      expect(
        values.some((v) => Object.is(v, special)),
        String(special),
      ).toBe(true);
    expect(SPECIAL_FLOATS.every((v) => Object.is(Math.fround(v), v))).toBe(true);
    const seldom = share(values, (v) => !(v >= 1.5 && v <= 2));
    expect(seldom).toBeGreaterThan(0.09);
    expect(seldom).toBeLessThan(0.16);
  });
});

describe("tensors", () => {
  test("have as many elements as their shape, of their type", () => {
    const data = fc.sample(arbitraries.tensors(arbitraries.shapes({ maxRank: 3 })), { numRuns: 300, seed: 1 });
    expect(data.every((x) => x.data.length === sizeOf(x.shape) && x.dtype === "f32")).toBe(true);
    const ids = drawn(arbitraries.tensors([2], { dtype: "i32", min: 0, max: 4, avoid: [2] })).flatMap((x) => x.data);
    expect(new Set(ids)).toEqual(new Set([0, 1, 3, 4]));
    expect(drawn(arbitraries.tensors([], { dtype: "i32", min: 5, max: 5 }))[0]!.data).toEqual([5]);
  });

  test("shrink in shape and in values", () => {
    const positive = ({ data }: TensorData): boolean => data.every((v) => v < 1);
    for (const x of smallest(arbitraries.tensors(arbitraries.shapes()), positive)) {
      expect(x.data.filter((v) => v !== 0)).toEqual([1]);
      expect([x.shape.length <= 1, x.data.at(-1)]).toEqual([true, 1]); // nothing behind the element that matters
    }
  });

  test("lists have shapes that belong together", () => {
    const lists = fc.sample(arbitraries.tensorLists(arbitraries.broadcastableShapes()), { numRuns: 200, seed: 1 });
    for (const [a, b] of lists) expect(() => broadcastShapes("test", [a!.shape, b!.shape])).not.toThrow();
  });
});

describe("withTensors", () => {
  const data = {
    x: { shape: [2], dtype: "f32", data: [1, 2] },
    rest: [{ shape: [1], dtype: "i32", data: [3] }],
  } as const;

  test("makes tensors in the structure of the data, and frees them and what is made of them", async () => {
    const before = on.backend.stats().liveBuffers;
    const seen: Tensor[] = [];
    const total = await withTensors(
      data,
      async ({ x, rest: [id] }) => {
        expect([x.dtype, id.dtype, x.shape]).toEqual(["f32", "i32", [2]]);
        seen.push(x, id, mul(x, 2));
        return sum(seen[2]!).item();
      },
      on,
    );
    expect(total).toBe(6);
    expect(seen.every((x) => x.disposed)).toBe(true);
    await expect(
      withTensors(data, async ({ x }) => Promise.reject(new Error(`later ${sum(x).rank}`)), on),
    ).rejects.toThrow("later 0");
    const atOnce = withTensors(data, ({ x }) => sum(mul(x, tensor([1, 2, 3], { device: on }))), on);
    await expect(atOnce).rejects.toThrow("do not broadcast");
    expect(on.backend.stats().liveBuffers).toBe(before);
  });

  test("floats become the device's float type", async () => {
    const f64 = await device("reference");
    expect(await withTensors(data, ({ x }) => x.dtype, f64)).toBe("f64");
    f64.dispose();
  });
});

test("options that cannot be met have one clear error", () => {
  const { shapes, values, sizes, tensors, matmulShapes, broadcastableShapes, permutations } = arbitraries;
  expect(() => shapes({ minRank: 3, maxRank: 2 })).toThrow(
    "shapes: expected whole numbers 0 ≤ minRank ≤ maxRank, got 3 and 2",
  );
  expect(() => sizes({ minSize: 0 })).toThrow("sizes: expected whole numbers 1 ≤ minSize ≤ maxSize, got 0 and 7");
  expect(() => shapes({ rank: 3 } as object)).toThrow("shapes: unknown option 'rank'");
  expect(() => matmulShapes({ batch: 1 } as object)).toThrow("matmulShapes: unknown option 'batch'");
  expect(() => broadcastableShapes({ count: 0 })).toThrow("broadcastableShapes: expected whole numbers 1 ≤ minCount");
  expect(() => permutations(1.5)).toThrow("permutations: expected whole numbers");
  expect(() => values({ min: 2, max: 1 })).toThrow(
    "values: expected finite min < max and margin ≥ 0, got 2, 1 and 0.1",
  );
  expect(() => values({ min: -0.05, max: 0.05, avoid: [0] })).toThrow(
    "no number from -0.05 to 0.05 is 0.1 away from 0",
  );
  expect(() => tensors([2], { dtype: "i32", min: 1, max: 1, avoid: [1] })).toThrow("no number from 1 to 1 is 0.1 away");
  expect(() => tensors([2], { dtype: "f16" } as object)).toThrow('tensors: dtype must be "f32" or "i32", got "f16"');
  expect(() => tensors([2], { low: 1 } as object)).toThrow("tensors: unknown option 'low'");
});
