/**
 * The contract between the engine and an executor: allocate, free, write, read, run. A backend knows no op by name and
 * no shape; it gets buffers and programs (pure data from `kernels/`).
 */
import type { AdapterProfile, Program, WasmKernel, WgslKernel } from "../../kernels/kernel.ts";
import type { Generators } from "../../kernels/program.ts";

export type TypedArray = Float32Array | Float64Array | Int32Array | Uint32Array;

/** Storage of one tensor, opaque to all but the backend that made it; `bytes` is the size that was asked for. */
export interface Buffer {
  readonly bytes: number;
}

/** A reference program: plain TypeScript over the raw storage of the op's inputs and outputs, in order. */
export type ReferenceProgram = (storage: readonly Uint8Array<ArrayBuffer>[]) => void;

/** The program that `run` takes, by kind of executor. */
export interface Programs {
  reference: ReferenceProgram;
  wasm: Program<WasmKernel>;
  webgpu: Program<WgslKernel>;
}
/** The kernel generators of the executors that have kernels. */
interface GeneratorsOf {
  reference: undefined;
  wasm: Generators<WasmKernel>;
  webgpu: Generators<WgslKernel>;
}
/** The kinds of executors: `reference`, `wasm`, `webgpu`. */
export type BackendKind = keyof Programs;

/** The memory that an executor holds, and the number of kernels that it has compiled. */
export interface BackendStats {
  /** Bytes in buffers that are allocated and not freed. */
  readonly liveBytes: number;
  readonly liveBuffers: number;
  readonly peakBytes: number;
  /** Bytes held from the system, pooled ones included. */
  readonly reservedBytes: number;
  readonly compiledKernels: number;
}

interface BackendBase {
  /** One line for readers: executor, threads, adapter. */
  readonly description: string;
  /**
   * Uninitialised storage; size-class pools in a deterministic order. Throws, naming the sizes, if there is no room.
   */
  alloc(bytes: number): Buffer;
  /**
   * A part of `whole` as a separate buffer, so that some kernels see many tensors and others one. Offsets are multiples
   * of 256. It is freed separately; the storage goes back when the whole and all its parts are freed. `liveBytes`
   * counts it once, with the whole.
   */
  part(whole: Buffer, offset: number, bytes: number): Buffer;
  /**
   * Declares whether programs only read `buffer` from now on, as they read the weights of a model that is not trained.
   * If memory is short, the executor may then keep it elsewhere, and bring each program a copy. `write`, `read` and
   * `free` stay as they are. Absent where memory is all of one kind.
   */
  readOnly?(buffer: Buffer, is: boolean): void;
  /** Gives the storage back to the pool. Work already enqueued on it still happens first. */
  free(buffer: Buffer): void;
  /** Copies `data` to the start of `buffer`, ordered with the programs run before and after. */
  write(buffer: Buffer, data: TypedArray): void;
  /**
   * The first `bytes` bytes as they are after all programs run so far. The copy is enqueued at once, so freeing or
   * overwriting the buffer afterwards is safe.
   */
  read(buffer: Buffer, bytes: number): Promise<ArrayBuffer>;
  /** As `read`, at once; absent where the executor cannot wait (WebGPU). */
  readSync?(buffer: Buffer, bytes: number): ArrayBuffer;
  /** Resolves when everything run so far is done; rejects with the first error (an op that failed, a lost device). */
  synchronize(): Promise<void>;
  stats(): BackendStats;
  /** Frees everything. The backend cannot be used afterwards. */
  dispose(): void;
}

/** One executor. `run` enqueues a program over `buffers`, the op's inputs, then its outputs; `label` is for errors. */
export type Backend = {
  [K in BackendKind]: BackendBase & {
    readonly kind: K;
    /** Makes the programs of ops; the reference executor runs their definitions and needs none. */
    readonly generators: GeneratorsOf[K];
    run(program: Programs[K], buffers: readonly Buffer[], label: () => string): void;
  } & (K extends "webgpu" ? { readonly profile: AdapterProfile } : object);
}[BackendKind];
export type BackendOf<K extends BackendKind> = Extract<Backend, { kind: K }>;
