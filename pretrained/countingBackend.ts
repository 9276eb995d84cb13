/**
 * An executor that computes nothing: it takes and frees memory as the WebAssembly executor does, at the same addresses,
 * and runs no kernel. A training step on it measures in milliseconds the memory that the step needs, whatever the
 * model's size, because the same code runs (PyTorch's device `meta` serves the same purpose).
 */
import type { WasmKernel } from "../kernels/kernel.ts";
import type { Generators } from "../kernels/program.ts";
import * as families from "../kernels/wasm/index.ts";
import { Allocator } from "../engine/backends/allocator.ts";
import type { BackendOf, BackendStats, Buffer } from "../engine/backends/backend.ts";
import { Heap } from "../engine/backends/heap.ts";

/** The numbers of `BackendStats`, and those that only counting gives. */
export interface CountingStats extends BackendStats {
  /** The largest buffer so far: on a GPU it has to fit into one binding. */
  readonly largestBuffer: number;
  /** The largest number of bytes of weights so far that lay outside the memory because they did not fit. */
  readonly outsideBytes: number;
}

/** Options of `createCountingBackend`. */
export interface CountingOptions {
  /** Bytes of the simulated memory; `reservedBytes` is the part of it that was ever needed. */
  readonly limit: number;
  /** Whether weights may lie outside of it, as with WebAssembly, whose memory is smaller than the machine's. */
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
