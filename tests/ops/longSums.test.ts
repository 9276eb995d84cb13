/**
 * Sums of a million elements: whatever the executor, their rounding error must not grow with the number of additions
 * (pandas-dev/pandas#47488, numpy/numpy#22956). One chain of additions in f32 makes of a million times 0.1 one percent
 * too much. Right is the product in f64, with 0.1 as f32 has it.
 */
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { device, type Device } from "../../engine/device.ts";
import {
  cumsum,
  embedding,
  full,
  gather,
  grad,
  matmul,
  mean,
  mul,
  scatterAdd,
  scatterAlong,
  slice,
  sum,
  takeAlong,
  tensor,
  type Tensor,
  zeros,
} from "../../engine/index.ts";
import { everyExecutor, reference, wasm } from "../support/rlExecutors.ts";

const TENTH = Math.fround(0.1);
const N = 2 ** 20 + 3;
/** Of products; one chain of so many is 0.25 % off. */
const K = 2 ** 18 + 3;

vi.setConfig({ testTimeout: 300_000 }); // software adapters

const executors = [
  ...everyExecutor.filter(({ name }) => name !== reference.name && name !== wasm.name),
  ...[1, 2].map((threads) => ({ name: `wasm, ${threads} threads`, open: () => device("wasm", { threads }) })),
];

describe.each(executors)("on $name", ({ open }) => {
  let on: Device;
  beforeAll(async () => {
    on = await open();
  });
  afterAll(() => on.dispose());

  const tenths = (shape: readonly number[]): Tensor => full(shape, 0.1, { device: on });
  const relative = async (y: Tensor, expected: number): Promise<number> => {
    const values = await y.read();
    y.dispose();
    return Math.max(...Array.from(values, (v) => Math.abs(v / expected - 1)));
  };

  test.each([
    ["a row, from the front", [N], 0, false, N - 1],
    ["a row, from the end", [N], 0, true, 0],
    ["columns", [N, 5], 0, false, N - 1],
  ] as const)("running sums: %s", async (_, shape, axis, reverse, last) => {
    const x = tenths(shape);
    const y = cumsum(x, { axis, reverse });
    expect(await relative(slice(y, [last], [last + 1]), N * TENTH)).toBeLessThan(3e-6);
    [x, y].forEach((t) => t.dispose());
  });

  test("sum and mean", async () => {
    const x = tenths([N]);
    expect(await relative(sum(x), N * TENTH)).toBeLessThan(3e-6);
    expect(await relative(mean(x), TENTH)).toBeLessThan(3e-6);
    x.dispose();
  });

  // Gradients: a token that comes often. 1e-3: chains of 65,536 additions.
  const INDEXED: readonly (readonly [string, readonly number[], (x: Tensor) => Tensor])[] = [
    ["embedding", [2, 4], (x) => embedding(x, zeros([K], { device: on, dtype: "i32" }))],
    ["gather", [2, 3], (x) => gather(x, zeros([K], { device: on, dtype: "i32" }))],
    ["gather along the last axis", [1, 2], (x) => gather(x, zeros([K], { device: on, dtype: "i32" }), { axis: 1 })],
    ["takeAlong", [1, 2], (x) => takeAlong(x, zeros([1, K], { device: on, dtype: "i32" }))],
    ["takeAlong, columns", [2, 3], (x) => takeAlong(x, zeros([K, 3], { device: on, dtype: "i32" }), { axis: 0 })],
  ];
  test.each(INDEXED)("the gradient of %s", async (_, shape, f) => {
    const slope = grad((x: Tensor) => sum(mul(f(x), 0.1)))(zeros(shape, { device: on }));
    const values = [...(await slope.read())];
    slope.dispose();
    const hit = values.filter((v) => v !== 0);
    expect(hit).toHaveLength(shape[0] === 1 ? 1 : shape[1]!);
    for (const v of hit) expect(Math.abs(v / (K * TENTH) - 1)).toBeLessThan(1e-3);
  });

  test("rows by number beyond one block are those of the reference", async () => {
    const [count, rows] = [2 * 65536 + 7, 5];
    const numbers = Int32Array.from({ length: count }, (_, i) => (i * 7919) % rows);
    const data = Float32Array.from({ length: count * 3 }, (_, i) => ((i * 31) % 17) - 8);
    const right = new Float64Array(rows * 3);
    const rightAlong = new Float64Array(rows * 3);
    data.forEach((v, i) => {
      right[numbers[Math.floor(i / 3)]! * 3 + (i % 3)]! += v;
      rightAlong[((i * 7919) % rows) * 3 + (i % 3)]! += v;
    });
    const x = tensor(data, { device: on, shape: [count, 3] });
    const ids = tensor(numbers, { device: on });
    const along = tensor(
      data.map((_, i) => (i * 7919) % rows),
      { device: on, dtype: "i32", shape: [count, 3] },
    );
    expect([...(await scatterAdd(x, ids, rows).read())]).toEqual([...right]);
    expect([...(await scatterAlong(x, along, rows, { axis: 0 }).read())]).toEqual([...rightAlong]);
    [x, ids, along].forEach((t) => t.dispose());
  });

  // The second is a weight's gradient: a sum over tokens. 1e-3: chains of 65,536 additions.
  test.each([
    ["one product of two vectors", [1, K], [K, 1], {}],
    ["Aᵀ·B", [K, 3], [K, 5], { transA: true }],
    ["A·Bᵀ", [2, K], [5, K], { transB: true }],
    ["Aᵀ·Bᵀ", [K, 3], [5, K], { transA: true, transB: true }],
    ["rows enough for panels", [17, K], [K, 4], {}],
  ] as const)("matmul: %s", async (_, a, b, options) => {
    const [x, y] = [tenths(a), full(b, 1, { device: on })];
    expect(await relative(matmul(x, y, options), K * TENTH)).toBeLessThan(1e-3);
    [x, y].forEach((t) => t.dispose());
  });
});
