/**
 * Choosing an executor, and what is refused in one clear line: kinds, element types, mixed devices, ids out of range.
 */
import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { currentDevice, device, type Device, setDevice } from "../../engine/device.ts";
import { grad, type Tensor } from "../../engine/index.ts";
import * as ops from "../../engine/ops/index.ts";
import { assign } from "../../engine/state.ts";
import { AdamW } from "../../nn/index.ts";

let reference: Device;
let wasm: Device;
beforeAll(async () => {
  reference = await device("reference");
  wasm = await device("wasm");
});
afterEach(() => vi.unstubAllGlobals());

/** Stands for `navigator.gpu`: what a browser on some machine would offer. */
function offer(adapter: object | null): void {
  vi.stubGlobal("navigator", { gpu: { requestAdapter: () => Promise.resolve(adapter) } });
}
const gpuDevice = {
  limits: { maxStorageBufferBindingSize: 2 ** 27, maxBufferSize: 2 ** 28 },
  lost: new Promise(() => undefined),
  createBuffer: () => ({ destroy: () => undefined }),
  addEventListener: () => undefined,
  destroy: () => undefined,
};
const adapterOf = (info: object): object => ({
  info: { vendor: "nvidia", architecture: "hopper", device: "", description: "", isFallbackAdapter: false, ...info },
  limits: gpuDevice.limits,
  requestDevice: () => Promise.resolve(gpuDevice),
});

async function auto(): Promise<{ made: Device; lines: string[] }> {
  const lines: string[] = [];
  return { made: await device("auto", { log: (line) => lines.push(line) }), lines };
}

describe('device("auto") says in one line what it took and why', () => {
  test("a hardware adapter: webgpu", async () => {
    offer(adapterOf({}));
    const { made, lines } = await auto();
    expect(made.kind).toBe("webgpu");
    expect(lines).toEqual(["worldgrad: using webgpu, because there is a hardware adapter: nvidia hopper"]);
    made.dispose();
  });
  test("a hardware adapter that gives no device: wasm, with the driver's reason", async () => {
    offer({ ...adapterOf({}), requestDevice: () => Promise.reject(new Error("vkCreateDevice failed")) });
    const { made, lines } = await auto();
    expect(made.kind).toBe("wasm");
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(
      /^worldgrad: using wasm .*, because the adapter nvidia hopper gives no device: vkCreateDevice failed$/,
    );
    made.dispose();
    await expect(device("webgpu")).rejects.toThrow("vkCreateDevice failed");
  });
  test("a software adapter only: wasm, because it is faster", async () => {
    offer(adapterOf({ vendor: "google", architecture: "swiftshader" }));
    const { made, lines } = await auto();
    expect(made.kind).toBe("wasm");
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(
      /^worldgrad: using wasm .*, because there is only a software WebGPU adapter: google swiftshader$/,
    );
    made.dispose();
  });
  test("no adapter: wasm", async () => {
    offer(null);
    const { made, lines } = await auto();
    expect(made.kind).toBe("wasm");
    expect(lines[0]).toMatch(/^worldgrad: using wasm .*, because webgpu: no adapter: /);
    made.dispose();
  });
  test("no adapter and no SIMD: the reference in f32, because of both", async () => {
    offer(null);
    vi.stubGlobal("WebAssembly", undefined);
    const { made, lines } = await auto();
    expect([made.kind, made.float]).toEqual(["reference", "f32"]);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(
      /^worldgrad: using the reference executor in f32 \(slow\), because wasm: .*SIMD.* and webgpu: no adapter/,
    );
    await expect(device("wasm")).rejects.toThrow("wasm: this JavaScript engine has no WebAssembly SIMD");
  });
  test("on this machine, whatever it has", async () => {
    const { made, lines } = await auto();
    expect(lines).toEqual([expect.stringMatching(/^worldgrad: using (webgpu|wasm).*, because .+/)]);
    made.dispose();
  });
  test("without `log` the line goes to the console; executors taken by name say nothing", async () => {
    offer(null);
    const info = vi.spyOn(console, "info").mockImplementation(() => undefined);
    (await device()).dispose();
    (await device("wasm")).dispose();
    (await device("reference")).dispose();
    expect(info).toHaveBeenCalledTimes(1);
    info.mockRestore();
  });
});

describe("what is refused", () => {
  test("unknown kinds and precisions; webgpu where there is none", async () => {
    await expect(device("cuda" as "wasm")).rejects.toThrow(
      'device: expected "auto", "wasm", "webgpu" or "reference", got "cuda"',
    );
    await expect(device("reference", { precision: "f16" as "f32" })).rejects.toThrow(
      'device: precision must be "f32" or "f64", got "f16"',
    );
    offer(null);
    await expect(device("webgpu")).rejects.toThrow("webgpu: no adapter: this machine offers no GPU driver");
  });
  test("f64 anywhere but on the reference", () => {
    const message = /^\w+: f64 exists on the reference executor only, this is wasm/;
    expect(() => ops.tensor([1], { device: wasm, dtype: "f64" })).toThrow(message);
    expect(() => ops.zeros([2], { device: wasm, dtype: "f64" })).toThrow(message);
    expect(() => ops.cast(ops.tensor([1], { device: wasm }), "f64")).toThrow(message);
    expect(ops.tensor(Float64Array.of(1), { device: wasm }).dtype).toBe("f32");
  });
  test("tensors on different devices, by both names", () => {
    const [x, y] = [ops.zeros([2], { device: wasm }), ops.zeros([2], { device: reference, dtype: "f32" })];
    const message = /^add: tensors are on different devices: wasm .* · reference \(f64/;
    expect(() => ops.add(x, y)).toThrow(message);
    expect(() => assign(x, y)).toThrow(/^assign: tensors are on different devices/);
    expect(() => grad((t: Tensor) => ops.sum(ops.mul(t, y)))(x)).toThrow(/^mul: tensors are on different devices/);
  });
  test("element types and shapes", () => {
    const [x, ids] = [ops.zeros([2, 3], { device: wasm }), ops.arange(3, { device: wasm })];
    expect(() => ops.add(x, ids)).toThrow("add: expected a float tensor, got i32[3]");
    expect(() => ops.add(x, ops.zeros([2], { device: wasm }))).toThrow("add: shapes do not broadcast: [2, 3] · [2]");
    expect(() => ops.matmul(x, x)).toThrow("[2, 3] · [2, 3]");
    expect(() => ops.zeros([2, 0], { device: wasm })).toThrow(
      "zeros: a shape is a list of positive integers such as [2, 3], got [2,0]",
    );
    expect(() => ops.tensor([], { device: wasm })).toThrow("tensors without elements do not exist");
    expect(() => ops.tensor([[1], [1, 2]], { device: wasm })).toThrow("ragged");
    expect(() => ops.tensor([0.5], { device: wasm, dtype: "i32" })).toThrow(
      "i32 values must be 32-bit integers, got 0.5",
    );
    expect(() => grad((t: Tensor) => ops.sum(t))(ids)).toThrow("can only differentiate floats, got i32[3]");
    expect(() => grad((t: Tensor) => t)(x)).toThrow("expected a scalar float, got f32[2, 3]");
  });
  test("ids out of range, before anything runs", () => {
    const table = ops.zeros([5, 2], { device: wasm });
    const bad = ops.tensor(Int32Array.of(0, 5), { device: wasm });
    const before = wasm.backend.stats().compiledKernels;
    for (const [name, call] of [
      ["embedding", () => ops.embedding(table, bad)],
      ["gather", () => ops.gather(table, bad)],
      ["scatterAdd", () => ops.scatterAdd(ops.zeros([2, 2], { device: wasm }), bad, 5)],
      ["oneHot", () => ops.oneHot(bad, 5)],
      ["logProbs", () => ops.logProbs(ops.zeros([2, 5], { device: wasm }), bad)],
      ["crossEntropy", () => ops.crossEntropy(ops.zeros([2, 5], { device: wasm }), bad)],
    ] as const) {
      expect(call).toThrow(`${name}: id 5 at position 1 is outside a table of 5 rows`);
    }
    expect(wasm.backend.stats().compiledKernels - before).toBeLessThanOrEqual(1); // the fill that made the zeros
  });
  test("a tensor after its device", async () => {
    const own = await device("wasm");
    const x = ops.ones([2], { device: own });
    own.dispose();
    expect(() => ops.neg(x)).toThrow("wasm: the backend was used after dispose()");
    await expect(x.read()).rejects.toThrow("wasm: the backend was used after dispose()");
  });
});

test("the first device is the default until it is disposed or another is set", async () => {
  expect(currentDevice()).toBe(reference);
  setDevice(wasm);
  expect(ops.zeros([1]).device).toBe(wasm);
  setDevice(reference);
  expect(ops.zeros([1]).dtype).toBe("f64");
  const own = await device("reference");
  setDevice(own);
  own.dispose();
  expect(() => currentDevice()).toThrow('no device: call `await device("auto")` first, or pass { device }');
  setDevice(reference);
});

test("a gradient that is not finite leaves parameters and moments as they were, and the next one counts", async () => {
  const p = ops.tensor([1, 2, 3], { device: wasm });
  const optimizer = new AdamW([p], { lr: 0.1 });
  for (const bad of [NaN, Infinity, -Infinity]) {
    const norm = optimizer.step([ops.tensor([0, bad, 0], { device: wasm })]);
    expect(Number.isFinite(await norm.item())).toBe(false);
    expect([...p.readSync()]).toEqual([1, 2, 3]);
    expect([...optimizer.state.m[0]!.readSync(), ...optimizer.state.v[0]!.readSync()]).toEqual([0, 0, 0, 0, 0, 0]);
  }
  optimizer.step([ops.tensor([1, 0, 0], { device: wasm })]);
  // The fourth step: only the count went on.
  const moved = 0.1 / (1 - 0.9 ** 4) / Math.sqrt(0.001 / (1 - 0.999 ** 4));
  [1 - 0.1 * moved, 2, 3].forEach((x, i) => expect(p.readSync()[i]).toBeCloseTo(x, 6));
});

test("a program that opens a device for each of its requests is told so, once", async () => {
  vi.resetModules(); // devices of other tests do not count
  const fresh = await import("../../engine/device.ts");
  const warn = vi.spyOn(console, "warn").mockImplementation(() => undefined);
  try {
    for (let i = 0; i < 40; i++) (await fresh.device("reference")).dispose();
    expect(warn).not.toHaveBeenCalled();
    const kept = [];
    for (let i = 0; i < 40; i++) kept.push(await fresh.device("reference"));
    expect(warn).toHaveBeenCalledTimes(1);
    expect(warn.mock.calls[0]).toEqual([expect.stringMatching(/^worldgrad: 16 devices are open, .*dispose\(\)/)]);
    for (const one of kept) {
      one.dispose();
      one.dispose(); // counts once
    }
    for (let i = 0; i < 20; i++) await fresh.device("reference");
    expect(warn).toHaveBeenCalledTimes(1);
  } finally {
    warn.mockRestore();
  }
});
