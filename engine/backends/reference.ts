/**
 * The reference executor: ops run as the plain TypeScript of their definition, in f64 or f32, at once. It is slow and
 * obvious: the oracle for the other two and for gradient checks. Memory is not pooled, so that a stale read fails in a
 * test.
 */
import type { BackendOf, Buffer, ReferenceProgram, TypedArray } from "./backend.ts";
import { check, onHost } from "../errors.ts";

interface ReferenceBuffer extends Buffer {
  storage: Uint8Array<ArrayBuffer> | undefined;
  /** The buffer that counts as live: itself, or the whole that it is a part of. */
  readonly root: { readonly bytes: number; handles: number };
}

export function createReferenceBackend(precision: "f32" | "f64"): BackendOf<"reference"> {
  let liveBytes = 0;
  let liveBuffers = 0;
  let peakBytes = 0;
  const storageOf = (buffer: Buffer): Uint8Array<ArrayBuffer> => {
    const { storage } = buffer as ReferenceBuffer;
    check(storage !== undefined, () => "reference: a buffer was used after it was freed");
    return storage;
  };
  const readSync = (buffer: Buffer, bytes: number): ArrayBuffer => storageOf(buffer).slice(0, bytes).buffer;
  return {
    kind: "reference",
    generators: undefined,
    description: `reference (${precision}, plain TypeScript)`,
    alloc(bytes) {
      const storage = onHost(
        () => `reference: asked for ${bytes} bytes, ${liveBytes} are live in ${liveBuffers} buffers`,
        () => new Uint8Array(bytes),
      );
      liveBytes += bytes;
      liveBuffers++;
      peakBytes = Math.max(peakBytes, liveBytes);
      return { bytes, storage, root: { bytes, handles: 1 } } as ReferenceBuffer;
    },
    part(whole, offset, bytes) {
      const { root } = whole as ReferenceBuffer;
      const storage = storageOf(whole).subarray(offset, offset + bytes);
      check(storage.length === bytes, () => `reference: part: ${bytes} bytes at ${offset} of ${whole.bytes}`);
      root.handles++;
      return { bytes, storage, root } as ReferenceBuffer;
    },
    free(buffer) {
      storageOf(buffer);
      (buffer as ReferenceBuffer).storage = undefined;
      const { root } = buffer as ReferenceBuffer;
      if (--root.handles > 0) return;
      liveBytes -= root.bytes;
      liveBuffers--;
    },
    write(buffer: Buffer, data: TypedArray) {
      storageOf(buffer).set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    },
    read: (buffer, bytes) => Promise.resolve(readSync(buffer, bytes)),
    readSync,
    run(program: ReferenceProgram, buffers) {
      program(buffers.map(storageOf));
    },
    synchronize: () => Promise.resolve(),
    stats: () => ({ liveBytes, liveBuffers, peakBytes, reservedBytes: liveBytes, compiledKernels: 0 }),
    dispose() {
      liveBytes = liveBuffers = 0;
    },
  };
}
