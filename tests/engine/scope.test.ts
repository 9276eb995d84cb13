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
  test("is named, with those around it, when memory runs out in it", async () => {
    const small = new Device(await createWasmBackend({ maxBytes: 2 ** 20 }));
    const large = (): Tensor => ops.zeros([2 ** 19], { device: small });
    expect(() => scope(() => scope(large, "loss"), "step 7")).toThrow(
      /out of memory: asked for 2097152 bytes.*\(open scopes: step 7 > loss\)$/,
    );
    expect(large).toThrow(/\(open scopes: none\)$/);
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
