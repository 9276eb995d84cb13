/**
 * The decoding kernels in WGSL: attention over a cache and drawing tokens, in both schedules, against plain loops in
 * f64.
 */
import { describe, expect, it, vi } from "vitest";
import { Rng } from "../../engine/random.ts";
import type { AdapterProfile } from "../../kernels/kernel.ts";
import { cacheAttention } from "../../kernels/wgsl/cacheAttention.ts";
import { sample } from "../../kernels/wgsl/sample.ts";
import { cacheAttentionReference, decodingCase, sampleReference, samplingCase } from "./decoding-reference.ts";
import { expectClose, normals, runWgsl } from "./wgsl-harness.ts";

// The first compilation of a shader by Mesa takes up to some seconds; the arithmetic takes none.
vi.setConfig({ testTimeout: 300_000 });

const profiles: readonly AdapterProfile[] = [{ schedule: "software" }, { schedule: "gpu" }];

describe.each(profiles)("wgsl decoding, $schedule", (profile) => {
  it.each([
    { tokens: 5, cacheRows: 3, capacity: 9, kvHeads: 2, queryHeads: 2, headDim: 8 },
    { tokens: 3, cacheRows: 2, capacity: 90, kvHeads: 1, queryHeads: 3, headDim: 7 },
    { tokens: 4, cacheRows: 2, capacity: 70, kvHeads: 1, queryHeads: 2, headDim: 8, window: 33 },
    { tokens: 1, cacheRows: 1, capacity: 1, kvHeads: 1, queryHeads: 1, headDim: 1 },
  ])("cacheAttention agrees with the f64 loop: %j", async (size) => {
    for (const seed of [1, 2, 3]) {
      const { spec, inputs } = decodingCase(size, new Rng(seed));
      const [o] = await runWgsl(cacheAttention(spec, profile), inputs, [inputs[0].length]);
      expectClose(o!, cacheAttentionReference(spec, inputs), 1e-5);
    }
  });

  it.each([1, 5, 67, 352, 1000])("sample draws what the f64 loop draws: %d tokens", async (vocab) => {
    const rows = 24;
    const inputs = samplingCase(rows, vocab, new Rng(vocab));
    const [id, logProb, plain] = await runWgsl(sample({ rows, vocab }, profile), inputs, [rows, rows, rows]);
    const ids = new Int32Array(id!.buffer);
    const expected = sampleReference(vocab, inputs);
    // Where the random number lies within rounding of the border between two tokens either may be drawn.
    expected.forEach((row, r) => expect(row.candidates).toContain(ids[r]));
    // WGSL grants exp 3 + 2|x| ULP and log 2⁻²¹: a few 1e-6.
    expectClose(
      logProb!,
      expected.map((row, r) => row.logProb(ids[r]!)),
      1e-5,
      2,
    );
    expectClose(
      plain!,
      expected.map((row, r) => row.plainLogProb(ids[r]!)),
      1e-5,
      2,
    );
  });

  it.each([NaN, Infinity])("a logit of %d is reported with its column", async (bad) => {
    const logits = normals(new Rng(1), 3 * 70);
    logits[70 + 65] = bad;
    logits[70 + 69] = NaN;
    const inputs = [logits, Float32Array.of(1, 1, 0), new Int32Array(6), new Int32Array(3)];
    const [id] = await runWgsl(sample({ rows: 3, vocab: 70 }, profile), inputs, [3, 3, 3]);
    const ids = new Int32Array(id!.buffer);
    expect(ids[1]).toBe(-1 - 65);
    expect(Math.min(ids[0]!, ids[2]!)).toBeGreaterThanOrEqual(0);
  });
});
