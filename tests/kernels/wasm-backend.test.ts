/** The WebAssembly executor: storage, errors, growth, and programs with temporaries. Kernels have their own tests. */
import { setFlagsFromString } from "node:v8";
import { afterEach, describe, expect, it, vi } from "vitest";
import { createWasmBackend, hasRelaxedSimd, hasWasmSimd } from "../../engine/backends/wasm.ts";
import { input } from "../../kernels/expr.ts";
import * as wasm from "../../kernels/wasm/index.ts";

const label = (): string => "test";
const double = (count: number): ReturnType<typeof wasm.pointwise> =>
  wasm.pointwise({
    name: "double",
    outputs: [input(0).mul(2)],
    inputs: [{ kind: "tensor", strides: [1] }],
    dims: [count],
    inPlace: [-1],
  });

describe("wasm backend", () => {
  it("writes, runs and reads; a read is a copy of that moment", async () => {
    const backend = await createWasmBackend();
    const [x, y] = [backend.alloc(12), backend.alloc(12)];
    backend.write(x, Float32Array.of(1, 2, 3));
    backend.run(double(3), [x, y], label);
    const pending = backend.read(y, 12);
    backend.write(y, Float32Array.of(0, 0, 0));
    backend.free(y);
    expect(Array.from(new Float32Array(await pending))).toEqual([2, 4, 6]);
    expect(Array.from(new Float32Array(backend.readSync!(x, 8)))).toEqual([1, 2]);
    await backend.synchronize();
    expect(backend.stats()).toMatchObject({ liveBytes: 12, liveBuffers: 1, peakBytes: 24, compiledKernels: 1 });
  });

  it("compiles a key once, and frees temporaries", async () => {
    const backend = await createWasmBackend();
    const count = 100_000; // several partial sums
    const [x, y] = [backend.alloc(4 * count), backend.alloc(4)];
    backend.write(x, new Float32Array(count).fill(0.5));
    const sum = { kind: "sum" as const, prologue: input(0), inputs: 1, outer: 1, length: count, inner: 1, scale: 1 };
    for (let i = 0; i < 3; i++) backend.run(wasm.reduce(sum), [x, y], label);
    expect(new Float32Array(backend.readSync!(y, 4))[0]).toBe(count / 2);
    expect(backend.stats().compiledKernels).toBe(1);
    expect(backend.stats().liveBuffers).toBe(2);
  });

  it("survives growth of the memory: old buffers keep their content, compiled kernels still work", async () => {
    const backend = await createWasmBackend();
    const x = backend.alloc(400);
    backend.write(
      x,
      Float32Array.from({ length: 100 }, (_, i) => i),
    );
    const small = backend.alloc(400);
    backend.run(double(100), [x, small], label);
    const reserved = backend.stats().reservedBytes;
    const large = backend.alloc(64 * 2 ** 20);
    expect(backend.stats().reservedBytes).toBeGreaterThan(reserved);
    backend.run(double(100), [small, large], label);
    expect(new Float32Array(backend.readSync!(large, 400))[99]).toBe(396);
    expect(new Float32Array(backend.readSync!(x, 400))[99]).toBe(99);
  });

  it("computes above 2 GiB, where addresses are negative as signed integers", async () => {
    const backend = await createWasmBackend();
    backend.alloc(5 * 2 ** 29); // never touched: costs address space only
    const [x, y] = [backend.alloc(400), backend.alloc(400)];
    backend.write(x, new Float32Array(100).fill(1.5));
    backend.run(double(100), [x, y], label);
    const z = backend.alloc(4);
    const sum = { kind: "sum" as const, prologue: input(0), inputs: 1, outer: 1, length: 100, inner: 1, scale: 1 };
    backend.run(wasm.reduce(sum), [y, z], label);
    expect(new Float32Array(backend.readSync!(z, 4))[0]).toBe(300);
    expect(backend.stats().reservedBytes).toBeGreaterThan(2 ** 31);
  });

  it("an allocation that cannot be met names asked, live and limit, and leaves the backend usable", async () => {
    const backend = await createWasmBackend({ maxBytes: 2 ** 20 });
    const x = backend.alloc(2 ** 19);
    expect(() => backend.alloc(2 ** 20)).toThrow(
      /asked for 1048576 bytes, 524288 are live in 1 buffers, the limit is 1048576/,
    );
    const y = backend.alloc(2 ** 18);
    backend.free(x);
    backend.free(y);
    expect(backend.alloc(2 ** 20).bytes).toBe(2 ** 20); // free neighbours are merged
    await expect(createWasmBackend({ maxBytes: 5 })).rejects.toThrow(/maxBytes/);
  });

  it("clear errors: freed twice, used after free, foreign, too long, disposed", async () => {
    const [backend, other] = [await createWasmBackend(), await createWasmBackend()];
    const [x, y] = [backend.alloc(8), backend.alloc(8)];
    expect(() => backend.write(x, new Float32Array(3))).toThrow(/write of 12 bytes into a buffer of 8/);
    expect(() => backend.readSync!(x, 12)).toThrow(/read of 12 bytes from a buffer of 8/);
    expect(() => other.free(x)).toThrow(/another backend/);
    backend.free(x);
    expect(() => backend.free(x)).toThrow(/freed before/);
    expect(() => backend.write(x, new Float32Array(1))).toThrow(/freed before/);
    expect(() => backend.run(double(2), [x, y], () => "mul [2]")).toThrow(/^mul \[2\]: .*freed before/);
    await expect(backend.read(x, 4)).rejects.toThrow(/freed before/);
    expect(() => backend.run(double(2), [y], () => "mul [2]")).toThrow(
      /^mul \[2\]: .*uses buffers \[0, 1\], there are 1/,
    );
    backend.dispose();
    expect(() => backend.alloc(4)).toThrow(/after dispose/);
    expect(() => backend.readSync!(y, 4)).toThrow(/after dispose/);
  });

  it("a kernel that leaves the memory is an error with the op's label", async () => {
    const backend = await createWasmBackend();
    const [x, y] = [backend.alloc(8), backend.alloc(8)];
    expect(() => backend.run(double(1e7), [x, y], () => "mul [10000000]")).toThrow(
      /^mul \[10000000\]: .*out of bounds/i,
    );
    expect(backend.stats().liveBuffers).toBe(2);
  });

  it("multiplies and adds in one where asked and possible", async () => {
    const flag = "--experimental-wasm-relaxed-simd";
    const product = wasm.matmul({
      batch: 1,
      m: 5,
      n: 9,
      k: 3,
      transA: false,
      transB: false,
      batchA: false,
      batchB: false,
      scale: 1,
      addends: [],
    });
    const [a, b] = [
      Float32Array.from({ length: 15 }, (_, i) => 1 + i / 7),
      Float32Array.from({ length: 27 }, (_, i) => 1 - i / 9),
    ];
    const multiply = async (fused: boolean): Promise<Float32Array> => {
      const backend = await createWasmBackend({ fused, threads: 1 });
      expect(backend.description.includes("fused")).toBe(fused);
      const buffers = [a.byteLength, b.byteLength, 4 * 45].map((bytes) => backend.alloc(bytes));
      backend.write(buffers[0]!, a);
      backend.write(buffers[1]!, b);
      backend.run(product, buffers, label);
      return new Float32Array(backend.readSync!(buffers[2]!, 4 * 45));
    };
    const plain = await multiply(false);
    if (!hasRelaxedSimd()) {
      await expect(multiply(true)).rejects.toThrow(/need relaxed SIMD, which this JavaScript engine lacks/);
      setFlagsFromString(flag);
    }
    const fused = await multiply(true);
    for (let i = 0; i < 45; i++) expect(fused[i]).toBeCloseTo(plain[i]!, 5);
  });

  it("finds SIMD here", () => expect(hasWasmSimd()).toBe(true));
});

describe("WORLDGRAD_DEBUG=1", () => {
  afterEach(() => {
    vi.unstubAllEnvs();
    vi.restoreAllMocks();
  });

  it("prints time per kernel and hit rates when the backend is disposed of, and nothing without it", async () => {
    const print = vi.spyOn(console, "error").mockImplementation(() => undefined);
    const work = async (): Promise<void> => {
      const backend = await createWasmBackend({ threads: 1 });
      const [x, y] = [backend.alloc(8), backend.alloc(8)];
      for (let i = 0; i < 3; i++) backend.run(double(2), [x, y], label);
      backend.free(x);
      backend.alloc(8);
      backend.dispose();
    };
    await work();
    expect(print).not.toHaveBeenCalled();
    vi.stubEnv("WORLDGRAD_DEBUG", "1");
    await work();
    const report = String(print.mock.calls[0]![0]);
    expect(report).toMatch(/ms in kernels/);
    expect(report).toMatch(/ 3 .*pointwise/);
    expect(report).toMatch(/kernels: 2 of 3 found/);
    expect(report).toMatch(/buffers: 1 of 3 found/);
  });
});
