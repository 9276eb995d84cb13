/**
 * The WebAssembly matmul against a triple loop in f64: every flag, ragged sizes, epilogues, and the bits it promises.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Expr, input } from "../../kernels/expr.ts";
import type { MatmulSpec } from "../../kernels/specs.ts";
import { matmul } from "../../kernels/wasm/matmul.ts";
import { ADDENDS, operands, plain, reference } from "./matmul-reference.ts";
import { expectClose, runWasm } from "./wasm-harness.ts";
import { tries } from "../support/tries.ts";

function run(spec: MatmulSpec, inputs: readonly Float32Array[], seed = 0): Float32Array {
  return runWasm(matmul(spec), inputs, [spec.batch * spec.m * spec.n], seed)[0]!;
}

function verify(partial: Partial<MatmulSpec>, seed = 1, tolerance = 2e-6): void {
  const spec = { ...plain, ...partial };
  const inputs = operands(spec, seed);
  // Rounding of a sum of k products of normals, in units of its size √k.
  expectClose(
    run(spec, inputs, seed),
    reference(spec, inputs[0]!, inputs[1]!, ...inputs.slice(2)),
    tolerance,
    1 + Math.sqrt(spec.k),
  );
}

const silu: Expr = input(0).mul(input(0).sigmoid());
const activations: (Expr | undefined)[] = [undefined, silu, input(0).tanh(), input(0).square().add(1)];

describe("wasm matmul", () => {
  it("agrees with the f64 loop on random shapes, flags and epilogues", () => {
    const size = fc.integer({ min: 1, max: 40 });
    const shape = fc.record({
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
      activation: fc.constantFrom(...activations),
    });
    fc.assert(
      fc.property(shape, fc.nat(1e6), (spec, seed) => verify(spec, seed)),
      { numRuns: tries(300), seed: 20 },
    );
  });

  const flags = [
    { transA: false, transB: false },
    { transA: true, transB: false },
    { transA: false, transB: true },
    { transA: true, transB: true },
  ];
  it.each(flags)("a k beyond the longest chain is summed in blocks, ragged and with everything: %o", (flag) => {
    const [rounded, k] = [1e-5, 65536 + 518]; // of chains of 65,536 additions
    const all = { ...flag, batch: 2, k, scale: 0.5, activation: silu };
    verify({ ...all, m: 3, n: 9, addends: ["row", "whole"] }, 1, rounded);
    verify({ ...all, m: 17, n: 6 }, 1, rounded);
    verify({ ...flag, m: 1, n: 1, k: 2 * 65536 }, 1, rounded);
  });

  const shapes = [
    [1, 512, 128],
    [1, 65, 257],
    [64, 65, 128],
    [65, 64, 33],
    [66, 67, 63],
    [129, 131, 300],
    [257, 65, 70],
    [260, 260, 260],
    [3, 1030, 5],
    [1030, 3, 5],
    [300, 1, 64],
    [1, 1, 4099],
    [130, 528, 515],
  ] as const;
  for (const { transA, transB } of flags) {
    it(`holds on larger odd shapes, ${transA ? "T" : "N"}${transB ? "T" : "N"}`, () => {
      for (const [m, n, k] of shapes) verify({ m, n, k, transA, transB, addends: ["row", "whole"] });
      verify({ batch: 3, m: 70, n: 129, k: 96, transA, transB, batchA: false });
      verify({ batch: 3, m: 70, n: 129, k: 96, transA, transB, batchB: false, activation: silu });
    });
  }

  it("gives a row the same bits whatever other rows stand beside it", () => {
    for (const transB of [false, true]) {
      for (const [n, k] of [
        [65, 128],
        [512, 131],
        [7, 1000],
        [260, 520],
      ] as const) {
        const spec: MatmulSpec = { ...plain, m: 300, n, k, transB, addends: ["row", "whole"], activation: silu };
        const [a, b, bias, residual] = operands(spec, 5) as [Float32Array, Float32Array, Float32Array, Float32Array];
        const all = run(spec, [a, b, bias, residual]);
        for (const [from, rows] of [
          [0, 1],
          [299, 1],
          [64, 3],
          [17, 40],
        ] as const) {
          const part = (x: Float32Array, width: number): Float32Array => x.slice(from * width, (from + rows) * width);
          const some = run({ ...spec, m: rows }, [part(a, k), b, bias, part(residual, n)]);
          expect(some).toEqual(all.slice(from * n, (from + rows) * n));
        }
      }
    }
  });

  it("gives the same bits for every partition of its units", () => {
    const spec: MatmulSpec = { ...plain, batch: 2, m: 130, n: 139, k: 77 };
    const inputs = operands(spec, 6);
    const first = run(spec, inputs, 0);
    for (let seed = 1; seed < 6; seed++) expect(run(spec, inputs, seed)).toEqual(first);
  });

  it("propagates NaN and infinity to their own row and column only", () => {
    for (const { transA, transB } of flags) {
      const spec: MatmulSpec = { ...plain, m: 9, n: 22, k: 13, transA, transB };
      const [a, b] = operands(spec, 7) as [Float32Array, Float32Array];
      a[transA ? 5 * 9 + 3 : 3 * 13 + 5] = NaN;
      b[transB ? 20 * 13 + 2 : 2 * 22 + 20] = Infinity;
      const c = run(spec, [a, b]);
      for (let i = 0; i < 9; i++) {
        for (let j = 0; j < 22; j++) {
          const value = c[i * 22 + j]!;
          if (i === 3) expect(value).toBeNaN();
          else expect(Math.abs(value) === Infinity).toBe(j === 20);
        }
      }
    }
  });

  it("compiles nothing new for a new size of the same kind", () => {
    const keys = (m: number, n: number, k: number) =>
      matmul({ ...plain, m, n, k, scale: m }).steps.map((step) => step.kernel.key);
    expect(keys(70, 65, 33)).toEqual(keys(71, 130, 7));
  });
});
