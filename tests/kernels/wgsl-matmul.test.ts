/**
 * The WGSL matmul ladder (naive, direct, tiled, split) against a triple loop in f64: every flag, ragged sizes,
 * epilogues. Sizes are tiny because the adapter may be a CPU; the choices between the versions follow from shapes, so
 * each is reached.
 */
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { type Expr, input } from "../../kernels/expr.ts";
import type { AdapterProfile, MatmulRung, TiledBlock } from "../../kernels/kernel.ts";
import type { MatmulSpec } from "../../kernels/specs.ts";
import * as ladder from "../../kernels/wgsl/matmul.ts";
import { chooseRung, TILED } from "../../kernels/wgsl/matmulTable.ts";
import { openWebgpu } from "../support/gpu.ts";
import { ADDENDS, operands, plain, reference } from "./matmul-reference.ts";
import { expectClose, runWgsl } from "./wgsl-harness.ts";

// The first compilation of a shader by Mesa takes up to a second; the arithmetic takes none.
vi.setConfig({ testTimeout: 300_000 });

const { matmul, matmulNaive } = ladder;
const software: AdapterProfile = { schedule: "software" };
const gpu: AdapterProfile = { schedule: "gpu" };
async function verify(
  partial: Partial<MatmulSpec>,
  profile: AdapterProfile,
  seed = 1,
  generator: typeof matmul = matmul,
  tolerance = 2e-6,
): Promise<void> {
  const spec = { ...plain, ...partial };
  const inputs = operands(spec, seed);
  const [c] = await runWgsl(generator(spec, profile), inputs, [spec.batch * spec.m * spec.n]);
  // Rounding of a sum of k products of normals, in units of its size √k; WGSL leaves the order of additions to the
  // driver.
  expectClose(c!, reference(spec, inputs[0]!, inputs[1]!, ...inputs.slice(2)), tolerance, 1 + Math.sqrt(spec.k));
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
  addends: fc.constantFrom(...ADDENDS),
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

  it("tiled: applies addends and activation", async () => {
    await verify({ m: 36, n: 68, k: 17, addends: ["row", "whole"], activation: silu, scale: 0.5 }, gpu, 5);
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
      addends: ["row", "whole"],
      activation: silu,
      scale: 0.1,
    };
    expect(matmul(spec, gpu).steps.length).toBe(2);
    await verify(spec, gpu, 6);
    await verify({ ...spec, n: 20, addends: [], activation: undefined }, gpu, 7);
  });

  const rungs = Object.entries(ladder).flatMap(([name, rung]) =>
    name === "matmul" || /^matmulTiled\d/.test(name) ? [] : [{ name, rung }],
  );
  it.each(rungs)("$name: every order, vectors and ragged edges, batches and epilogues", async ({ name, rung }) => {
    const own = await openWebgpu();
    const { profile } = own;
    own.dispose();
    const feature = name === "matmulSubgroup" ? "subgroups" : name === "matmulHalf" ? "shader-f16" : undefined;
    if (feature !== undefined && !profile.features!.includes(feature)) {
      expect(() => rung(plain, profile)).toThrow(`needs "${feature}"`);
      return;
    }
    // f16 rounds operands and products to 2⁻¹¹ each.
    const tolerance = name === "matmulHalf" ? 2e-3 : 2e-6;
    const check = (spec: Partial<MatmulSpec>, seed: number): Promise<void> =>
      verify(spec, profile, seed, rung, tolerance);
    await check({ m: 36, n: 68, k: 20, addends: ["row", "whole"], activation: silu, scale: 0.5 }, 50);
    await check({ m: 33, n: 18, k: 23, batch: 2, batchB: false, transB: true }, 51);
    await check({ m: 40, n: 20, k: 35, batch: 2, transA: true }, 52);
    await check({ m: 5, n: 7, k: 300, transA: true, transB: true, addends: ["row", "whole"] }, 53);
    await check({ m: 1, n: 1, k: 1 }, 54);
  });

  // Every way to fill a tile: in one or several turns, the last one by some of the threads, and from both ends of the
  // workgroup; with whole tiles, fours that end within a tile, and neither. NN and TT have all layouts of A and of B.
  const small: Record<string, TiledBlock> = {
    "12 threads": { rows: 4, quads: 1, across: 4, down: 3, depth: 8 },
    "8×4 sums": { rows: 8, quads: 1, across: 4, down: 2, depth: 4 },
  };
  const fours: Partial<MatmulSpec> = { m: 36, n: 20, k: 12, batch: 2, addends: ["row", "whole"] };
  const edges = [{ m: 48, n: 32, k: 16 }, fours, { m: 17, n: 15, k: 7, batch: 2, batchB: false }];
  for (const order of orders) {
    const name = `${order.transA ? "T" : "N"}${order.transB ? "T" : "N"}`;
    it(`tiled blocks: whole tiles, fours and ragged edges, with the same bits, ${name}`, async () => {
      for (const shape of order.transA === order.transB ? edges : [fours]) {
        const spec = { ...plain, ...order, ...shape };
        const inputs = operands(spec, 15);
        const expected = reference(spec, inputs[0]!, inputs[1]!, ...inputs.slice(2));
        const results: Float32Array[] = [];
        for (const block of Object.values(small).slice(0, shape === fours ? 2 : 1)) {
          const profile: AdapterProfile = { ...gpu, matmul: { kind: "tiled", block } };
          const [c] = await runWgsl(matmul(spec, profile), inputs, [expected.length]);
          expectClose(c!, expected, 2e-6, 1 + Math.sqrt(spec.k));
          results.push(c!);
        }
        for (const c of results) expect(c).toEqual(results[0]);
      }
    });
  }

  it("tiled blocks: cut the sum into parts, whole or not", async () => {
    const profile: AdapterProfile = { ...gpu, matmul: { kind: "tiled", block: small["12 threads"]!, splits: 3 } };
    await verify({ m: 12, n: 16, k: 24, addends: ["row", "whole"], activation: silu, scale: 0.5 }, profile, 16);
    await verify({ m: 12, n: 16, k: 20 }, profile, 17); // the last part is shorter than a tile
    await verify({ m: 20, n: 9, k: 2, batch: 2 }, profile, 18); // two of the parts are empty
  });

  it("tiled blocks: what lies beyond an edge makes no NaN", async () => {
    const spec = { ...plain, m: 17, n: 15, k: 7 };
    const [a, b] = operands(spec, 19) as [Float32Array, Float32Array];
    [a[a.length - 1], b[b.length - 1]] = [Infinity, NaN]; // the last row of A, the last column of B
    for (const block of Object.values(small)) {
      const profile: AdapterProfile = { ...gpu, matmul: { kind: "tiled", block } };
      const [c] = await runWgsl(matmul(spec, profile), [a, b], [spec.m * spec.n]);
      const touched = (i: number): boolean => i >= 16 * spec.n || i % spec.n === 14;
      expect([...c!].map((x) => !Number.isFinite(x))).toEqual([...c!].map((_, i) => touched(i)));
    }
  });

  // A software adapter takes seconds to compile one of these, so there each has one order and shape of the list.
  const tiledRungs = Object.entries(ladder).filter(([name]) => /^matmulTiled\d/.test(name));
  const large: Partial<MatmulSpec>[] = [
    { m: 128, n: 128, k: 32, transB: true },
    { m: 129, n: 65, k: 63, batch: 2, batchA: false, addends: ["row", "whole"], activation: silu, scale: 0.5 },
    { m: 68, n: 132, k: 20, transA: true, addends: ["row", "whole"] },
    { m: 3, n: 127, k: 64, transA: true, transB: true },
    { m: 128, n: 256, k: 64 },
    { m: 1, n: 1, k: 1 },
  ];
  it.each(tiledRungs)("%s: whole tiles, fours and ragged edges", async (name, rung) => {
    const own = await openWebgpu();
    const onGpu = own.profile.schedule === "gpu";
    own.dispose();
    const one = tiledRungs.findIndex(([other]) => other === name) % large.length;
    for (const spec of onGpu ? large : [large[one]!]) await verify(spec, gpu, 20, rung);
  });

  it("the table's choice for GPUs: large blocks where there are enough of them, parts of long sums", () => {
    const choice = (m: number, n: number, k: number): MatmulRung => chooseRung({ ...plain, m, n, k }, gpu);
    expect(choice(1024, 1024, 1024)).toEqual({ kind: "tiled", block: TILED["128x64"] });
    expect(choice(512, 512, 512)).toEqual({ kind: "tiled", block: TILED["32x32"], splits: 2 });
    expect(choice(128, 512, 2048)).toEqual({ kind: "tiled", block: TILED["32x32"], splits: 8 });
    expect(choice(33, 17, 1)).toEqual({ kind: "tiled", block: TILED["32x32"], splits: 1 });
    expect(choice(33, 16, 64)).toMatchObject({ kind: "direct" });
    // Who fills tiles in another way may have others where few large ones are.
    const small = { block: TILED["64x64"], busy: 128 };
    expect(chooseRung({ ...plain, m: 128, n: 3072, k: 1024 }, gpu, small)).toEqual({
      kind: "tiled",
      block: TILED["64x64"],
      splits: 1,
    });
    expect(chooseRung({ ...plain, m: 1024, n: 1024, k: 1024 }, gpu, small)).toEqual(choice(1024, 1024, 1024));
    // A sum of a million is made in parts, whatever the block.
    expect(choice(1024, 1024, 2 ** 20)).toMatchObject({ block: TILED["128x64"], splits: 16 });
  });

  it("tiled blocks: each of the table is in the ladder, and its tiles fit into a workgroup's memory", () => {
    expect(tiledRungs.length).toBe(Object.keys(TILED).length);
    const keys = tiledRungs.map(([, rung]) => rung({ ...plain, m: 256, n: 256, k: 256 }, gpu).steps[0]!.kernel.key);
    expect(new Set(keys).size).toBe(keys.length);
    const block: TiledBlock = { ...TILED["128x128"], depth: 20 };
    expect(() => matmul(plain, { ...gpu, matmul: { kind: "tiled", block } })).toThrow("exceed 16384");
  });

  it("the table's blocks for software adapters hold across workgroups and edges", async () => {
    for (const adapter of ["swiftshader", "llvmpipe"]) {
      const profile: AdapterProfile = { ...software, adapter };
      await verify({ m: 68, n: 72, k: 12 }, profile, 9);
      await verify({ m: 132, n: 68, k: 8, transB: true }, profile, 10);
      await verify({ m: 65, n: 132, k: 13, transA: true }, profile, 11);
    }
  });

  it("direct: splits a long sum where the profile asks for it", async () => {
    const rung = { kind: "direct", rows: 8, quads: 2, steps: 4, across: 8, down: 4, splits: 3 } as const;
    await verify({ m: 9, n: 12, k: 44, addends: ["row", "whole"], scale: 2 }, { ...software, matmul: rung }, 12);
    await verify({ m: 9, n: 10, k: 41, batch: 2, transB: true }, { ...software, matmul: rung }, 13);
    await verify({ m: 3, n: 5, k: 2, transA: true }, { ...software, matmul: rung }, 14); // two of the parts are empty
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
      expect(keys(70, 64, 32)).toEqual(keys(71, 128, 48)); // whole tiles along n and k
    }
  });
});
