/** Counter-based random numbers: published vectors on the host, and the same bits on every executor. */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { dropout, grad, randomUniform, sum, type Tensor } from "../../engine/index.ts";
import { Rng, threefry2x32 } from "../../engine/random.ts";
import { shapes } from "../../fastCheck.ts";
import { draw, type Executors, openExecutors, seeds, valuesOn } from "../support/executors.ts";

let executors: Executors;
beforeAll(async () => {
  executors = await openExecutors();
});
afterAll(() => executors.dispose());

/**
 * Key, counter and result of threefry2x32-20 from the known-answer tests (kat_vectors) of Random123, the authors' own
 * code.
 */
const VECTORS: [key: [number, number], counter: [number, number], result: [number, number]][] = [
  [
    [0, 0],
    [0, 0],
    [0x6b200159, 0x99ba4efe],
  ],
  [
    [0xffffffff, 0xffffffff],
    [0xffffffff, 0xffffffff],
    [0x1cb996fc, 0xbb002be7],
  ],
  [
    [0x13198a2e, 0x03707344],
    [0x243f6a88, 0x85a308d3],
    [0xc4923a9c, 0x483df7a0],
  ],
];

describe("Threefry", () => {
  test.each(VECTORS)("key %j, counter %j", (key, counter, expected) => {
    expect(threefry2x32(...key, ...counter)).toEqual(expected);
  });
  test("the host's stream is the words in order; its state continues it; splitting does not advance it", () => {
    const rng = new Rng(0);
    expect([rng.bits(), rng.bits()]).toEqual([0x6b200159, 0x99ba4efe]);
    const child = rng.split("child").bits();
    const { state } = rng;
    const next = [rng.bits(), rng.bits(), rng.bits()];
    const again = new Rng(state);
    expect([again.bits(), again.bits(), again.bits()]).toEqual(next);
    expect(rng.split("child").bits()).toBe(child);
    expect(rng.split("other").bits()).not.toBe(child);
    expect(rng.split(0).bits()).not.toBe(rng.split(1).bits());
  });
  test("uniform integers are in range and reach every value; a bad range is named", () => {
    const rng = new Rng(1);
    const drawn = Array.from({ length: 400 }, () => rng.int(7));
    expect(new Set(drawn)).toEqual(new Set([0, 1, 2, 3, 4, 5, 6]));
    expect(() => rng.int(0)).toThrow("Rng.int: n must be an integer in [1, 2^32], got 0");
    expect(() => new Rng(-1)).toThrow("Rng: seed must be an integer in [0, 2^53), got -1");
    expect(() => new Rng(0.5)).toThrow("got 0.5");
  });
});

describe("on devices", () => {
  test("the first numbers are the published vector's upper 24 bits", async () => {
    for (const on of [executors.reference, ...executors.kernels]) {
      const [u] = await valuesOn(on, () => [randomUniform(new Rng(0), [2], { device: on })]);
      expect(u, on.kind).toEqual([(0x6b200159 >>> 8) * 2 ** -24, (0x99ba4efe >>> 8) * 2 ** -24]);
    }
  });
  test("randomUniform: the same bits on every executor, whatever the shape, and the host's stream", async () => {
    await fc.assert(
      fc.asyncProperty(shapes({ maxRank: 3 }), fc.maxSafeNat(), async (shape, seed) => {
        const rng = new Rng(seed);
        const host = rng.split("copy");
        const expected = draw(rng, shape).map(() => (host.bits() >>> 8) * 2 ** -24);
        for (const on of [executors.reference, ...executors.kernels]) {
          const [u] = await valuesOn(on, () => [randomUniform(rng.split("copy"), shape, { device: on })]);
          expect(u, on.kind).toEqual(expected);
        }
      }),
      { numRuns: 40, seed: 31 },
    );
  });
  test("10,000 uniform numbers look uniform", async () => {
    const [u] = await valuesOn(executors.kernels[0]!, () => [
      randomUniform(new Rng(5), [10_000], { device: executors.kernels[0]! }),
    ]);
    const counts = new Array<number>(10).fill(0);
    for (const v of u!) counts[Math.floor(10 * v)]!++;
    const chiSquare = counts.reduce((total, n) => total + (n - 1000) ** 2 / 1000, 0);
    expect(chiSquare).toBeLessThan(27.9); // the 99.9 % point with 9 degrees of freedom
  });
  test("dropout drops the same elements everywhere, in value and gradient", async () => {
    await fc.assert(
      fc.asyncProperty(
        shapes({ minRank: 1, maxRank: 3 }),
        fc.constantFrom(0.1, 0.25, 0.5, 0.9),
        seeds,
        async (shape, p, seed) => {
          const rng = new Rng(seed);
          const x = draw(rng, shape).map((v) => (v === 0 ? 1 : v));
          const kept: boolean[][] = [];
          for (const on of [executors.reference, ...executors.kernels]) {
            const [y, g] = await valuesOn(on, (make) => {
              const f = (t: Tensor): Tensor => dropout(t, p, new Rng(seed));
              const t = make(x, shape);
              return [f(t), grad((u: Tensor) => sum(f(u)))(t)];
            });
            kept.push(y!.map((v) => v !== 0));
            y!.forEach((v, i) => expect(Math.abs(v - x[i]! * g![i]!)).toBeLessThan(1e-5));
          }
          for (const other of kept) expect(other).toEqual(kept[0]);
        },
      ),
      { numRuns: 20, seed: 32 },
    );
  });
});
