/** Sorting, beside the stable sort of the runtime, on every executor. */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { grad, mul, slice, sum, type Tensor, tensor } from "../../engine/index.ts";
import { sort, type SortOptions, topk } from "../../math/index.ts";
import { type Executors, openExecutors, valuesOn } from "../support/executors.ts";

let all: Executors;
beforeAll(async () => void (all = await openExecutors()));
afterAll(() => all.dispose());

/** NaN is the largest; equal ones keep their order. */
function places(row: readonly number[], descending: boolean): number[] {
  const before = (a: number, b: number): number =>
    Number.isNaN(a) || Number.isNaN(b)
      ? Number(Number.isNaN(a)) - Number(Number.isNaN(b))
      : Number(a > b) - Number(a < b);
  return row
    .map((_, i) => i)
    .sort((i, j) => (descending ? before(row[j]!, row[i]!) : before(row[i]!, row[j]!)) || i - j);
}
async function expectSorted(rows: readonly (readonly number[])[], options: SortOptions = {}): Promise<void> {
  const n = rows[0]!.length;
  const indices = rows.map((row) => places(row, options.descending ?? false));
  const values = rows.map((row, r) => indices[r]!.map((i) => row[i]!));
  for (const on of [all.reference, ...all.kernels]) {
    const got = await valuesOn(on, (make) => {
      const { values, indices } = sort(make(rows.flat(), [rows.length, n]), options);
      return [values, indices];
    });
    expect(got).toEqual([values.flat(), indices.flat()]);
  }
}

describe("sort", () => {
  test.each([
    ["one", [[3]]],
    [
      "two",
      [
        [2, 1],
        [1, 2],
      ],
    ],
    ["ties keep their order", [[1, 0, 1, 0, 1, 0, 0]]],
    ["all equal", [[5, 5, 5, 5, 5]]],
    ["a power of two, backwards", [[8, 7, 6, 5, 4, 3, 2, 1]]],
    ["one more than that", [[9, 8, 7, 6, 5, 4, 3, 2, 1]]],
    ["−0 and 0 are equal", [[0, -0, 0, -0, -1]]],
    ["infinities, and NaN behind them", [[NaN, Infinity, 1, -Infinity, NaN, Infinity]]],
    ["NaN alone", [[NaN, NaN, NaN]]],
    ["the largest of f32", [[3.4028234663852886e38, Infinity, -3.4028234663852886e38, 0, -Infinity]]],
  ])("%s", async (_, rows) => {
    await expectSorted(rows);
    await expectSorted(rows, { descending: true });
  });

  test("rows of any length, with ties", async () => {
    const value = fc.oneof(fc.integer({ min: -3, max: 3 }), fc.constantFrom(NaN, Infinity, -Infinity));
    const row = fc.integer({ min: 1, max: 40 }).chain((n) => fc.array(value, { minLength: n, maxLength: n }));
    await fc.assert(
      fc.asyncProperty(row, fc.boolean(), (one, descending) => expectSorted([one, one.toReversed()], { descending })),
      { numRuns: 25 },
    );
  }, 60_000);

  test("along another axis; the gradient goes to what an element was", () => {
    const x = tensor(
      [
        [3, 10],
        [1, 30],
        [2, 20],
      ],
      { device: all.reference },
    );
    const { values, indices } = sort(x, { axis: 0 });
    expect([...values.readSync()]).toEqual([1, 10, 2, 20, 3, 30]);
    expect([...indices.readSync()]).toEqual([1, 0, 2, 2, 0, 1]);
    expect(indices.dtype).toBe("i32");
    const weights = tensor(
      [
        [1, 2],
        [3, 4],
        [5, 6],
      ],
      { device: all.reference },
    );
    const gradient = grad((x: Tensor) => sum(mul(sort(x, { axis: 0 }).values, weights)))(x);
    expect([...gradient.readSync()]).toEqual([5, 2, 1, 6, 3, 4]);
  });
});

describe("topk", () => {
  test("the largest first, the first of equal ones; the smallest; all", () => {
    const x = tensor(
      [
        [1, 3, 3, 2],
        [0, -1, NaN, 5],
      ],
      { device: all.reference },
    );
    const shown = (k: number, largest?: boolean): number[][] => {
      const { values, indices } = largest === undefined ? topk(x, k) : topk(x, k, { largest });
      expect(values.shape).toEqual([2, k]);
      return [[...values.readSync()], [...indices.readSync()]];
    };
    expect(shown(1)).toEqual([
      [3, NaN],
      [1, 2],
    ]);
    expect(shown(2)).toEqual([
      [3, 3, NaN, 5],
      [1, 2, 2, 3],
    ]);
    expect(shown(2, false)).toEqual([
      [1, 2, -1, 0],
      [0, 3, 1, 0],
    ]);
    expect(shown(4)[1]).toEqual([1, 2, 3, 0, 2, 3, 0, 1]);
    const gradient = grad((x: Tensor) => sum(topk(x, 2).values))(slice(x, [0], [1]));
    expect([...gradient.readSync()]).toEqual([0, 1, 1, 0]);
  });

  test("what does not fit is refused", () => {
    const x = tensor([1, 2], { device: all.reference });
    expect(() => topk(x, 3)).toThrow("topk: expected an integer k from 1 to 2, got 3");
    expect(() => topk(x, 0)).toThrow("topk: expected an integer k from 1 to 2, got 0");
    expect(() => topk(x, 1.5)).toThrow("topk: expected an integer k from 1 to 2, got 1.5");
    expect(() => sort(tensor(1, { device: all.reference }))).toThrow("sort: expected floats with an axis, got ");
    expect(() => sort(tensor(Int32Array.of(2, 1), { device: all.reference }))).toThrow(
      "sort: expected floats with an axis",
    );
    expect(() => sort(x, { dim: 0 } as object)).toThrow("sort: unknown option 'dim'");
    expect(() => topk(x, 1, { sorted: true } as object)).toThrow("topk: unknown option 'sorted'");
    expect(() => sort([2, 1] as never)).toThrow("sort: expected a tensor");
    expect(() => sort(x, { axis: 1 })).toThrow("sort: axis 1");
  });
});
