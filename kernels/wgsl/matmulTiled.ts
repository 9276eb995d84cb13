/**
 * Matrix products through workgroup memory, for GPUs: 256 threads share a 64×16 tile of A and a 16×64 tile of B and
 * keep 4×4 sums each (the register-blocked scheme of Boehm's "How to optimize a CUDA matmul kernel", 2022). `half`:
 * tiles and products in f16, sums in f32. The naive product, for comparison, and the sum of the parts of a split
 * product are here, too.
 */
import { type AdapterProfile, type Program, type Uniform, type WgslKernel, single, u32 } from "../kernel.ts";
import type { MatmulSpec } from "../specs.ts";
import {
  activationFunction,
  biasBinding,
  bufferCount,
  epilogueKey,
  orderKey,
  sizes,
  storedBy,
  storeFunction,
  tileCount,
  tilePlace,
} from "./matmulCommon.ts";
import { type Bindings, independentThreads, vectorType } from "./rows.ts";
import { each, type ElementType, gridFor, linearMain, shader } from "./shader.ts";

/** One thread per element of C. */
export function matmulNaive(spec: MatmulSpec, profile: AdapterProfile): Program<WgslKernel> {
  const threads = independentThreads(profile);
  const count = spec.batch * spec.m * spec.n;
  const bias: Bindings = spec.bias ? { bias: "read f32" } : {};
  const kernel = shader({
    key: `matmul/naive/${orderKey(spec)}${epilogueKey(spec)}/${threads}`,
    bindings: { a: "read f32", b: "read f32", ...bias, c: "write f32" },
    params: { count: u32(count), ...sizes(spec) },
    workgroups: gridFor(count, threads),
    body: () => `${activationFunction(spec)}
${linearMain(threads, "params.count")}
  let col = i % params.n;
  let row = i / params.n % params.m;
  let batch = i / params.n / params.m;
  var sum = 0.0;
  for (var k = 0u; k < params.k; k++) {
    sum += a[batch * params.strideA + ${spec.transA ? "k * params.m + row" : "row * params.k + k"}]
      * b[batch * params.strideB + ${spec.transB ? "col * params.k + k" : "k * params.n + col"}];
  }
  let y = params.scale * sum${spec.bias ? " + bias[col]" : ""};
  c[i] = ${spec.activation === undefined ? "y" : "activation(y)"};
}`,
  });
  return single(kernel, bufferCount(spec));
}

export const TILE = 64;
const DEPTH = 16;
/**
 * The quads from one step of a tile to the next: one more than 16, so that neighbouring steps differ in their banks.
 */
const PITCH = TILE / 4 + 1;

/** The source of B of a tiled product, if that is no array of floats. */
export interface Operand {
  readonly key: string;
  /** The binding's element type. */
  readonly element: ElementType;
  readonly params: Readonly<Record<string, Uniform>>;
  /** WGSL functions, and the expression that is the element of B at row `k` and column `col`. */
  readonly functions: string;
  readonly at: string;
}

/**
 * With `splits` > 1, part s of the sum goes to its own [batch, m, n] of C, unscaled, for `combineKernel`. `operand`
 * replaces B, as the binding `w`.
 */
export function tiledKernel(spec: MatmulSpec, half: boolean, splits: number, operand?: Operand): WgslKernel {
  const { n, transA, transB } = spec;
  const vectorC = n % 4 === 0;
  const stored = storedBy(spec, splits);
  const quad = half ? "vec4h" : "vec4f";
  const atA = transA ? "k * params.m + row" : "row * params.k + k";
  const atB = transB ? "col * params.k + k" : "k * params.n + col";
  // Neighbouring threads read neighbouring memory: along the steps if the operand is contiguous there, else along the
  // tile.
  const fill = (alongSteps: boolean): string =>
    alongSteps
      ? `let step = index % ${DEPTH}u;\n      let quad = index / ${DEPTH}u;`
      : `let quad = index % 16u;\n      let step = index / 16u;`;
  return shader({
    key: `matmul/tiled${half ? "/f16" : ""}/${orderKey(spec)}${vectorC ? "/v" : ""}${epilogueKey(stored)}${
      operand === undefined ? "" : `/${operand.key}`
    }`,
    enable: half ? ["f16"] : [],
    bindings: {
      a: "read f32",
      ...(operand === undefined ? { b: "read f32" } : { w: `read ${operand.element}` }),
      ...biasBinding(stored),
      c: `write ${vectorType(n)}`,
    },
    params: { ...sizes(stored, splits), ...operand?.params },
    workgroups: gridFor(splits * tileCount(spec, TILE, TILE), 1),
    body: () => `${storeFunction(stored, vectorC)}${operand?.functions ?? ""}
var<workgroup> tileA: array<${quad}, ${DEPTH * PITCH}>; // [step][four rows]
var<workgroup> tileB: array<${quad}, ${DEPTH * PITCH}>; // [step][four columns]
fn elementA(batch: u32, row: u32, k: u32, end: u32) -> f32 {
  return select(0.0, a[batch * params.strideA + ${atA}], row < params.m && k < end);
}
fn elementB(batch: u32, k: u32, col: u32, end: u32) -> f32 {
  return select(0.0, ${operand?.at ?? `b[batch * params.strideB + ${atB}]`}, col < params.n && k < end);
}
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) index: u32) {${tilePlace(TILE, TILE)}
  if (part >= params.batch * params.splits) { return; }
  let x = index % 16u; // this thread's four columns
  let y = index / 16u; // and four rows
${each(4, (i) => `  var sum${i} = vec4f();`)}
  for (var k0 = first; k0 < end; k0 += ${DEPTH}u) {
    {
      ${fill(!transA)}
      let row = tileRow + 4u * quad;
      let k = k0 + step;
      tileA[step * ${PITCH}u + quad] = ${quad}(vec4f(${each(4, (r) => `elementA(batch, row + ${r}u, k, end)`, ", ")}));
    }
    {
      ${fill(transB)}
      let col = tileCol + 4u * quad;
      let k = k0 + step;
      tileB[step * ${PITCH}u + quad] = ${quad}(vec4f(${each(4, (c) => `elementB(batch, k, col + ${c}u, end)`, ", ")}));
    }
    workgroupBarrier();
    for (var step = 0u; step < ${DEPTH}u; step++) {
      let rows = tileA[step * ${PITCH}u + y];
      let cols = tileB[step * ${PITCH}u + x];
${each(4, (i) => `      sum${i} += ${half ? `vec4f(rows[${i}] * cols)` : `rows[${i}] * cols`};`)}
    }
    workgroupBarrier();
  }
${each(4, (i) => `  store(part, tileRow + 4u * y + ${i}u, tileCol + 4u * x, sum${i});`)}
}
`,
  });
}

/** partial [splits, batch, m, n] → C: adds the parts in order and applies the epilogue. One thread per four columns. */
export function combineKernel(spec: MatmulSpec, profile: AdapterProfile, splits: number): WgslKernel {
  const quads = Math.ceil(spec.n / 4);
  const threads = independentThreads(profile);
  const count = spec.batch * spec.m * quads;
  return shader({
    key: `matmul/combine/${vectorType(spec.n)}${epilogueKey(spec)}/${threads}`,
    bindings: { partial: "read f32", ...biasBinding(spec), c: `write ${vectorType(spec.n)}` },
    params: { count: u32(count), ...sizes(spec, splits), quads: u32(quads) },
    workgroups: gridFor(count, threads),
    body: () => `${storeFunction(spec, spec.n % 4 === 0)}
${linearMain(threads, "params.count")}
  let col = i % params.quads * 4u;
  let line = i / params.quads;
  var sum = vec4f();
  for (var part = 0u; part < params.splits; part++) {
    let at = (part * params.batch * params.m + line) * params.n + col;
    sum += vec4f(partial[at], partial[at + 1u], partial[at + 2u], partial[at + 3u]); // beyond the edge: not stored
  }
  store(line / params.m, line % params.m, col, sum);
}`,
  });
}
