/** The tape and the sweep: orders, memory, mistakes. What single ops do is tested in tests/ops. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { checkpoint } from "../../engine/checkpoint.ts";
import { device, type Device, setDevice } from "../../engine/device.ts";
import { fuse } from "../../engine/fuse.ts";
import { grad, stopGradient, valueAndGrad } from "../../engine/grad.ts";
import { tensor } from "../../engine/ops/create.ts";
import { add, exp, mul, sin, sub } from "../../engine/ops/pointwise.ts";
import { sum } from "../../engine/ops/reduce.ts";
import { scope } from "../../engine/scope.ts";
import { assign } from "../../engine/state.ts";
import { noGrad } from "../../engine/tape.ts";
import type { Tensor } from "../../engine/tensor.ts";

let f64: Device;
beforeAll(async () => {
  f64 = await device("reference");
  setDevice(f64);
});
afterAll(() => f64.dispose());

const values = (x: Tensor): number[] => [...x.readSync()];

describe("grad", () => {
  test("of Σ w² is 2w, and the value comes with it", () => {
    const { value, grads } = valueAndGrad((w: Tensor) => sum(mul(w, w)))(tensor([1, 2, 3]));
    expect(values(value)).toEqual([14]);
    expect(values(grads)).toEqual([2, 4, 6]);
  });

  test("third derivative of x⁴ is 24x", () => {
    const fourth = (x: Tensor): Tensor => sum(mul(mul(x, x), mul(x, x)));
    const d = (f: (x: Tensor) => Tensor) => (x: Tensor) => sum(grad(f)(x));
    expect(values(grad(d(d(fourth)))(tensor([2, -1])))).toEqual([48, -24]);
  });

  test("derivatives of any order: kernels of high ones would read more tensors than a kernel may", async () => {
    // d⁴ sin = sin, d exp = exp; the two results of one formula meet in one gradient. y multiplies the first.
    const both = fuse("both", (x, y) => [x.sin().mul(y), x.exp()]);
    const on = [f64, await device("wasm", { threads: 1 })];
    const at = 0.5;
    for (const d of on) {
      const y = tensor([3], { device: d });
      const total = (x: Tensor): Tensor => both(x, y).reduce((a, b) => add(sum(a), sum(b)));
      const functions: readonly (readonly [(x: Tensor) => Tensor, (n: number) => number])[] = [
        [(x) => sum(sin(x)), (n) => Math.sin(at + (n * Math.PI) / 2)],
        [(x) => sum(exp(x)), () => Math.exp(at)],
        [total, (n) => 3 * Math.sin(at + (n * Math.PI) / 2) + Math.exp(at)],
      ];
      for (const [f, expected] of functions) {
        let derivative = f;
        for (let n = 1; n <= 10; n++) {
          const before = derivative;
          derivative = (x) => sum(grad(before)(x));
          const found = values(derivative(tensor([at], { device: d })))[0]!;
          expect(Math.abs(found - expected(n)), `${d.kind}, order ${n}`).toBeLessThan(d === f64 ? 1e-12 : 1e-5);
        }
      }
    }
    on[1]!.dispose();
  });

  test("keeps the structure of the parameters; what is not used gets zeros", () => {
    const tree = { a: tensor([2]), b: [tensor([3]), tensor([5])], c: undefined };
    const grads = grad((p: typeof tree) => sum(mul(p.a, p.b[1]!)))(tree);
    expect(values(grads.a)).toEqual([5]);
    expect(grads.b.map(values)).toEqual([[0], [2]]);
  });

  test("a value used twice gets both contributions", () => {
    expect(values(grad((x: Tensor) => sum(add(mul(x, x), add(x, x))))(tensor([3])))).toEqual([8]);
  });

  test("an inner gradient sees the outer variable as a constant (no perturbation confusion)", () => {
    // d/dx [ x · d/dy (x + y)|_{y=1} ] = d/dx [ x · 1 ] = 1
    const f = (x: Tensor): Tensor => sum(mul(x, grad((y: Tensor) => sum(add(x, y)))(tensor([1]))));
    expect(values(grad(f)(tensor([1])))).toEqual([1]);
  });

  test("a chain of 10,000 ops does not overflow the stack", () => {
    const chain = (x: Tensor): Tensor => {
      let y = x;
      for (let i = 0; i < 10_000; i++) y = mul(y, 1.0001);
      return sum(y);
    };
    expect(values(grad(chain)(tensor([1])))[0]).toBeCloseTo(1.0001 ** 10_000, 9);
  });

  test("stopGradient and noGrad make constants", () => {
    expect(values(grad((x: Tensor) => sum(mul(x, stopGradient(x))))(tensor([3])))).toEqual([3]);
    expect(
      values(
        grad((x: Tensor) =>
          sum(
            mul(
              x,
              noGrad(() => exp(x)),
            ),
          ),
        )(tensor([0])),
      ),
    ).toEqual([1]);
  });

  test("checkpoint changes neither value nor gradients, of first and second order", () => {
    const block = (xs: readonly Tensor[]): Tensor[] => [sin(mul(xs[0]!, xs[1]!)), sub(xs[0]!, exp(xs[1]!))];
    const plain = (p: Tensor[]): Tensor =>
      block(p)
        .map((y) => sum(mul(y, y)))
        .reduce((a, b) => add(a, b));
    const saving = (p: Tensor[]): Tensor =>
      checkpoint(block, p)
        .map((y) => sum(mul(y, y)))
        .reduce((a, b) => add(a, b));
    const at = [tensor([0.3, -0.7]), tensor([1.1, 0.2])];
    expect(grad(saving)(at).map(values)).toEqual(grad(plain)(at).map(values));
    const second = (f: (p: Tensor[]) => Tensor) => (p: Tensor[]) =>
      grad(f)(p)
        .map((g) => sum(mul(g, g)))
        .reduce((a, b) => add(a, b));
    expect(grad(second(saving))(at).map(values)).toEqual(grad(second(plain))(at).map(values));
  });
});

describe("memory", () => {
  test("after a gradient only value and gradients are left", () => {
    const x = tensor([1, 2, 3]);
    const before = f64.backend.stats();
    const result = valueAndGrad((w: Tensor) => sum(exp(sin(mul(w, w)))))(x);
    const after = f64.backend.stats();
    expect(after.liveBuffers - before.liveBuffers).toBe(2);
    [result.value, result.grads].forEach((t) => t.dispose());
    expect(f64.backend.stats().liveBytes).toBe(before.liveBytes);
  });

  test("activations are freed while the sweep goes back", () => {
    const x = tensor(new Float64Array(1000).fill(0.5));
    const before = f64.backend.stats().liveBytes;
    let peak = 0;
    scope(() => {
      grad((w: Tensor) => {
        let y = w;
        for (let i = 0; i < 50; i++) y = sin(y);
        peak = f64.backend.stats().liveBytes - before;
        return sum(y);
      })(x);
    });
    const total = f64.backend.stats().peakBytes - before;
    expect(peak).toBeGreaterThan(50 * 8000 - 1);
    expect(total).toBeLessThan(peak + 5 * 8000); // the backward pass adds a handful of tensors, not fifty
  });

  test("scope frees what is not returned, and everything if the body throws", () => {
    const before = f64.backend.stats().liveBuffers;
    const kept = scope(() => ({ y: [add(tensor([1]), tensor([2]))] }));
    expect(f64.backend.stats().liveBuffers).toBe(before + 1);
    expect(values(kept.y[0]!)).toEqual([3]);
    kept.y[0]!.dispose();
    expect(() => scope(() => add(tensor([1, 2]), tensor([1, 2, 3])))).toThrow("do not broadcast");
    expect(f64.backend.stats().liveBuffers).toBe(before);
  });
});

describe("mistakes have one clear error", () => {
  test("a scope with an async body", () => {
    expect(() => scope(async () => Promise.resolve(tensor([1])))).toThrow("must be synchronous");
  });
  test("a tensor used after its scope", () => {
    let leaked: Tensor | undefined;
    scope(() => void (leaked = tensor([1])));
    expect(() => add(leaked!, 1)).toThrow("used after its scope ended");
  });
  test("a value overwritten before the backward pass", () => {
    const state = tensor([2]);
    const f = (x: Tensor): Tensor => {
      const y = mul(x, state);
      assign(state, tensor([5]));
      return sum(y);
    };
    expect(() => grad(f)(tensor([1]))).toThrow("overwritten between the forward and the backward pass");
  });
  test("a value freed by a scope inside the function", () => {
    const f = (x: Tensor): Tensor => scope(() => sum(exp(mul(x, x))));
    expect(() => grad(f)(tensor([1]))).toThrow("freed before the backward pass");
  });
  test("a gradient of something that is no scalar, and by something that is no float", () => {
    expect(() => grad((x: Tensor) => x)(tensor([1, 2]))).toThrow("expected a scalar float, got f64[2]");
    expect(() => grad((x: Tensor) => x)(tensor([1], { dtype: "i32" }))).toThrow("can only differentiate floats");
  });
  test("shapes, types and devices that do not fit", () => {
    expect(() => add(tensor([1, 2]), tensor([1, 2, 3]))).toThrow("add: shapes do not broadcast: [2] · [3]");
    expect(() => tensor([[1, 2], [3]])).toThrow("ragged");
    expect(() => tensor([])).toThrow("tensors without elements do not exist");
    expect(() => tensor([1.5], { dtype: "i32" })).toThrow("i32 values must be 32-bit integers, got 1.5");
    expect(() => tensor([1], { shape: [2] })).toThrow("needs 2 values, got 1");
  });
});
