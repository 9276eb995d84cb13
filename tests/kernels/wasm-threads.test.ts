/**
 * Threads of the WebAssembly executor: the same bits for any number of them, no hang whatever happens, nothing left
 * behind.
 */
import { spawnSync } from "node:child_process";
import type { Worker } from "node:worker_threads";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import type { Backend, BackendOf } from "../../engine/backends/backend.ts";
import { startThreads, type ThreadPool } from "../../engine/backends/threads.ts";
import { createWasmBackend, type WasmOptions } from "../../engine/backends/wasm.ts";
import { Device, device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import { input } from "../../kernels/expr.ts";
import type { Program, WasmKernel } from "../../kernels/kernel.ts";
import { kernelModule, load, withSharedMemory } from "../../kernels/wasm/assembler.ts";
import * as wasm from "../../kernels/wasm/index.ts";
import { allOps, evaluate, labelOf, samplesOf } from "../support/opChecks.ts";
import { tries } from "../support/tries.ts";

const label = (): string => "test";
/** The trap's message: V8's, and JavaScriptCore's. */
const OUT_OF_BOUNDS = "memory access out of bounds|Out of bounds memory access";
type Wasm = BackendOf<"wasm">;

const made: Backend[] = [];
async function backendWith(options: WasmOptions): Promise<Wasm> {
  const backend = await createWasmBackend(options);
  made.push(backend);
  return backend;
}
afterAll(() => made.forEach((backend) => backend.dispose()));

const scaled = (count: number, name: string, factor: number): Program<WasmKernel> =>
  wasm.pointwise({
    name,
    outputs: [input(0).mul(factor)],
    inputs: [{ kind: "tensor", strides: [1] }],
    dims: [count],
    inPlace: [-1],
  });

describe("the bits do not depend on the number of threads", () => {
  let devices: Device[] = [];
  beforeAll(async () => {
    devices = await Promise.all(
      [1, 2, 3].map(async (threads) => new Device(await backendWith({ threads, alwaysSplit: true }))),
    );
  });

  for (const op of allOps()) {
    it(`${op.name}: all samples`, async () => {
      for (const sample of samplesOf(op)) {
        const [one, ...others] = await Promise.all(devices.map((on) => evaluate(on, op, sample)));
        for (const other of others) expect(other, labelOf(sample)).toEqual(one);
      }
    });
  }

  const plain = { transA: false, transB: false, batchA: false, batchB: false, addends: [] };
  const product = { ...plain, batch: 1, m: 203, n: 190, k: 171, scale: 0.5 };
  const size = { batch: 3, queries: 131, keys: 131, heads: 4, kvHeads: 2, headDim: 20, scale: 0.2 };
  const heads = { ...size, causal: true, window: 0 };
  const [q, kv, lse] = [3 * 131 * 80, 3 * 131 * 40, 3 * 131 * 4];
  const sum = { kind: "sum" as const, prologue: input(0), inputs: 1, scale: 1 };
  /**
   * Programs with the number of elements of their inputs and outputs: large enough for ragged chunks on every thread.
   */
  const LARGE: readonly (readonly [string, Program<WasmKernel>, readonly number[], readonly number[]])[] = [
    ["A·B", wasm.matmul(product), [203 * 171, 171 * 190], [203 * 190]],
    ["A·Bᵀ", wasm.matmul({ ...product, transB: true }), [203 * 171, 171 * 190], [203 * 190]],
    ["Aᵀ·B", wasm.matmul({ ...product, k: 2100, m: 70 }), [70 * 2100, 2100 * 190], [70 * 190]],
    ["attention", wasm.attention({ ...heads, mask: "none" }), [q, kv, kv], [q, lse]],
    ["its backward", wasm.attentionBackward({ ...heads, mask: "none" }), [q, kv, kv, q, lse, q], [q, kv, kv]],
    ["norm", wasm.norm({ kind: "layer", rows: 3001, cols: 130, eps: 1e-5 }), [390130, 130, 130], [390130]],
    [
      "its backward",
      wasm.normBackward({ kind: "rms", rows: 3001, cols: 130, eps: 1e-5 }),
      [390130, 130, 390130],
      [390130, 130],
    ],
    ["softmax", wasm.softmax({ rows: 501, cols: 390, log: true, masked: false }), [501 * 390], [501 * 390]],
    ["sum", wasm.reduce({ ...sum, outer: 1, length: 1_500_001, inner: 1 }), [1_500_001], [1]],
    ["sum of columns", wasm.reduce({ ...sum, outer: 1, length: 3001, inner: 517 }), [3001 * 517], [517]],
    ["pointwise", scaled(1_000_003, "third", 1 / 3), [1_000_003], [1_000_003]],
  ];
  for (const [name, program, inputs, outputs] of LARGE) {
    it(`${name}, large`, () => {
      const results = devices.map(({ backend }) => {
        const on = backend as Wasm;
        const rng = new Rng(5);
        const buffers = [...inputs, ...outputs].map((count) => on.alloc(4 * count));
        inputs.forEach((count, i) =>
          on.write(
            buffers[i]!,
            Float32Array.from({ length: count }, () => rng.normal()),
          ),
        );
        on.run(program, buffers, label);
        const bits = outputs.map((count, i) => Buffer.from(on.readSync!(buffers[inputs.length + i]!, 4 * count)));
        buffers.forEach((buffer) => on.free(buffer));
        return bits;
      });
      for (const bits of results.slice(1)) {
        expect(bits.map((output, i) => output.equals(results[0]![i]!))).toEqual(outputs.map(() => true));
      }
      expect(results[0]!.some((output) => output.some((byte) => byte !== 0))).toBe(true);
    });
  }
});

describe("a pool under stress", () => {
  it("runs ten thousand jobs of mixed kernels in order, with pauses in which the workers fall asleep", async () => {
    const on = await backendWith({ threads: 3, alwaysSplit: true });
    const count = 40_000; // five units each
    const [x, y] = [on.alloc(4 * count), on.alloc(4 * count)];
    const programs = [2, 3, 4].flatMap((n) => [scaled(count, `times${n}`, n), scaled(count, `over${n}`, 1 / n)]);
    const rng = new Rng(7);
    const start = Float32Array.from({ length: count }, () => rng.normal());
    on.write(x, start);
    const expected = Float32Array.from(start);
    for (let job = 0; job < 10_000; job += 2) {
      const n = rng.int(3);
      on.run(programs[2 * n]!, [x, y], label);
      on.run(programs[2 * n + 1]!, [y, x], label);
      for (let i = 0; i < count; i += 997) {
        expected[i] = Math.fround(expected[i]! * (n + 2));
        expected[i] = Math.fround(expected[i]! * Math.fround(1 / (n + 2)));
      }
      if (job % 500 === 0) await new Promise((resolve) => setTimeout(resolve, rng.int(3)));
    }
    const actual = new Float32Array(on.readSync!(x, 4 * count));
    for (let i = 0; i < count; i += 997) expect(actual[i]).toBe(expected[i]);
  });

  it("keeps the order of kernels and of what the host writes and reads, however long the queue is", async () => {
    const on = await backendWith({ threads: 2, alwaysSplit: true });
    const count = 20_000;
    const double = scaled(count, "double", 2);
    const total = on.alloc(4 * count);
    on.write(total, new Float32Array(count));
    const add = wasm.pointwise({
      name: "sum",
      outputs: [input(0).add(input(1))],
      inputs: [0, 1].map(() => ({ kind: "tensor" as const, strides: [1] })),
      dims: [count],
      inPlace: [0],
    });
    let expected = 0;
    for (let i = 1; i <= 300; i++) {
      // The same two blocks of memory every time, while the kernels of the turns before may still be at work on them.
      const [x, y] = [on.alloc(4 * count), on.alloc(4 * count)];
      on.write(x, new Float32Array(count).fill(i));
      on.run(double, [x, y], label);
      on.run(add, [total, y, total], label);
      on.free(y);
      on.free(x);
      expected += 2 * i;
      if (i % 50 === 0) expect(new Set(new Float32Array(on.readSync!(total, 4 * count)))).toEqual(new Set([expected]));
    }
  });

  it("drains whenever it is asked, with jobs that are over at once", async () => {
    const on = await backendWith({ threads: 3, alwaysSplit: true });
    const [x, y] = [on.alloc(4 * 9000), on.alloc(4 * 9000)];
    const [twice, half] = [scaled(9000, "twice", 2), scaled(9000, "half", 0.5)];
    on.write(x, new Float32Array(9000).fill(3));
    const rng = new Rng(9);
    for (let i = 0; i < 3000; i++) {
      on.run(twice, [x, y], label);
      on.run(half, [y, x], label);
      if (rng.uniform() < 0.3) await on.synchronize();
      if (rng.uniform() < 0.02) for (const end = performance.now() + 3 * rng.uniform(); performance.now() < end;);
    }
    expect(new Set(new Float32Array(on.readSync!(x, 4 * 9000)))).toEqual(new Set([3]));
  });

  it("reaches memory that was added after the workers had started", async () => {
    const on = await backendWith({ threads: 3, alwaysSplit: true });
    const count = 1 << 20;
    const buffers = Array.from({ length: 12 }, (_, i) => {
      const buffer = on.alloc(4 * count); // grows the memory nearly every time
      on.run(wasm.fill({ count, bits: i + 1 }), [buffer], label);
      return buffer;
    });
    buffers.forEach((buffer, i) => {
      const values = new Int32Array(on.readSync!(buffer, 4 * count));
      expect(values.every((v) => v === i + 1)).toBe(true);
    });
    expect(on.stats().reservedBytes).toBeGreaterThanOrEqual(12 * 4 * count);
  });

  it("leaves nothing behind: up to forty pools one after the other", async () => {
    for (let i = 0; i < tries(40); i++) {
      const on = await createWasmBackend({ threads: 2, alwaysSplit: true });
      const x = on.alloc(65_536);
      on.run(wasm.fill({ count: 16_384, bits: i }), [x], label);
      on.dispose();
      expect(() => on.run(wasm.fill({ count: 16_384, bits: i }), [x], label)).toThrow("after dispose()");
    }
  });
});

describe("what goes wrong in a worker", () => {
  const PARAMS = { begin: "i32", end: "i32" } as const;
  const outside = kernelModule(PARAMS, (f) => {
    f.set(f.variable("i32"), load.i32(f.let(f.variable("i32").sub(8)))); // address −8: beyond any memory
  });
  const trap = withSharedMemory(outside);
  const endless = withSharedMemory(kernelModule(PARAMS, (f) => f.loop((again) => f.break(again))));
  const nothing = withSharedMemory(kernelModule(PARAMS, () => undefined));
  /** The calling thread's part: a while of doing nothing, so that the workers get theirs. */
  const linger = (ms: number) => (): void => {
    for (const end = performance.now() + ms; performance.now() < end;);
  };
  let workers: Worker[] = [];
  let pool: ThreadPool;
  const onWorker = (worker: Worker): void => void workers.push(worker);

  beforeAll(() => void process.on("worker", onWorker));
  afterAll(() => void process.off("worker", onWorker));
  afterEach(() => pool?.dispose());
  const start = async (): Promise<void> => {
    workers = [];
    const memory = { initial: 1, maximum: 65_536, shared: true };
    ({ pool } = await startThreads(3, () => new WebAssembly.Memory(memory)));
  };

  const run = (job: Parameters<ThreadPool["submit"]>[0], patience?: number): void => {
    pool.submit(job);
    pool.drain(patience);
  };

  it("a trap is the error that it is on the calling thread, and the pool goes on", async () => {
    await start();
    const job = { code: pool.share(trap)!, run: linger(30), args: [], units: 12, chunks: 12 };
    for (let i = 0; i < 3; i++) expect(() => run(job)).toThrow(new RegExp(OUT_OF_BOUNDS));
    run({ ...job, code: pool.share(nothing)! });
  });

  it("a failure names its job, what is behind it is passed over, and what comes after is not", async () => {
    await start();
    const ran: string[] = [];
    const job = (name: string) => ({
      code: pool.share(nothing)!,
      run: () => void ran.push(name),
      args: [],
      units: 1,
      chunks: 1,
      label: () => name,
    });
    const wait = { ...job("wait"), run: linger(20), units: 12, chunks: 12 };
    pool.submit(wait);
    pool.submit({ ...job("matmul(f32[2, 2])"), code: pool.share(trap)!, run: () => fail() });
    const behind = (): void => {
      for (let i = 0; i < 5; i++) pool.submit(job("behind"));
      pool.drain();
    };
    expect(behind).toThrow(new RegExp(`^matmul\\(f32\\[2, 2\\]\\): (${OUT_OF_BOUNDS}|on the calling thread)`));
    expect(ran).not.toContain("behind");
    expect(pool.busy).toBe(false);
    pool.drain(); // the failure was reported once

    function fail(): never {
      throw new Error("on the calling thread");
    }
  });

  it("a failed kernel is reported by name, and by every call after it", async () => {
    const on = await backendWith({ threads: 2, alwaysSplit: true });
    const [x, y] = [on.alloc(4 * 9000), on.alloc(4 * 9000)];
    on.write(x, new Float32Array(9000).fill(3));
    const kernel: WasmKernel = { key: "outside", module: () => outside, scalars: [], units: 12, costPerUnit: 1e6 };
    const broken: Program<WasmKernel> = { temps: [], steps: [{ kernel, buffers: [] }] };
    const twice = scaled(9000, "again", 2);
    const message = new RegExp(`^matmul\\(f32\\[2, 2\\]\\): (${OUT_OF_BOUNDS})`);
    const work = (): void => {
      on.run(broken, [], () => "matmul(f32[2, 2])");
      use(100);
    };
    expect(work).toThrow(message);
    expect(() => use(1)).toThrow(message);
    expect(() => on.readSync!(x, 4)).toThrow(message);
    await expect(on.read(x, 4)).rejects.toThrow(message);
    await expect(on.synchronize()).rejects.toThrow(message);

    function use(times: number): void {
      for (let i = 0; i < times; i++) on.run(twice, [x, y], () => "mul(f32[9000])");
    }
  });

  it("a trap on the calling thread waits for the others before it is thrown", async () => {
    await start();
    const fails = (): void => {
      throw new Error("here");
    };
    // Slow enough that the workers cannot take every chunk before the calling thread has one.
    const slow = kernelModule(PARAMS, (f) => f.for(0, 5_000_000, 1, () => undefined));
    const job = { code: pool.share(withSharedMemory(slow))!, run: fails, args: [], units: 12, chunks: 12 };
    expect(() => run(job)).toThrow("here");
    run({ ...job, run: linger(0) });
  });

  it("a module that does not compile there is an error", async () => {
    await start();
    const job = { code: pool.share(Uint8Array.of(1, 2, 3, 4))!, run: linger(30), args: [], units: 12, chunks: 12 };
    expect(() => run(job)).toThrow(/WebAssembly\.Module/);
  });

  it("a worker that is late again and again makes the pool say that it is hindered, for a while", async () => {
    await start();
    const slow = kernelModule(PARAMS, (f) => f.for(0, 50_000_000, 1, () => undefined));
    const job = { code: pool.share(withSharedMemory(slow))!, run: linger(0.2), args: [], units: 12, chunks: 12 };
    expect(pool.hindered).toBe(false);
    for (let i = 0; i < 50 && !pool.hindered; i++) run(job); // a worker may come too late to get any chunk
    expect(pool.hindered).toBe(true);
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(pool.hindered).toBe(false);
  });

  it("a worker that ends by itself between two jobs is an error of the next", async () => {
    await start();
    expect(workers).toHaveLength(3); // and the watcher
    await workers[1]!.terminate();
    const job = { code: pool.share(nothing)!, run: linger(0), args: [], units: 12, chunks: 12 };
    expect(() => run(job)).toThrow("worker thread 2 ended by itself");
  });

  it("a worker that dies with work in its hands is an error at once, in one line, and no wait", async () => {
    await start();
    let died = 0;
    const kill = (): void => {
      if (died > 0) return;
      linger(50)(); // until the workers have their chunks
      void workers[1]!.terminate();
      died = performance.now();
    };
    const job = { code: pool.share(endless)!, run: kill, args: [], units: 12, chunks: 12 };
    expect(() => run(job)).toThrow(/^wasm: worker thread 2 ended by itself$/);
    expect(performance.now() - died).toBeLessThan(5_000); // 60 s of patience were the rule; it takes about 10 ms
    expect(() => run(job)).toThrow("worker thread 2 ended by itself");
  });
});

describe("the number of threads", () => {
  afterEach(() => {
    vi.unstubAllGlobals();
    vi.unstubAllEnvs();
    vi.restoreAllMocks();
  });

  it("is in the description", async () => {
    expect((await backendWith({ threads: 1 })).description).toBe("wasm (SIMD, 1 thread)");
    expect((await backendWith({ threads: 3 })).description).toBe("wasm (SIMD, 3 threads)");
    const on = await device("wasm", { threads: 2 });
    expect(on.description).toBe("wasm (SIMD, 2 threads)");
    on.dispose();
  });

  it("comes from WORLDGRAD_THREADS unless the program says", async () => {
    vi.stubEnv("WORLDGRAD_THREADS", "3");
    expect((await backendWith({})).description).toBe("wasm (SIMD, 3 threads)");
    expect((await backendWith({ threads: 1 })).description).toBe("wasm (SIMD, 1 thread)");
    vi.stubEnv("WORLDGRAD_THREADS", "many");
    await expect(createWasmBackend()).rejects.toThrow("WORLDGRAD_THREADS must be a whole number from 1 to 64, got NaN");
    for (const threads of [0, 1.5, 65, -1]) {
      await expect(createWasmBackend({ threads })).rejects.toThrow(`wasm: threads must be a whole number`);
    }
  });

  it("is one, with the reason, where there is no shared memory", async () => {
    vi.stubGlobal("SharedArrayBuffer", undefined);
    const { description } = await backendWith({ threads: 2 });
    expect(description).toBe("wasm (SIMD, 1 thread: no shared memory: the page is not cross-origin isolated)");
  });

  it("is one where the calling thread must not wait", async () => {
    vi.spyOn(Atomics, "wait").mockImplementation(() => {
      throw new TypeError("Atomics.wait cannot be called in this context");
    });
    const on = await backendWith({ threads: 2 });
    expect(on.description).toMatch(/1 thread: the main thread of a page must not wait/);
  });

  it("does not keep the process alive", () => {
    const url = new URL("../../", import.meta.url).href;
    const script = `
      import { createWasmBackend } from "${url}engine/backends/wasm.ts";
      import * as wasm from "${url}kernels/wasm/index.ts";
      const on = await createWasmBackend({ threads: 3, alwaysSplit: true });
      const x = on.alloc(4e6);
      on.run(wasm.fill({ count: 1e6, bits: 7 }), [x], () => "fill");
      console.log(on.description, new Int32Array(on.readSync(x, 4e6)).every((v) => v === 7));`;
    const args = ["--import", "tsx", "--input-type=module", "-e", script];
    const run = spawnSync(process.execPath, args, { encoding: "utf8", timeout: 15_000 });
    expect(run.stderr).toBe("");
    expect(run.stdout.trim()).toBe("wasm (SIMD, 3 threads) true");
    expect(run.signal).toBeNull();
    expect(run.status).toBe(0);
  });
});
