/**
 * The WebAssembly executor: storage in one `WebAssembly.Memory`, kernels assembled by `kernels/wasm` and compiled when
 * their key is first run. Everything happens in order; with one thread also at once, with more kernels are enqueued,
 * and reading waits.
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
import { check, fail, KernelFailure, OutOfMemoryError, WorldgradError } from "../errors.ts";
import { Allocator } from "./allocator.ts";
import type { BackendOf, BackendStats, Buffer, TypedArray } from "./backend.ts";
import { checkThreads, defaultThreads, obstacle } from "./threadCount.ts";
import type { SharedCode, ThreadPool } from "./threads.ts";

export interface WasmOptions {
  /** Storage limit in bytes; 4 GiB, the most that 32-bit addresses reach, unless given. */
  readonly maxBytes?: number;
  /**
   * Threads that compute, the calling one included, 1 to 64. Unless given: the environment variable
   * `WORLDGRAD_THREADS`, else one per processor, at most 8.
   */
  readonly threads?: number;
  /**
   * Fused multiply-adds in matrix products (relaxed SIMD): faster where a processor adds no faster than it multiplies
   * and adds, but the bits are then those of this processor only. Off unless given.
   */
  readonly fused?: boolean;
  /** For tests and measurements: share every kernel that has more than one unit, however small. */
  readonly alwaysSplit?: boolean;
}

const PAGE = 65536;
const MAX_PAGES = 65536;
/** The memory grows by at least this much, and by an eighth of its size. */
const MIN_GROWTH = 4 * 2 ** 20;

/** Of a kernel's `costPerUnit`: 0.04 ns. */
const MS_PER_COST = 4e-8;
/**
 * When to share a kernel, in its `costPerUnit`, and in pieces of at least how much. A thread that still looks
 * for work, as between the kernels of a step, joins within a microsecond; one that sleeps has to be woken, which costs
 * 50. Several pieces per thread, because the processors are rarely free alike.
 */
const SPLIT_ABOVE = { awake: 5e5, asleep: 2e6 } as const;
const CHUNK_COST = 2e5;
const CHUNKS_PER_THREAD = 6;

/** The contract's numbers, and what the pool of free memory did. */
export interface WasmStats extends BackendStats {
  /** Allocations that a free block met, and those for which memory was cut. */
  readonly bufferHits: number;
  readonly bufferMisses: number;
}

interface WasmBuffer extends Buffer {
  /** Where it begins, in bytes; `undefined` when freed. */
  offset: number | undefined;
  /** Where the block of memory begins that it lies in. */
  readonly block: number;
  readonly owner: object;
  /** What it is a part of. */
  readonly whole?: WasmBuffer;
  /** How many live parts it has: its storage stays until it is freed and they are. */
  parts?: number;
  /** Where it began, once it is freed while parts live. */
  shelvedAt?: number;
}
type Run = (...args: number[]) => void;
interface Compiled {
  readonly run: Run;
  /** For the workers; absent when there are none, or no room. */
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
  readonly #allocator: Allocator;
  readonly #kernels = new Map<string, Compiled>();
  readonly #sharing: Sharing | undefined;
  readonly #fused: boolean;
  /**
   * By block of memory, which whoever has it next gets whole: the pool's ticket when a kernel that uses it was last
   * enqueued. That kernel may still be at work.
   */
  readonly #lastUse = new Map<number, number>();
  readonly #log: KernelLog | undefined;
  /**
   * An enqueued kernel failed: what it and those behind it were to write is not there, so every later call reports it.
   */
  #failure: KernelFailure | undefined;
  #kernelHits = 0;
  #memory: WebAssembly.Memory | undefined;
  #live = { bytes: 0, buffers: 0, peak: 0 };

  constructor(memory: WebAssembly.Memory, limit: number, threads: string, fused: boolean, sharing?: Sharing) {
    this.description = `wasm (SIMD, ${threads}${fused ? ", fused multiply-add" : ""})`;
    this.#fused = fused;
    this.#allocator = new Allocator(limit, memory.buffer.byteLength);
    this.#memory = memory;
    this.#sharing = sharing;
    this.#log = kernelLog(this.description, () => [
      hitRate("kernels", this.#kernelHits, this.#kernels.size),
      hitRate("buffers", this.#allocator.hits, this.#allocator.misses),
    ]);
  }

  alloc(bytes: number): Buffer {
    const { misses } = this.#allocator;
    const offset = this.#allocator.alloc(bytes);
    if (this.#allocator.misses !== misses) {
      try {
        this.#settle(); // blocks may have been cut anew
      } catch (error) {
        if (offset !== undefined) this.#allocator.free(offset, bytes);
        throw error;
      }
    }
    if (offset === undefined || !this.#reserve(this.#allocator.top)) {
      if (offset !== undefined) this.#allocator.free(offset, bytes);
      const { bytes: live, buffers } = this.#live;
      const limit = offset === undefined ? `the limit is ${this.#allocator.limit}` : "the system gives no more";
      throw new OutOfMemoryError(
        `wasm: out of memory: asked for ${bytes} bytes, ${live} are live in ${buffers} buffers, ${limit}`,
      );
    }
    const live = this.#live;
    live.bytes += bytes;
    live.buffers++;
    live.peak = Math.max(live.peak, live.bytes);
    return { bytes, offset, block: offset, owner: this } as WasmBuffer;
  }

  part(whole: Buffer, offset: number, bytes: number): Buffer {
    const start = this.#offsetOf(whole, "part");
    check(offset + bytes <= whole.bytes, () => `wasm: part: ${bytes} bytes at ${offset} of ${whole.bytes}`);
    const root = (whole as WasmBuffer).whole ?? (whole as WasmBuffer);
    root.parts = (root.parts ?? 0) + 1;
    return { bytes, offset: start + offset, block: root.block, owner: this, whole: root } as WasmBuffer;
  }

  free(buffer: Buffer): void {
    if (this.#memory === undefined) return; // gone with the backend
    const start = this.#offsetOf(buffer, "free");
    const own = buffer as WasmBuffer;
    own.offset = undefined;
    if (own.whole !== undefined) {
      own.whole.parts!--;
      if (own.whole.parts === 0 && own.whole.shelvedAt !== undefined) this.#shelve(own.whole, own.whole.shelvedAt);
    } else if ((own.parts ?? 0) > 0) own.shelvedAt = start;
    else this.#shelve(own, start);
  }

  #shelve({ bytes }: WasmBuffer, start: number): void {
    this.#allocator.free(start, bytes);
    this.#live.bytes -= bytes;
    this.#live.buffers--;
  }

  write(buffer: Buffer, data: TypedArray): void {
    const offset = this.#offsetOf(buffer, "write");
    check(
      data.byteLength <= buffer.bytes,
      () => `wasm: write of ${data.byteLength} bytes into a buffer of ${buffer.bytes}`,
    );
    const used = this.#lastUse.get((buffer as WasmBuffer).block);
    if (used !== undefined && this.#sharing?.pool.isDone(used) === false) this.#settle();
    this.#bytes(offset, data.byteLength).set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  }

  readSync(buffer: Buffer, bytes: number): ArrayBuffer {
    const offset = this.#offsetOf(buffer, "read");
    check(bytes <= buffer.bytes, () => `wasm: read of ${bytes} bytes from a buffer of ${buffer.bytes}`);
    this.#settle();
    const copy = new Uint8Array(bytes);
    copy.set(this.#bytes(offset, bytes));
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
      const pointers = buffers.map((buffer) => this.#offsetOf(buffer, "run"));
      for (const temp of temps) pointers.push(this.#offsetOf(temp, "run"));
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

  /** Everything enqueued is done. @throws the first failure, again and again */
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
    const { bytes, buffers, peak } = this.#live;
    return {
      liveBytes: bytes,
      liveBuffers: buffers,
      peakBytes: peak,
      reservedBytes: this.#memory?.buffer.byteLength ?? 0,
      compiledKernels: this.#kernels.size,
      bufferHits: this.#allocator.hits,
      bufferMisses: this.#allocator.misses,
    };
  }

  dispose(): void {
    this.#log?.print();
    this.#sharing?.pool.dispose();
    this.#memory = undefined;
    this.#kernels.clear();
    this.#live = { bytes: 0, buffers: 0, peak: this.#live.peak };
  }

  /**
   * Runs all units of a kernel at once, or enqueues them, in chunks for all threads. The kernels' contract is that the
   * bits are the same. While others are enqueued a small one joins them, as a single chunk.
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

  /** A view made anew every time: growing the memory detaches older ones. */
  #bytes(offset: number, length: number): Uint8Array {
    return new Uint8Array(this.#alive().buffer, offset, length);
  }

  #alive(): WebAssembly.Memory {
    return this.#memory ?? fail("wasm: the backend was used after dispose()");
  }

  #offsetOf(buffer: Buffer, what: string): number {
    this.#alive();
    const { owner, offset } = buffer as WasmBuffer;
    check(owner === this, () => `wasm: ${what}: the buffer belongs to another backend`);
    return offset ?? fail(`wasm: ${what}: the buffer of ${buffer.bytes} bytes was freed before`);
  }

  /** Grows the memory to `bytes` at least. */
  #reserve(bytes: number): boolean {
    const memory = this.#alive();
    const size = memory.buffer.byteLength;
    if (bytes <= size) return true;
    const target = Math.min(Math.max(bytes, size + Math.max(MIN_GROWTH, size / 8)), this.#allocator.limit);
    // The engine may refuse the comfortable size and still have the necessary one.
    for (const goal of [target, bytes]) {
      try {
        memory.grow(Math.ceil((goal - size) / PAGE));
        this.#allocator.reserved = memory.buffer.byteLength;
        return true;
      } catch {
        continue;
      }
    }
    return false;
  }
}
