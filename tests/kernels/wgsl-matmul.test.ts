/**
 * The WGSL matmul ladder (naive, direct, tiled, split) against a triple loop in f64: every flag, ragged sizes, epilogues.
 * Sizes are tiny because the adapter may be a CPU; the choices between the versions follow from shapes, so each is reached.
 */
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { type Expr, input } from "../../kernels/expr.ts";
import type { AdapterProfile } from "../../kernels/kernel.ts";
import type { MatmulSpec } from "../../kernels/specs.ts";
import { matmul, matmulNaive } from "../../kernels/wgsl/matmul.ts";
import { operands, plain, reference } from "./matmul-reference.ts";
import { expectClose, runWgsl } from "./wgsl-harness.ts";

// The first compilation of a shader by Mesa takes up to a second; the arithmetic takes none.
vi.setConfig({ testTimeout: 60_000 });

const software: AdapterProfile = { schedule: "software" };
const gpu: AdapterProfile = { schedule: "gpu" };
async function verify(
  partial: Partial<MatmulSpec>,
  profile: AdapterProfile,
  seed = 1,
  generator: typeof matmul = matmul,
): Promise<void> {
  const spec = { ...plain, ...partial };
  const inputs = operands(spec, seed);
  const [c] = await runWgsl(generator(spec, profile), inputs, [spec.batch * spec.m * spec.n]);
  // Rounding of a sum of k products of normals, in units of its size √k; WGSL leaves the order of additions to the driver.
  expectClose(c!, reference(spec, inputs[0]!, inputs[1]!, inputs[2]), 2e-6, 1 + Math.sqrt(spec.k));
}

const silu: Expr = input(0).mul(input(0).sigmoid());
const orders = [
  { transA: false, transB: false },
  { transA: false, transB: true },
  { transA: true, transB: false },
  { transA: true, transB: true },
];

// Multiples of 4 choose the `vec4f` variants, 1 … 4 the small blocks: both must be common.
const size = fc.oneof(
  fc.integer({ min: 1, max: 38 }),
  fc.integer({ min: 1, max: 9 }).map((n) => 4 * n),
);
const anySpec = fc.record({
  batch: fc.integer({ min: 1, max: 3 }),
  m: size,
  n: size,
  k: size,
  transA: fc.boolean(),
  transB: fc.boolean(),
  batchA: fc.boolean(),
  batchB: fc.boolean(),
  scale: fc.constantFrom(1, 0.25, -2),
  bias: fc.boolean(),
  activation: fc.constantFrom(undefined, silu),
});

describe("wgsl matmul", () => {
  it("naive: agrees with the f64 loop on random shapes, flags and epilogues", async () => {
    await fc.assert(
      fc.asyncProperty(anySpec, fc.nat(1e6), (spec, seed) => verify(spec, software, seed, matmulNaive)),
      { numRuns: 20, seed: 40 },
    );
  });

  it("direct: agrees with the f64 loop on random shapes, flags and epilogues", async () => {
    await fc.assert(
      fc.asyncProperty(anySpec, fc.nat(1e6), (spec, seed) => verify(spec, software, seed)),
      { numRuns: 16, seed: 41 },
    );
  });

  for (const order of orders) {
    const name = `${order.transA ? "T" : "N"}${order.transB ? "T" : "N"}`;
    it(`direct: holds across workgroups and edges, ${name}`, async () => {
      for (const [m, n, k] of [
        [1, 1, 1],
        [1, 260, 8],
        [36, 68, 12],
        [33, 65, 5],
        [4, 12, 7],
        [16, 9, 8],
      ] as const) {
        await verify({ ...order, m, n, k }, software, 2);
      }
      await verify({ ...order, m: 8, n: 12, k: 16 }, gpu, 2); // few rows: direct on a GPU, too
    });

    it(`tiled: shares tiles between threads, ${name}`, async () => {
      // Two tiles each way, and a sum that ends within a tile.
      await verify({ ...order, m: 66, n: 65, k: 19 }, gpu, 3);
      await verify({ ...order, m: 33, n: 17, k: 1, batch: 2, batchB: false }, gpu, 4);
    });
  }

  it("tiled: applies bias and activation", async () => {
    await verify({ m: 36, n: 68, k: 17, bias: true, activation: silu, scale: 0.5 }, gpu, 5);
  });

  it("split: adds the parts of a long sum in order and applies the epilogue once", async () => {
    // 4 parts of ⌈1027/4⌉ steps, the last one shorter.
    const spec: MatmulSpec = {
      ...plain,
      transA: true,
      m: 33,
      n: 18,
      k: 1027,
      batch: 2,
      bias: true,
      activation: silu,
      scale: 0.1,
    };
    expect(matmul(spec, gpu).steps.length).toBe(2);
    await verify(spec, gpu, 6);
    await verify({ ...spec, n: 20, bias: false, activation: undefined }, gpu, 7);
  });

  it("gives the same bits every time", async () => {
    const spec: MatmulSpec = { ...plain, m: 40, n: 40, k: 40 };
    const inputs = operands(spec, 8);
    const [first] = await runWgsl(matmul(spec, software), inputs, [1600]);
    const [second] = await runWgsl(matmul(spec, software), inputs, [1600]);
    expect(second).toEqual(first);
  });

  it("compiles nothing new for a new size of the same kind", () => {
    for (const profile of [software, gpu]) {
      const keys = (m: number, n: number, k: number) =>
        matmul({ ...plain, m, n, k, scale: m }, profile).steps.map((step) => step.kernel.key);
      expect(keys(70, 65, 33)).toEqual(keys(71, 131, 7));
      expect(keys(70, 64, 32)).toEqual(keys(71, 128, 8));
    }
  });
});
