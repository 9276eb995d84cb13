/**
 * A kernel is plain data. A generator makes it from shapes and parameters and never sees a device or a tensor. Backends
 * compile and run kernels without knowing any op by name.
 *
 * The `key` is the identity of the code: equal keys mean equal code, so a backend compiles each key once. Values that
 * may change from step to step (dimensions, learning rates, offsets) are arguments and never part of the code. Tiles,
 * ranks, transposes, epilogues and expressions are written into the code and therefore belong to the key.
 */
/** A WGSL compute kernel with entry point `main`. `@group(0)` holds the buffers in order, then the uniforms. */
export interface WgslKernel {
  readonly key: string;
  /** The complete shader text, which begins with `declare(…)`. It is made only when the key is not compiled yet. */
  readonly code: () => string;
  /** One entry per buffer, in the order in which the step lists its buffers. At most 8 (the default WebGPU limit). */
  readonly bindings: readonly Access[];
  /** The values of the `Params` struct in its order, 4 bytes each. Without any there is no uniform binding. */
  readonly uniforms?: readonly Uniform[];
  readonly workgroups: readonly [number, number, number];
}

export type Access = "read" | "write" | "readwrite";

/** A uniform's value with its WGSL type. */
export interface Uniform {
  readonly type: "u32" | "f32";
  readonly value: number;
}
export const u32 = (value: number): Uniform => ({ type: "u32", value });
export const f32 = (value: number): Uniform => ({ type: "f32", value });

/**
 * A WebAssembly kernel: a module that imports `env.memory` and exports
 * `run(buffer pointers in the step's order…, scalars…, begin, end)`. `[begin, end)` is a range of independent units of
 * work (rows, tiles, heads). Every partition of `[0, units)` into ranges gives the same bits, in any order and on any
 * thread.
 */
export interface WasmKernel {
  readonly key: string;
  /**
   * The module's bytes, made only when the key is not compiled yet. With `fused`, matrix products may use the
   * multiply-add of relaxed SIMD, which rounds once or twice, depending on the processor.
   */
  readonly module: (fused?: boolean) => Uint8Array<ArrayBuffer>;
  /** The i32 or f32 arguments that follow the pointers. */
  readonly scalars: readonly number[];
  readonly units: number;
  /**
   * Rough work per unit, in multiply-adds of a matrix product (about 0.04 ns each as measured; loading and storing an
   * element costs 2–4, an exponential 20). A kernel whose total is below a threshold is not cut into chunks.
   */
  readonly costPerUnit: number;
}

/** One kernel call. `buffers` indexes the op's inputs, then its outputs, then the program's temporaries. */
export interface Step<K> {
  readonly kernel: K;
  readonly buffers: readonly number[];
}

/** The program of an op: kernel calls in order. The temporaries (sizes in bytes) live as long as the program runs. */
export interface Program<K> {
  readonly temps: readonly number[];
  readonly steps: readonly Step<K>[];
}

/** The lists 0, …, n − 1, by n: made once, as nearly every call of an op has a program of a single kernel. */
const counted: (readonly number[])[] = [];

/** The program of a single kernel over all inputs and outputs in order. */
export function single<K>(kernel: K, buffers: number): Program<K> {
  return {
    temps: [],
    steps: [{ kernel, buffers: (counted[buffers] ??= Array.from({ length: buffers }, (_, i) => i)) }],
  };
}

/** The properties of the adapter that a WGSL generator may use; only a running shader knows the subgroup size. */
export interface AdapterProfile {
  /** `software`: workgroup barriers cost 10–30×, so a thread takes a whole row and no tile uses workgroup memory. */
  readonly schedule: "software" | "gpu";
  /** The driver, by whose name tables are looked up: "swiftshader", "llvmpipe", else the vendor's name. */
  readonly adapter?: string;
  /** Shader features that the device has: "subgroups", "shader-f16". */
  readonly features?: readonly string[];
  /** The matrix kernel of every product, in place of the table's; for benchmarks and tests. */
  readonly matmul?: MatmulRung;
  /** The schedule of every attention, in place of the table's; for benchmarks and tests. */
  readonly attention?: AttentionSchedule;
  /** What was measured to be fastest on this adapter, in place of the tables'. */
  readonly schedules?: Schedules | undefined;
}

/**
 * Schedules by class of shapes, as `tune/` measures them. Plain data, to be kept: another schedule
 * may add in another order, so that results differ in their last bits. A class that is absent has the table's.
 */
export interface Schedules {
  readonly matmul: { readonly [C in MatmulClass]?: Exclude<MatmulRung, { kind: "naive" }> };
  readonly attention: { readonly [C in AttentionClass]?: AttentionSchedule };
}

/** Products by their rows and columns, see `wgsl/matmulTable.ts`. */
export type MatmulClass = "row" | "rows" | "edge" | "small" | "large";
/** Passes of attention by the number of their queries (or keys), see `wgsl/attentionTable.ts`. */
export type AttentionClass = `${"forward" | "backward"}/${"few" | "many"}`;

/**
 * How the passes of attention divide their work, see `wgsl/attentionWalk.ts`. `thread`: a thread per query (or key).
 * `group`: the 64 threads of a workgroup take neighbouring queries (or keys) of one head.
 */
export type AttentionSchedule =
  | { readonly kind: "thread" }
  | {
      readonly kind: "group";
      /** Threads that share a query, each with its part of the keys; 1 by default. */
      readonly splits?: number;
      /** Threads that share a query, each with its part of the head; 4 needs the feature "subgroups". */
      readonly lanes?: 4;
      /** Queries of a thread; 1 by default. */
      readonly rows?: number;
      /** Keys that a thread takes at a time; 1 by default. */
      readonly chunk?: number;
    };

/** The ladder of matrix kernels, see `wgsl/matmul.ts`. `splits`: the number of parts into which the sum is cut. */
export type MatmulRung =
  | { readonly kind: "naive"; readonly splits?: undefined }
  | {
      readonly kind: "direct";
      /** A thread's block of C: rows (1, or a multiple of 4) × quads of columns; steps of the sum per turn. */
      readonly rows: number;
      readonly quads: number;
      readonly steps: 1 | 4;
      /** Threads of a workgroup along a row of C, and along a column. */
      readonly across: number;
      readonly down: number;
      readonly splits?: number;
    }
  | {
      readonly kind: "tiled";
      readonly block: TiledBlock;
      /** Tiles and products in f16. */
      readonly half?: boolean;
      readonly splits?: number;
    }
  | { readonly kind: "subgroup"; readonly rows: number; readonly splits?: number };

/** The block of C of a workgroup that shares tiles. The tiles take at most 16,384 bytes, WebGPU's default limit. */
export interface TiledBlock {
  /** A thread's sums: rows (a multiple of 4) × quads of columns. */
  readonly rows: number;
  readonly quads: number;
  /** Threads of the workgroup along a row of C, and along a column: at most 256 in all. */
  readonly across: number;
  readonly down: number;
  /** The steps of the sum in a tile, a multiple of 4. */
  readonly depth: number;
}
