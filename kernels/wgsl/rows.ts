/**
 * The frame of all row kernels (softmax, norms, log-probabilities). Each is written once, as a body, and runs
 *
 * - with one thread per row: barriers cost a software adapter 10–30×, and many short rows need none on a GPU either; or
 * - with one workgroup per row: its threads take every 64th element, so that neighbours read neighbouring memory, and
 *   reductions are trees in workgroup memory.
 *
 * A body sees `row`, `first`, `step`, `begin` and `end`: `for (var i = begin + first; i < end; i += step)` walks this
 * thread's share of the row in units of `V`, which is `vec4f` if the number of columns is a multiple of 4, else `f32`.
 * Reductions over other axes are in reduce.ts. There are no subgroup operations here, as their size is unknown until a
 * shader runs.
 */
import { type AdapterProfile, type Uniform, type WgslKernel, u32 } from "../kernel.ts";
import { mathFunctions } from "./math.ts";
import { type BindingType, gridFor, groupMain, linearMain, shader } from "./shader.ts";

export type Bindings = Readonly<Record<string, BindingType>>;

/** The number of threads of a workgroup that walks a row, and of places in memory for each of its reductions. */
const LANES = 64;

/**
 * The number of threads per workgroup where threads do not cooperate; few on software adapters, which distribute
 * workgroups over processors.
 */
export const independentThreads = (profile: AdapterProfile): number => (profile.schedule === "gpu" ? 64 : 16);

/** The number of elements that are read at a time: 4 if the length of rows is a multiple of 4. */
export const vectorWidth = (cols: number): 1 | 4 => (cols % 4 === 0 ? 4 : 1);
/** The element type that shaders call `V`. */
export const vectorType = (cols: number): "f32" | "vec4f" => (cols % 4 === 0 ? "vec4f" : "f32");

/** WGSL that defines `V`, the matching index vector `Columns`, and the functions from a `V` to one number. */
export function vectorPrelude(cols: number): string {
  return vectorWidth(cols) === 4
    ? `alias V = vec4f;
alias Columns = vec4u;
fn columns(i: u32) -> Columns { return 4u * i + vec4u(0u, 1u, 2u, 3u); }
fn total(v: V) -> f32 { return (v.x + v.y) + (v.z + v.w); }
fn highest(v: V) -> f32 { return max(max(v.x, v.y), max(v.z, v.w)); }
`
    : `alias V = f32;
alias Columns = u32;
fn columns(i: u32) -> Columns { return i; }
fn total(v: V) -> f32 { return v; }
fn highest(v: V) -> f32 { return v; }
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

/** One thread or one workgroup per row, depending on shapes and the adapter only. */
export function rowKernel(profile: AdapterProfile, kernel: RowKernel): WgslKernel {
  const { key, rows, cols, bindings, params, functions = [], body } = kernel;
  const width = vectorWidth(cols);
  // On a GPU one thread per row pays only for thousands of rows, and neighbouring threads read memory that is far
  // apart.
  const shared = profile.schedule === "gpu" && cols >= 32 && (rows < 4096 || cols > 1024);
  const threads = independentThreads(profile);
  return shader({
    key: `${key}/${shared ? "workgroup" : `threads${threads}`}/v${width}`,
    bindings,
    params: { rows: u32(rows), width: u32(cols / width), ...params },
    workgroups: shared ? gridFor(rows, 1) : gridFor(rows, threads),
    body: () => {
      const reductions: string[] = [];
      const reduction = (combine: (a: string, b: string) => string) => (value: string) => {
        if (!shared) return value;
        const name = `reduce${reductions.length}`;
        reductions.push(reductionFunction(name, combine));
        return `${name}(lane, ${value})`;
      };
      const text = body({
        sum: reduction((a, b) => `${a} + ${b}`),
        max: reduction((a, b) => `max(${a}, ${b})`),
      });
      const main = shared
        ? `${groupMain(LANES, "params.rows")}
  let first = lane;
  let step = ${LANES}u;`
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
 * A tree over the workgroup's threads. Every reduction has its own memory, which is not written after the result was
 * broadcast: one of the drivers that this was tested on miscompiles memory that is used again.
 */
function reductionFunction(name: string, combine: (a: string, b: string) => string): string {
  return `
var<workgroup> ${name}Slots: array<f32, ${LANES}>;
fn ${name}(lane: u32, mine: f32) -> f32 {
  ${name}Slots[lane] = mine;
  workgroupBarrier();
  for (var half = ${LANES / 2}u; half > 0u; half /= 2u) {
    if (lane < half) {
      ${name}Slots[lane] = ${combine(`${name}Slots[lane]`, `${name}Slots[lane + half]`)};
    }
    workgroupBarrier();
  }
  return ${name}Slots[0];
}
`;
}
