/**
 * An executor that computes nothing: it takes and frees memory as the WebAssembly executor does, at the same addresses,
 * and runs no kernel. A training step on it says in milliseconds what memory the step needs, whatever the model's size,
 * because it is the same code that runs (PyTorch's device `meta` is made for the same).
 */
import type { WasmKernel } from "../../kernels/kernel.ts";
import type { Generators } from "../../kernels/program.ts";
import * as families from "../../kernels/wasm/index.ts";
import { Allocator } from "./allocator.ts";
import type { BackendOf, BackendStats, Buffer } from "./backend.ts";
import { Heap } from "./heap.ts";

/** The contract's numbers, and what only counting tells. */
export interface CountingStats extends BackendStats {
  /** The largest buffer so far: on a GPU it has to fit into one binding. */
  readonly largestBuffer: number;
  /** The most bytes of weights so far that did not fit into the memory, and lie outside. */
  readonly outsideBytes: number;
}

/** What is counted. */
export interface CountingOptions {
  /** Bytes of the memory that is played; what is reserved is what of it was ever needed. */
  readonly limit: number;
  /** Whether weights may lie outside of it, as with WebAssembly, where a memory is smaller than the machine's. */
  readonly outside: boolean;
}

/** An executor that only counts. */
export function createCountingBackend({
  limit,
  outside,
}: CountingOptions): BackendOf<"wasm"> & { stats(): CountingStats } {
  const allocator = new Allocator(limit);
  let largestBuffer = 0;
  const heap = new Heap<true>("counting", allocator, {
    reserve(end) {
      allocator.reserved = Math.max(allocator.reserved, end);
      return true;
    },
    settle: () => undefined,
    copyOut: () => true,
    copyIn: () => undefined,
  });
  const alloc = (bytes: number): Buffer => {
    largestBuffer = Math.max(largestBuffer, bytes);
    return heap.alloc(bytes);
  };
  const generators: Generators<WasmKernel> = { ...families };
  return {
    kind: "wasm",
    description: "counting (memory only, nothing is computed)",
    generators,
    alloc,
    part: (whole, offset, bytes) => heap.part(whole, offset, bytes),
    free: (buffer) => heap.free(buffer),
    readOnly: (buffer, is) => heap.readOnly(buffer, is && outside),
    write: () => undefined,
    read: (_, bytes) => Promise.resolve(new ArrayBuffer(bytes)),
    readSync: (_, bytes) => new ArrayBuffer(bytes),
    run(program, buffers) {
      const temps: Buffer[] = [];
      try {
        for (const bytes of program.temps) temps.push(alloc(bytes));
        heap.within(buffers, temps);
      } finally {
        for (const temp of temps.reverse()) heap.free(temp);
      }
    },
    synchronize: () => Promise.resolve(),
    stats: () => ({
      liveBytes: heap.live.bytes,
      liveBuffers: heap.live.buffers,
      peakBytes: heap.live.peak,
      reservedBytes: allocator.reserved + heap.outside.peak,
      compiledKernels: 0,
      largestBuffer,
      outsideBytes: heap.outside.peak,
    }),
    dispose: () => heap.dispose(),
  };
}
