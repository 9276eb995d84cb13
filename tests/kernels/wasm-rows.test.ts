/**
 * Row kernels in WebAssembly (softmax, norms, rotary, log-probabilities; forward and backward) against plain loops in
 * f64.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import type { NormSpec } from "../../kernels/specs.ts";
import { logProbs, logProbsBackward } from "../../kernels/wasm/logProbs.ts";
import { norm, normBackward } from "../../kernels/wasm/norm.ts";
import { rotary } from "../../kernels/wasm/rotary.ts";
import { softmax, softmaxBackward } from "../../kernels/wasm/softmax.ts";
import { expectClose, normals, runWasm } from "./wasm-harness.ts";
import { tries } from "../support/tries.ts";

const shape = fc.record({ rows: fc.integer({ min: 1, max: 70 }), cols: fc.integer({ min: 1, max: 70 }) });
const sum = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0);
/** Calls `each(row, offset)` and lets it return the row's results. */
const mapRows = (rows: number, cols: number, each: (row: number, at: number) => readonly number[]): number[] =>
  Array.from({ length: rows }, (_, row) => each(row, row * cols)).flat();

function softmaxReference(x: Float32Array, rows: number, cols: number, log: boolean, mask?: Float32Array): number[] {
  return mapRows(rows, cols, (_, at) => {
    const kept = Array.from({ length: cols }, (_, j) => mask === undefined || mask[at + j] !== 0);
    const top = Math.max(...kept.map((keep, j) => (keep ? x[at + j]! : -Infinity)));
    const total = sum(kept.map((keep, j) => (keep ? Math.exp(x[at + j]! - top) : 0)));
    return kept.map((keep, j) => {
      if (!keep) return log ? -1e30 : 0;
      return log ? x[at + j]! - top - Math.log(total) : Math.exp(x[at + j]! - top) / total;
    });
  });
}

describe("wasm softmax", () => {
  it("agrees with the f64 rows, with and without log and mask, forward and backward", () => {
    fc.assert(
      fc.property(shape, fc.boolean(), fc.boolean(), fc.nat(1e6), ({ rows, cols }, log, masked, seed) => {
        const rng = new Rng(seed);
        const x = normals(rng, rows * cols, 3);
        const g = normals(rng, rows * cols);
        const mask = Float32Array.from(x, () => (rng.uniform() < 0.6 ? rng.normal() || 1 : 0));
        if (masked) x.forEach((_, i) => mask[i] === 0 && (x[i] = rng.int(2) === 0 ? NaN : 1e30));
        const [y] = runWasm(softmax({ rows, cols, log, masked }), masked ? [x, mask] : [x], [rows * cols], seed);
        expectClose(y!, softmaxReference(x, rows, cols, log, masked ? mask : undefined), 1e-6);
        if (masked) g.forEach((_, i) => mask[i] === 0 && (g[i] = NaN));
        const [dx] = runWasm(softmaxBackward({ rows, cols, log }), [y!, g], [rows * cols], seed);
        const expected = mapRows(rows, cols, (_, at) => {
          const [ys, gs] = [Array.from(y!.subarray(at, at + cols)), Array.from(g.subarray(at, at + cols))];
          const kept = ys.map((v) => (log ? v > -1e29 : v !== 0));
          const total = sum(ys.map((v, j) => (kept[j] ? gs[j]! * (log ? 1 : v) : 0)));
          return ys.map((v, j) => (!kept[j] ? 0 : log ? gs[j]! - Math.exp(v) * total : v * (gs[j]! - total)));
        });
        expectClose(dx!, expected, 3e-6, 2);
      }),
      { numRuns: tries(200), seed: 31 },
    );
  });

  it("gives 0 or −1e30 where a mask leaves nothing, and stands large values", () => {
    const [y] = runWasm(
      softmax({ rows: 2, cols: 5, log: false, masked: true }),
      [normals(new Rng(1), 10), new Float32Array(10)],
      [10],
    );
    expect(y).toEqual(new Float32Array(10));
    const [z] = runWasm(
      softmax({ rows: 1, cols: 5, log: true, masked: true }),
      [new Float32Array(5).fill(NaN), new Float32Array(5)],
      [5],
    );
    expect(z).toEqual(new Float32Array(5).fill(-1e30));
    const big = Float32Array.of(1e30, 1e30, -1e30, -Infinity, 3e38, 3e38);
    const [p] = runWasm(softmax({ rows: 1, cols: 6, log: false, masked: false }), [big], [6]);
    expect(p).toEqual(Float32Array.of(0, 0, 0, 0, 0.5, 0.5));
  });

  it("propagates NaN within its row", () => {
    const x = normals(new Rng(2), 21);
    x[8] = NaN;
    const [y] = runWasm(softmax({ rows: 3, cols: 7, log: false, masked: false }), [x], [21]);
    y!.forEach((value, i) => expect(Number.isNaN(value)).toBe(i >= 7 && i < 14));
  });
});

function statistics(spec: NormSpec, x: Float32Array, at: number): { mean: number; r: number } {
  const row = Array.from(x.subarray(at, at + spec.cols));
  const mean = spec.kind === "layer" ? sum(row) / spec.cols : 0;
  return { mean, r: 1 / Math.sqrt(sum(row.map((v) => (v - mean) ** 2)) / spec.cols + spec.eps) };
}

describe("wasm norms", () => {
  it("agree with the f64 formulas, forward and backward", () => {
    const arbitrary = fc.record({
      kind: fc.constantFrom("rms" as const, "layer" as const),
      rows: fc.integer({ min: 1, max: 150 }),
      cols: fc.integer({ min: 1, max: 70 }),
      eps: fc.constantFrom(1e-5, 1e-2),
    });
    fc.assert(
      fc.property(arbitrary, fc.nat(1e6), (spec, seed) => {
        const { kind, rows, cols } = spec;
        const layer = kind === "layer";
        // A single column has no variance under layer norm: only eps keeps it finite, so the comparison is of noise.
        fc.pre(!(layer && cols === 1));
        const rng = new Rng(seed);
        const x = normals(rng, rows * cols).map((v) => v + 0.5);
        const [w, b, g] = [normals(rng, cols), normals(rng, cols), normals(rng, rows * cols)];
        const [y] = runWasm(norm(spec), layer ? [x, w, b] : [x, w], [rows * cols], seed);
        const expected = mapRows(rows, cols, (_, at) => {
          const { mean, r } = statistics(spec, x, at);
          return Array.from(w, (wj, j) => (x[at + j]! - mean) * r * wj + (layer ? b[j]! : 0));
        });
        expectClose(y!, expected, 2e-5);

        const dw = new Float64Array(cols);
        const db = new Float64Array(cols);
        const dx = mapRows(rows, cols, (_, at) => {
          const { mean, r } = statistics(spec, x, at);
          const xhat = Array.from(w, (_, j) => (x[at + j]! - mean) * r);
          const gw = Array.from(w, (wj, j) => g[at + j]! * wj);
          xhat.forEach((v, j) => ((dw[j]! += g[at + j]! * v), (db[j]! += g[at + j]!)));
          const along = sum(gw.map((v, j) => v * xhat[j]!)) / cols;
          const mean2 = layer ? sum(gw) / cols : 0;
          return gw.map((v, j) => r * (v - mean2 - xhat[j]! * along));
        });
        const sizes = layer ? [rows * cols, cols, cols] : [rows * cols, cols];
        const result = runWasm(normBackward(spec), [x, w, g], sizes, seed);
        expectClose(result[0]!, dx, 2e-4, 10); // two columns may lie close: 1/σ then amplifies the rounding
        expectClose(result[1]!, dw, 2e-5, Math.sqrt(rows));
        if (layer) expectClose(result[2]!, db, 1e-5, Math.sqrt(rows));
      }),
      { numRuns: tries(150), seed: 32 },
    );
  });

  it("of a large mean keep their digits (two passes)", () => {
    const x = Float32Array.from({ length: 64 }, (_, j) => 10000 + (j % 8));
    const [y] = runWasm(
      norm({ kind: "layer", rows: 1, cols: 64, eps: 0 }),
      [x, new Float32Array(64).fill(1), new Float32Array(64)],
      [64],
    );
    expectClose(
      y!,
      Array.from({ length: 64 }, (_, j) => ((j % 8) - 3.5) / Math.sqrt(5.25)),
      1e-6,
    );
  });
});

describe("wasm rotary", () => {
  it("rotates pairs by the table's angle, and back", () => {
    const arbitrary = fc.record({
      tokens: fc.integer({ min: 1, max: 9 }),
      heads: fc.integer({ min: 1, max: 4 }),
      headDim: fc.integer({ min: 1, max: 18 }).map((half) => 2 * half),
      tableRows: fc.integer({ min: 1, max: 30 }),
    });
    fc.assert(
      fc.property(arbitrary, fc.nat(1e6), (size, seed) => {
        const { tokens, heads, headDim, tableRows } = size;
        const half = headDim / 2;
        const rng = new Rng(seed);
        const x = normals(rng, tokens * heads * headDim);
        const positions = Int32Array.from({ length: tokens }, () => rng.int(tableRows));
        const angles = Array.from(
          { length: tableRows * half },
          (_, i) => Math.floor(i / half) / 100 ** ((i % half) / half),
        );
        const [cos, sin] = [Float32Array.from(angles, Math.cos), Float32Array.from(angles, Math.sin)];
        const y = runWasm(rotary({ ...size, inverse: false }), [x, positions, cos, sin], [x.length], seed)[0]!;
        const expected = Array.from(x, (_, i) => {
          const [d, row] = [i % headDim, i - (i % headDim)];
          const j = d % half;
          const at = positions[Math.floor(i / (heads * headDim))]! * half + j;
          const [a, b] = [x[row + j]!, x[row + j + half]!];
          return d < half ? a * cos[at]! - b * sin[at]! : b * cos[at]! + a * sin[at]!;
        });
        expectClose(y, expected, 3e-7, 2);
        const back = runWasm(rotary({ ...size, inverse: true }), [y, positions, cos, sin], [x.length], seed)[0]!;
        expectClose(back, x, 1e-6, 2);
      }),
      { numRuns: tries(100), seed: 33 },
    );
  });
});

describe("wasm log-probabilities", () => {
  const setup = (rows: number, vocab: number, seed: number, offset = 0) => {
    const rng = new Rng(seed);
    return {
      logits: normals(rng, rows * vocab, 2).map((v) => v + offset),
      targets: Int32Array.from({ length: rows }, () => rng.int(vocab)),
      invT: Float32Array.from({ length: rows }, () => 0.3 + 2 * rng.uniform()),
      gLogp: normals(rng, rows),
      gEntropy: normals(rng, rows),
    };
  };
  /** Per row: z, lse, and entropy, in f64. */
  const row = (logits: Float32Array, at: number, vocab: number, inv: number) => {
    const z = Array.from(logits.subarray(at, at + vocab), (v) => v * inv);
    const top = Math.max(...z);
    const lse = top + Math.log(sum(z.map((v) => Math.exp(v - top))));
    return { z, lse, entropy: -sum(z.map((v) => (v > -1e29 ? Math.exp(v - lse) * (v - lse) : 0))) };
  };

  it("and entropies agree with the f64 rows, forward and backward", () => {
    fc.assert(
      fc.property(shape, fc.nat(1e6), ({ rows, cols: vocab }, seed) => {
        const { logits, targets, invT, gLogp, gEntropy } = setup(rows, vocab, seed);
        const [logp, entropy, lse] = runWasm(
          logProbs({ rows, vocab }),
          [logits, targets, invT],
          [rows, rows, rows],
          seed,
        );
        const r = Array.from({ length: rows }, (_, i) => row(logits, i * vocab, vocab, invT[i]!));
        expectClose(
          logp!,
          r.map(({ z, lse }, i) => z[targets[i]!]! - lse),
          1e-6,
        );
        expectClose(
          entropy!,
          r.map((v) => v.entropy),
          2e-6,
        );
        expectClose(
          lse!,
          r.map((v) => v.lse),
          1e-6,
        );
        const inputs = [logits, targets, invT, entropy!, lse!, gLogp, gEntropy];
        const [d] = runWasm(logProbsBackward({ rows, vocab }), inputs, [rows * vocab], seed);
        const expected = r.flatMap(({ z, lse, entropy }, i) =>
          z.map((v, j) => {
            const p = Math.exp(v - lse);
            const indicator = j === targets[i] ? 1 : 0;
            return invT[i]! * (gLogp[i]! * (indicator - p) - gEntropy[i]! * p * (v - lse + entropy));
          }),
        );
        expectClose(d!, expected, 5e-6);
      }),
      { numRuns: tries(150), seed: 34 },
    );
  });

  it("keep the entropy's digits under a large common offset", () => {
    for (const offset of [0, 100, 1000, 5000]) {
      // Multiples of 1/64 stay exact in f32 next to the offset.
      const logits = setup(1, 4096, 3).logits.map((v) => Math.round(v * 64) / 64 + offset);
      const [logp, entropy] = runWasm(
        logProbs({ rows: 1, vocab: 4096 }),
        [logits, Int32Array.of(7), Float32Array.of(1)],
        [1, 1, 1],
      );
      const expected = row(logits, 0, 4096, 1);
      expectClose(entropy!, [expected.entropy], 1e-6);
      expectClose(logp!, [expected.z[7]! - expected.lse], 1e-6);
    }
  });

  it("give excluded tokens (−1e30, −∞) no weight, in value or gradient", () => {
    for (const low of [-1e30, -Infinity]) {
      const { logits, invT } = setup(1, 11, 4);
      const kept = logits.filter((_, j) => j % 3 !== 1);
      const masked = logits.map((v, j) => (j % 3 !== 1 ? v : low));
      const run = (x: Float32Array, target: number) =>
        runWasm(logProbs({ rows: 1, vocab: x.length }), [x, Int32Array.of(target), invT], [1, 1, 1]).map((y) => y[0]!);
      const [a, b] = [run(masked, 0), run(kept, 0)];
      expectClose(Float32Array.from(a), b, 1e-6);
      const one = Float32Array.of(1);
      const inputs = [masked, Int32Array.of(0), invT, Float32Array.of(a[1]!), Float32Array.of(a[2]!), one, one];
      const [d] = runWasm(logProbsBackward({ rows: 1, vocab: 11 }), inputs, [11]);
      d!.forEach((value, j) => (j % 3 === 1 ? expect(value === 0).toBe(true) : expect(value).not.toBeNaN()));
    }
  });

  it("write zeros for a row without gradients, whatever its logits hold", () => {
    const logits = normals(new Rng(5), 18);
    logits.fill(NaN, 6, 12);
    const g = Float32Array.of(1, 0, 1);
    const rest = [Float32Array.of(1, NaN, 1), Float32Array.of(1, NaN, 1), g, g];
    const inputs = [logits, Int32Array.of(1, -1, 2), Float32Array.of(1, 1, 1), ...rest];
    const [d] = runWasm(logProbsBackward({ rows: 3, vocab: 6 }), inputs, [18]);
    expect(d!.slice(6, 12)).toEqual(new Float32Array(6));
    expect(d!.every((v) => !Number.isNaN(v))).toBe(true);
  });
});
