/** Products with tangents, Jacobians, Hessians and the norm, at points where derivatives are special, too. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type Device,
  device,
  exp,
  grad,
  logSoftmax,
  matmul,
  mul,
  Rng,
  setDevice,
  sin,
  square,
} from "../../engine/index.ts";
import { reshape, sub, sum, type Tensor, tensor } from "../../engine/index.ts";
import { hessian, jacobian, jvp, vectorNorm } from "../../math/index.ts";
import { forward, initParams, logits, modelConfig } from "../../nn/index.ts";

let f64: Device;
beforeAll(async () => {
  f64 = await device("reference");
  setDevice(f64);
});
afterAll(() => f64.dispose());
/** −0 as 0, rounded where sums of f64 end. */
const values = (x: Tensor): number[] => [...x.readSync()].map((y) => Number(y.toFixed(14)) + 0);

describe("jvp", () => {
  test("of x² is 2x·v, with the value beside it; of a tree the sum over its leaves", () => {
    const { value, tangent } = jvp((x: Tensor) => square(x), tensor([1, -2, 0]), tensor([1, 1, 5]));
    expect(values(value)).toEqual([1, 4, 0]);
    expect(values(tangent)).toEqual([2, -4, 0]);
    const tree = { a: tensor([1, 2]), b: [tensor([3, 4])] };
    const product = jvp(({ a, b }: typeof tree) => mul(a, b[0]!), tree, { a: tensor([1, 0]), b: [tensor([0, 1])] });
    expect(values(product.tangent)).toEqual([3, 2]);
  });

  test("a function that does not depend on its argument, or linearly, or is a scalar", () => {
    const [x, v] = [tensor([1, 2]), tensor([3, 5])];
    expect(values(jvp(() => tensor([7, 7, 7]), x, v).tangent)).toEqual([0, 0, 0]);
    expect(values(jvp((x: Tensor) => mul(x, 2), x, v).tangent)).toEqual([6, 10]);
    expect(values(jvp((x: Tensor) => sum(x), x, v).tangent)).toEqual([8]);
  });

  test("of a transformer's log-probabilities, by its parameters: the difference of two near by", () => {
    const config = modelConfig({ vocabSize: 7, hiddenSize: 8, layers: 2, heads: 2, maxPositions: 6 });
    const params = initParams(config, new Rng(0), f64);
    const direction = initParams(config, new Rng(1), f64);
    const ids = tensor(Int32Array.of(1, 2, 3, 4, 5), { shape: [1, 5] });
    const f = (tree: typeof params): Tensor => logSoftmax(logits(tree, forward(tree, config, ids)));
    const h = 1e-5;
    const at = (k: number): number[] => values(jvp(f, moved(params, direction, k * h), direction).value);
    const [above, below] = [at(1), at(-1)];
    const { tangent } = jvp(f, params, direction);
    values(tangent).forEach((t, i) => expect(t).toBeCloseTo((above[i]! - below[i]!) / (2 * h), 6));
  });

  test("a tangent of another shape or structure is refused", () => {
    const f = (x: Tensor): Tensor => x;
    expect(() => jvp(f, tensor([1, 2]), tensor([1]))).toThrow("jvp: expected a tangent of shape [2], got [1]");
    const tree = { a: tensor([1]) };
    expect(() => jvp(({ a }: { a: Tensor }) => a, tree, { b: tensor([1]) } as unknown as typeof tree)).toThrow(
      "jvp: the tangent",
    );
  });
});

describe("jacobian and hessian", () => {
  test("rows are gradients of elements, in the shapes of result and argument", () => {
    const a = tensor([
      [1, 2],
      [3, 4],
      [5, 6],
    ]);
    const J = jacobian((x: Tensor) => matmul(a, x))(tensor([[1], [1]]));
    expect(J.shape).toEqual([3, 1, 2, 1]);
    expect(values(J)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(values(jacobian((x: Tensor) => exp(x))(tensor([0, 0])))).toEqual([1, 0, 0, 1]);
    // Of a scalar it is the gradient; a part without influence has 0.
    expect(jacobian((x: Tensor) => sum(square(x)))(tensor([1, 2])).shape).toEqual([2]);
    expect(values(jacobian(() => tensor([1, 2]))(tensor([3])))).toEqual([0, 0]);
  });

  test("the Jacobian times a vector is jvp", () => {
    const [x, v] = [tensor([0.3, -1, 2]), tensor([1, 0.5, -2])];
    const f = (x: Tensor): Tensor => mul(sin(x), sum(x));
    const product = values(matmul(jacobian(f)(x), reshape(v, [3, 1])));
    values(jvp(f, x, v).tangent).forEach((t, i) => expect(t).toBeCloseTo(product[i]!, 12));
  });

  test("the Hessian of Σx³ is the diagonal of 6x, and is symmetric elsewhere", () => {
    expect(values(hessian((x: Tensor) => sum(mul(x, square(x))))(tensor([1, -2])))).toEqual([6, 0, 0, -12]);
    const H = hessian((x: Tensor) => sum(exp(mul(x, sum(x)))))(tensor([0.1, 0.2, -0.3]));
    const [h, n] = [values(H), 3];
    for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) expect(h[i * n + j]).toBeCloseTo(h[j * n + i]!, 12);
  });
});

describe("vectorNorm", () => {
  test("values over all and over axes", () => {
    const x = tensor([
      [3, 4],
      [0, 0],
      [-5, 12],
    ]);
    expect(values(vectorNorm(x, { axis: 1 }))).toEqual([5, 0, 13]);
    expect(vectorNorm(x, { axis: 1, keepdims: true }).shape).toEqual([3, 1]);
    expect(values(vectorNorm(x))[0]).toBeCloseTo(Math.sqrt(9 + 16 + 25 + 144), 12);
    expect(vectorNorm(x).shape).toEqual([]);
    expect(values(vectorNorm(tensor([-3])))).toEqual([3]);
    expect(values(vectorNorm(tensor([-3, 4]), { axis: [] }))).toEqual([3, 4]);
  });

  test("refuses what is no axis in its own name", () => {
    const x = tensor([[3, 4]]);
    expect(() => vectorNorm(x, { axis: 9 })).toThrow("vectorNorm: axis 9 is outside a tensor of rank 2");
    expect(() => vectorNorm(x, { axis: [1, 1] })).toThrow("vectorNorm: an axis is listed twice in [1, 1]");
    expect(() => vectorNorm(x, { axes: 1 } as never)).toThrow(
      "vectorNorm: unknown option 'axes'; did you mean 'axis'?",
    );
    expect(() => vectorNorm(3 as never)).toThrow("vectorNorm: expected a tensor, got 3");
  });

  test("the gradient is x/‖x‖, and 0 at 0, where the square root's is infinite; so is the second", () => {
    expect(values(grad((x: Tensor) => vectorNorm(x))(tensor([3, -4])))).toEqual([0.6, -0.8]);
    const rows = tensor([
      [0, 0],
      [3, 4],
    ]);
    expect(values(grad((x: Tensor) => sum(vectorNorm(x, { axis: 1 })))(rows))).toEqual([0, 0, 0.6, 0.8]);
    expect(values(hessian((x: Tensor) => vectorNorm(x))(tensor([0, 0])))).toEqual([0, 0, 0, 0]);
    // I/‖x‖ − xxᵀ/‖x‖³
    const H = values(hessian((x: Tensor) => vectorNorm(x))(tensor([3, 4])));
    [16 / 125, -12 / 125, -12 / 125, 9 / 125].forEach((h, i) => expect(H[i]).toBeCloseTo(h, 12));
  });

  test("in f32: numbers whose squares are none; infinity and NaN stay", async () => {
    const wasm = await device("wasm", { threads: 1 });
    const norm = (...x: number[]): number => vectorNorm(tensor(x, { device: wasm })).readSync()[0]!;
    expect(norm(3e30, 4e30) / 5e30).toBeCloseTo(1, 6);
    expect(norm(3e-30, 4e-30) / 5e-30).toBeCloseTo(1, 6);
    expect(norm(3e38)).toBe(Math.fround(3e38)); // near the largest
    expect(vectorNorm(tensor([3e200, 4e200])).readSync()[0]! / 5e200).toBeCloseTo(1, 12); // of f64
    expect(norm(1, Infinity)).toBe(Infinity);
    expect(norm(1, NaN)).toBeNaN();
    expect(norm(-0)).toBe(0);
    wasm.dispose();
  });
});

/** params + step · direction, leaf by leaf. */
function moved<T>(tree: T, direction: T, step: number): T {
  if (tree !== null && typeof tree === "object" && "readSync" in tree) {
    return sub(tree as unknown as Tensor, mul(direction as unknown as Tensor, -step)) as unknown as T;
  }
  if (Array.isArray(tree)) return tree.map((x, i) => moved(x, (direction as unknown[])[i], step)) as unknown as T;
  return Object.fromEntries(
    Object.entries(tree as object).map(([key, x]) => [
      key,
      moved(x, (direction as Record<string, unknown>)[key], step),
    ]),
  ) as T;
}
