/**
 * The WebGPU backend: order of writes, programs and reads; the pool; caches; and that every error arrives, once, with
 * its op.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Buffer } from "../../engine/backends/backend.ts";
import { type GpuAdapter, probeWebgpu } from "../../engine/backends/webgpu-api.ts";
import { sizeClass } from "../../engine/backends/webgpu-pool.ts";
import { createWebgpuBackend, type WebgpuBackend } from "../../engine/backends/webgpu.ts";
import { f32, type Program, single, type Uniform, type WgslKernel } from "../../kernels/kernel.ts";
import { gridFor, linearMain, shader } from "../../kernels/wgsl/shader.ts";
import { openAdapter, openWebgpu, tappedAdapter } from "../support/gpu.ts";

let backend: WebgpuBackend;
beforeAll(async () => {
  backend = await openWebgpu();
});
afterAll(() => backend.dispose());

/** y = x + amount over 16 elements; `body` replaces the formula. */
function add(amount: number, key = "add", body = "x[i] + params.amount"): WgslKernel {
  return shader({
    key,
    bindings: { x: "read f32", y: "write f32" },
    params: { amount: f32(amount) },
    workgroups: gridFor(16, 16),
    body: () => `${linearMain(16, "16u")}
  y[i] = ${body};
}`,
  });
}
const addProgram = (amount: number): Program<WgslKernel> => single(add(amount), 2);
const label = (): string => "add([16])";
const filled = (value: number): Float32Array => new Float32Array(16).fill(value);
const first = async (target: WebgpuBackend, buffer: Buffer): Promise<number> =>
  new Float32Array(await target.read(buffer, 64))[0]!;

describe("order", () => {
  test("a write comes after the programs run before it and before those run after it", async () => {
    const [x, y, z] = [backend.alloc(64), backend.alloc(64), backend.alloc(64)];
    backend.write(x, filled(1));
    backend.run(addProgram(10), [x, y], label);
    backend.write(x, filled(2)); // x is in use by a command that is not submitted yet
    backend.run(addProgram(20), [x, z], label);
    expect([await first(backend, y), await first(backend, z)]).toEqual([11, 22]);
    [x, y, z].forEach((buffer) => backend.free(buffer));
  });

  test("a read keeps what was there when it was asked for", async () => {
    const [x, y] = [backend.alloc(64), backend.alloc(64)];
    backend.write(x, filled(1));
    backend.run(addProgram(1), [x, y], label);
    const early = first(backend, y);
    backend.run(addProgram(2), [x, y], label);
    const late = first(backend, y);
    backend.free(y);
    const other = backend.alloc(64); // gets y's storage
    backend.write(other, filled(-1));
    expect([await early, await late, await first(backend, other)]).toEqual([2, 3, -1]);
    backend.free(x);
    backend.free(other);
  });

  test("1000 programs in several batches, each with its own uniforms", async () => {
    const [x, y] = [backend.alloc(64), backend.alloc(64)];
    backend.write(x, filled(0));
    const before = backend.stats().submits;
    let want = 0;
    for (let i = 0; i < 500; i++) {
      backend.run(addProgram(i), [x, y], label);
      backend.run(addProgram(-1), [y, x], label);
      want += i - 1;
    }
    expect(await first(backend, x)).toBe(want);
    expect(backend.stats().submits - before).toBeLessThanOrEqual(8); // of 128 each
    backend.free(x);
    backend.free(y);
  });

  test("host data for a buffer in use keeps its place where the batch is sent in parts", async () => {
    const [x, y, sum] = [backend.alloc(64), backend.alloc(64), backend.alloc(64)];
    const before = backend.stats().submits;
    const seen: Promise<number>[] = [];
    for (let i = 0; i < 300; i++) {
      backend.write(x, filled(i)); // the dispatch before it reads the last value
      backend.run(addProgram(1), [x, y], label);
      if (i % 60 === 59) seen.push(first(backend, y));
    }
    expect(await Promise.all(seen)).toEqual([60, 120, 180, 240, 300]);
    for (let i = 0; i < 300; i++) {
      backend.write(x, filled(i));
      backend.run(addProgram(1), [x, i === 127 ? sum : y], label);
    }
    expect([await first(backend, y), await first(backend, sum)]).toEqual([300, 128]);
    expect(backend.stats().submits - before).toBeGreaterThan(7); // one for each read, and parts of 128 commands
    [x, y, sum].forEach((buffer) => backend.free(buffer));
  });

  test("host data for a buffer in use takes its place in the command buffer; only large data cuts it", async () => {
    const [x, y, z] = [backend.alloc(64), backend.alloc(64), backend.alloc(64)];
    const large = backend.alloc(2 ** 17);
    backend.write(x, filled(1));
    const before = backend.stats().submits;
    for (let i = 0; i < 20; i++) {
      backend.run(addProgram(10), [x, y], label);
      backend.write(x, filled(2 + i));
      backend.run(addProgram(20), [x, z], label);
    }
    expect([await first(backend, y), await first(backend, z)]).toEqual([30, 41]);
    expect(backend.stats().submits - before).toBe(2); // one per read
    backend.run(addProgram(1), [x, large], label);
    backend.write(large, new Float32Array(2 ** 15).fill(7));
    backend.run(addProgram(1), [large, y], label);
    expect([await first(backend, y), backend.stats().submits - before]).toEqual([8, 4]);
    [x, y, z, large].forEach((buffer) => backend.free(buffer));
  });

  test("kernels compile while others are recorded; what cannot wait for them does not", async () => {
    const [x, y, large] = [backend.alloc(64), backend.alloc(64), backend.alloc(2 ** 17)];
    backend.write(x, filled(1));
    backend.run(single(add(1, "in the background", "x[i] + 1.0 * params.amount"), 2), [x, y], label);
    backend.run(addProgram(5), [y, x], label);
    expect(await first(backend, x)).toBe(7); // waits for the pipeline
    backend.run(single(add(2, "at once", "x[i] + 2.0 * params.amount"), 2), [x, large], label);
    backend.write(large, new Float32Array(2 ** 15)); // must come after a kernel that is still being compiled
    backend.run(addProgram(3), [x, y], label);
    expect([await first(backend, y), await first(backend, large)]).toEqual([10, 0]);
    [x, y, large].forEach((buffer) => backend.free(buffer));
  });

  test("several reads at once, with kernels that are not compiled yet between them", async () => {
    const [x, y] = [backend.alloc(64), backend.alloc(64)];
    backend.write(x, filled(1));
    const reads = [1, 2, 3].map((amount) => {
      backend.run(single(add(amount, `read ${amount}`, `x[i] + ${amount}.0 * params.amount`), 2), [x, y], label);
      return first(backend, y);
    });
    expect(await Promise.all(reads)).toEqual([2, 5, 10]);
    [x, y].forEach((buffer) => backend.free(buffer));
  });

  test("temporaries of a program come from the pool and go back to it", async () => {
    const [x, y] = [backend.alloc(64), backend.alloc(64)];
    backend.write(x, filled(5));
    const twice: Program<WgslKernel> = {
      temps: [64],
      steps: [
        { kernel: add(1), buffers: [0, 2] },
        { kernel: add(2), buffers: [2, 1] },
      ],
    };
    const before = backend.stats();
    backend.run(twice, [x, y], label);
    backend.run(twice, [x, y], label);
    expect(backend.stats().liveBytes).toBe(before.liveBytes);
    expect(backend.stats().reservedBytes).toBeLessThanOrEqual(before.reservedBytes + 256);
    expect(await first(backend, y)).toBe(8);
    backend.free(x);
    backend.free(y);
  });
});

describe("parts of a buffer", () => {
  test("are buffers of their own on the same memory, which lives until all are freed", async () => {
    const before = backend.stats();
    const [whole, y] = [backend.alloc(1024), backend.alloc(64)];
    const [a, b] = [backend.part(whole, 0, 64), backend.part(whole, 512, 64)];
    expect(backend.stats().liveBytes - before.liveBytes).toBe(1088);
    backend.write(whole, new Float32Array(256).fill(1));
    backend.run(addProgram(1), [whole, y], label);
    backend.run(addProgram(1), [y, b], label);
    backend.run(addProgram(5), [b, y], label);
    backend.run(addProgram(-5), [y, a], label);
    backend.write(b, filled(9)); // used by recorded commands through another handle
    const words = new Float32Array(await backend.read(whole, 1024));
    expect([words[0], words[16], words[128], words[144]]).toEqual([3, 1, 9, 1]);
    expect(await first(backend, y)).toBe(8);
    backend.free(y);
    backend.free(whole);
    expect(await first(backend, a)).toBe(3);
    backend.free(a);
    expect(backend.stats().liveBytes - before.liveBytes).toBe(1024);
    backend.free(b);
    expect(backend.stats().liveBytes).toBe(before.liveBytes);
    expect(() => backend.free(b)).toThrow("freed");
  });

  test("must be aligned and inside; a dispatch may not write one and read another", async () => {
    const own = await openWebgpu();
    const whole = own.alloc(1024);
    expect(() => own.part(whole, 128, 64)).toThrow("parts begin at multiples of 256");
    expect(() => own.part(whole, 768, 512)).toThrow("512 bytes at 768 of 1024");
    const [a, b] = [own.part(whole, 0, 64), own.part(whole, 256, 64)];
    expect(() => own.run(addProgram(1), [a, b], label)).toThrow("writes buffer 1, which is also bound as buffer 0");
    own.dispose();
  });
});

describe("memory", () => {
  test("size classes hold what is asked for and waste at most a quarter beyond 256 bytes", () => {
    for (let bytes = 4; bytes < 5e6; bytes = Math.ceil(bytes * 1.07) + 4) {
      const size = sizeClass(bytes);
      expect(size % 256).toBe(0);
      expect(size).toBeGreaterThanOrEqual(bytes);
      expect(size).toBeLessThanOrEqual(Math.max(256, Math.ceil(bytes / 256) * 256 * 1.25));
    }
  });

  test("a steady loop gets the same buffers every time: nothing new is made, bind groups are found", async () => {
    const step = (): void => {
      const held = [64, 4096, 64, 300, 64].map((bytes) => backend.alloc(bytes));
      for (let i = 1; i < held.length; i++) backend.run(addProgram(i), [held[i - 1]!, held[i]!], label);
      for (const i of [1, 4, 0, 3, 2]) backend.free(held[i]!); // any order, as long as it is the same
    };
    step();
    await backend.synchronize();
    const before = backend.stats();
    for (let i = 0; i < 50; i++) step();
    await backend.synchronize();
    const after = backend.stats();
    expect(after.reservedBytes).toBe(before.reservedBytes);
    expect(after.bindGroups).toBe(before.bindGroups);
    expect(after.bindGroupHits - before.bindGroupHits).toBe(200);
    expect(after.compiledKernels).toBe(before.compiledKernels);
    expect([after.liveBytes, after.liveBuffers]).toEqual([before.liveBytes, before.liveBuffers]);
  });

  test("idle storage is given back once there is much more of it than is in use", async () => {
    const own = await openWebgpu();
    const keep = own.alloc(64);
    own.write(keep, filled(3));
    const large = [1, 2, 3].map(() => own.alloc(100 * 2 ** 20));
    large.forEach((buffer) => own.free(buffer));
    expect(own.stats().reservedBytes).toBeGreaterThan(300 * 2 ** 20);
    const other = own.alloc(2 ** 20);
    expect(own.stats().reservedBytes).toBeLessThan(10 * 2 ** 20);
    own.run(addProgram(4), [keep, other], label);
    expect(await first(own, other)).toBe(7);
    own.dispose();
  });

  test("misuse is named", async () => {
    const x = backend.alloc(64);
    expect(() => backend.write(x, new Float32Array(17))).toThrow("68 bytes do not fit a buffer of 64");
    expect(() => backend.write(x, new Float64Array(2))).toThrow("Float64Array");
    await expect(backend.read(x, 68)).rejects.toThrow("68 bytes asked of a buffer of 64");
    expect(() => backend.alloc(0)).toThrow("got 0");
    expect(() => backend.alloc(2 ** 50)).toThrow(/1125899906842624 bytes exceeds .* largest storage binding/);
    expect(() => backend.run(addProgram(1), [x, x], label)).toThrow(
      "add([16]): kernel add writes buffer 1, which is also bound as buffer 0",
    );
    expect(() => backend.run(addProgram(1), [x], label)).toThrow(
      "add([16]): kernel add uses buffer 1, the program has 1",
    );
    expect(() => backend.run(addProgram(1), [x, { bytes: 64 }], label)).toThrow("not made by the webgpu backend");
    const wide = { ...add(1, "wide"), workgroups: [70000, 1, 1] as const };
    expect(() => backend.run(single(wide, 2), [x, backend.alloc(64)], label)).toThrow("70000×1×1 workgroups");
    backend.free(x);
    expect(() => backend.free(x)).toThrow(/freed/);
    expect(() => backend.write(x, filled(1))).toThrow("was freed");
  });
});

describe("errors", () => {
  test("a kernel that does not compile: op, key, line and column; everything afterwards says the same", async () => {
    const own = await openWebgpu();
    const [x, y] = [own.alloc(64), own.alloc(64)];
    const wrong = single(add(1, "wrong kernel", "x[i] + undefined_name"), 2);
    own.run(addProgram(1), [x, y], label);
    own.run(wrong, [x, y], () => "relu([16])");
    const where = /^relu\(\[16\]\): kernel wrong kernel does not compile: line 10:17: .*'undefined_name'\n +/;
    const message = new RegExp(`${where.source}y\\[i\\] = x\\[i\\] \\+ undefined_name;$`);
    await expect(own.read(y, 64)).rejects.toThrow(message);
    await expect(own.synchronize()).rejects.toThrow(message);
    expect(() => own.run(addProgram(1), [x, y], label)).toThrow(message);
    expect(() => own.alloc(64)).toThrow(message);
    own.dispose();
  });

  test("an invalid dispatch names the op", async () => {
    const own = await openWebgpu();
    const [x, y] = [own.alloc(64), own.alloc(64)];
    own.run(addProgram(1), [x, y], label);
    const uniforms: Uniform[] = []; // the shader reads one, the layout has none
    own.run(single({ ...add(1, "no uniforms"), uniforms }, 2), [x, y], () => "scale([16])");
    await expect(own.synchronize()).rejects.toThrow(/scale\(\[16\]\): .*no uniforms/);
    await expect(own.synchronize()).rejects.toMatchObject({ name: "WorldgradError", code: "KERNEL_FAILED" });
    own.dispose();
  });

  test("a lost device: one clear error from everything, nothing hangs", async () => {
    const { adapter, device } = await tappedAdapter();
    const own = await createWebgpuBackend({ adapter });
    const [x, y] = [own.alloc(64), own.alloc(64)];
    own.write(x, filled(1));
    own.run(addProgram(1), [x, y], () => "matmul([4, 4], [4, 4])");
    device().destroy();
    const message =
      /^webgpu device was lost: destroyed.*; last op: matmul\(\[4, 4\], \[4, 4\]\); rebuild from the last checkpoint$/;
    await expect(own.read(y, 64)).rejects.toThrow(message);
    await expect(own.synchronize()).rejects.toThrow(message);
    await expect(own.synchronize()).rejects.toMatchObject({ name: "WorldgradError", code: "DEVICE_LOST" });
    expect(() => own.run(addProgram(1), [x, y], label)).toThrow(message);
    own.free(x); // cleaning up still works
    own.dispose();
  });

  test("a device lost while a read is under way", async () => {
    const { adapter, device } = await tappedAdapter();
    const own = await createWebgpuBackend({ adapter });
    const y = own.alloc(64);
    const [read, done] = [own.read(y, 64), own.synchronize()];
    const settled = Promise.allSettled([read, done]);
    device().destroy();
    // Both may have been served before the loss; if not, they say what happened.
    for (const result of await settled) {
      if (result.status === "rejected") expect(String(result.reason)).toMatch(/webgpu device was lost/);
    }
    await expect(own.synchronize()).rejects.toThrow("webgpu device was lost");
    own.dispose();
  });

  test("using a disposed backend says so", async () => {
    const own = await openWebgpu();
    const x = own.alloc(64);
    own.dispose();
    own.dispose();
    expect(() => own.alloc(64)).toThrow("this backend was disposed");
    await expect(own.read(x, 64)).rejects.toThrow("this backend was disposed");
    await expect(own.synchronize()).rejects.toThrow("this backend was disposed");
  });
});

test("the schedule follows the adapter; `probeWebgpu` does not take a software adapter for hardware", async () => {
  const real = await openAdapter();
  const info = { vendor: "nvidia", architecture: "ampere", device: "", description: "", isFallbackAdapter: false };
  const named = (changes: object): GpuAdapter => ({
    info: { ...info, ...changes },
    limits: real.limits,
    // An adapter gives one device, so each needs an adapter of its own.
    requestDevice: async (descriptor) => (await openAdapter()).requestDevice(descriptor),
  });
  const scheduleOf = async (adapter: GpuAdapter): Promise<string[]> => {
    const made = await createWebgpuBackend({ adapter });
    made.dispose();
    return [made.profile.schedule, made.description.split(", ").at(-1)!];
  };
  expect(await probeWebgpu({ adapter: named({}) })).toEqual({ hardware: true, description: "nvidia ampere" });
  expect(await scheduleOf(named({}))).toEqual(["gpu", "gpu schedule"]);
  for (const changes of [
    { isFallbackAdapter: true },
    { device: "llvmpipe-llvm-15" },
    { architecture: "swiftshader" },
  ]) {
    expect((await probeWebgpu({ adapter: named(changes) })).hardware).toBe(false);
    expect(await scheduleOf(named(changes))).toEqual(["software", "software schedule"]);
  }
});
