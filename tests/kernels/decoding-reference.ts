/** What the decoding kernels have to compute, in f64, and random problems for them. */
import { type Rng, threefry2x32 } from "../../engine/random.ts";
import type { CacheAttentionSpec } from "../../kernels/specs.ts";
import { normals } from "./wasm-harness.ts";

export type DecodingInputs = readonly [
  q: Float32Array,
  k: Float32Array,
  v: Float32Array,
  rows: Int32Array,
  positions: Int32Array,
];

/** Tokens in random rows at random positions; one in five has no row; what nobody sees is NaN or huge. */
export function decodingCase(
  size: {
    tokens: number;
    cacheRows: number;
    capacity: number;
    kvHeads: number;
    queryHeads: number;
    headDim: number;
    window?: number;
  },
  rng: Rng,
): { spec: CacheAttentionSpec; inputs: DecodingInputs } {
  const { tokens, cacheRows, capacity, kvHeads, headDim, window = 0 } = size;
  const heads = kvHeads * size.queryHeads;
  const rows = Int32Array.from({ length: tokens }, () =>
    rng.int(5) === 0 ? [-1, cacheRows][rng.int(2)]! : rng.int(cacheRows),
  );
  const positions = Int32Array.from({ length: tokens }, () => rng.int(capacity));
  const [k, v] = [0, 1].map(() => normals(rng, cacheRows * kvHeads * capacity * headDim)) as [
    Float32Array,
    Float32Array,
  ];
  for (let row = 0; row < cacheRows; row++) {
    const seen = positions.reduce((most, p, t) => (rows[t] === row ? Math.max(most, p + 1) : most), 0);
    for (let i = 0; i < kvHeads * capacity * headDim; i++) {
      if (Math.floor(i / headDim) % capacity < seen) continue;
      k[row * kvHeads * capacity * headDim + i] = v[row * kvHeads * capacity * headDim + i] = i % 2 === 0 ? NaN : 1e30;
    }
  }
  const spec = { tokens, cacheRows, capacity, heads, kvHeads, headDim, scale: 0.6, window };
  return { spec, inputs: [normals(rng, tokens * heads * headDim), k, v, rows, positions] };
}

export function cacheAttentionReference(
  spec: CacheAttentionSpec,
  [q, k, v, rows, positions]: DecodingInputs,
): number[] {
  const { tokens, cacheRows, capacity, heads, kvHeads, headDim, scale, window } = spec;
  return Array.from({ length: tokens * heads }, (_, unit) => {
    const [token, head] = [Math.floor(unit / heads), unit % heads];
    const row = rows[token]!;
    const result = new Array<number>(headDim).fill(0);
    if (row < 0 || row >= cacheRows) return result;
    const end = positions[token]! + 1;
    const first = window > 0 ? Math.max(0, end - window) : 0;
    const base = ((row * kvHeads + Math.floor((head * kvHeads) / heads)) * capacity + first) * headDim;
    const scores = Array.from({ length: end - first }, (_, j) => {
      let dot = 0;
      for (let d = 0; d < headDim; d++) dot += q[unit * headDim + d]! * k[base + j * headDim + d]!;
      return scale * dot;
    });
    const top = Math.max(...scores);
    const total = scores.reduce((sum, s) => sum + Math.exp(s - top), 0);
    scores.forEach((s, j) => {
      for (let d = 0; d < headDim; d++) result[d]! += (Math.exp(s - top) / total) * v[base + j * headDim + d]!;
    });
    return result;
  }).flat();
}

export type SamplingInputs = readonly [
  logits: Float32Array,
  invTemperature: Float32Array,
  keys: Int32Array,
  counters: Int32Array,
];

export function samplingCase(rows: number, vocab: number, rng: Rng): SamplingInputs {
  return [
    normals(rng, rows * vocab, 3),
    Float32Array.from({ length: rows }, () => [0, 1, 0.5, 1.7][rng.int(4)]!),
    Int32Array.from({ length: 2 * rows }, () => rng.bits() | 0),
    Int32Array.from({ length: rows }, () => rng.int(5000)),
  ];
}

export interface SampledRow {
  /** The token, and those that lie within rounding of it. */
  readonly candidates: readonly number[];
  readonly logProb: (id: number) => number;
  readonly plainLogProb: (id: number) => number;
}

export function sampleReference(vocab: number, [logits, invTemperature, keys, counters]: SamplingInputs): SampledRow[] {
  return Array.from(invTemperature, (scale, r) => {
    const row = Array.from(logits.subarray(r * vocab, (r + 1) * vocab));
    const top = Math.max(...row);
    const logTotal = (s: number): number => Math.log(row.reduce((sum, x) => sum + Math.exp((x - top) * s), 0));
    const plainLogProb = (id: number): number => row[id]! - top - logTotal(1);
    if (scale === 0) return { candidates: [row.indexOf(top)], logProb: plainLogProb, plainLogProb };
    const logProb = (id: number): number => (row[id]! - top) * scale - logTotal(scale);
    const uniform = (threefry2x32(keys[2 * r]!, keys[2 * r + 1]!, counters[r]!, 0)[0] >>> 8) * 2 ** -24;
    const drawnAt = (u: number): number => {
      let reached = 0;
      const id = row.findIndex((_, v) => (reached += Math.exp(logProb(v))) > u);
      return id < 0 ? vocab - 1 : id;
    };
    return { candidates: [-1e-6, 0, 1e-6].map((shift) => drawnAt(uniform + shift)), logProb, plainLogProb };
  });
}
