/**
 * What a kernel is: pure data. A generator turns (shapes, parameters) into one of these; it never sees a device or a tensor.
 * Backends compile and run them without knowing any op by name.
 *
 * Identity is the `key`: equal keys mean equal code, so a backend compiles each key once. Everything that may change from step
 * to step (dimensions, learning rates, offsets) is an argument, never part of the code; tiles, ranks, transposes, epilogues
 * and expressions are baked in and therefore belong to the key.
 */

/** A WGSL compute kernel with entry point `main`, all buffers in `@group(0)`, binding i = i-th buffer, then the uniforms. */
export interface WgslKernel {
  readonly key: string;
  /** The complete shader text, made only when the key is not compiled yet. Start it with `declare(kernel bindings)`. */
  readonly code: () => string;
  /** One entry per buffer, in the order in which the step lists its buffers. At most 8 (the default WebGPU limit). */
  readonly bindings: readonly Access[];
  /** Values of the `Params` struct in its declared order; 4 bytes each. Absent or empty: no uniform binding. */
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
 * `run(buffer pointers in the step's order…, scalars…, begin, end)`, where `[begin, end)` is a range of independent units of
 * work (rows, tiles, heads). Any partition of `[0, units)` into ranges gives the same bits, in any order, on any thread.
 */
export interface WasmKernel {
  readonly key: string;
  /**
   * The module's bytes, made only when the key is not compiled yet. `fused`: matrix products may use relaxed SIMD's multiply-add,
   * which rounds once or twice as the processor likes.
   */
  readonly module: (fused?: boolean) => Uint8Array<ArrayBuffer>;
  /** i32 or f32 arguments after the pointers, as the function's own signature has them. */
  readonly scalars: readonly number[];
  readonly units: number;
  /**
   * Rough work per unit, in multiply-adds of a matrix product (measured: ~0.04 ns; an element that is loaded and stored is
   * worth 2–4, one exponential 20): below a threshold in all, the kernel is not cut into chunks.
   */
  readonly costPerUnit: number;
}

/** One kernel call. `buffers` indexes the op's inputs, then its outputs, then the program's temporaries. */
export interface Step<K> {
  readonly kernel: K;
  readonly buffers: readonly number[];
}

/** What an op lowers to: kernel calls in order, with temporaries (sizes in bytes) that live as long as the program runs. */
export interface Program<K> {
  readonly temps: readonly number[];
  readonly steps: readonly Step<K>[];
}

/** The program of a single kernel over all inputs and outputs in order. */
export function single<K>(kernel: K, buffers: number): Program<K> {
  return { temps: [], steps: [{ kernel, buffers: Array.from({ length: buffers }, (_, i) => i) }] };
}

/** What a WGSL generator may know of the adapter. Never a subgroup size: that is unknown until a shader runs. */
export interface AdapterProfile {
  /** `software`: workgroup barriers cost 10–30×, so one thread per row and register tiles without workgroup memory. */
  readonly schedule: "software" | "gpu";
  /** The driver that tables are looked up by: "swiftshader", "llvmpipe", else the vendor's name. */
  readonly adapter?: string;
  /** Shader features that the device has: "subgroups", "shader-f16". */
  readonly features?: readonly string[];
  /** Takes this matrix kernel for every product, whatever the table says: for benchmarks and tests. */
  readonly matmul?: MatmulRung;
}

/** The ladder of matrix kernels: see `wgsl/matmul.ts`. `splits`: parts of the sum, added in a second pass. */
export type MatmulRung =
  | { readonly kind: "naive"; readonly splits?: undefined }
  | {
      readonly kind: "direct";
      /** Of C, per thread: rows (1, or a multiple of 4) × quads of columns; steps of the sum per turn where possible. */
      readonly rows: number;
      readonly quads: number;
      readonly steps: 1 | 4;
      /** Threads of a workgroup along a row of C, and down. */
      readonly across: number;
      readonly down: number;
      readonly splits?: number;
    }
  | { readonly kind: "tiled"; readonly half?: boolean; readonly splits?: number }
  | { readonly kind: "subgroup"; readonly rows: number; readonly splits?: number };
