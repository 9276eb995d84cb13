/**
 * The WebAssembly executor: storage in one `WebAssembly.Memory`, kernels assembled by `kernels/wasm` and compiled when their
 * key is first run. Everything happens at once and in order; `read` only wraps the result in a promise.
 *
 * One thread. Kernels are already divided into independent units, so threads need nothing but another `runUnits` (below).
 */
import type { Program, WasmKernel } from "../../kernels/kernel.ts";
import { I32x4, kernelModule } from "../../kernels/wasm/assembler.ts";
import { check, fail, WorldgradError } from "../errors.ts";
import { Allocator } from "./allocator.ts";
import type { BackendOf, BackendStats, Buffer, TypedArray } from "./backend.ts";

export interface WasmOptions {
  /** Storage limit in bytes; 4 GiB, the most that 32-bit addresses reach, unless given. */
  readonly maxBytes?: number;
}

const PAGE = 65536;
const MAX_PAGES = 65536;
/** The memory grows by at least this much, and by an eighth of its size. */
const MIN_GROWTH = 4 * 2 ** 20;

interface WasmBuffer extends Buffer {
  /** Where it begins, in bytes; `undefined` when freed. */
  offset: number | undefined;
  readonly owner: object;
}
type Run = (...args: number[]) => void;

/** Whether this JavaScript engine compiles 128-bit SIMD. */
export function hasWasmSimd(): boolean {
  if (typeof WebAssembly === "undefined") return false;
  return WebAssembly.validate(kernelModule({ p: "i32" }, (f, { p }) => f.store(p, I32x4.of(0).add(1))));
}

/**
 * The executor for CPUs.
 * @throws if the JavaScript engine has no WebAssembly SIMD, or cannot reserve the memory
 */
export async function createWasmBackend(options: WasmOptions = {}): Promise<BackendOf<"wasm">> {
  const limit = Math.min(options.maxBytes ?? MAX_PAGES * PAGE, MAX_PAGES * PAGE);
  check(limit >= PAGE, () => `wasm: maxBytes must be at least ${PAGE}, got ${options.maxBytes}`);
  check(hasWasmSimd(), () => "wasm: this JavaScript engine has no WebAssembly SIMD (2021 or later is needed)");
  return new WasmBackend(limit);
}

class WasmBackend {
  readonly kind = "wasm";
  readonly description = "wasm (SIMD, 1 thread)";
  readonly #allocator: Allocator;
  readonly #kernels = new Map<string, Run>();
  #memory: WebAssembly.Memory | undefined;
  #live = { bytes: 0, buffers: 0, peak: 0 };

  constructor(limit: number) {
    this.#allocator = new Allocator(Math.floor(limit / PAGE) * PAGE);
    this.#memory = new WebAssembly.Memory({ initial: 1, maximum: Math.floor(limit / PAGE) });
  }

  alloc(bytes: number): Buffer {
    const offset = this.#allocator.alloc(bytes);
    if (offset === undefined || !this.#reserve(this.#allocator.top)) {
      if (offset !== undefined) this.#allocator.free(offset, bytes);
      const { bytes: live, buffers } = this.#live;
      const limit = offset === undefined ? `the limit is ${this.#allocator.limit}` : "the system gives no more";
      fail(`wasm: out of memory: asked for ${bytes} bytes, ${live} are live in ${buffers} buffers, ${limit}`);
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
        runUnits(this.#compiled(kernel), kernel, used.map((b) => pointers[b]!)); // prettier-ignore
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
    this.#memory = undefined;
    this.#kernels.clear();
    this.#live = { bytes: 0, buffers: 0, peak: this.#live.peak };
  }

  #compiled(kernel: WasmKernel): Run {
    let run = this.#kernels.get(kernel.key);
    if (run === undefined) {
      const module = new WebAssembly.Module(kernel.module());
      run = new WebAssembly.Instance(module, { env: { memory: this.#alive() } }).exports["run"] as Run;
      this.#kernels.set(kernel.key, run);
    }
    return run;
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

/**
 * Runs all units of a kernel. This is the place for threads: `[0, units)` may be cut anywhere (by `costPerUnit`, from the shape
 * alone) and the ranges run in any order at the same time; the kernels' contract is that the bits do not change.
 */
function runUnits(run: Run, kernel: WasmKernel, pointers: readonly number[]): void {
  run(...pointers, ...kernel.scalars, 0, kernel.units); // pointers ≥ 2 GiB wrap to negative i32: the same bits
}
