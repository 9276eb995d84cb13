/**
 * Matrix products through workgroup memory, for GPUs: the threads of a workgroup share a tile of A and a tile of B and
 * keep a block of sums each (the register-blocked scheme of Boehm's "How to optimize a CUDA matmul kernel", 2022). The
 * sum of an element is one chain in ascending order, whatever the block. `half`: tiles and products in f16, sums in
 * f32. The naive product, for comparison, and the sum of the parts of a split product are here, too.
 */
import {
  type AdapterProfile,
  type MatmulRung,
  type Program,
  type TiledBlock,
  type Uniform,
  type WgslKernel,
  single,
  u32,
} from "../kernel.ts";
import type { MatmulSpec } from "../specs.ts";
import {
  activationFunction,
  addendBindings,
  bufferCount,
  epilogueKey,
  orderKey,
  sizes,
  spanOf,
  storedBy,
  storeFunction,
  tileCount,
  tilePlace,
} from "./matmulCommon.ts";
import { independentThreads, vectorType } from "./rows.ts";
import { each, type ElementType, gridFor, linearMain, shader } from "./shader.ts";

/** One thread per element of C. */
export function matmulNaive(spec: MatmulSpec, profile: AdapterProfile): Program<WgslKernel> {
  const threads = independentThreads(profile);
  const count = spec.batch * spec.m * spec.n;
  const kernel = shader({
    key: `matmul/naive/${orderKey(spec)}${epilogueKey(spec)}/${threads}`,
    bindings: { a: "read f32", b: "read f32", ...addendBindings(spec, "f32"), c: "write f32" },
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
  var y = params.scale * sum;
${each(spec.addends.length, (n) => `  y += addend${n}[i / params.n * params.pitch${n} + col];`)}
  c[i] = ${spec.activation === undefined ? "y" : "activation(y)"};
}`,
  });
  return single(kernel, bufferCount(spec));
}

export type TiledRung = Extract<MatmulRung, { kind: "tiled" }>;

const MOST_BYTES = 16384;

/** The rows and columns of a workgroup's block of C. */
export function tileOf({ block }: Pick<TiledRung, "block">): [rows: number, cols: number] {
  return [block.down * block.rows, block.across * block.quads * 4];
}

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

/** An operand and its tile, whose lines are rows of A or columns of B. */
interface Source {
  readonly name: "A" | "B";
  /** Quads of lines in a tile, and from a step of it to the next. */
  readonly quads: number;
  readonly pitch: number;
  /** Whether elements are contiguous along the steps of the sum, else along the lines. */
  readonly alongSteps: boolean;
  /** Whether four contiguous elements are read at a time. */
  readonly vector: boolean;
  /** Whether every tile is inside the matrix. */
  readonly whole: boolean;
}

/** The sources of A and B. What the shape's divisors allow is part of the key. */
function sourcesOf(spec: MatmulSpec, rung: TiledRung, splits: number, operand?: Operand): [a: Source, b: Source] {
  const { m, n, k, transA, transB } = spec;
  const { block, half = false } = rung;
  const [tileRows, tileCols] = tileOf(rung);
  // With one quad more from step to step, neighbouring steps differ in their banks.
  const bytes = (padding: number): number => ((tileRows + tileCols) / 4 + 2 * padding) * block.depth * (half ? 8 : 16);
  const padding = bytes(1) <= MOST_BYTES ? 1 : 0;
  if (bytes(padding) > MOST_BYTES) throw new Error(`matmul: tiles of ${bytes(padding)} bytes exceed ${MOST_BYTES}`);
  const wholeSteps = k % block.depth === 0 && spanOf(k, splits) % block.depth === 0;
  const source = (name: "A" | "B", lines: number, tileLines: number, alongSteps: boolean): Source => ({
    name,
    quads: tileLines / 4,
    pitch: tileLines / 4 + padding,
    alongSteps,
    vector: (alongSteps ? k : lines) % 4 === 0 && !(operand && name === "B"),
    whole: wholeSteps && lines % tileLines === 0,
  });
  return [source("A", m, tileRows, !transA), source("B", n, tileCols, transB)];
}

/** `four<A|B>`: four contiguous elements if the source is read in fours, else a step of four lines; 0 outside. */
function readFunction({ name, alongSteps, vector, whole }: Source, operand?: Operand): string {
  const [line, lines] = name === "A" ? ["row", "params.m"] : ["col", "params.n"];
  const place = `batch * params.stride${name} + ${alongSteps ? `${line} * params.k + k` : `k * ${lines} + ${line}`}`;
  const at = operand?.at ?? `${name.toLowerCase()}[${vector ? `(${place}) / 4u` : place}]`;
  const bounded = (zero: string): string => (whole ? at : `select(${zero}, ${at}, ${line} < ${lines} && k < end)`);
  const head = (kind: string): string => `fn ${kind}${name}(batch: u32, ${line}: u32, k: u32, end: u32)`;
  if (vector) return `${head("four")} -> vec4f { return ${bounded("vec4f()")}; }`;
  return `${head("element")} -> f32 { return ${bounded("0.0")}; }
${head("four")} -> vec4f {
  return vec4f(${each(4, (i) => `element${name}(batch, ${line} + ${i}u, k, end)`, ", ")});
}`;
}

/** The texts that fill a tile: a thread's places and registers, reading from step `k0` on, and storing. */
interface Filling {
  readonly places: string;
  readonly read: string;
  readonly store: string;
}

/**
 * Neighbouring threads read neighbouring memory: along the steps if the source is contiguous there, else along the
 * lines. A thread takes a quad of lines of one step; or, of a source that is read in fours along the steps, a square of
 * 4×4, which it transposes in its registers.
 */
function filling({ name, quads, pitch, alongSteps, vector }: Source, block: TiledBlock, quad: string): Filling {
  const { depth } = block;
  const threads = block.across * block.down;
  const run = alongSteps && vector ? 4 : 1;
  const count = (quads * depth) / run;
  const turns = Math.ceil(count / threads);
  const line = name === "A" ? "tileRow" : "tileCol";
  // Tiles that do not need all threads are filled from both ends of the workgroup.
  const index = name === "B" && count < threads ? `(${threads - 1}u - index)` : "index";
  const places = (t: number): string => {
    const item = t === 0 ? index : `(${index} + ${t * threads}u)`;
    const [step, lines] = alongSteps
      ? [`${item} % ${depth / run}u * ${run}u`, `${item} / ${depth / run}u`]
      : [`${item} / ${quads}u`, `${item} % ${quads}u`];
    return `  let step${name}${t} = ${step};
  let quad${name}${t} = ${lines};
${each(run, (r) => `  var held${name}${t}_${r} = vec4f();`)}`;
  };
  const inTile = (t: number, text: string): string => {
    if ((t + 1) * threads <= count) return text;
    return `    if (step${name}${t} < ${depth}u && quad${name}${t} < ${quads}u) {\n${text}\n    }`;
  };
  const read = (t: number): string =>
    each(run, (r) => {
      const place = `${line} + 4u * quad${name}${t} + ${r}u, k0 + step${name}${t}`;
      return `    held${name}${t}_${r} = four${name}(batch, ${place}, end);`;
    });
  const store = (t: number): string =>
    each(run, (s) => {
      const value = run === 1 ? `held${name}${t}_0` : `vec4f(${each(4, (r) => `held${name}${t}_${r}[${s}]`, ", ")})`;
      return `    tile${name}[(step${name}${t} + ${s}u) * ${pitch}u + quad${name}${t}] = ${quad}(${value});`;
    });
  return {
    places: each(turns, places),
    read: each(turns, (t) => inTile(t, read(t))),
    store: each(turns, (t) => inTile(t, store(t))),
  };
}

/** The key's part for a block and what the shape's divisors allow it. */
function blockKey({ rows, quads, across, down, depth }: TiledBlock, sources: readonly Source[]): string {
  const divisors = sources.map(({ vector, whole }) => `${Number(vector)}${Number(whole)}`).join("");
  return `/${rows}x${quads}/${across}x${down}x${depth}/${divisors}`;
}

/**
 * With `splits` > 1, part s of the sum goes to its own [batch, m, n] of C, unscaled, for `combineKernel`. `operand`
 * replaces B, as the binding `w`.
 */
export function tiledKernel(spec: MatmulSpec, rung: TiledRung, splits: number, operand?: Operand): WgslKernel {
  const { block, half = false } = rung;
  const { rows, quads, across, down, depth } = block;
  const [tileRows, tileCols] = tileOf(rung);
  const [a, b] = sourcesOf(spec, rung, splits, operand);
  const vectorC = spec.n % 4 === 0;
  const stored = storedBy(spec, splits);
  const quad = half ? "vec4h" : "vec4f";
  const schedule = `tiled${half ? "/f16" : ""}${blockKey(block, [a, b])}`;
  const epilogue = `${epilogueKey(stored)}${operand === undefined ? "" : `/${operand.key}`}`;
  const product = (i: number, j: number): string => {
    const text = `rows${Math.floor(i / 4)}[${i % 4}] * cols${j}`;
    return `      sum${i}_${j} += ${half ? `vec4f(${text})` : text};`;
  };
  return shader({
    key: `matmul/${schedule}/${orderKey(spec)}${vectorC ? "/v" : ""}${epilogue}`,
    enable: half ? ["f16"] : [],
    bindings: {
      a: a.vector ? "read vec4f" : "read f32",
      ...(operand === undefined ? { b: b.vector ? "read vec4f" : "read f32" } : { w: `read ${operand.element}` }),
      ...addendBindings(stored),
      c: `write ${vectorType(spec.n)}`,
    },
    params: { ...sizes(stored, splits), ...operand?.params },
    workgroups: gridFor(splits * tileCount(spec, tileRows, tileCols), 1),
    body: () => {
      const [fillA, fillB] = [filling(a, block, quad), filling(b, block, quad)];
      return `${storeFunction(stored, vectorC)}${operand?.functions ?? ""}
var<workgroup> tileA: array<${quad}, ${depth * a.pitch}>; // [step][four rows]
var<workgroup> tileB: array<${quad}, ${depth * b.pitch}>; // [step][four columns]
${readFunction(a)}
${readFunction(b, operand)}
@compute @workgroup_size(${across * down})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) index: u32) {
${tilePlace(tileRows, tileCols)}
  if (part >= params.batch * params.splits) { return; }
  // The quads of this thread are far apart in a tile, so that neighbours read neighbouring banks.
  let x = index % ${across}u;
  let y = index / ${across}u;
${each(rows, (i) => each(quads, (j) => `  var sum${i}_${j} = vec4f();`))}
${fillA.places}
${fillB.places}
  for (var k0 = first; k0 < end; k0 += ${depth}u) {
${fillA.read}
${fillB.read}
${fillA.store}
${fillB.store}
    workgroupBarrier();
    for (var step = 0u; step < ${depth}u; step++) {
${each(rows / 4, (i) => `      let rows${i} = tileA[step * ${a.pitch}u + y + ${i * down}u];`)}
${each(quads, (j) => `      let cols${j} = tileB[step * ${b.pitch}u + x + ${j * across}u];`)}
${each(rows, (i) => each(quads, (j) => product(i, j)))}
    }
    workgroupBarrier();
  }
${storeBlock(block)}
}
`;
    },
  });
}

/** Many sums are stored in a loop that the compiler cannot unroll, so that the epilogue is compiled once. */
function storeBlock({ rows, quads, across, down }: TiledBlock): string {
  const count = rows * quads;
  if (count <= 4) {
    return each(rows, (i) =>
      each(quads, (j) => `  store(part, tileRow + 4u * y + ${i}u, tileCol + 4u * (x + ${j * across}u), sum${i}_${j});`),
    );
  }
  return `  var sums = array<vec4f, ${count}>(${each(rows, (i) => each(quads, (j) => `sum${i}_${j}`, ", "), ", ")});
  for (var s = 0u; s < min(params.m, 1u) * ${count}u; s++) {
    let i = s / ${quads}u;
    let row = tileRow + 4u * (y + i / 4u * ${down}u) + i % 4u;
    store(part, row, tileCol + 4u * (x + s % ${quads}u * ${across}u), sums[s]);
  }`;
}

/** partial [splits, batch, m, n] → C: adds the parts in order and applies the epilogue. One thread per four columns. */
export function combineKernel(spec: MatmulSpec, profile: AdapterProfile, splits: number): WgslKernel {
  const quads = Math.ceil(spec.n / 4);
  const threads = independentThreads(profile);
  const count = spec.batch * spec.m * quads;
  return shader({
    key: `matmul/combine/${vectorType(spec.n)}${epilogueKey(spec)}/${threads}`,
    bindings: { partial: "read f32", ...addendBindings(spec), c: `write ${vectorType(spec.n)}` },
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
