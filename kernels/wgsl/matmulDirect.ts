/**
 * Matrix products without workgroup memory: a thread keeps a block of rows × `vec4` columns of C in registers and reads
 * A and B from storage. On software adapters this is the fastest by far: workgroup barriers cost 10–30× there, and
 * every load is gathered lane by lane, so large blocks pay. On GPUs it is for few rows or columns, where most of a tile
 * would be idle.
 *
 * `subgroupKernel` has the same block, but a subgroup reads each element of A once and exchanges it: neighbouring
 * threads own neighbouring columns and need the same elements of A. It asks for the subgroup's size at run time and
 * works for any.
 */
import type { WgslKernel } from "../kernel.ts";
import type { MatmulSpec } from "../specs.ts";
import {
  addendBindings,
  epilogueKey,
  orderKey,
  sizes,
  storedBy,
  storeFunction,
  tileCount,
  tilePlace,
} from "./matmulCommon.ts";
import type { DirectBlock } from "./matmulTable.ts";
import { each, gridFor, shader } from "./shader.ts";

/** The walk of a thread along the sum, and the operands that it reads as `vec4f`. */
interface Walk {
  readonly rows: number;
  readonly quads: number;
  readonly vectorA: boolean;
  readonly vectorB: boolean;
}

const element = (vector: boolean): "vec4f" | "f32" => (vector ? "vec4f" : "f32");
const sums = ({ rows, quads }: DirectBlock, text: (i: number, j: number) => string, separator: string): string =>
  each(rows, (i) => each(quads, (j) => text(i, j), separator), separator);

/** A loop that the compiler cannot unroll, so that the epilogue is compiled once and not for every element. */
const storeLoop = (block: DirectBlock): string => `
  var sums = array<vec4f, ${block.rows * block.quads}>(${sums(block, (i, j) => `sum${i}_${j}`, ", ")});
  for (var s = 0u; s < ${block.quads}u * min(${block.rows}u, params.m - min(row, params.m)); s++) {
    store(part, row + s / ${block.quads}u, col + s % ${block.quads}u * 4u, sums[s]);
  }`;

/**
 * Takes four steps of the sum at a time if the block asks for it, the steps of a row of A are contiguous in fours and B
 * can be read in fours; else one step. Operands whose elements are contiguous along an edge of C are read as `vec4f`,
 * others as scalars. Rows and columns beyond the edge repeat the last one and are not stored. With `splits` > 1, part s
 * of the sum goes to its own [batch, m, n] of C, for `combineKernel`.
 */
export function directKernel(spec: MatmulSpec, block: DirectBlock, splits: number): WgslKernel {
  const { m, n, k, transA, transB } = spec;
  const { rows, quads, across, down } = block;
  const byFour = block.steps === 4 && k % 4 === 0 && !transA && (transB || n % 4 === 0);
  const vectorA = byFour || (transA && m % 4 === 0 && rows >= 4);
  const vectorB = byFour || (!transB && n % 4 === 0);
  const vectorC = n % 4 === 0;
  const walk: Walk = { rows, quads, vectorA, vectorB };
  const steps = vectorA && vectorB ? block.steps : 1; // with scalar reads more text only takes longer to compile
  const stored = storedBy(spec, splits);
  const [tileRows, tileCols] = [down * rows, across * quads * 4];
  const shape = `direct${rows}x${quads}/${across}x${down}`;
  const place = tilePlace(tileRows, tileCols);
  const vectors = [vectorA, vectorB, vectorC].map(Number).join("");
  return shader({
    key: `matmul/${shape}/${orderKey(spec)}/${byFour ? "quads" : `by${steps}`}/${vectors}${epilogueKey(stored)}`,
    bindings: {
      a: `read ${element(vectorA)}`,
      b: `read ${element(vectorB)}`,
      ...addendBindings(stored),
      c: `write ${element(vectorC)}`,
    },
    params: sizes(stored, splits),
    workgroups: gridFor(splits * tileCount(spec, tileRows, tileCols), 1),
    body: () => `${storeFunction(stored, vectorC)}
@compute @workgroup_size(${across}, ${down})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) local: vec3u) {${place}
  let row = tileRow + local.y * ${rows}u;
  let col = tileCol + local.x * ${quads * 4}u;
  if (part >= params.batch * params.splits || row >= params.m || col >= params.n) { return; }
${sums(block, (i, j) => `  var sum${i}_${j} = vec4f();`, "\n")}
${byFour ? quadLoop(spec, walk) : stepLoop(spec, walk, steps)}${storeLoop(block)}
}
`,
  });
}

/** a_i: four steps of row i. b: one step of four columns or, where B is transposed, four steps of one column. */
function quadLoop({ transB }: MatmulSpec, { rows, quads }: Walk): string {
  const placesB = transB
    ? each(
        4 * quads,
        (j) => `  let b${j}At = (batch * params.strideB + min(col + ${j}u, params.n - 1u) * params.k) / 4u;`,
      )
    : each(quads, (j) => `  let b${j}At = (batch * params.strideB + min(col + ${4 * j}u, params.n - 4u)) / 4u;`);
  const column = (j: number): string => `    let b${j} = b[b${j}At + k];
${each(rows, (i) => `    sum${i}_${Math.floor(j / 4)}[${j % 4}] += dot(a${i}, b${j});`)}`;
  // Each sum is one expression: SwiftShader would store and load it again between statements.
  const product = (i: number, j: number): string => each(4, (step) => `a${i}[${step}] * b${j}_${step}`, " + ");
  const loadB = (step: number, j: number): string =>
    `    let b${j}_${step} = b[b${j}At + (4u * k + ${step}u) * (params.n / 4u)];`;
  const lines = `${each(4, (step) => each(quads, (j) => loadB(step, j)))}
${each(rows, (i) => each(quads, (j) => `    sum${i}_${j} += ${product(i, j)};`))}`;
  const placeA = (i: number): string =>
    `  let a${i}At = (batch * params.strideA + min(row + ${i}u, params.m - 1u) * params.k) / 4u;`;
  return `${each(rows, placeA)}
${placesB}
  for (var k = first / 4u; k < end / 4u; k++) {
${each(rows, (i) => `    let a${i} = a[a${i}At + k];`)}
${transB ? each(4 * quads, column) : lines}
  }`;
}

/** The offsets of an operand's rows or columns, and the text that reads elements of a step into `name`0, `name`1, …. */
interface Reader {
  readonly places: string;
  readonly load: (k: string, name: string) => string;
}

function readA({ transA }: MatmulSpec, { rows, vectorA }: Walk): Reader {
  if (vectorA) {
    return {
      places: each(
        rows / 4,
        (i) => `  let a${i}At = (batch * params.strideA + min(row + ${4 * i}u, params.m - 4u)) / 4u;`,
      ),
      load: (k, name) => each(rows / 4, (i) => `    let ${name}${i} = a[a${i}At + ${k} * (params.m / 4u)];`),
    };
  }
  const [pitch, step] = transA ? ["", " * params.m"] : [" * params.k", ""];
  return {
    places: each(rows, (i) => `  let a${i}At = batch * params.strideA + min(row + ${i}u, params.m - 1u)${pitch};`),
    load: (k, name) => each(rows, (i) => `    let ${name}${i} = a[a${i}At + ${k}${step}];`),
  };
}

function readB({ transB }: MatmulSpec, { quads, vectorB }: Walk): Reader {
  if (vectorB) {
    return {
      places: each(
        quads,
        (j) => `  let b${j}At = (batch * params.strideB + min(col + ${4 * j}u, params.n - 4u)) / 4u;`,
      ),
      load: (k, name) => each(quads, (j) => `    let ${name}${j} = b[b${j}At + ${k} * (params.n / 4u)];`),
    };
  }
  const [pitch, step] = transB ? [" * params.k", ""] : ["", " * params.n"];
  return {
    places: each(4 * quads, (j) => `  let b${j}At = batch * params.strideB + min(col + ${j}u, params.n - 1u)${pitch};`),
    load: (k, name) =>
      each(quads, (j) => `    let ${name}${j} = vec4f(${each(4, (c) => `b[b${4 * j + c}At + ${k}${step}]`, ", ")});`),
  };
}

/** The outer product of a column of A and a row of B per step. If `steps` is 4, one expression takes four of them. */
function stepLoop(spec: MatmulSpec, walk: Walk, steps: 1 | 4): string {
  const { rows, quads, vectorA } = walk;
  const [a, b] = [readA(spec, walk), readB(spec, walk)];
  const product = (i: number, j: number, s: number): string =>
    `${vectorA ? `a${s}_${Math.floor(i / 4)}[${i % 4}]` : `a${s}_${i}`} * b${s}_${j}`;
  const turn = (count: number): string => `${each(count, (s) => {
    const k = s === 0 ? "k" : `(k + ${s}u)`;
    return `${a.load(k, `a${s}_`)}\n${b.load(k, `b${s}_`)}`;
  })}
${each(rows, (i) => each(quads, (j) => `    sum${i}_${j} += ${each(count, (s) => product(i, j, s), " + ")};`))}`;
  const fours = `
  for (; k + 3u < end; k += 4u) {
${turn(4)}
  }`;
  return `${a.places}
${b.places}
  var k = first;${steps === 4 ? fours : ""}
  for (; k < end; k++) {
${turn(1)}
  }`;
}

/** The threads of a subgroup kernel's workgroup, along a row of C. No adapter's subgroups are larger than this. */
const SUBGROUP_THREADS = 128;

/**
 * Each thread of a subgroup reads one step of every row of the block, and the threads exchange all steps. No thread may
 * return early: a shuffle from a thread that has returned is undefined. The workgroup chooses the rows, so a subgroup
 * never belongs to two blocks.
 */
export function subgroupKernel(spec: MatmulSpec, rows: number, splits: number): WgslKernel {
  const { n, transA, transB } = spec;
  const vectorB = !transB && n % 4 === 0;
  const vectorC = n % 4 === 0;
  const block: DirectBlock = { rows, quads: 1, steps: 1, across: SUBGROUP_THREADS, down: 1 };
  const walk: Walk = { rows, quads: 1, vectorA: false, vectorB };
  const stored = storedBy(spec, splits);
  const tileCols = 4 * SUBGROUP_THREADS;
  const b = readB(spec, walk);
  const [pitch, step] = transA ? ["", " * params.m"] : [" * params.k", ""];
  return shader({
    key: `matmul/subgroup${rows}/${orderKey(spec)}/${[vectorB, vectorC].map(Number).join("")}${epilogueKey(stored)}`,
    enable: ["subgroups"],
    bindings: {
      a: "read f32",
      b: `read ${element(vectorB)}`,
      ...addendBindings(stored),
      c: `write ${element(vectorC)}`,
    },
    params: sizes(stored, splits),
    workgroups: gridFor(splits * tileCount(spec, rows, tileCols), 1),
    body: () => `${storeFunction(stored, vectorC)}
@compute @workgroup_size(${SUBGROUP_THREADS})
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(local_invocation_index) lane: u32,
  @builtin(subgroup_invocation_id) mine: u32,
  @builtin(subgroup_size) together: u32,
) {${tilePlace(rows, tileCols)}
  if (part >= params.batch * params.splits) { return; } // the whole workgroup
  let row = tileRow;
  let col = tileCol + 4u * lane;
${each(rows, (i) => `  var sum${i}_0 = vec4f();`)}
${each(rows, (i) => `  let a${i}At = batch * params.strideA + min(row + ${i}u, params.m - 1u)${pitch};`)}
${b.places.replaceAll("min(col", "min(min(col, params.n - 1u)")}
  for (var k0 = first; k0 < end; k0 += together) {
    let own = min(k0 + mine, params.k - 1u);
${each(rows, (i) => `    let own${i} = a[a${i}At + own${step}];`)}
    for (var other = 0u; other < min(together, end - k0); other++) {
      let k = k0 + other;
${b.load("k", "b")}
${each(rows, (i) => `      sum${i}_0 += subgroupShuffle(own${i}, other) * b0;`)}
    }
  }${storeLoop(block)}
}
`,
  });
}
