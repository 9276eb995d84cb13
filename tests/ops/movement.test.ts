/** Ops that only move elements, on random shapes: round trips that must give back the very bits, on every executor. */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { grad, type Tensor } from "../../engine/index.ts";
import * as ops from "../../engine/ops/index.ts";
import { Rng } from "../../engine/random.ts";
import { permutations, shapes } from "../../fastCheck.ts";
import { agree, draw, type Executors, indicesOf, offsetIn, openExecutors, seeds } from "../support/executors.ts";

let executors: Executors;
beforeAll(async () => {
  executors = await openExecutors();
});
afterAll(() => executors.dispose());

const EXACT = 0;

describe("movement", () => {
  test("permute puts every element where its indices say, and its inverse puts it back", async () => {
    const cases = shapes().chain((shape) => fc.tuple(fc.constant(shape), permutations(shape.length), seeds));
    await fc.assert(
      fc.asyncProperty(cases, async ([shape, axes, seed]) => {
        const x = draw(new Rng(seed), shape);
        const back = shape.map((_, d) => axes.indexOf(d));
        const [moved, again, gradient] = await agree(
          executors,
          (make) => {
            const t = make(x, shape);
            const y = ops.permute(t, axes);
            return [y, ops.permute(y, back), grad((u: Tensor) => ops.sum(ops.mul(ops.permute(u, axes), y)))(t)];
          },
          EXACT,
        );
        const target = axes.map((a) => shape[a]!);
        expect(moved).toEqual(
          indicesOf(target).map(
            (index) =>
              x[
                offsetIn(
                  shape,
                  back.map((d) => index[d]!),
                )
              ]!,
          ),
        );
        expect(again).toEqual(x);
        expect(gradient).toEqual(x); // the adjoint of a permutation is its inverse
      }),
      { numRuns: 40, seed: 21 },
    );
  });

  test("slice takes back what pad put around, zeros elsewhere", async () => {
    const cases = shapes().chain((shape) => {
      const amounts = fc.array(fc.nat(3), { minLength: shape.length, maxLength: shape.length });
      return fc.tuple(fc.constant(shape), amounts, amounts, seeds);
    });
    await fc.assert(
      fc.asyncProperty(cases, async ([shape, before, after, seed]) => {
        const x = draw(new Rng(seed), shape);
        const end = shape.map((n, d) => before[d]! + n);
        const [padded, inner] = await agree(
          executors,
          (make) => {
            const y = ops.pad(make(x, shape), before, after);
            return [y, ops.slice(y, before, end)];
          },
          EXACT,
        );
        expect(inner).toEqual(x);
        const outer = shape.map((n, d) => before[d]! + n + after[d]!);
        const expected = indicesOf(outer).map((index) => {
          const inside = index.map((i, d) => i - before[d]!);
          return inside.every((i, d) => i >= 0 && i < shape[d]!) ? x[offsetIn(shape, inside)]! : 0;
        });
        expect(padded).toEqual(expected);
      }),
      { numRuns: 40, seed: 22 },
    );
  });

  test("concat of slices, stack of rows, broadcast of one give the whole; gradients come back apart", async () => {
    await fc.assert(
      fc.asyncProperty(
        shapes({ minRank: 1, maxRank: 4 }),
        fc.nat(3),
        fc.nat(10),
        seeds,
        async (shape, at, where, seed) => {
          const axis = at % shape.length;
          const n = shape[axis]!;
          const cut = where % n;
          const x = draw(new Rng(seed), shape);
          const bounds = (from: number, to: number): [number[], number[]] => [
            shape.map((_, d) => (d === axis ? from : 0)),
            shape.map((size, d) => (d === axis ? to : size)),
          ];
          const rows = Array.from({ length: n }, (_, i) => bounds(i, i + 1));
          const [joined, stacked, repeated, gradient] = await agree(
            executors,
            (make) => {
              const t = make(x, shape);
              const parts = (
                cut === 0
                  ? [[0, n]]
                  : [
                      [0, cut],
                      [cut, n],
                    ]
              ).map(([a, b]) => ops.slice(t, ...bounds(a!, b!)));
              const thin = rows.map(([a, b]) => ops.reshape(ops.slice(t, a, b), shape.toSpliced(axis, 1)));
              const twice = (u: Tensor): Tensor => ops.concat([u, u], { axis });
              return [
                ops.concat(parts, { axis }),
                ops.stack(thin, { axis }),
                ops.slice(ops.broadcastTo(t, [2, ...shape]), [1]),
                grad((u: Tensor) => ops.sum(ops.mul(twice(u), twice(t))))(t),
              ];
            },
            EXACT,
          );
          expect([joined, stacked, repeated]).toEqual([x, x, x]);
          expect(gradient).toEqual(x.map((v) => 2 * v));
        },
      ),
      { numRuns: 30, seed: 23 },
    );
  });

  test("integers move like floats, and bits of NaN survive", async () => {
    const ids = [7, -1, 2 ** 31 - 1, -(2 ** 31), 0, 5];
    const [moved, padded] = await agree(
      executors,
      (make) => [ops.permute(make(ids, [2, 3], "i32"), [1, 0]), ops.pad(make([NaN, Infinity, -0], [3]), [1], [0])],
      EXACT,
    );
    expect(moved).toEqual([7, -(2 ** 31), -1, 0, 2 ** 31 - 1, 5]);
    expect(padded).toEqual([0, NaN, Infinity, -0]);
  });

  test("what makes no sense is named", () => {
    const x = ops.zeros([2, 3], { device: executors.reference });
    expect(() => ops.permute(x, [0, 0])).toThrow(/^permute: .*\[0, 0\]/);
    expect(() => ops.slice(x, [0, 2], [2, 5])).toThrow(/^slice: .*\[2, 3\]/);
    expect(() => ops.slice(x, [1], [1])).toThrow(/^slice: /);
    expect(() => ops.pad(x, [-1, 0], [0, 0])).toThrow("pad: before [-1, 0] and after [0, 0] must be integers ≥ 0");
    expect(() => ops.reshape(x, [4])).toThrow(/^reshape: .*\[2, 3\].*\[4\]/);
    expect(() => ops.reshape(x, [-1, 4])).toThrow("reshape: [2, 3] does not fit [-1, 4]");
    expect(() => ops.reshape(x, [-2, -3])).toThrow(
      "reshape: a shape is a list of positive integers such as [2, 3], got [-2,-3]",
    );
    expect(() => ops.broadcastTo(x, [3, 3])).toThrow(/^broadcastTo: .*\[2, 3\].*\[3, 3\]/);
    expect(() => ops.concat([])).toThrow("concat: the list is empty");
    expect(() => ops.concat([x, ops.reshape(x, [3, 2])])).toThrow("concat: shapes differ off axis 0: [2, 3] · [3, 2]");
    expect(() => ops.stack([x, ops.reshape(x, [3, 2])])).toThrow("concat: shapes differ");
  });
});
