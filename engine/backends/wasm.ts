/**
 * The WebAssembly executor: storage in one `WebAssembly.Memory`, and for weights that do not fit into it in arrays
 * outside (`heap.ts`); kernels assembled by `kernels/wasm` and compiled when their key is first run. Everything happens
 * in order. With one thread kernels run at once; with more they are enqueued, and reading waits.
 *
 * Kernels that are worth it are shared between threads (`threads.ts`): results are the same bits for every number of
 * threads. Where threads are impossible one does everything, and `description` says why. `WORLDGRAD_DEBUG=1` prints
 * times and hit rates (`debug.ts`).
 */
import type { Program, WasmKernel } from "../../kernels/kernel.ts";
import type { Generators } from "../../kernels/program.ts";
import * as families from "../../kernels/wasm/index.ts";
import { I32x4, kernelModule, load, withSharedMemory } from "../../kernels/wasm/assembler.ts";
import { hitRate, type KernelLog, kernelLog } from "../debug.ts";
import { check, fail, KernelFailure, onHost, OutOfMemoryError, WorldgradError } from "../errors.ts";
import { Allocator } from "./allocator.ts";
import type { BackendOf, BackendStats, Buffer, TypedArray } from "./backend.ts";
import { Heap, type HeapBuffer } from "./heap.ts";
import { checkThreads, defaultThreads, obstacle } from "./threadCount.ts";
import type { SharedCode, ThreadPool } from "./threads.ts";

export interface WasmOptions {
  /**
   * Limit of the memory in bytes; 4 GiB, the most that 32-bit addresses reach, unless given. Frozen weights that do not
   * fit into it lie outside.
   */
  readonly maxBytes?: number;
  /**
   * Threads that compute, the calling one included, 1 to 64. Default: the environment variable `WORLDGRAD_THREADS`,
   * else one per processor, at most 8.
   */
  readonly threads?: number;
  /**
   * Fused multiply-adds in matrix products (relaxed SIMD): faster where a processor adds no faster than it multiplies
   * and adds, but the bits are then those of this processor only. Default false.
   */
  readonly fused?: boolean;
  /** Whether every kernel that has more than one unit is shared, however small; for tests and measurements. */
  readonly alwaysSplit?: boolean;
}

const PAGE = 65536;
const MAX_PAGES = 65536;
/** The least growth of the memory, in bytes; it also grows by an eighth of its size. */
const MIN_GROWTH = 4 * 2 ** 20;

/** Milliseconds per unit of a kernel's `costPerUnit`: 0.04 ns. */
const MS_PER_COST = 4e-8;
/**
 * The least cost of a kernel that is shared, in its `costPerUnit`, and the least cost of a piece. A thread that still
 * looks for work, as between the kernels of a step, joins within a microsecond; one that sleeps has to be woken, which
 * costs
 * 50. Several pieces per thread, because the processors are rarely free alike.
 */
const SPLIT_ABOVE = { awake: 5e5, asleep: 2e6 } as const;
const CHUNK_COST = 2e5;
const CHUNKS_PER_THREAD = 6;

/** The contract's numbers, and those of the pool of free memory. */
export interface WasmStats extends BackendStats {
  /** Allocations that a free block served, and those for which memory was cut. */
  readonly bufferHits: number;
  readonly bufferMisses: number;
  /** Bytes of live buffers that were moved out of the memory. */
  readonly outsideBytes: number;
}

type WasmBuffer = HeapBuffer<Uint8Array<ArrayBuffer>>;
type Run = (...args: number[]) => void;
interface Compiled {
  readonly run: Run;
  /** The code for the workers; absent when there are none, or no room. */
  readonly code: SharedCode | undefined;
}

/** Whether this JavaScript engine compiles 128-bit SIMD. */
export function hasWasmSimd(): boolean {
  if (typeof WebAssembly === "undefined") return false;
  return WebAssembly.validate(kernelModule({ p: "i32" }, (f, { p }) => f.store(p, I32x4.of(0).add(1))));
}

/** Whether this JavaScript engine compiles relaxed SIMD (Node 22; Node 20 with `--experimental-wasm-relaxed-simd`). */
export function hasRelaxedSimd(): boolean {
  const fused = kernelModule({ p: "i32" }, (f, { p }) => {
    const x = f.let(load.f32x4(p));
    f.store(p, x.relaxedMadd(x, x));
  });
  return typeof WebAssembly !== "undefined" && WebAssembly.validate(fused);
}

/**
 * The executor for CPUs.
 * @throws if the JavaScript engine has no WebAssembly SIMD, or cannot reserve the memory, or an option is out of range
 */
export async function createWasmBackend(options: WasmOptions = {}): Promise<BackendOf<"wasm">> {
  const limit = Math.min(options.maxBytes ?? MAX_PAGES * PAGE, MAX_PAGES * PAGE);
  check(limit >= PAGE, () => `wasm: maxBytes must be at least ${PAGE}, got ${options.maxBytes}`);
  check(hasWasmSimd(), () => "wasm: this JavaScript engine has no WebAssembly SIMD (2021 or later is needed)");
  const { fused = false } = options;
  check(
    !fused || hasRelaxedSimd(),
    () =>
      "wasm: fused multiply-adds need relaxed SIMD, which this JavaScript engine lacks " +
      "(Node 20: --experimental-wasm-relaxed-simd)",
  );
  const threads = options.threads === undefined ? defaultThreads() : checkThreads(options.threads, "wasm: threads");
  const size = { initial: 1, maximum: Math.floor(limit / PAGE) };
  const alone = (why = ""): WasmBackend =>
    new WasmBackend(new WebAssembly.Memory(size), size.maximum * PAGE, `1 thread${why}`, fused);
  if (threads === 1) return alone();
  const reason = obstacle();
  if (reason !== undefined) return alone(`: ${reason}`);
  try {
    const { startThreads } = await import("./threads.ts");
    const { pool, memory } = await startThreads(threads, () => new WebAssembly.Memory({ ...size, shared: true }));
    const sharing = { pool, always: options.alwaysSplit ?? false };
    return new WasmBackend(memory, size.maximum * PAGE, `${threads} threads`, fused, sharing);
  } catch (error) {
    return alone(`: ${error instanceof Error ? error.message : String(error)}`);
  }
}

interface Sharing {
  readonly pool: ThreadPool;
  readonly always: boolean;
}

class WasmBackend {
  readonly kind = "wasm";
  readonly generators: Generators<WasmKernel> = { ...families };
  readonly description: string;
  readonly #heap: Heap<Uint8Array<ArrayBuffer>>;
  readonly #kernels = new Map<string, Compiled>();
  readonly #sharing: Sharing | undefined;
  readonly #fused: boolean;
  /**
   * The pool's ticket at the last time that a kernel which uses a block of memory was enqueued, by block. That kernel
   * may still be at work. (The next owner gets the whole block.)
   */
  readonly #lastUse = new Map<number, number>();
  readonly #log: KernelLog | undefined;
  /** The error of an enqueued kernel. Its results and those behind it are missing, so every later call reports it. */
  #failure: KernelFailure | undefined;
  #kernelHits = 0;
  #memory: WebAssembly.Memory | undefined;

  constructor(memory: WebAssembly.Memory, limit: number, threads: string, fused: boolean, sharing?: Sharing) {
    this.description = `wasm (SIMD, ${threads}${fused ? ", fused multiply-add" : ""})`;
    this.#fused = fused;
    this.#heap = new Heap("wasm", new Allocator(limit, memory.buffer.byteLength), {
      reserve: (end) => this.#reserve(end),
      settle: () => this.#settle(),
      copyOut: (offset, bytes) => this.#copy(offset, bytes),
      copyIn: (buffer, data) => this.write(buffer, data),
    });
    this.#memory = memory;
    this.#sharing = sharing;
    this.#log = kernelLog(this.description, () => [
      hitRate("kernels", this.#kernelHits, this.#kernels.size),
      hitRate("buffers", this.#heap.allocator.hits, this.#heap.allocator.misses),
    ]);
  }

  alloc(bytes: number): Buffer {
    return this.#heap.alloc(bytes);
  }

  part(whole: Buffer, offset: number, bytes: number): Buffer {
    return this.#heap.part(whole, offset, bytes);
  }

  free(buffer: Buffer): void {
    this.#heap.free(buffer);
  }

  readOnly(buffer: Buffer, is: boolean): void {
    this.#heap.readOnly(buffer, is);
  }

  write(buffer: Buffer, data: TypedArray | Uint8Array<ArrayBuffer>): void {
    const { outside, block } = this.#heap.checked(buffer, "write");
    check(
      data.byteLength <= buffer.bytes,
      () => `wasm: write of ${data.byteLength} bytes into a buffer of ${buffer.bytes}`,
    );
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    if (outside !== undefined) return outside.set(bytes);
    const used = this.#lastUse.get(block);
    if (used !== undefined && this.#sharing?.pool.isDone(used) === false) this.#settle();
    this.#bytes(this.#heap.offsetOf(buffer, "write"), data.byteLength).set(bytes);
  }

  readSync(buffer: Buffer, bytes: number): ArrayBuffer {
    const { outside } = this.#heap.checked(buffer, "read");
    check(bytes <= buffer.bytes, () => `wasm: read of ${bytes} bytes from a buffer of ${buffer.bytes}`);
    this.#settle();
    const copy = new Uint8Array(bytes);
    copy.set(outside?.subarray(0, bytes) ?? this.#bytes(this.#heap.offsetOf(buffer, "read"), bytes));
    return copy.buffer;
  }

  async read(buffer: Buffer, bytes: number): Promise<ArrayBuffer> {
    return this.readSync(buffer, bytes);
  }

  run(program: Program<WasmKernel>, buffers: readonly Buffer[], label: () => string): void {
    if (this.#failure !== undefined) throw this.#failure;
    const temps: Buffer[] = [];
    try {
      for (const bytes of program.temps) temps.push(this.alloc(bytes));
      const ofProgram = [...temps]; // before `within` adds copies
      const pointers = this.#heap.within(buffers, temps).map((buffer) => this.#heap.offsetOf(buffer, "run"));
      for (const temp of ofProgram) pointers.push(this.#heap.offsetOf(temp, "run"));
      for (const { kernel, buffers: used } of program.steps) this.#runKernel(kernel, used, pointers, label);
    } catch (error) {
      if (error instanceof KernelFailure) throw (this.#failure = error);
      const Kind = error instanceof OutOfMemoryError ? OutOfMemoryError : WorldgradError;
      throw new Kind(`${label()}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
    } finally {
      const pool = this.#sharing?.pool;
      if (pool?.busy) {
        for (const { block } of [...buffers, ...temps] as WasmBuffer[]) this.#lastUse.set(block, pool.ticket);
      }
      for (let i = temps.length - 1; i >= 0; i--) this.free(temps[i]!);
    }
  }

  async synchronize(): Promise<void> {
    this.#settle();
  }

  /** Waits until everything enqueued is done. @throws the first failure, again and again */
  #settle(): void {
    try {
      this.#sharing?.pool.drain();
    } catch (error) {
      if (error instanceof KernelFailure) this.#failure ??= error;
      else throw error;
    }
    this.#lastUse.clear();
    if (this.#failure !== undefined) throw this.#failure;
  }

  stats(): WasmStats {
    const { live, outside, allocator } = this.#heap;
    return {
      liveBytes: live.bytes,
      liveBuffers: live.buffers,
      peakBytes: live.peak,
      reservedBytes: (this.#memory?.buffer.byteLength ?? 0) + outside.bytes,
      compiledKernels: this.#kernels.size,
      bufferHits: allocator.hits,
      bufferMisses: allocator.misses,
      outsideBytes: outside.bytes,
    };
  }

  dispose(): void {
    this.#log?.print();
    this.#sharing?.pool.dispose();
    this.#memory = undefined;
    this.#kernels.clear();
    this.#heap.dispose();
  }

  /**
   * Runs all units of a kernel at once, or enqueues them, in chunks for all threads. The contract of kernels makes the
   * bits the same. While others are enqueued, a small one joins them as a single chunk.
   */
  #runKernel(kernel: WasmKernel, used: readonly number[], pointers: readonly number[], label: () => string): void {
    const { run, code } = this.#compiled(kernel);
    const { units, scalars } = kernel;
    const args: number[] = [];
    for (const b of used) {
      args.push(
        pointers[b] ?? fail(`kernel ${kernel.key} uses buffers [${used.join(", ")}], there are ${pointers.length}`),
      );
    }
    for (const scalar of scalars) args.push(scalar);
    const pool = this.#sharing?.pool;
    const chunks = this.#chunks(kernel);
    const begun = this.#log === undefined ? 0 : performance.now();
    const pays = pool !== undefined && (chunks > 1 || (pool.busy && !pool.hindered));
    if (pays && code !== undefined && args.length <= pool.maxArgs) {
      const chunkMs = (MS_PER_COST * units * kernel.costPerUnit) / chunks;
      pool.submit({ code, run, args, units, chunks, chunkMs, label });
    } else {
      pool?.drain();
      run(...args, 0, units); // pointers ≥ 2 GiB wrap to negative i32: the same bits
    }
    if (this.#log === undefined) return;
    pool?.drain();
    this.#log.add(kernel.key, performance.now() - begun);
  }

  #chunks({ units, costPerUnit }: WasmKernel): number {
    if (this.#sharing === undefined || units < 2) return 1;
    const { pool, always } = this.#sharing;
    const most = Math.min(units, CHUNKS_PER_THREAD * pool.threads);
    if (always) return most;
    const cost = units * costPerUnit;
    const worth = cost >= (pool.asleep ? SPLIT_ABOVE.asleep : SPLIT_ABOVE.awake);
    return worth && !pool.hindered ? Math.min(most, Math.floor(cost / CHUNK_COST)) : 1;
  }

  #compiled(kernel: WasmKernel): Compiled {
    let compiled = this.#kernels.get(kernel.key);
    if (compiled !== undefined) this.#kernelHits++;
    else {
      const pool = this.#sharing?.pool;
      const module = kernel.module(this.#fused);
      const bytes = pool === undefined ? module : withSharedMemory(module);
      const instance = new WebAssembly.Instance(new WebAssembly.Module(bytes), { env: { memory: this.#alive() } });
      compiled = { run: instance.exports["run"] as Run, code: pool?.share(bytes) };
      this.#kernels.set(kernel.key, compiled);
    }
    return compiled;
  }

  /** A view of the memory, made anew every time: growth detaches older ones. */
  #bytes(offset: number, length: number): Uint8Array {
    return new Uint8Array(this.#alive().buffer, offset, length);
  }

  #alive(): WebAssembly.Memory {
    return this.#memory ?? fail("wasm: the backend was used after dispose()");
  }

  #copy(offset: number, bytes: number): Uint8Array<ArrayBuffer> | undefined {
    try {
      const copy = onHost(
        () => "wasm",
        () => new Uint8Array(bytes),
      );
      copy.set(this.#bytes(offset, bytes));
      return copy;
    } catch (error) {
      if (error instanceof OutOfMemoryError) return undefined;
      throw error;
    }
  }

  /** Grows the memory to `bytes` at least. */
  #reserve(bytes: number): boolean {
    const memory = this.#alive();
    const size = memory.buffer.byteLength;
    if (bytes <= size) return true;
    const target = Math.min(Math.max(bytes, size + Math.max(MIN_GROWTH, size / 8)), this.#heap.allocator.limit);
    // The engine may refuse the comfortable size and still have the necessary one.
    for (const goal of [target, bytes]) {
      try {
        memory.grow(Math.ceil((goal - size) / PAGE));
        this.#heap.allocator.reserved = memory.buffer.byteLength;
        return true;
      } catch {
        continue;
      }
    }
    return false;
  }
}
