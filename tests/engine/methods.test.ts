/**
 * `worldgrad/tensor-methods` installs ops as methods. It is imported by a path that the compiler does not follow: its
 * types would reach every file of this project, where nobody has installed the methods. `npm run check:consumer` checks
 * the types.
 */
import { beforeAll, expect, test } from "vitest";
import * as ops from "../../engine/index.ts";

const PATH = "../../tensorMethods.ts";
type Chain = Readonly<Record<string, (...args: readonly unknown[]) => Chain>> & ops.Tensor;
const chain = (x: ops.Tensor): Chain => x as unknown as Chain;

beforeAll(async () => {
  ops.setDevice(await ops.device("reference"));
});

test("without the import a tensor has no ops as methods; with it they are the ops, and gradients flow", async () => {
  const [x, w] = [
    ops.tensor([
      [1, 2],
      [3, 4],
    ]),
    ops.tensor([[1], [1]]),
  ];
  expect("matmul" in x).toBe(false);
  await import(PATH);
  const chained = chain(x)["matmul"]!(w)["add"]!(0.5)["square"]!()["mean"]!({ axis: 0 });
  const called = ops.mean(ops.square(ops.add(ops.matmul(x, w), 0.5)), { axis: 0 });
  expect([...chained.readSync()]).toEqual([...called.readSync()]);
  const g = ops.grad((v: ops.Tensor) => chain(x)["matmul"]!(v)["square"]!()["sum"]!())(w);
  expect([...g.readSync()]).toEqual([48, 68]); // 2 xᵀ x w
  expect(() => chain(x)["sum"]!(0)).toThrow("sum: expected options { axis, keepdims }, got 0");
  expect(Object.keys(x)).not.toContain("add"); // console.log and JSON see the tensor as before
});
