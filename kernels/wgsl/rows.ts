/**
 * The frame of all row kernels (softmax, norms, log-probabilities). Each is written once, as a body, and runs
 *
 * - with one thread per row: barriers cost a software adapter 10–30×, and rows of a few elements need none on a GPU
 *   either; or
 * - with several threads per row, 8 – 256 by its length, in workgroups of 64 or 256. Neighbours read neighbouring
 *   memory, and reductions are trees in workgroup memory.
 *
 * A body sees `row`, `first`, `step`, `begin` and `end`: `for (var i = begin + first; i < end; i += step)` walks this
 * thread's share of the row in units of `V`, which is `vec4f` if the number of columns is a multiple of 4, else `f32`.
 * Reductions over other axes are in reduce.ts. There are no subgroup operations here, as their size is unknown until a
 * shader runs.
 */
import { type AdapterProfile, type Uniform, type WgslKernel, u32 } from "../kernel.ts";
import { mathFunctions } from "./math.ts";
import { type BindingType, gridFor, LINEAR_GROUP, linearMain, shader } from "./shader.ts";

export type Bindings = Readonly<Record<string, BindingType>>;

/** The number of columns from which on the threads of a GPU share rows. */
const SHARED = 32;
/** The number of threads of a workgroup that walks shared rows, and of units of a row from which on it has 256. */
const GROUP = 64;
const LONG = 1024;

/**
 * The number of threads per workgroup where threads do not cooperate; few on software adapters, which distribute
 * workgroups over processors.
 */
export const independentThreads = (profile: AdapterProfile): number => (profile.schedule === "gpu" ? 64 : 16);

/** The number of elements that are read at a time: 4 if the length of rows is a multiple of 4. */
export const vectorWidth = (cols: number): 1 | 4 => (cols % 4 === 0 ? 4 : 1);
/** The element type that shaders call `V`. */
export const vectorType = (cols: number): "f32" | "vec4f" => (cols % 4 === 0 ? "vec4f" : "f32");

/**
 * WGSL that defines `V`, the matching index vector `Columns`, and the functions from a `V` to one number. `at_least` is
 * max(v, low) that keeps NaN: WGSL's may drop it, and NVIDIA's compiler makes max of `select(v, low, v < low)`, too. It
 * took a row of NaN for one with numbers.
 */
export function vectorPrelude(cols: number): string {
  return vectorWidth(cols) === 4
    ? `alias V = vec4f;
alias Columns = vec4u;
fn columns(i: u32) -> Columns { return 4u * i + vec4u(0u, 1u, 2u, 3u); }
fn total(v: V) -> f32 { return (v.x + v.y) + (v.z + v.w); }
fn highest(v: V) -> f32 { return max(max(v.x, v.y), max(v.z, v.w)); }
fn at_least(v: V, low: f32) -> V {
  return select(max(v, V(low)), v, (bitcast<vec4u>(v) & vec4u(0x7fffffffu)) > vec4u(0x7f800000u));
}
`
    : `alias V = f32;
alias Columns = u32;
fn columns(i: u32) -> Columns { return i; }
fn total(v: V) -> f32 { return v; }
fn highest(v: V) -> f32 { return v; }
fn at_least(v: V, low: f32) -> V { return select(max(v, low), v, (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u); }
`;
}

/** The text of a reduction of one f32 per thread, for use in a body. Every thread of the row gets the result. */
export interface RowReductions {
  readonly sum: (value: string) => string;
  readonly max: (value: string) => string;
}

export interface RowKernel {
  readonly key: string;
  readonly rows: number;
  readonly cols: number;
  readonly bindings: Bindings;
  /** Further params, behind `rows` and `width` (the columns in units of `V`). */
  readonly params?: Readonly<Record<string, Uniform>>;
  /** The functions of math.ts that the body calls. */
  readonly functions?: readonly string[];
  readonly body: (reduce: RowReductions) => string;
}

/** The least power of two that is not less than `n`. */
export const powerOfTwo = (n: number): number => 2 ** Math.ceil(Math.log2(n));

/** One thread or several per row, depending on the length of rows and the schedule only. */
export function rowKernel(profile: AdapterProfile, kernel: RowKernel): WgslKernel {
  const { key, rows, cols, bindings, params, functions = [], body } = kernel;
  const width = vectorWidth(cols);
  const units = cols / width;
  // H200, 2026-11-27: with a thread per row, the LayerNorm of 4096 rows of 768 took 132 µs, ten times what its memory
  // needs.
  const shared = profile.schedule === "gpu" && cols >= SHARED;
  const threads = !shared ? independentThreads(profile) : units < LONG ? GROUP : 256;
  const lanes = Math.min(threads, powerOfTwo(units));
  return shader({
    key: `${key}/${shared ? `workgroup${lanes}` : `threads${threads}`}/v${width}`,
    bindings,
    params: { rows: u32(rows), width: u32(units), ...params },
    workgroups: gridFor(rows, shared ? threads / lanes : threads),
    body: () => {
      const reductions: string[] = [];
      const reduction = (combine: (a: string, b: string) => string) => (value: string) => {
        if (!shared) return value;
        const name = `reduce${reductions.length}`;
        reductions.push(reductionFunction(name, threads, lanes, combine));
        return `${name}(lane, ${value})`;
      };
      const text = body({
        sum: reduction((a, b) => `${a} + ${b}`),
        max: reduction((a, b) => `max(${a}, ${b})`),
      });
      // Behind the last row, threads find nothing to do but must come to the barriers.
      const main = shared
        ? `@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
  let row = ${LINEAR_GROUP} * ${threads / lanes}u + lane / ${lanes}u;
  let first = select(params.width, lane % ${lanes}u, row < params.rows);
  let step = ${lanes}u;`
        : `${linearMain(threads, "params.rows")}
  let row = i;
  let first = 0u;
  let step = 1u;`;
      return `${mathFunctions(functions)}${vectorPrelude(cols)}${reductions.join("")}
${main}
  let begin = row * params.width;
  let end = begin + params.width;${text}
}`;
    },
  });
}

/**
 * A tree over the threads of each row. Every reduction has its own memory, which is not written after the result was
 * broadcast: one of the drivers that this was tested on miscompiles memory that is used again.
 */
function reductionFunction(
  name: string,
  threads: number,
  lanes: number,
  combine: (a: string, b: string) => string,
): string {
  return `
var<workgroup> ${name}Slots: array<f32, ${threads}>;
fn ${name}(lane: u32, mine: f32) -> f32 {
  ${name}Slots[lane] = mine;
  workgroupBarrier();
  for (var half = ${lanes / 2}u; half > 0u; half /= 2u) {
    if (lane % ${lanes}u < half) {
      ${name}Slots[lane] = ${combine(`${name}Slots[lane]`, `${name}Slots[lane + half]`)};
    }
    workgroupBarrier();
  }
  return ${name}Slots[lane - lane % ${lanes}u];
}
`;
}
