/** The decoding kernels in WebAssembly: attention over a cache, and drawing tokens; against plain loops in f64. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Rng, threefry2x32 } from "../../engine/random.ts";
import { cacheAttention } from "../../kernels/wasm/cacheAttention.ts";
import { sample } from "../../kernels/wasm/sample.ts";
import { cacheAttentionReference, decodingCase, sampleReference, samplingCase } from "./decoding-reference.ts";
import { expectClose, normals, runWasm } from "./wasm-harness.ts";
import { tries } from "../support/tries.ts";

const sizes = fc.record({
  tokens: fc.integer({ min: 1, max: 9 }),
  cacheRows: fc.integer({ min: 1, max: 4 }),
  capacity: fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 60, max: 140 })),
  kvHeads: fc.integer({ min: 1, max: 3 }),
  queryHeads: fc.integer({ min: 1, max: 3 }),
  headDim: fc.oneof(fc.integer({ min: 1, max: 9 }), fc.constantFrom(16, 33, 48)),
  window: fc.constantFrom(0, 0, 1, 5, 64, 70),
});

describe("wasm cacheAttention", () => {
  it("agrees with the f64 loop; what lies behind a position may be anything; a token's bits are its own", () => {
    fc.assert(
      fc.property(sizes, fc.nat(1e6), (size, seed) => {
        const { spec, inputs } = decodingCase(size, new Rng(seed));
        const length = inputs[0].length;
        const [o] = runWasm(cacheAttention(spec), inputs, [length], seed);
        expectClose(o!, cacheAttentionReference(spec, inputs), 3e-6);
        // Every token alone.
        const width = spec.heads * spec.headDim;
        const [q, k, v, rows, positions] = inputs;
        for (let t = 0; t < spec.tokens; t++) {
          const own = [
            q.subarray(t * width, (t + 1) * width),
            k,
            v,
            rows.subarray(t, t + 1),
            positions.subarray(t, t + 1),
          ];
          const [alone] = runWasm(
            cacheAttention({ ...spec, tokens: 1 }),
            own.map((x) => x.slice()),
            [width],
            seed + t,
          );
          expect(alone).toEqual(o!.subarray(t * width, (t + 1) * width));
        }
      }),
      { numRuns: tries(60), seed: 12 },
    );
  });

  it("stands scores of any size, and NaN stays in its row", () => {
    const { spec, inputs } = decodingCase(
      { tokens: 4, cacheRows: 2, capacity: 70, kvHeads: 1, queryHeads: 2, headDim: 8 },
      new Rng(3),
    );
    const [q, k, v, rows, positions] = inputs;
    for (const cache of [k, v]) cache.set(normals(new Rng(4), cache.length));
    rows.set([0, 1, 0, 1]);
    positions.set([69, 69, 3, 65]);
    const large = [q.map((x) => 1e4 * x), k, v, rows, positions] as const;
    // products of 1e4 in f32
    expectClose(runWasm(cacheAttention(spec), large, [q.length])[0]!, cacheAttentionReference(spec, large), 2e-3);
    k[66 * 8] = NaN; // row 0, key 66
    const [o] = runWasm(cacheAttention(spec), inputs, [q.length]);
    o!.forEach((y, i) => expect(Number.isNaN(y)).toBe(i < 16));
  });
});

describe("wasm sample", () => {
  it("draws what the f64 loop draws, at any temperature, with its log-probabilities", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 6 }),
        fc.integer({ min: 1, max: 200 }),
        fc.nat(1e6),
        (rows, vocab, seed) => {
          const inputs = samplingCase(rows, vocab, new Rng(seed));
          const [id, logProb, plain] = runWasm(sample({ rows, vocab }), inputs, [rows, rows, rows], seed);
          const expected = sampleReference(vocab, inputs);
          const ids = new Int32Array(id!.buffer);
          // Where the random number lies within rounding of the border between two tokens either may be drawn.
          expected.forEach((row, r) => expect(row.candidates).toContain(ids[r]));
          expectClose(
            logProb!,
            expected.map((row, r) => row.logProb(ids[r]!)),
            2e-6,
            2,
          );
          expectClose(
            plain!,
            expected.map((row, r) => row.plainLogProb(ids[r]!)),
            2e-6,
            2,
          );
        },
      ),
      { numRuns: tries(300), seed: 9 },
    );
  });

  it("each token comes as often as it should: χ² over 20,000 draws", () => {
    const [rows, vocab] = [20_000, 70];
    const row = normals(new Rng(5), vocab, 2);
    const logits = Float32Array.from({ length: rows * vocab }, (_, i) => row[i % vocab]!);
    const keys = Int32Array.from({ length: 2 * rows }, (_, i) => 5 + (i % 2));
    const counters = Int32Array.from({ length: rows }, (_, r) => r);
    const scale = new Float32Array(rows).fill(0.7);
    const [id] = runWasm(sample({ rows, vocab }), [logits, scale, keys, counters], [rows, rows, rows]);
    const counts = new Array<number>(vocab).fill(0);
    new Int32Array(id!.buffer).forEach((v) => counts[v]!++);
    const weights = Array.from(row, (x) => Math.exp(0.7 * x));
    const total = weights.reduce((a, b) => a + b, 0);
    const chiSquare = counts.reduce((sum, n, v) => {
      const mean = (rows * weights[v]!) / total;
      return sum + (n - mean) ** 2 / mean;
    }, 0);
    expect(chiSquare).toBeLessThan(119.9); // the 1 − 10⁻⁴ quantile at 69 degrees of freedom
  });

  it("greedy takes the first of equals; what has no weight is never drawn", () => {
    const vocab = 6;
    const logits = Float32Array.of(1, 3, 3, 2, 0, -1e30, -1e30, 0, -1e30, -1e30, -1e30, -1e30);
    const run = (scale: number, counter: number): Int32Array => {
      const inputs = [
        logits,
        Float32Array.of(scale, scale),
        Int32Array.of(1, 2, 3, 4),
        Int32Array.of(counter, counter),
      ];
      return new Int32Array(runWasm(sample({ rows: 2, vocab }), inputs, [2, 2, 2])[0]!.buffer);
    };
    expect([...run(0, 0)]).toEqual([1, 1]);
    for (let counter = 0; counter < 200; counter++) {
      const ids = run(1, counter);
      expect(ids[0]).toBeLessThan(5);
      expect(ids[1]).toBe(1);
    }
    // The random number is the stream's: bits of Threefry, word 0 of block `counter`.
    const uniform = (threefry2x32(1, 2, 9, 0)[0] >>> 8) * 2 ** -24;
    const weights = [1, 3, 3, 2, 0].map((x) => Math.exp(x));
    const total = weights.reduce((a, b) => a + b, 0);
    let reached = 0;
    expect(run(1, 9)[0]).toBe(weights.findIndex((w) => (reached += w / total) > uniform));
  });

  it.each([NaN, Infinity, -Infinity])("a logit of %d is reported with its column", (bad) => {
    const logits = normals(new Rng(1), 3 * 9);
    logits[9 + 5] = bad;
    logits[9 + 7] = NaN;
    const [id, logProb, plain] = runWasm(
      sample({ rows: 3, vocab: 9 }),
      [logits, Float32Array.of(1, 1, 0), new Int32Array(6), new Int32Array(3)],
      [3, 3, 3],
    );
    const ids = new Int32Array(id!.buffer);
    expect(ids[1]).toBe(-1 - 5);
    expect([logProb![1], plain![1]]).toEqual([bad, bad]);
    expect(ids[0]).toBeGreaterThanOrEqual(0);
    expect(ids[2]).toBeGreaterThanOrEqual(0);
  });
});
