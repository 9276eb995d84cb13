/**
 * Matrix multiplication: C = act(scale · op(A)·op(B) + bias), one generator for every transpose, ragged size and epilogue.
 *
 * A ladder of three:
 * 1. `matmulNaive`: one thread per element. The yardstick.
 * 2. direct: one thread computes a block of rows × `vec4` columns in registers, straight from storage, without workgroup memory.
 *    On a software adapter 8× the naive one, and twice the tiled one, because barriers are dear there.
 * 3. tiled: 256 threads share 64×16 and 16×64 tiles in workgroup memory and keep 4×4 sums each (the register-blocked scheme of
 *    Boehm's "How to optimize a CUDA matmul kernel", 2022). For GPUs. Where the result has few tiles and the sum is long
 *    (weight gradients), the sum is split, and the parts are added in a fixed order afterwards.
 *
 * What this is not: subgroup matrices, f16, or tuned on any particular GPU.
 */
import { exprToString } from "../expr.ts";
import type { AdapterProfile, Program, Uniform, WgslKernel } from "../kernel.ts";
import { f32, single, u32 } from "../kernel.ts";
import type { MatmulSpec } from "../specs.ts";
import { emitExpression } from "./expression.ts";
import { type Bindings, independentThreads, vectorType } from "./rows.ts";
import { each, gridFor, LINEAR_GROUP, linearMain, shader } from "./shader.ts";

const bufferCount = (spec: MatmulSpec): number => (spec.bias ? 4 : 3);
const biasBinding = (spec: MatmulSpec): Bindings => (spec.bias ? { bias: `read ${vectorType(spec.n)}` } : {});

const orderKey = (spec: MatmulSpec): string => `${spec.transA ? "T" : "N"}${spec.transB ? "T" : "N"}`;
const epilogueKey = (spec: MatmulSpec): string =>
  `${spec.bias ? "/bias" : ""}${spec.activation === undefined ? "" : `/${exprToString(spec.activation)}`}`;

const sizes = (spec: MatmulSpec): Record<string, Uniform> => ({
  batch: u32(spec.batch),
  m: u32(spec.m),
  n: u32(spec.n),
  k: u32(spec.k),
  strideA: u32(spec.batchA ? spec.m * spec.k : 0),
  strideB: u32(spec.batchB ? spec.k * spec.n : 0),
  scale: f32(spec.scale),
});

function activationFunction({ activation }: MatmulSpec): string {
  if (activation === undefined) return "";
  const { functions, statements, results } = emitExpression([activation], ["x"]);
  return `${functions}
fn activation(x: f32) -> f32 {
${statements}
  return ${results[0]!};
}
`;
}

/** `store(batch, row, col, sum)`: the epilogue for four neighbouring columns, and the only place that writes C. */
function storeFunction(spec: MatmulSpec, vector: boolean): string {
  const { bias, activation } = spec;
  return `${activationFunction(spec)}
fn store(batch: u32, row: u32, col: u32, sum: vec4f) {
  if (row >= params.m || col >= params.n) { return; }
  var y = params.scale * sum;
  ${!bias ? "" : vector ? "y += bias[col / 4u];" : `y += vec4f(${each(4, (c) => `bias[min(col + ${c}u, params.n - 1u)]`, ", ")});`}
  ${activation === undefined ? "" : "y = vec4f(activation(y.x), activation(y.y), activation(y.z), activation(y.w));"}
  let at = (batch * params.m + row) * params.n + col;
  ${
    vector
      ? "c[at / 4u] = y;"
      : `c[at] = y.x;
  if (col + 1u < params.n) { c[at + 1u] = y.y; }
  if (col + 2u < params.n) { c[at + 2u] = y.z; }
  if (col + 3u < params.n) { c[at + 3u] = y.w; }`
  }
}
`;
}

/** Sets `batch`, `row` and `col` of this thread's first element from a one-dimensional grid of `tileRows`×`tileCols` tiles. */
const tilePlace = (tileRows: number, tileCols: number): string => `
  let tile = ${LINEAR_GROUP};
  let across = (params.n + ${tileCols - 1}u) / ${tileCols}u;
  let down = (params.m + ${tileRows - 1}u) / ${tileRows}u;
  let part = tile / (across * down);
  let tileRow = tile / across % down * ${tileRows}u;
  let tileCol = tile % across * ${tileCols}u;`;

const tileCount = (spec: MatmulSpec, tileRows: number, tileCols: number): number =>
  spec.batch * Math.ceil(spec.m / tileRows) * Math.ceil(spec.n / tileCols);

/** Version 1: one thread per element of C. */
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

/** How a thread of the direct kernel walks the sum, and which operands it reads by `vec4f`. */
interface Walk {
  readonly rows: number;
  readonly quadCols: number;
  readonly vectorA: boolean;
  readonly vectorB: boolean;
}

/**
 * Version 2. Where rows of A lie along the sum in fours (and B can be read in fours), it advances four steps at a time, else one,
 * by `vec4f` where an operand lies along the edge of C in fours, else by scalars. Rows and columns beyond the edge repeat the
 * last one and are not stored.
 */
function directKernel(spec: MatmulSpec, profile: AdapterProfile): WgslKernel {
  const { m, n, k, transA, transB } = spec;
  const quads = k % 4 === 0 && !transA && (transB || n % 4 === 0);
  const rows = m === 1 ? 1 : m <= 4 ? 4 : 8;
  const quadCols = n <= 4 || profile.schedule === "gpu" ? 1 : 2;
  const vectorA = quads || (transA && m % 4 === 0);
  const vectorB = quads || (!transB && n % 4 === 0);
  const vectorC = n % 4 === 0;
  const walk: Walk = { rows, quadCols, vectorA, vectorB };
  const [across, down] = rows === 1 ? [32, 1] : [8, 4]; // threads of one workgroup
  const [tileRows, tileCols] = [down * rows, across * quadCols * 4];
  const element = (vector: boolean): "vec4f" | "f32" => (vector ? "vec4f" : "f32");
  const sums = (text: (i: number, j: number) => string, separator: string): string =>
    each(rows, (i) => each(quadCols, (j) => text(i, j), separator), separator);
  return shader({
    key: `matmul/direct${rows}x${quadCols}/${orderKey(spec)}${quads ? "/quads" : ""}/${[vectorA, vectorB, vectorC].map(Number).join("")}${epilogueKey(spec)}`,
    bindings: {
      a: `read ${element(vectorA)}`,
      b: `read ${element(vectorB)}`,
      ...biasBinding(spec),
      c: `write ${element(vectorC)}`,
    },
    params: sizes(spec),
    workgroups: gridFor(tileCount(spec, tileRows, tileCols), 1),
    body: () => `${storeFunction(spec, vectorC)}
@compute @workgroup_size(${across}, ${down})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) local: vec3u) {${tilePlace(tileRows, tileCols)}
  let batch = part;
  let row = tileRow + local.y * ${rows}u;
  let col = tileCol + local.x * ${quadCols * 4}u;
  if (batch >= params.batch || row >= params.m || col >= params.n) { return; }
${sums((i, j) => `  var sum${i}_${j} = vec4f();`, "\n")}
${quads ? quadLoop(spec, walk) : stepLoop(spec, walk)}
  // A loop, and one that the compiler cannot unroll, so that the epilogue is compiled once and not 16 times.
  var sums = array<vec4f, ${rows * quadCols}>(${sums((i, j) => `sum${i}_${j}`, ", ")});
  for (var s = 0u; s < ${quadCols}u * min(${rows}u, params.m - row); s++) {
    store(batch, row + s / ${quadCols}u, col + s % ${quadCols}u * 4u, sums[s]);
  }
}
`,
  });
}

/** a_i: four steps of row i. b: one of those steps of four columns, or, where B is transposed, all four steps of one column. */
function quadLoop({ transB }: MatmulSpec, { rows, quadCols }: Walk): string {
  const placesB = transB
    ? each(
        4 * quadCols,
        (j) => `  let b${j}At = (batch * params.strideB + min(col + ${j}u, params.n - 1u) * params.k) / 4u;`,
      )
    : each(quadCols, (j) => `  let b${j}At = (batch * params.strideB + min(col + ${4 * j}u, params.n - 4u)) / 4u;`);
  const column = (j: number): string => `    let b${j} = b[b${j}At + k];
${each(rows, (i) => `    sum${i}_${Math.floor(j / 4)}[${j % 4}] += dot(a${i}, b${j});`)}`;
  const line = (
    step: number,
    j: number,
  ): string => `    let b${j}_${step} = b[b${j}At + (4u * k + ${step}u) * (params.n / 4u)];
${each(rows, (i) => `    sum${i}_${j} += a${i}[${step}] * b${j}_${step};`)}`;
  return `${each(rows, (i) => `  let a${i}At = (batch * params.strideA + min(row + ${i}u, params.m - 1u) * params.k) / 4u;`)}
${placesB}
  for (var k = 0u; k < params.k / 4u; k++) {
${each(rows, (i) => `    let a${i} = a[a${i}At + k];`)}
${transB ? each(4 * quadCols, column) : each(4, (step) => each(quadCols, (j) => line(step, j)))}
  }`;
}

/** One step of the sum at a time: the outer product of a column of A and a row of B. */
function stepLoop({ transA, transB }: MatmulSpec, { rows, quadCols, vectorA, vectorB }: Walk): string {
  const [rowPitch, stepA] = transA ? ["", " * params.m"] : [" * params.k", ""];
  const [colPitch, stepB] = transB ? [" * params.k", ""] : ["", " * params.n"];
  const placesA = vectorA
    ? each(rows / 4, (i) => `  let a${i}At = (batch * params.strideA + min(row + ${4 * i}u, params.m - 4u)) / 4u;`)
    : each(rows, (i) => `  let a${i}At = batch * params.strideA + min(row + ${i}u, params.m - 1u)${rowPitch};`);
  const loadA = vectorA
    ? each(rows / 4, (i) => `    let a${i} = a[a${i}At + k * (params.m / 4u)];`)
    : each(rows, (i) => `    let a${i} = a[a${i}At + k${stepA}];`);
  const placesB = vectorB
    ? each(quadCols, (j) => `  let b${j}At = (batch * params.strideB + min(col + ${4 * j}u, params.n - 4u)) / 4u;`)
    : each(4 * quadCols, (j) => `  let b${j}At = batch * params.strideB + min(col + ${j}u, params.n - 1u)${colPitch};`);
  const scalarsB = (j: number): string => each(4, (c) => `b[b${4 * j + c}At + k${stepB}]`, ", ");
  const loadB = vectorB
    ? each(quadCols, (j) => `    let b${j} = b[b${j}At + k * (params.n / 4u)];`)
    : each(quadCols, (j) => `    let b${j} = vec4f(${scalarsB(j)});`);
  const elementA = (i: number): string => (vectorA ? `a${Math.floor(i / 4)}[${i % 4}]` : `a${i}`);
  return `${placesA}
${placesB}
  for (var k = 0u; k < params.k; k++) {
${loadA}
${loadB}
${each(rows, (i) => each(quadCols, (j) => `    sum${i}_${j} += ${elementA(i)} * b${j};`))}
  }`;
}

const TILE = 64;
const DEPTH = 16;
/** Quads from one step of a tile to the next: 16 and one more, so that threads that fill neighbouring steps hit different banks. */
const PITCH = TILE / 4 + 1;

/** Version 3. `splits` > 1: part s of the sum goes to its own [batch, m, n] of C, unscaled, for `combine`. */
function tiledKernel(spec: MatmulSpec, splits: number): WgslKernel {
  const { n, transA, transB } = spec;
  const vectorC = n % 4 === 0;
  const raw: MatmulSpec = { ...spec, bias: false, activation: undefined };
  const stored = splits === 1 ? spec : raw;
  // Neighbouring threads read neighbouring memory: along the steps where the operand lies that way, else along the tile.
  const fill = (alongSteps: boolean): string =>
    alongSteps
      ? `let step = index % ${DEPTH}u;\n    let quad = index / ${DEPTH}u;`
      : `let quad = index % 16u;\n    let step = index / 16u;`;
  return shader({
    key: `matmul/tiled/${orderKey(spec)}${vectorC ? "/v" : ""}${splits === 1 ? epilogueKey(spec) : "/split"}`,
    bindings: { a: "read f32", b: "read f32", ...biasBinding(stored), c: `write ${vectorType(n)}` },
    params: { ...sizes(spec), ...(splits === 1 ? {} : { scale: f32(1) }), splits: u32(splits) },
    workgroups: gridFor(splits * tileCount(spec, TILE, TILE), 1),
    body: () => `${storeFunction(stored, vectorC)}
var<workgroup> tileA: array<vec4f, ${DEPTH * PITCH}>; // [step][four rows]
var<workgroup> tileB: array<vec4f, ${DEPTH * PITCH}>; // [step][four columns]
fn elementA(batch: u32, row: u32, k: u32, end: u32) -> f32 {
  return select(0.0, a[batch * params.strideA + ${transA ? "k * params.m + row" : "row * params.k + k"}], row < params.m && k < end);
}
fn elementB(batch: u32, k: u32, col: u32, end: u32) -> f32 {
  return select(0.0, b[batch * params.strideB + ${transB ? "col * params.k + k" : "k * params.n + col"}], col < params.n && k < end);
}
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) index: u32) {${tilePlace(TILE, TILE)}
  if (part >= params.batch * params.splits) { return; }
  let batch = part % params.batch;
  let span = (params.k + params.splits - 1u) / params.splits;
  let end = min((part / params.batch + 1u) * span, params.k);
  let x = index % 16u; // this thread's four columns
  let y = index / 16u; // and four rows
${each(4, (i) => `  var sum${i} = vec4f();`)}
  for (var k0 = part / params.batch * span; k0 < end; k0 += ${DEPTH}u) {
    {
      ${fill(!transA)}
      let row = tileRow + 4u * quad;
      let k = k0 + step;
      tileA[step * ${PITCH}u + quad] = vec4f(${each(4, (r) => `elementA(batch, row + ${r}u, k, end)`, ", ")});
    }
    {
      ${fill(transB)}
      let col = tileCol + 4u * quad;
      let k = k0 + step;
      tileB[step * ${PITCH}u + quad] = vec4f(${each(4, (c) => `elementB(batch, k, col + ${c}u, end)`, ", ")});
    }
    workgroupBarrier();
    for (var step = 0u; step < ${DEPTH}u; step++) {
      let rows = tileA[step * ${PITCH}u + y];
      let cols = tileB[step * ${PITCH}u + x];
${each(4, (i) => `      sum${i} += rows[${i}] * cols;`)}
    }
    workgroupBarrier();
  }
${each(4, (i) => `  store(part, tileRow + 4u * y + ${i}u, tileCol + 4u * x, sum${i});`)}
}
`,
  });
}

/** partial [splits, batch, m, n] → C: adds the parts in order and applies the epilogue. One thread per four columns. */
function combineKernel(spec: MatmulSpec, profile: AdapterProfile, splits: number): WgslKernel {
  const quads = Math.ceil(spec.n / 4);
  const threads = independentThreads(profile);
  const count = spec.batch * spec.m * quads;
  return shader({
    key: `matmul/combine/${vectorType(spec.n)}${epilogueKey(spec)}/${threads}`,
    bindings: { partial: "read f32", ...biasBinding(spec), c: `write ${vectorType(spec.n)}` },
    params: { count: u32(count), ...sizes(spec), splits: u32(splits), quads: u32(quads) },
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

/** Enough workgroups to fill a GPU, and enough steps in each part to be worth the second pass. */
function splitsFor(spec: MatmulSpec): number {
  return Math.max(1, Math.min(32, Math.floor(128 / tileCount(spec, TILE, TILE)), Math.floor(spec.k / 256)));
}

/** A, B, (bias) → C. */
export function matmul(spec: MatmulSpec, profile: AdapterProfile): Program<WgslKernel> {
  // Few rows (decoding) or columns leave most of a 64×64 tile idle.
  if (profile.schedule === "software" || spec.m <= 32 || spec.n <= 16) {
    return single(directKernel(spec, profile), bufferCount(spec));
  }
  const splits = splitsFor(spec);
  if (splits === 1) return single(tiledKernel(spec, 1), bufferCount(spec));
  const output = bufferCount(spec) - 1;
  const partial = output + 1;
  return {
    temps: [4 * splits * spec.batch * spec.m * spec.n],
    steps: [
      { kernel: tiledKernel(spec, splits), buffers: [0, 1, partial] },
      {
        kernel: combineKernel(spec, profile, splits),
        buffers: spec.bias ? [partial, 2, output] : [partial, output],
      },
    ],
  };
}
