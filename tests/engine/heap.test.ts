/** Buffers that do not fit into one memory: which are moved out, and that nobody notices but by `stats`. */
import { afterEach, describe, expect, it } from "vitest";
import { createWasmBackend, type WasmStats } from "../../engine/backends/wasm.ts";
import type { BackendOf, Buffer } from "../../engine/backends/backend.ts";
import { Device } from "../../engine/device.ts";
import { tensor } from "../../engine/ops/create.ts";
import { add } from "../../engine/ops/pointwise.ts";
import { assign } from "../../engine/state.ts";
import { input } from "../../kernels/expr.ts";
import * as wasm from "../../kernels/wasm/index.ts";

const KIB = 1024;
const COUNT = (128 * KIB) / 4;
const label = (): string => "test";
const double = wasm.pointwise({
  name: "double",
  outputs: [input(0).mul(2)],
  inputs: [{ kind: "tensor", strides: [1] }],
  dims: [COUNT],
  inPlace: [-1],
});

const sum = wasm.pointwise({
  name: "sum",
  outputs: [input(0).add(input(1))],
  inputs: [
    { kind: "tensor", strides: [1] },
    { kind: "tensor", strides: [1] },
  ],
  dims: [COUNT],
  inPlace: [-1],
});

/** A memory of 1 MiB, in which eight buffers of 128 KiB fit. */
let backend: BackendOf<"wasm">;
afterEach(() => backend.dispose());
const open = async (threads = 1): Promise<void> => {
  backend = await createWasmBackend({ maxBytes: 1024 * KIB, threads, alwaysSplit: threads > 1 });
};
const outside = (): number => (backend.stats() as WasmStats).outsideBytes / KIB;
const filled = (value: number): Float32Array<ArrayBuffer> => new Float32Array(COUNT).fill(value);
function make(value: number, readOnly: boolean): Buffer {
  const buffer = backend.alloc(128 * KIB);
  backend.write(buffer, filled(value));
  if (readOnly) backend.readOnly!(buffer, true);
  return buffer;
}
const first = (buffer: Buffer): number => new Float32Array(backend.readSync!(buffer, 128 * KIB))[COUNT - 1]!;

describe.each([1, 2])("with %d threads", (threads) => {
  it("programs, reads and writes find what was moved out; all of it is freed", async () => {
    await open(threads);
    const weights = Array.from({ length: 20 }, (_, i) => make(i, true));
    expect(outside()).toBe(12 * 128);
    expect(backend.stats()).toMatchObject({ liveBytes: 20 * 128 * KIB, liveBuffers: 20 });
    const y = backend.alloc(128 * KIB);
    // Some rounds without a read between them: copies must not overtake the kernels that use the same block.
    const results = Array.from({ length: 2 }, () => backend.alloc(128 * KIB));
    for (const i of [0, 13, 19, 3, 7, 0, 16]) {
      for (const [k, result] of results.entries()) backend.run(double, [weights[(i + k) % 20]!, result], label);
      expect(results.map(first)).toEqual([2 * i, 2 * ((i + 1) % 20)]);
    }
    for (let i = 0; i < 20; i++) backend.run(double, [weights[i]!, y], label);
    expect(first(y)).toBe(38);
    expect(weights.map(first)).toEqual(Array.from({ length: 20 }, (_, i) => i));
    backend.write(weights[0]!, filled(-1));
    backend.run(double, [weights[0]!, y], label);
    expect([first(weights[0]!), first(y)]).toEqual([-1, -2]);
    for (const buffer of [...weights, ...results, y]) backend.free(buffer);
    expect(backend.stats()).toMatchObject({ liveBytes: 0, liveBuffers: 0, outsideBytes: 0 });
    expect(() => backend.readSync!(weights[0]!, 4)).toThrow(/freed before/);
    expect(backend.alloc(1024 * KIB).bytes).toBe(1024 * KIB);
  });
});

describe("what is moved out", () => {
  it("is what only is read, the first declared first; an operand of the program that runs stays", async () => {
    await open();
    const [state, first8] = [make(-1, false), Array.from({ length: 6 }, (_, i) => make(i, true))];
    expect(outside()).toBe(0);
    const y = backend.alloc(128 * KIB); // the memory is full
    expect(outside()).toBe(0);
    const z = backend.alloc(128 * KIB);
    expect(outside()).toBe(128);
    backend.run(double, [first8[0]!, y], label); // its copy needs room: the second is moved out
    expect([first(y), outside()]).toEqual([0, 256]);
    backend.run(double, [first8[1]!, z], label);
    expect([first(z), outside()]).toEqual([2, 256]); // there is room for one copy by now
    expect(first(state)).toBe(-1);
    // Beside a copy of the first, the third is read where it lies, although its turn to be moved out has come.
    const w = backend.alloc(128 * KIB);
    expect(outside()).toBe(256);
    backend.run(sum, [first8[2]!, first8[0]!, w], label);
    expect([first(w), outside()]).toEqual([2, 384]);
    backend.run(sum, [first8[4]!, first8[3]!, w], label);
    expect(first(w)).toBe(7);
  });

  it("comes back to be written by programs, and stays as long as there are parts of it", async () => {
    await open();
    const device = new Device(backend);
    const weights = Array.from({ length: 12 }, (_, i) => {
      const w = tensor(filled(i), { device });
      w.storage.freeze();
      return w;
    });
    expect(outside()).toBe(4 * 128);
    assign(weights[0]!, weights[11]!);
    expect([weights[0]!.readSync()[5], weights[11]!.readSync()[5]]).toEqual([11, 11]);
    // One that lay outside, and the next whose turn to be moved out has come.
    const parts = [1, 6].map((i) => backend.part(weights[i]!.storage.buffer, 256, 1024));
    const ofParts = (): number[] => parts.map((part) => new Float32Array(backend.readSync!(part, 4))[0]!);
    expect(ofParts()).toEqual([1, 6]);
    const sums = [add(weights[0]!, weights[1]!), add(weights[1]!, weights[2]!), add(weights[5]!, weights[3]!)];
    expect(sums.map((x) => x.readSync()[COUNT - 1])).toEqual([12, 3, 8]);
    expect(weights.map((x) => x.readSync()[9])).toEqual([11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    expect(ofParts()).toEqual([1, 6]);
    for (const part of parts) backend.free(part);
    for (const x of [...weights, ...sums]) x.dispose();
    expect(backend.stats()).toMatchObject({ liveBytes: 0, liveBuffers: 0, outsideBytes: 0 });
  });

  it("is not enough: one line says so, nothing is half-done, and it goes on", async () => {
    await open();
    const weights = Array.from({ length: 10 }, (_, i) => make(i, true));
    const held = Array.from({ length: 7 }, () => make(1, false));
    const before = backend.stats();
    expect(() => backend.alloc(256 * KIB)).toThrow(
      "wasm: out of memory: asked for 262144 bytes, 2228224 are live in 17 buffers, 1310720 of them outside of the " +
        "memory, the limit is 1048576",
    );
    const y = backend.alloc(128 * KIB);
    // Of ten weights none is inside, and there is no room for a copy.
    expect(() => backend.run(double, [weights[4]!, y], () => "double")).toThrow(/^double: wasm: out of memory/);
    expect(() => backend.alloc(2048 * KIB)).toThrow(/asked for 2097152 bytes/);
    backend.free(held.pop()!);
    backend.run(double, [weights[4]!, y], label);
    expect(first(y)).toBe(8);
    for (const buffer of [...weights, ...held, y]) backend.free(buffer);
    expect(before.liveBuffers).toBe(17);
    expect(backend.stats()).toMatchObject({ liveBytes: 0, liveBuffers: 0, outsideBytes: 0 });
  });
});
