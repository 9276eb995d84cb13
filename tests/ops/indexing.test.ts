/** Ops that read and write by ids, and tensors that are overwritten in place: values, gradients and what is refused. */
import { describe, expect, test } from "vitest";
import { grad } from "../../engine/grad.ts";
import { tensor, zeros } from "../../engine/ops/create.ts";
import { cumsum } from "../../engine/ops/cumsum.ts";
import {
  cast,
  embedding,
  gather,
  oneHot,
  scatterAdd,
  scatterAlong,
  takeAlong,
  writeRows,
} from "../../engine/ops/indexing.ts";
import { reshape } from "../../engine/ops/movement.ts";
import { mul } from "../../engine/ops/pointwise.ts";
import { sum } from "../../engine/ops/reduce.ts";
import { assign } from "../../engine/state.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { ints, onReference, values } from "../support/reference.ts";

onReference();

describe("indexing", () => {
  test("reads rows and elements, and adds them back", () => {
    const x = tensor([
      [1, 2],
      [3, 4],
      [5, 6],
    ]);
    expect(values(gather(x, ints(2, 0, 2)))).toEqual([5, 6, 1, 2, 5, 6]);
    expect(values(gather(x, ints(1), { axis: -1 }))).toEqual([2, 4, 6]);
    expect(values(scatterAdd(x, ints(1, 1, 0), 3))).toEqual([5, 6, 4, 6, 0, 0]);
    expect(values(takeAlong(x, tensor([[1], [0], [1]], { dtype: "i32" })))).toEqual([2, 3, 6]);
    expect(values(scatterAlong(tensor([[7], [8]]), tensor([[1], [0]], { dtype: "i32" }), 2))).toEqual([0, 7, 8, 0]);
    expect(embedding(x, tensor([[0, 2]], { dtype: "i32" })).shape).toEqual([1, 2, 2]);
    expect(values(oneHot(ints(2, 0), 3))).toEqual([0, 0, 1, 1, 0, 0]);
    expect(values(cumsum(x, { axis: 0, reverse: true }))).toEqual([9, 12, 8, 10, 5, 6]);
  });
  test("the embedding's gradient sums over repeated ids", () => {
    const g = grad((w: Tensor) => sum(embedding(w, ints(1, 1, 3))))(zeros([4, 2]));
    expect(values(g)).toEqual([0, 0, 2, 2, 0, 0, 1, 1]);
  });
  test("ids from the host are checked where they are used", () => {
    const table = zeros([96, 4]);
    expect(() => embedding(table, ints(1, 2, 3, 99))).toThrow(
      "embedding: id 99 at position 3 is outside a table of 96 rows",
    );
    expect(() => gather(table, ints(-1))).toThrow("gather: id -1 at position 0");
    expect(() => takeAlong(zeros([1, 3]), tensor([[3]], { dtype: "i32" }))).toThrow("takeAlong: id 3");
    expect(() => oneHot(ints(0, 5), 5)).toThrow("oneHot: id 5 at position 1 is outside a table of 5 rows");
    expect(() => gather(table, zeros([2]))).toThrow("gather: expected an i32 tensor, got f64[2]");
    expect(() => gather(table, reshape(ints(1), [1, 1]))).toThrow("expected ids of shape [N], got i32[1, 1]");
  });
  test("ids made on the device read zeros where they are out of range", () => {
    expect(values(gather(tensor([7, 8]), cast(tensor([1, -1, 2]), "i32")))).toEqual([8, 0, 0]);
    expect(values(scatterAdd(tensor([7, 8]), cast(tensor([5, 1]), "i32"), 2))).toEqual([0, 8]);
  });
  test("casts drop what follows the point", () => {
    expect(values(cast(tensor([1.9, -1.9, -0.5, 3e9]), "i32"))).toEqual([1, -1, 0, 2 ** 31 - 1]);
    const x = ints(3);
    expect(cast(x, "i32").storage).toBe(x.storage);
  });
});

describe("state", () => {
  test("rows are written in place, negative ids skipped", () => {
    const cache = zeros([3, 2]);
    writeRows(
      cache,
      ints(2, -1, 0),
      tensor([
        [1, 2],
        [3, 4],
        [5, 6],
      ]),
    );
    expect(values(cache)).toEqual([5, 6, 0, 0, 1, 2]);
    expect(() => writeRows(cache, ints(1, 1), zeros([2, 2]))).toThrow("writeRows: row 1 is written twice");
    expect(() => writeRows(cache, ints(3), zeros([1, 2]))).toThrow("id 3 at position 0 is outside a table of 3 rows");
    expect(() => writeRows(cache, ints(1), zeros([2, 2]))).toThrow("need a source [N, ...rows], got [2, 2]");
  });
  test("assign copies", () => {
    const [variable, value] = [
      zeros([2, 2]),
      tensor([
        [1, 2],
        [3, 4],
      ]),
    ];
    assign(variable, value);
    assign(value, zeros([2, 2]));
    expect(values(variable)).toEqual([1, 2, 3, 4]);
    assign(variable, variable);
    expect(() => assign(variable, zeros([4]))).toThrow("assign: the variable is f64[2, 2], the value f64[4]");
    expect(() => assign(variable, reshape(variable, [4]))).toThrow("the value f64[4]");
  });
  test("a gradient that needs an overwritten value is an error", () => {
    const scale = tensor([2]);
    const f = (x: Tensor): Tensor => {
      const y = mul(x, scale);
      assign(scale, tensor([3]));
      return sum(y);
    };
    expect(() => grad(f)(tensor([1]))).toThrow("was overwritten between the forward and the backward pass");
    expect(() => grad((x: Tensor) => (assign(x, scale), sum(x)))(tensor([1]))).toThrow("assign: cannot overwrite");
  });
});
