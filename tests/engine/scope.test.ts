/** Scopes: what they free, what they hand on, and what is said when a tensor is used that is gone. */
import { beforeEach, describe, expect, test } from "vitest";
import { createWasmBackend } from "../../engine/backends/wasm.ts";
import { device, Device } from "../../engine/device.ts";
import { noGrad, outsideScopes, scope, type Tensor } from "../../engine/index.ts";
import * as ops from "../../engine/ops/index.ts";

let on: Device;
beforeEach(async () => {
  on = await device("reference");
});
const ones = (): Tensor => ops.ones([2], { device: on });
const live = (): number => on.backend.stats().liveBuffers;

describe("a scope", () => {
  test("frees what was made in it, but for what it returns, however deep", () => {
    const kept = scope(() => {
      const [a, b, c] = [ones(), ones(), ones()];
      ops.add(a, b);
      return { list: [a, { deep: b }], map: new Map([["c", c]]), number: 3 };
    });
    expect(live()).toBe(3);
    expect((kept.list[0] as Tensor).disposed).toBe(false);
  });
  test("hands what it returns to the scope around it", () => {
    scope(() => {
      const inner = scope(() => ones());
      expect([live(), inner.disposed]).toEqual([1, false]);
    });
    expect(live()).toBe(0);
  });
  test("is named, with those around it and what they hold, when memory runs out in it", async () => {
    const small = new Device(await createWasmBackend({ maxBytes: 2 ** 20 }));
    const zeros = (size: number): Tensor => ops.zeros([size], { device: small });
    const large = (): Tensor => zeros(2 ** 19);
    const step = (): void => {
      const x = zeros(100);
      ops.reshape(x, [10, 10]);
      zeros(20).dispose();
      scope(large, "loss");
    };
    const held = "step 7 holds 400 bytes in 1 tensors > loss holds 0 bytes in 0 tensors";
    expect(() => scope(step, "step 7")).toThrow(
      new RegExp(`out of memory: asked for 2097152 bytes, 400 are live.*\\(open scopes: ${held}\\)$`),
    );
    expect(large).toThrow(/\(open scopes: none\)$/);
    small.dispose();
  });
  test("is named when memory runs out for what an op needs while it runs", async () => {
    const small = new Device(await createWasmBackend({ maxBytes: 2 ** 20 }));
    const x = ops.zeros([300, 300], { device: small }); // a product packs a copy of its second operand
    const product = (): unknown => scope(() => ops.matmul(x, x), "step 7");
    expect(product).toThrow(/matmul\(.*out of memory: asked for \d+ bytes, 720000 are live in 2 buffers/);
    expect(product).toThrow(expect.objectContaining({ name: "WorldgradError", code: "OUT_OF_MEMORY" }));
    expect(product).toThrow(/720000 are live in 2 buffers.*step 7 holds 360000 bytes in 1 tensors/);
    expect(small.backend.stats().liveBuffers).toBe(1);
    small.dispose();
  });
  test("frees everything if its body throws", () => {
    expect(() =>
      scope(() => {
        ones();
        scope(() => ones());
        throw new Error("mine");
      }),
    ).toThrow("mine");
    expect(live()).toBe(0);
    ones(); // no scope is left open: this one lives
    expect(live()).toBe(1);
  });
  test("keeps memory that a reshape still shows", () => {
    const view = scope(() => ops.reshape(ones(), [2, 1]));
    expect([live(), [...view.readSync()]]).toEqual([1, [1, 1]]);
    view.dispose();
    view.dispose();
    expect(live()).toBe(0);
  });
  test("leaves alone what was made outside it", () => {
    const x = ones();
    scope(() => void ops.neg(x));
    expect([...x.readSync()]).toEqual([1, 1]);
    const y = scope(() => outsideScopes(() => ({ state: ones() })).state);
    scope(() => outsideScopes(ones));
    expect([y.disposed, live()]).toEqual([false, 3]);
  });
  test("cannot wait: a promise is an error, at once, and nothing is left", async () => {
    expect(() => scope(async () => ones())).toThrow(
      "scope: the callback must be synchronous, it returned a promise (read tensors after the scope has ended)",
    );
    await Promise.resolve();
    expect(live()).toBe(0);
    expect(() => noGrad(() => Promise.resolve())).toThrow("noGrad: the callback must be synchronous");
  });
});

describe("a tensor that is gone", () => {
  test("says so, by type", async () => {
    let escaped: Tensor | undefined;
    scope(() => void (escaped = ones()));
    const message = "f64[2] was used after its scope ended or it was disposed";
    expect(() => ops.neg(escaped!)).toThrow(message);
    expect(() => escaped!.readSync()).toThrow(message);
    await expect(escaped!.read()).rejects.toThrow(message);
    expect(String(escaped)).toBe("Tensor(f64[2] on reference)");
  });
  test("a value read before is safe", async () => {
    const { reading } = scope(() => ({ reading: ones().read() }));
    expect([...(await reading)]).toEqual([1, 1]);
  });
});
