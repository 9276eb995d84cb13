/**
 * The WebAssembly attention against a score matrix in f64, forward and backward: masks, grouped heads, poisoned unseen
 * rows.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import type { AttentionSpec } from "../../kernels/specs.ts";
import { attention } from "../../kernels/wasm/attention.ts";
import { attentionBackward } from "../../kernels/wasm/attentionBackward.ts";
import { expectClose, normals, runWasm, type Values } from "./wasm-harness.ts";
import { some, tries } from "../support/tries.ts";

const plain: AttentionSpec = {
  batch: 1,
  queries: 4,
  keys: 4,
  heads: 1,
  kvHeads: 1,
  headDim: 4,
  scale: 0.5,
  causal: true,
  mask: "none",
  window: 0,
};

/** Whether query t of row b sees key j. */
function sees(spec: AttentionSpec, aux: Int32Array, b: number, t: number, j: number): boolean {
  const p = (spec.mask === "start" ? aux[b]! : 0) + t;
  if (spec.causal && j > p) return false;
  if (spec.window > 0 && j <= p - spec.window) return false;
  if (spec.mask !== "segments") return true;
  const own = aux[b * spec.keys + p]!;
  return own >= 0 && own === aux[b * spec.keys + j];
}

interface Result {
  o: Float64Array;
  lse: Float64Array;
  dq: Float64Array;
  dk: Float64Array;
  dv: Float64Array;
}

/** Forward and, for a gradient `g` of o, backward: one query at a time over the keys that it sees. */
function reference(spec: AttentionSpec, q: Values, k: Values, v: Values, aux: Int32Array, g: Values): Result {
  const { batch, queries: T, keys: S, heads: H, kvHeads, headDim: D, scale } = spec;
  const r: Result = {
    o: new Float64Array(q.length),
    lse: new Float64Array(batch * T * H).fill(-1e30),
    dq: new Float64Array(q.length),
    dk: new Float64Array(k.length),
    dv: new Float64Array(v.length),
  };
  for (let b = 0; b < batch; b++) {
    for (let t = 0; t < T; t++) {
      for (let h = 0; h < H; h++) {
        const row = ((b * T + t) * H + h) * D;
        const kv = Math.floor((h * kvHeads) / H);
        const seen = Array.from({ length: S }, (_, j) => j).filter((j) => sees(spec, aux, b, t, j));
        if (seen.length === 0) continue;
        const at = (j: number) => ((b * S + j) * kvHeads + kv) * D;
        const dot = (x: Values | Float64Array, y: Values, j: number) => {
          let sum = 0;
          for (let d = 0; d < D; d++) sum += x[row + d]! * y[at(j) + d]!;
          return sum;
        };
        const scores = seen.map((j) => scale * dot(q, k, j));
        const top = Math.max(...scores);
        const lse = top + Math.log(scores.reduce((sum, s) => sum + Math.exp(s - top), 0));
        r.lse[(b * T + t) * H + h] = lse;
        const p = scores.map((s) => Math.exp(s - lse));
        seen.forEach((j, i) => {
          for (let d = 0; d < D; d++) r.o[row + d]! += p[i]! * v[at(j) + d]!;
        });
        let delta = 0;
        for (let d = 0; d < D; d++) delta += r.o[row + d]! * g[row + d]!;
        seen.forEach((j, i) => {
          const ds = p[i]! * (dot(g, v, j) - delta) * scale;
          for (let d = 0; d < D; d++) {
            r.dq[row + d]! += ds * k[at(j) + d]!;
            r.dk[at(j) + d]! += ds * q[row + d]!;
            r.dv[at(j) + d]! += p[i]! * g[row + d]!;
          }
        });
      }
    }
  }
  return r;
}

interface Problem {
  spec: AttentionSpec;
  q: Float32Array;
  k: Float32Array;
  v: Float32Array;
  g: Float32Array;
  aux: Int32Array;
}

function problem(partial: Partial<AttentionSpec>, seed: number): Problem {
  const spec = { ...plain, ...partial };
  const { batch, queries, keys, heads, kvHeads, headDim } = spec;
  const rng = new Rng(seed);
  const rows = (count: number) => normals(rng, batch * count * headDim);
  const aux = new Int32Array(spec.mask === "start" ? batch : spec.mask === "segments" ? batch * keys : 0);
  if (spec.mask === "start") for (let b = 0; b < batch; b++) aux[b] = rng.int(keys + 2) - 1;
  if (spec.mask === "segments") {
    for (let b = 0; b < batch; b++) {
      let segment = 0;
      for (let j = 0; j < keys; j++) {
        if (rng.uniform() < 0.15) segment++;
        aux[b * keys + j] = rng.uniform() < 0.15 ? -1 : segment;
      }
    }
  }
  return {
    spec,
    q: rows(queries * heads),
    k: rows(keys * kvHeads),
    v: rows(keys * kvHeads),
    g: rows(queries * heads),
    aux,
  };
}

const auxInput = (p: Problem): Values[] => (p.spec.mask === "none" ? [] : [p.aux]);

function forward(p: Problem, seed = 0): [Float32Array, Float32Array] {
  const rows = p.spec.batch * p.spec.queries * p.spec.heads;
  const outputs = [rows * p.spec.headDim, rows];
  return runWasm(attention(p.spec), [p.q, p.k, p.v, ...auxInput(p)], outputs, seed) as [Float32Array, Float32Array];
}

function backward(p: Problem, o: Float32Array, lse: Float32Array, seed = 0): Float32Array[] {
  const outputs = [p.q.length, p.k.length, p.v.length];
  return runWasm(attentionBackward(p.spec), [p.q, p.k, p.v, o, lse, p.g, ...auxInput(p)], outputs, seed);
}

function verify(p: Problem, seed = 0): void {
  const expected = reference(p.spec, p.q, p.k, p.v, p.aux, p.g);
  const [o, lse] = forward(p, seed);
  expectClose(o, expected.o, 3e-6);
  expectClose(lse, expected.lse, 3e-6);
  const [dq, dk, dv] = backward(p, o, lse, seed) as [Float32Array, Float32Array, Float32Array];
  const scale = 2 + Math.sqrt(p.spec.headDim);
  expectClose(dq, expected.dq, 5e-6, scale);
  expectClose(dk, expected.dk, 5e-6, scale);
  expectClose(dv, expected.dv, 5e-6, scale);
}

const masks = ["none", "start", "segments"] as const;

describe("wasm attention", () => {
  it("agrees with the f64 score matrix on random problems", () => {
    const arbitrary = fc.record({
      batch: fc.integer({ min: 1, max: 3 }),
      queries: fc.integer({ min: 1, max: 23 }),
      keys: fc.integer({ min: 1, max: 23 }),
      kvHeads: fc.integer({ min: 1, max: 3 }),
      group: fc.integer({ min: 1, max: 3 }),
      headDim: fc.integer({ min: 1, max: 21 }),
      scale: fc.constantFrom(0.3, 1),
      causal: fc.boolean(),
      window: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 40 })),
      mask: fc.constantFrom(...masks),
    });
    fc.assert(
      fc.property(arbitrary, fc.nat(1e6), ({ group, ...spec }, seed) => {
        const queries = spec.mask === "segments" ? spec.keys : spec.queries;
        const window = spec.causal ? spec.window : 0;
        verify(problem({ ...spec, window, queries, heads: group * spec.kvHeads }, seed), seed);
      }),
      { numRuns: tries(250), seed: 21 },
    );
  });

  it("holds over many blocks, for the head sizes of real models", () => {
    for (const mask of masks) {
      for (const headDim of some([64, 32])) {
        const size = { batch: 2, queries: 150, keys: 150, heads: 2, kvHeads: 1, headDim };
        verify(problem({ ...size, scale: 1 / Math.sqrt(headDim), mask }, 22));
        verify(problem({ ...size, scale: 1 / Math.sqrt(headDim), mask, causal: false }, 23));
        for (const window of some([33, 1, 64, 1000])) verify(problem({ ...size, scale: 0.2, mask, window }, 31));
      }
    }
  });

  it("lets a query heads' count that is no multiple of the kv heads read ⌊h·Hkv/H⌋", () => {
    verify(problem({ queries: 5, keys: 5, heads: 5, kvHeads: 3 }, 24));
  });

  it("decodes with the bits of the full forward", () => {
    const full = problem({ batch: 1, queries: 37, keys: 37, heads: 4, kvHeads: 2, headDim: 20 }, 25);
    const [o, lse] = forward(full);
    const width = 4 * 20;
    for (const t of [0, 1, 6, 35, 36]) {
      const one: Problem = { ...full, spec: { ...full.spec, queries: 1, mask: "start" }, aux: Int32Array.of(t) };
      const [o1, lse1] = forward({ ...one, q: full.q.slice(t * width, (t + 1) * width) });
      expect(o1).toEqual(o.slice(t * width, (t + 1) * width));
      expect(lse1).toEqual(lse.slice(t * 4, (t + 1) * 4));
    }
  });

  it("keeps what is not seen without influence, whatever it holds", () => {
    for (const poison of [NaN, 1e30, -Infinity]) {
      // Segments: padding rows are poisoned everywhere.
      const size = { batch: 2, queries: 30, keys: 30, heads: 2, kvHeads: 1, headDim: 7 };
      for (const causal of [true, false]) {
        const clean = problem({ ...size, mask: "segments", causal }, 26);
        const dirty: Problem = {
          ...clean,
          q: clean.q.slice(),
          k: clean.k.slice(),
          v: clean.v.slice(),
          g: clean.g.slice(),
        };
        for (let row = 0; row < 60; row++) {
          if (clean.aux[row]! >= 0) continue;
          for (const x of [dirty.q, dirty.g]) x.fill(poison, row * 14, (row + 1) * 14);
          for (const x of [dirty.k, dirty.v]) x.fill(poison, row * 7, (row + 1) * 7);
        }
        const [o, lse] = forward(clean);
        const [o2, lse2] = forward(dirty);
        expect(o2).toEqual(o);
        expect(lse2).toEqual(lse);
        expect(backward(dirty, o2, lse2)).toEqual(backward(clean, o, lse));
      }
      // Causal: keys and values after the query; one row at a time.
      const clean = problem({ ...size }, 27);
      const [o] = forward(clean);
      for (const t of [0, 2, 3, 4, 17, 28]) {
        const dirty: Problem = { ...clean, k: clean.k.slice(), v: clean.v.slice() };
        for (const x of [dirty.k, dirty.v]) x.fill(poison, (t + 1) * 7, 30 * 7);
        expect(forward(dirty)[0].slice(0, (t + 1) * 14)).toEqual(o.slice(0, (t + 1) * 14));
      }
      // A window: keys and values before it.
      const far = problem({ ...size, window: 6 }, 32);
      const [inWindow] = forward(far);
      for (const t of [6, 7, 9, 20, 29]) {
        const dirty: Problem = { ...far, k: far.k.slice(), v: far.v.slice() };
        for (let b = 0; b < 2; b++) {
          for (const x of [dirty.k, dirty.v]) x.fill(poison, b * 30 * 7, (b * 30 + t - 5) * 7);
        }
        const rows = (o: Float32Array, b: number): Float32Array => o.slice((b * 30 + t) * 14, (b + 1) * 30 * 14);
        for (const b of [0, 1]) expect(rows(forward(dirty)[0], b)).toEqual(rows(inWindow, b));
      }
      // A KV cache: the slots beyond the last query.
      const cached = problem({ ...size, batch: 1, queries: 3, mask: "start" }, 28);
      cached.aux[0] = 10;
      const expected = forward(cached);
      for (const x of [cached.k, cached.v]) x.fill(poison, 13 * 7);
      expect(forward(cached)).toEqual(expected);
    }
  });

  it("propagates a NaN that is seen", () => {
    const p = problem({ queries: 9, keys: 9 }, 29);
    p.v[4 * 4] = NaN;
    const [o] = forward(p);
    for (let t = 0; t < 9; t++) expect(Number.isNaN(o[t * 4]!)).toBe(t >= 4);
  });

  it("stands scores far apart and large", () => {
    const p = problem({ queries: 40, keys: 40, headDim: 8, scale: 30 }, 30);
    const expected = reference(p.spec, p.q, p.k, p.v, p.aux, p.g);
    const [o, lse] = forward(p);
    expectClose(lse, expected.lse, 1e-6);
    expectClose(o, expected.o, 2e-4); // scores of ±200 carry errors of 1e-5, the probabilities with them
  });
});
