/**
 * What both matmul test files share: a neutral spec, the triple loop in f64 that is right by definition, and random
 * operands.
 */
import { Rng } from "../../engine/random.ts";
import { evaluator } from "../../kernels/expr.ts";
import type { MatmulSpec } from "../../kernels/specs.ts";
import { normals } from "./wasm-harness.ts";

export const plain: MatmulSpec = {
  batch: 1,
  m: 1,
  n: 1,
  k: 1,
  transA: false,
  transB: false,
  batchA: true,
  batchB: true,
  scale: 1,
  addends: [],
};

/** Every list of addends. */
export const ADDENDS: readonly MatmulSpec["addends"][] = [[], ["row"], ["whole"], ["row", "whole"], ["whole", "row"]];

/** C[b] = act(scale · op(A[b]) · op(B[b]) + addends), one element at a time. */
export function reference(
  spec: MatmulSpec,
  a: Float32Array,
  b: Float32Array,
  ...addends: Float32Array[]
): Float64Array {
  const { batch, m, n, k } = spec;
  const c = new Float64Array(batch * m * n);
  const activate = spec.activation && evaluator([spec.activation]);
  const out = [0];
  for (let z = 0; z < batch; z++) {
    const a0 = spec.batchA ? z * m * k : 0;
    const b0 = spec.batchB ? z * n * k : 0;
    for (let i = 0; i < m; i++) {
      for (let j = 0; j < n; j++) {
        let sum = 0;
        for (let p = 0; p < k; p++) {
          sum += a[a0 + (spec.transA ? p * m + i : i * k + p)]! * b[b0 + (spec.transB ? j * k + p : p * n + j)]!;
        }
        const at = (z * m + i) * n + j;
        sum *= spec.scale;
        addends.forEach((addend, d) => (sum += addend[spec.addends[d] === "row" ? j : at]!));
        activate?.([sum], out);
        c[at] = activate ? out[0]! : sum;
      }
    }
  }
  return c;
}

export function operands(spec: MatmulSpec, seed: number): Float32Array[] {
  const rng = new Rng(seed);
  const inputs = [
    normals(rng, (spec.batchA ? spec.batch : 1) * spec.m * spec.k),
    normals(rng, (spec.batchB ? spec.batch : 1) * spec.n * spec.k),
  ];
  const addends = spec.addends.map((kind) => normals(rng, kind === "row" ? spec.n : spec.batch * spec.m * spec.n));
  return [...inputs, ...addends];
}
