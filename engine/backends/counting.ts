/**
 * An executor that computes nothing: it takes and frees memory as the WebAssembly executor does, at the same addresses,
 * and runs no kernel. A training step on it says in milliseconds what memory the step needs, whatever the model's size,
 * because it is the same code that runs (PyTorch's device `meta` is made for the same).
 */
import type { WasmKernel } from "../../kernels/kernel.ts";
import type { Generators } from "../../kernels/program.ts";
import * as families from "../../kernels/wasm/index.ts";
import { OutOfMemoryError } from "../errors.ts";
import { Allocator } from "./allocator.ts";
import type { BackendOf, BackendStats, Buffer } from "./backend.ts";

/** The contract's numbers, and the largest buffer so far: on a GPU it has to fit into one binding. */
export interface CountingStats extends BackendStats {
  readonly largestBuffer: number;
}

interface CountedBuffer extends Buffer {
  readonly root: { readonly offset: number; readonly bytes: number; handles: number };
}

/** @param limit bytes of the memory that is played; reserved is what of it was ever needed */
export function createCountingBackend(limit: number): BackendOf<"wasm"> & { stats(): CountingStats } {
  const allocator = new Allocator(limit);
  let [liveBytes, liveBuffers, peakBytes, largestBuffer] = [0, 0, 0, 0];
  const alloc = (bytes: number): Buffer => {
    const offset = allocator.alloc(bytes);
    if (offset === undefined) {
      throw new OutOfMemoryError(
        `out of memory: asked for ${bytes} bytes, ${liveBytes} are live, the limit is ${limit}`,
      );
    }
    allocator.reserved = Math.max(allocator.reserved, allocator.top);
    liveBytes += bytes;
    liveBuffers++;
    peakBytes = Math.max(peakBytes, liveBytes);
    largestBuffer = Math.max(largestBuffer, bytes);
    return { bytes, root: { offset, bytes, handles: 1 } } as CountedBuffer;
  };
  const free = (buffer: Buffer): void => {
    const { root } = buffer as CountedBuffer;
    if (--root.handles > 0) return;
    allocator.free(root.offset, root.bytes);
    liveBytes -= root.bytes;
    liveBuffers--;
  };
  const generators: Generators<WasmKernel> = { ...families };
  return {
    kind: "wasm",
    description: "counting (memory only, nothing is computed)",
    generators,
    alloc,
    part(whole, _offset, bytes) {
      const { root } = whole as CountedBuffer;
      root.handles++;
      return { bytes, root } as CountedBuffer;
    },
    free,
    write: () => undefined,
    read: (_, bytes) => Promise.resolve(new ArrayBuffer(bytes)),
    readSync: (_, bytes) => new ArrayBuffer(bytes),
    run(program) {
      const temps: Buffer[] = [];
      try {
        for (const bytes of program.temps) temps.push(alloc(bytes));
      } finally {
        for (const temp of temps.reverse()) free(temp);
      }
    },
    synchronize: () => Promise.resolve(),
    stats: () => ({
      liveBytes,
      liveBuffers,
      peakBytes,
      reservedBytes: allocator.reserved,
      compiledKernels: 0,
      largestBuffer,
    }),
    dispose: () => undefined,
  };
}
