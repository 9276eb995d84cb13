/**
 * WGSL row kernels (softmax, norms, rotary, log-probabilities; forward and backward) against plain loops in f64, in
 * both frames: a thread per row (`software`) and several threads per row (`gpu`, from 32 columns on).
 */
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { Rng } from "../../engine/random.ts";
import type { AdapterProfile } from "../../kernels/kernel.ts";
import type { NormSpec } from "../../kernels/specs.ts";
import { logProbs, logProbsBackward } from "../../kernels/wgsl/logProbs.ts";
import { norm, normBackward } from "../../kernels/wgsl/norm.ts";
import { rotary } from "../../kernels/wgsl/rotary.ts";
import { softmax, softmaxBackward } from "../../kernels/wgsl/softmax.ts";
import { expectClose, normals, runWgsl } from "./wgsl-harness.ts";

// The first compilation of a shader by Mesa takes up to a second; the arithmetic takes none.
vi.setConfig({ testTimeout: 300_000 });

const software: AdapterProfile = { schedule: "software" };
const gpu: AdapterProfile = { schedule: "gpu" };
/**
 * Shapes for the frame with several threads per row: less than a workgroup, more, and no multiple of 4 or of 64;
 * several rows in a workgroup, of which the last has no more than one; and workgroups of 256.
 */
const gpuShapes = [
  { rows: 3, cols: 37 },
  { rows: 2, cols: 400 },
  { rows: 9, cols: 32 },
  { rows: 1, cols: 64 },
  { rows: 2, cols: 1029 },
] as const;

const anyShape = fc.record({
  rows: fc.integer({ min: 1, max: 40 }),
  cols: fc.oneof(
    fc.integer({ min: 1, max: 70 }),
    fc.integer({ min: 1, max: 17 }).map((n) => 4 * n),
  ),
});
const sum = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0);
const mapRows = (rows: number, cols: number, each: (row: number, at: number) => readonly number[]): number[] =>
  Array.from({ length: rows }, (_, row) => each(row, row * cols)).flat();

interface Shape {
  readonly rows: number;
  readonly cols: number;
}

function softmaxReference(x: Float32Array, { rows, cols }: Shape, log: boolean, mask?: Float32Array): number[] {
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

async function verifySoftmax(
  shape: Shape,
  log: boolean,
  masked: boolean,
  seed: number,
  profile: AdapterProfile,
): Promise<void> {
  const { rows, cols } = shape;
  const rng = new Rng(seed);
  const x = normals(rng, rows * cols, 3);
  const g = normals(rng, rows * cols);
  const mask = Float32Array.from(x, () => (rng.uniform() < 0.6 ? 1 : 0));
  // What stands in an excluded place may be anything.
  if (masked) mask.forEach((keep, i) => keep === 0 && ((x[i] = [NaN, 1e30, -1e30][i % 3]!), (g[i] = x[i]!)));
  const [y] = await runWgsl(softmax({ rows, cols, log, masked }, profile), masked ? [x, mask] : [x], [rows * cols]);
  // WGSL grants exp 3 + 2|x| ULP and log 2⁻²¹: a few 1e-6.
  expectClose(y!, softmaxReference(x, shape, log, masked ? mask : undefined), 1e-5);
  const [dx] = await runWgsl(softmaxBackward({ rows, cols, log }, profile), [y!, g], [rows * cols]);
  const expected = mapRows(rows, cols, (_, at) => {
    const [ys, gs] = [Array.from(y!.subarray(at, at + cols)), Array.from(g.subarray(at, at + cols))];
    const kept = ys.map((v) => (log ? v > -1e29 : v > 0));
    const total = sum(ys.map((v, j) => (kept[j] ? gs[j]! * (log ? 1 : v) : 0)));
    return ys.map((v, j) => (!kept[j] ? 0 : log ? gs[j]! - Math.exp(v) * total : v * (gs[j]! - total)));
  });
  expectClose(dx!, expected, 1e-5, 2);
}

describe("wgsl softmax", () => {
  it("agrees with the f64 rows, with and without log and mask, forward and backward", async () => {
    await fc.assert(
      fc.asyncProperty(anyShape, fc.boolean(), fc.boolean(), fc.nat(1e6), (shape, log, masked, seed) =>
        verifySoftmax(shape, log, masked, seed, software),
      ),
      { numRuns: 40, seed: 60 },
    );
  });

  it("holds with several threads per row", async () => {
    for (const shape of gpuShapes) {
      for (const log of [false, true]) await verifySoftmax(shape, log, !log, 61, gpu);
    }
    await verifySoftmax({ rows: 5, cols: 37 }, true, true, 62, gpu);
    await verifySoftmax({ rows: 70, cols: 9 }, false, false, 63, gpu); // short rows: a thread each
  });

  it("gives 0 or −1e30 where a mask leaves nothing, and stands large values", async () => {
    for (const profile of [software, gpu]) {
      for (const cols of [5, 40]) {
        const [x, nothing] = [new Float32Array(cols).fill(NaN), new Float32Array(cols)];
        const run = (log: boolean) =>
          runWgsl(softmax({ rows: 1, cols, log, masked: true }, profile), [x, nothing], [cols]);
        expect(await run(false)).toEqual([new Float32Array(cols)]);
        expect(await run(true)).toEqual([new Float32Array(cols).fill(-1e30)]);
      }
    }
    const big = Float32Array.of(1e30, 1e30, -1e30, -1e30, -1e30, -1e30, 5, -1e30);
    const [p] = await runWgsl(softmax({ rows: 2, cols: 4, log: false, masked: false }, software), [big], [8]);
    expect(p).toEqual(Float32Array.of(0.5, 0.5, 0, 0, 0, 0, 1, 0));
  });
});

/** mean (0 for rms) and 1/σ of the row at `at`. */
function statistics(spec: NormSpec, x: Float32Array, at: number): { mean: number; r: number } {
  const row = Array.from(x.subarray(at, at + spec.cols));
  const mean = spec.kind === "layer" ? sum(row) / spec.cols : 0;
  return { mean, r: 1 / Math.sqrt(sum(row.map((v) => (v - mean) ** 2)) / spec.cols + spec.eps) };
}

async function verifyNorm(spec: NormSpec, seed: number, profile: AdapterProfile): Promise<void> {
  const { kind, rows, cols } = spec;
  const layer = kind === "layer";
  const rng = new Rng(seed);
  const x = normals(rng, rows * cols).map((v) => v + 0.5);
  const [w, b, g] = [normals(rng, cols), normals(rng, cols), normals(rng, rows * cols)];
  const [y] = await runWgsl(norm(spec, profile), layer ? [x, w, b] : [x, w], [rows * cols]);
  const dw = new Float64Array(cols);
  const db = new Float64Array(cols);
  const expected = mapRows(rows, cols, (_, at) => {
    const { mean, r } = statistics(spec, x, at);
    return Array.from(w, (wj, j) => (x[at + j]! - mean) * r * wj + (layer ? b[j]! : 0));
  });
  // Two columns may lie close together: 1/σ (at most 10 by eps) then amplifies the rounding of x − mean.
  expectClose(y!, expected, 1e-5, 2);
  const dx = mapRows(rows, cols, (_, at) => {
    const { mean, r } = statistics(spec, x, at);
    const gw = Array.from(w, (wj, j) => g[at + j]! * wj);
    const normalised = Array.from(w, (_, j) => (x[at + j]! - mean) * r);
    normalised.forEach((v, j) => {
      dw[j]! += g[at + j]! * v;
      db[j]! += g[at + j]!;
    });
    const along = sum(gw.map((v, j) => v * normalised[j]!)) / cols;
    const plain = layer ? sum(gw) / cols : 0;
    return gw.map((v, j) => r * (v - plain - normalised[j]! * along));
  });
  const sizes = layer ? [rows * cols, cols, cols] : [rows * cols, cols];
  const result = await runWgsl(normBackward(spec, profile), [x, w, g], sizes);
  expectClose(result[0]!, dx, 1e-4);
  expectClose(result[1]!, dw, 1e-5, Math.sqrt(rows));
  if (layer) expectClose(result[2]!, db, 1e-5, Math.sqrt(rows));
}

describe("wgsl norms", () => {
  it("agree with the f64 formulas, forward and backward", async () => {
    await fc.assert(
      fc.asyncProperty(anyShape, fc.constantFrom("rms" as const, "layer" as const), fc.nat(1e6), (shape, kind, seed) =>
        verifyNorm({ ...shape, kind, eps: 1e-2 }, seed, software),
      ),
      { numRuns: 40, seed: 64 },
    );
  });

  it.each(["rms", "layer"] as const)("hold with several threads per row: %s", async (kind) => {
    for (const shape of gpuShapes) await verifyNorm({ ...shape, kind, eps: 1e-5 }, 65, gpu);
  });

  it.each(["rms", "layer"] as const)("add column sums over several blocks of rows: %s", async (kind) => {
    await verifyNorm({ rows: 131, cols: 6, kind, eps: 1e-2 }, 66, software);
    for (const [rows, cols] of [
      [1, 8],
      [128, 1],
      [512, 70],
      [513, 132],
      [900, 8],
    ] as const) {
      await verifyNorm({ rows, cols, kind, eps: 1e-2 }, 67, gpu);
    }
  });

  it("keep NaN and ∞ in their rows", async () => {
    const [rows, cols] = [6, 64]; // four rows in a workgroup
    const x = normals(new Rng(74), rows * cols);
    x[cols + 5] = NaN;
    x[2 * cols + 63] = Infinity;
    const ones = new Float32Array(cols).fill(1);
    for (const kind of ["rms", "layer"] as const) {
      const inputs = kind === "layer" ? [x, ones, ones] : [x, ones];
      const spec = { kind, rows, cols, eps: 1e-5 };
      const run = (profile: AdapterProfile) => runWgsl(norm(spec, profile), inputs, [rows * cols]);
      const [[got], [expected]] = [await run(gpu), await run(software)];
      for (const row of [0, 3, 4, 5]) {
        const slice = (y: Float32Array): Float32Array => y.subarray(row * cols, (row + 1) * cols);
        expectClose(slice(got!), [...slice(expected!)], 1e-5, 2);
      }
    }
  });

  it("of a large mean keep their digits (two passes)", async () => {
    for (const profile of [software, gpu]) {
      const x = Float32Array.from({ length: 64 }, (_, j) => 10000 + (j % 8));
      const inputs = [x, new Float32Array(64).fill(1), new Float32Array(64)];
      const [y] = await runWgsl(norm({ kind: "layer", rows: 1, cols: 64, eps: 0 }, profile), inputs, [64]);
      expectClose(
        y!,
        Array.from({ length: 64 }, (_, j) => ((j % 8) - 3.5) / Math.sqrt(5.25)),
        1e-5,
      );
    }
  });
});

describe("wgsl rotary", () => {
  it("rotates pairs by the table's angle, and back", async () => {
    const arbitrary = fc.record({
      tokens: fc.integer({ min: 1, max: 9 }),
      heads: fc.integer({ min: 1, max: 4 }),
      headDim: fc.integer({ min: 1, max: 18 }).map((half) => 2 * half),
      tableRows: fc.integer({ min: 1, max: 30 }),
    });
    await fc.assert(
      fc.asyncProperty(arbitrary, fc.constantFrom(software, gpu), fc.nat(1e6), async (size, profile, seed) => {
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
        const [y] = await runWgsl(rotary({ ...size, inverse: false }, profile), [x, positions, cos, sin], [x.length]);
        const expected = Array.from(x, (_, i) => {
          const [d, row] = [i % headDim, i - (i % headDim)];
          const j = d % half;
          const at = positions[Math.floor(i / (heads * headDim))]! * half + j;
          const [a, b] = [x[row + j]!, x[row + j + half]!];
          return d < half ? a * cos[at]! - b * sin[at]! : b * cos[at]! + a * sin[at]!;
        });
        expectClose(y!, expected, 1e-6, 2);
        const [back] = await runWgsl(
          rotary({ ...size, inverse: true }, profile),
          [y!, positions, cos, sin],
          [x.length],
        );
        expectClose(back!, x, 1e-6, 2);
      }),
      { numRuns: 20, seed: 68 },
    );
  });
});

/** z, log Σ e^z and entropy of the row at `at`, in f64. */
function distribution(logits: Float32Array, at: number, vocab: number, invTemperature: number) {
  const z = Array.from(logits.subarray(at, at + vocab), (v) => v * invTemperature);
  const top = Math.max(...z);
  const lse = top + Math.log(sum(z.map((v) => Math.exp(v - top))));
  return { z, lse, entropy: -sum(z.map((v) => (v > -1e29 ? Math.exp(v - lse) * (v - lse) : 0))) };
}

async function verifyLogProbs({ rows, cols: vocab }: Shape, seed: number, profile: AdapterProfile): Promise<void> {
  const rng = new Rng(seed);
  const logits = normals(rng, rows * vocab, 2);
  const targets = Int32Array.from({ length: rows }, () => rng.int(vocab));
  const invTemperature = Float32Array.from({ length: rows }, () => 0.3 + 2 * rng.uniform());
  const [gLogp, gEntropy] = [normals(rng, rows), normals(rng, rows)];
  const forward = logProbs({ rows, vocab }, profile);
  const [logp, entropy, lse] = await runWgsl(forward, [logits, targets, invTemperature], [rows, rows, rows]);
  const row = Array.from({ length: rows }, (_, i) => distribution(logits, i * vocab, vocab, invTemperature[i]!));
  expectClose(
    logp!,
    row.map(({ z, lse }, i) => z[targets[i]!]! - lse),
    1e-5,
  );
  expectClose(
    entropy!,
    row.map((r) => r.entropy),
    1e-5,
  );
  expectClose(
    lse!,
    row.map((r) => r.lse),
    1e-5,
  );
  const inputs = [logits, targets, invTemperature, entropy!, lse!, gLogp, gEntropy];
  const [dlogits] = await runWgsl(logProbsBackward({ rows, vocab }, profile), inputs, [rows * vocab]);
  const expected = row.flatMap(({ z, lse, entropy }, i) =>
    z.map((v, j) => {
      const p = Math.exp(v - lse);
      const hit = j === targets[i] ? 1 : 0;
      return invTemperature[i]! * (gLogp[i]! * (hit - p) - gEntropy[i]! * p * (v - lse + entropy));
    }),
  );
  expectClose(dlogits!, expected, 1e-5, 2);
}

describe("wgsl log-probabilities", () => {
  it("and entropies agree with the f64 rows, forward and backward", async () => {
    await fc.assert(
      fc.asyncProperty(anyShape, fc.nat(1e6), (shape, seed) => verifyLogProbs(shape, seed, software)),
      { numRuns: 25, seed: 69 },
    );
  });

  it("hold with several threads per row", async () => {
    for (const shape of gpuShapes) await verifyLogProbs(shape, 70, gpu);
  });

  it("keep the entropy's digits under a large common offset", async () => {
    for (const offset of [0, 100, 1000, 5000]) {
      // Multiples of 1/64 stay exact in f32 next to the offset.
      const logits = normals(new Rng(71), 2048, 2).map((v) => Math.round(v * 64) / 64 + offset);
      const inputs = [logits, Int32Array.of(7), Float32Array.of(1)];
      const [logp, entropy] = await runWgsl(logProbs({ rows: 1, vocab: 2048 }, software), inputs, [1, 1, 1]);
      const expected = distribution(logits, 0, 2048, 1);
      // A thread adds 512 terms one after another: a few 1e-6. Without centring it is 1e-3 at 5000.
      expectClose(entropy!, [expected.entropy], 1e-5);
      expectClose(logp!, [expected.z[7]! - expected.lse], 1e-5);
    }
  });

  it("give excluded tokens (−1e30) no weight, in value or gradient", async () => {
    for (const profile of [software, gpu]) {
      const rng = new Rng(72);
      const logits = normals(rng, 44, 2);
      const kept = logits.filter((_, j) => j % 3 !== 1);
      const masked = logits.map((v, j) => (j % 3 !== 1 ? v : -1e30));
      const run = (x: Float32Array) =>
        runWgsl(
          logProbs({ rows: 1, vocab: x.length }, profile),
          [x, Int32Array.of(0), Float32Array.of(0.7)],
          [1, 1, 1],
        );
      const [a, b] = [await run(masked), await run(kept)];
      a.forEach((value, i) => expectClose(value, b[i]!, 1e-5));
      const one = Float32Array.of(1);
      const inputs = [masked, Int32Array.of(0), Float32Array.of(0.7), a[1]!, a[2]!, one, one];
      const [d] = await runWgsl(logProbsBackward({ rows: 1, vocab: 44 }, profile), inputs, [44]);
      d!.forEach((value, j) =>
        j % 3 === 1 ? expect(value === 0).toBe(true) : expect(Number.isFinite(value)).toBe(true),
      );
    }
  });

  it("write zeros for a row without gradients, whatever its logits hold", async () => {
    for (const profile of [software, gpu]) {
      for (const vocab of [8, 64]) {
        const logits = normals(new Rng(73), 3 * vocab);
        logits.fill(NaN, vocab, 2 * vocab);
        const [g, statistic] = [Float32Array.of(1, 0, 1), Float32Array.of(1, NaN, 1)];
        const inputs = [logits, Int32Array.of(1, -1, 2), Float32Array.of(1, 1, 1), statistic, statistic, g, g];
        const [d] = await runWgsl(logProbsBackward({ rows: 3, vocab }, profile), inputs, [3 * vocab]);
        expect(d!.slice(vocab, 2 * vocab)).toEqual(new Float32Array(vocab));
        expect(d!.every((value) => Number.isFinite(value))).toBe(true);
      }
    }
  });
});
