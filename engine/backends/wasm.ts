/**
 * The WebAssembly executor: storage in one `WebAssembly.Memory`, kernels assembled by `kernels/wasm` and compiled when their
 * key is first run. Everything happens at once and in order; `read` only wraps the result in a promise.
 *
 * Kernels that are worth it are shared between threads (`threads.ts`): results are the same bits for every number of threads.
 * Where threads are impossible one does everything, and `description` says why.
 */
import type { Program, WasmKernel } from "../../kernels/kernel.ts";
import { I32x4, kernelModule, withSharedMemory } from "../../kernels/wasm/assembler.ts";
import { check, fail, OutOfMemoryError, WorldgradError } from "../errors.ts";
import { Allocator } from "./allocator.ts";
import type { BackendOf, BackendStats, Buffer, TypedArray } from "./backend.ts";
import { checkThreads, defaultThreads, type SharedCode, startThreads, type ThreadPool } from "./threads.ts";

export interface WasmOptions {
  /** Storage limit in bytes; 4 GiB, the most that 32-bit addresses reach, unless given. */
  readonly maxBytes?: number;
  /**
   * Threads that compute, the calling one included, 1 to 64. Unless given: the environment variable `WORLDGRAD_THREADS`, else
   * one per processor, at most 8.
   */
  readonly threads?: number;
  /** For tests and measurements: share every kernel that has more than one unit, however small. */
  readonly alwaysSplit?: boolean;
}

const PAGE = 65536;
const MAX_PAGES = 65536;
/** The memory grows by at least this much, and by an eighth of its size. */
const MIN_GROWTH = 4 * 2 ** 20;

/**
 * When to share a kernel, in its `costPerUnit` (~0.05 ns each): above 0.1 ms, which is twice what waking a thread costs, in
 * pieces of at least 20 µs. Several pieces per thread, because the processors are rarely free alike.
 */
const SPLIT_ABOVE = 2e6;
const CHUNK_COST = 4e5;
const CHUNKS_PER_THREAD = 6;

interface WasmBuffer extends Buffer {
  /** Where it begins, in bytes; `undefined` when freed. */
  offset: number | undefined;
  readonly owner: object;
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

/**
 * The executor for CPUs.
 * @throws if the JavaScript engine has no WebAssembly SIMD, or cannot reserve the memory, or an option is out of range
 */
export async function createWasmBackend(options: WasmOptions = {}): Promise<BackendOf<"wasm">> {
  const limit = Math.min(options.maxBytes ?? MAX_PAGES * PAGE, MAX_PAGES * PAGE);
  check(limit >= PAGE, () => `wasm: maxBytes must be at least ${PAGE}, got ${options.maxBytes}`);
  check(hasWasmSimd(), () => "wasm: this JavaScript engine has no WebAssembly SIMD (2021 or later is needed)");
  const threads = options.threads === undefined ? defaultThreads() : checkThreads(options.threads, "wasm: threads");
  const size = { initial: 1, maximum: Math.floor(limit / PAGE) };
  if (threads === 1) return new WasmBackend(new WebAssembly.Memory(size), size.maximum * PAGE, "1 thread");
  try {
    const { pool, memory } = await startThreads(threads, () => new WebAssembly.Memory({ ...size, shared: true }));
    const sharing = { pool, always: options.alwaysSplit ?? false };
    return new WasmBackend(memory, size.maximum * PAGE, `${threads} threads`, sharing);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return new WasmBackend(new WebAssembly.Memory(size), size.maximum * PAGE, `1 thread: ${reason}`);
  }
}

interface Sharing {
  readonly pool: ThreadPool;
  readonly always: boolean;
}

class WasmBackend {
  readonly kind = "wasm";
  readonly description: string;
  readonly #allocator: Allocator;
  readonly #kernels = new Map<string, Compiled>();
  readonly #sharing: Sharing | undefined;
  #memory: WebAssembly.Memory | undefined;
  #live = { bytes: 0, buffers: 0, peak: 0 };

  constructor(memory: WebAssembly.Memory, limit: number, threads: string, sharing?: Sharing) {
    this.description = `wasm (SIMD, ${threads})`;
    this.#allocator = new Allocator(limit);
    this.#memory = memory;
    this.#sharing = sharing;
  }

  alloc(bytes: number): Buffer {
    const offset = this.#allocator.alloc(bytes);
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
    return { bytes, offset, owner: this } as WasmBuffer;
  }

  free(buffer: Buffer): void {
    this.#allocator.free(this.#offsetOf(buffer, "free"), buffer.bytes);
    (buffer as WasmBuffer).offset = undefined;
    this.#live.bytes -= buffer.bytes;
    this.#live.buffers--;
  }

  write(buffer: Buffer, data: TypedArray): void {
    const offset = this.#offsetOf(buffer, "write");
    check(
      data.byteLength <= buffer.bytes,
      () => `wasm: write of ${data.byteLength} bytes into a buffer of ${buffer.bytes}`,
    );
    this.#bytes(offset, data.byteLength).set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  }

  readSync(buffer: Buffer, bytes: number): ArrayBuffer {
    const offset = this.#offsetOf(buffer, "read");
    check(bytes <= buffer.bytes, () => `wasm: read of ${bytes} bytes from a buffer of ${buffer.bytes}`);
    const copy = new Uint8Array(bytes);
    copy.set(this.#bytes(offset, bytes));
    return copy.buffer;
  }

  async read(buffer: Buffer, bytes: number): Promise<ArrayBuffer> {
    return this.readSync(buffer, bytes);
  }

  run(program: Program<WasmKernel>, buffers: readonly Buffer[], label: () => string): void {
    const temps = program.temps.map((bytes) => this.alloc(bytes));
    try {
      const pointers = [...buffers, ...temps].map((buffer) => this.#offsetOf(buffer, "run"));
      for (const { kernel, buffers: used } of program.steps) {
        check(
          used.every((b) => b < pointers.length),
          () => `kernel ${kernel.key} uses buffers [${used.join(", ")}], there are ${pointers.length}`,
        );
        this.#runUnits(kernel, used.map((b) => pointers[b]!)); // prettier-ignore
      }
    } catch (error) {
      throw new WorldgradError(`${label()}: ${error instanceof Error ? error.message : String(error)}`, {
        cause: error,
      });
    } finally {
      for (let i = temps.length - 1; i >= 0; i--) this.free(temps[i]!);
    }
  }

  synchronize(): Promise<void> {
    return Promise.resolve();
  }

  stats(): BackendStats {
    const { bytes, buffers, peak } = this.#live;
    return {
      liveBytes: bytes,
      liveBuffers: buffers,
      peakBytes: peak,
      reservedBytes: this.#memory?.buffer.byteLength ?? 0,
      compiledKernels: this.#kernels.size,
    };
  }

  dispose(): void {
    this.#sharing?.pool.dispose();
    this.#memory = undefined;
    this.#kernels.clear();
    this.#live = { bytes: 0, buffers: 0, peak: this.#live.peak };
  }

  /** Runs all units of a kernel: here, or cut into chunks for all threads. The kernels' contract is that the bits are the same. */
  #runUnits(kernel: WasmKernel, pointers: readonly number[]): void {
    const { run, code } = this.#compiled(kernel);
    const { units, scalars } = kernel;
    const chunks = this.#chunks(kernel);
    if (this.#sharing === undefined || code === undefined || chunks < 2) {
      run(...pointers, ...scalars, 0, units); // pointers ≥ 2 GiB wrap to negative i32: the same bits
    } else this.#sharing.pool.run({ code, run, args: [...pointers, ...scalars], units, chunks });
  }

  #chunks({ units, costPerUnit }: WasmKernel): number {
    if (this.#sharing === undefined || units < 2) return 1;
    const { pool, always } = this.#sharing;
    const most = Math.min(units, CHUNKS_PER_THREAD * pool.threads);
    if (always) return most;
    const cost = units * costPerUnit;
    return cost < SPLIT_ABOVE || pool.hindered ? 1 : Math.min(most, Math.floor(cost / CHUNK_COST));
  }

  #compiled(kernel: WasmKernel): Compiled {
    let compiled = this.#kernels.get(kernel.key);
    if (compiled === undefined) {
      const pool = this.#sharing?.pool;
      const bytes = pool === undefined ? kernel.module() : withSharedMemory(kernel.module());
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
        return true;
      } catch {
        continue;
      }
    }
    return false;
  }
}
