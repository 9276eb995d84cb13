/**
 * WGSL pointwise kernels against the f64 evaluator: the accuracy of every function, broadcasting, several outputs, in
 * place.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { WebgpuBackend } from "../../engine/backends/webgpu.ts";
import { Rng } from "../../engine/random.ts";
import { constant, evaluator, Expr, input, where } from "../../kernels/expr.ts";
import { broadcastStrides, collapse } from "../../kernels/pointwise.ts";
import type { PointwiseInput, PointwiseSpec } from "../../kernels/specs.ts";
import { pointwise } from "../../kernels/wgsl/index.ts";
import { openWebgpu, runProgram } from "../support/gpu.ts";

let backend: WebgpuBackend;
beforeAll(async () => {
  backend = await openWebgpu();
  console.info(backend.description);
});
afterAll(() => backend.dispose());

const x = input(0);
const y = input(1);

async function map(outputs: readonly Expr[], ...inputs: Float32Array[]): Promise<Float32Array[]> {
  const spec: PointwiseSpec = {
    name: "test",
    outputs,
    inputs: inputs.map(() => ({ kind: "tensor", strides: [1] })),
    dims: [inputs[0]!.length],
    inPlace: outputs.map(() => -1),
  };
  const bytes = await runProgram(backend, pointwise(spec, backend.profile), [
    ...inputs,
    ...outputs.map(() => inputs[0]!.length),
  ]);
  return bytes.map((b) => new Float32Array(b));
}

/** `count` values between `low` and `high`, and the two ends. */
function between(low: number, high: number, count = 300): Float32Array {
  const rng = new Rng(3);
  return Float32Array.from({ length: count }, (_, i) =>
    i === 0 ? low : i === 1 ? high : low + (high - low) * rng.uniform(),
  );
}

/** Values of both signs from 1e-30 to 10^`top`: relative accuracy near 0 is what naive formulas lose. */
const magnitudes = (top: number): Float32Array => {
  const rng = new Rng(4);
  return Float32Array.from(
    { length: 300 },
    (_, i) => (i % 2 === 0 ? 1 : -1) * 10 ** (-30 + (30 + top) * rng.uniform()),
  );
};

/** Beyond what is reduced in f32: 2¹³ to the end of the range, and tensorflow/tfjs#8389's own arguments. */
const FAR = ((): Float32Array => {
  const rng = new Rng(5);
  const drawn = Array.from({ length: 300 }, (_, i) => (i % 2 === 0 ? 1 : -1) * 2 ** (13 + 114.9 * rng.uniform()));
  return Float32Array.of(8191.75, 8192, -8192, 1e6, 2 ** 24, 222031363, 1454271400, 1e10, 3.4028234e38, ...drawn);
})();
/** The floats nearest to multiples of π/2, where a sine or cosine is small: 16367173·2⁷² is the nearest of all. */
const NEAR_MULTIPLES = Float32Array.of(
  ...[1e4, 12345, 100001, 1e6, 7100000, 1e9].map((k) => (k * Math.PI) / 2),
  16367173 * 2 ** 72,
);

const unary = (op: string): Expr => new Expr(op as "exp", [x]);
const positive = (values: Float32Array): Float32Array => values.map(Math.abs);

// [function, arguments, greatest relative error, added absolute error]. f32 rounds to 6e-8.
const ACCURACY: [string, Float32Array, number, number][] = [
  ["neg", between(-9, 9), 0, 0],
  ["abs", between(-9, 9), 0, 0],
  ["sign", Float32Array.of(-3, -1e-20, 0, 2, 1e30), 0, 0],
  ["floor", Float32Array.of(-2.5, -1, -0.25, 0, 0.75, 7, 8.5), 0, 0],
  ["exp", between(-86, 88), 3e-7, 0],
  ["exp", magnitudes(1), 3e-7, 0],
  ["expm1", magnitudes(1.5), 5e-7, 0],
  ["expm1", between(-1, 1), 5e-7, 0],
  ["log", positive(magnitudes(30)), 3e-7, 0],
  ["log", between(0.9, 1.1), 3e-7, 0],
  ["log1p", magnitudes(-0.01), 4e-7, 0],
  ["log1p", between(-0.9, 1000), 4e-7, 0],
  ["sqrt", positive(magnitudes(20)), 3e-7, 0],
  ["rsqrt", positive(magnitudes(20)), 3e-7, 0],
  ["sin", between(-10, 10), 0, 2e-7],
  ["sin", magnitudes(-1), 2e-7, 0],
  ["cos", between(-10, 10), 0, 2e-7],
  ["sin", between(-5000, 5000), 0, 1e-6],
  ["sin", FAR, 0, 2e-7],
  ["cos", FAR, 0, 2e-7],
  ["sin", NEAR_MULTIPLES, 2e-7, 0],
  ["cos", NEAR_MULTIPLES, 2e-7, 0],
  ["tanh", magnitudes(4), 4e-7, 0],
  ["tanh", between(-2, 2), 4e-7, 0],
  ["sigmoid", between(-80, 80), 4e-7, 0],
  ["erf", magnitudes(2), 4e-7, 0],
  ["erf", between(-2, 2), 4e-7, 0],
];

test.each(ACCURACY)("%s", async (op, values, relative, absolute) => {
  const f = evaluator([unary(op)]);
  const [got] = await map([unary(op)], values);
  const want = [0];
  values.forEach((value, i) => {
    f([value], want);
    const error = Math.abs(got![i]! - want[0]!);
    // 2e-38: results that are subnormal may be flushed
    expect(error, `${op}(${value}) = ${want[0]!}, got ${got![i]!}`).toBeLessThanOrEqual(
      relative * Math.abs(want[0]!) + absolute + 2e-38,
    );
  });
});

test("pow: any exponent of a positive base, integer exponents of a negative one", async () => {
  const bases = Float32Array.of(0, 0.5, 1, 2, 10, 1000, 1e-10, -2, -2, -3, 0.1, 7);
  const exponents = Float32Array.of(2, 0, -5, 0.5, 3, 2, 1.5, 2, 3, -1, 0.1, 7.25);
  const [got] = await map([new Expr("pow", [x, y])], bases, exponents);
  bases.forEach((base, i) => {
    const want = Math.pow(base, exponents[i]!);
    expect(Math.abs(got![i]! - want)).toBeLessThanOrEqual(3e-6 * Math.abs(want));
  });
});

// ECMA-262, Number::exponentiate; lavapipe and SwiftShader agree with it.
test("pow: every corner of Math.pow, and whole powers exactly", async () => {
  const bases = [0, -0, 1, -1, 2, -2, 0.5, 7, 5, Infinity, -Infinity, NaN];
  const exponents = [NaN, 0, -0, 1, -1, 2, 3, -3, 0.5, -0.5, 64, 65, 2 ** 24, Infinity, -Infinity];
  const pairs = bases.flatMap((base) => exponents.map((exponent) => [base, exponent] as const));
  const column = (k: 0 | 1): Float32Array => Float32Array.from(pairs, (pair) => pair[k]);
  const [got] = await map([new Expr("pow", [x, y])], column(0), column(1));
  pairs.forEach(([base, exponent], i) => {
    const want = Math.fround(base ** exponent);
    const isExact = Number.isInteger(exponent) && Math.abs(exponent) <= 3;
    const isClose = Math.abs(got![i]! - want) <= (isExact ? 6e-8 : 3e-6) * Math.abs(want);
    expect(Object.is(got![i], want) || (want !== 0 && isClose), `${base} ** ${exponent} = ${got![i]}`).toBe(true);
  });
});

test("sine and cosine of what is not finite are NaN", async () => {
  const outputs = await map([x.sin(), x.cos()], Float32Array.of(Infinity, -Infinity, NaN));
  expect(outputs.flatMap((y) => [...y])).toEqual(new Array(6).fill(NaN));
});

test("constant exponents need no logarithm", async () => {
  const values = between(0.1, 5);
  const powers = [3, 0.5, -0.5, -1];
  const got = await map(
    powers.map((p) => x.pow(p)),
    values,
  );
  powers.forEach((p, k) =>
    values.forEach((v, i) => {
      expect(Math.abs(got[k]![i]! / Math.pow(v, p) - 1)).toBeLessThan(5e-7);
    }),
  );
});

test("a branch that is not taken has no influence, comparisons count as numbers", async () => {
  const values = Float32Array.of(-1, 0, 2);
  const safeLog = where(x.gt(0), x.log(), -7);
  const count = x
    .gt(0)
    .add(x.ge(0))
    .mul(where(x.ne(0), 1, constant(10)));
  const [log, number, minmax] = await map([safeLog, count, x.min(1).max(-0.5)], values);
  expect([...log!]).toEqual([-7, -7, Math.fround(Math.log(2))]);
  expect([...number!]).toEqual([0, 10, 2]);
  expect([...minmax!]).toEqual([-0.5, 0, 1]);
});

test("constants beyond the range of f32 are infinite, others are exact", async () => {
  const [small, huge, tenth] = await map([x.add(2 ** -20), x.mul(1e300), x.add(0.1)], Float32Array.of(1));
  expect(small![0]).toBe(1 + 2 ** -20);
  expect(huge![0]).toBe(Infinity);
  expect(tenth![0]).toBe(Math.fround(1 + Math.fround(0.1)));
});

test("constant parts are computed beforehand, whatever comes out", async () => {
  const one = constant(1);
  const outputs = [x.mul(one.div(0)), x.add(constant(-1).log()), x.add(one.gt(0)), constant(3).sub(one).exp()];
  const [infinite, undefinedLog, two, e2] = await map(outputs, Float32Array.of(1));
  expect(infinite![0]).toBe(Infinity);
  expect(undefinedLog![0]).toBeNaN();
  expect(two![0]).toBe(2);
  expect(e2![0]).toBe(Math.fround(Math.exp(2)));
});

const SHAPES: [number[], number[][]][] = [
  [[1], [[1], [1]]],
  [[7], [[7], []]],
  [
    [5, 3],
    [[5, 3], [3]],
  ],
  [
    [5, 3],
    [
      [5, 1],
      [1, 3],
    ],
  ],
  [
    [2, 3, 4, 5],
    [
      [2, 1, 4, 1],
      [3, 1, 5],
    ],
  ],
  [
    [130, 3],
    [[3], [130, 1]],
  ],
];
test.each(SHAPES)("broadcasting into %j from %j", async (shape, shapes) => {
  const rng = new Rng(1);
  const data = shapes.map((s) => Float32Array.from({ length: s.reduce((a, b) => a * b, 1) }, () => rng.normal()));
  const strides = shapes.map((s) => broadcastStrides(s, shape));
  const { dims, strides: merged } = collapse(shape, strides);
  const inputs: PointwiseInput[] = [
    { kind: "tensor", strides: merged[0]! },
    { kind: "scalar", value: 0.5 },
    { kind: "tensor", strides: merged[1]! },
  ];
  const spec: PointwiseSpec = { name: "axpy", outputs: [x.mul(y).add(input(2))], inputs, dims, inPlace: [-1] };
  const total = shape.reduce((a, b) => a * b, 1);
  const [bytes] = await runProgram(backend, pointwise(spec, backend.profile), [...data, total]);
  const got = new Float32Array(bytes!);
  for (let i = 0; i < total; i++) {
    let rest = i;
    const at = [0, 0];
    for (let d = shape.length - 1; d >= 0; d--) {
      at.forEach((_, k) => (at[k]! += (rest % shape[d]!) * strides[k]![d]!));
      rest = Math.floor(rest / shape[d]!);
    }
    expect(got[i]).toBeCloseTo(data[0]![at[0]!]! * 0.5 + data[1]![at[1]!]!, 5);
  }
});

test.each([67, 16388])("in place, %i elements: every output sees the old values", async (n) => {
  const [a, b] = [between(-1, 1, n), between(2, 3, n)];
  const spec: PointwiseSpec = {
    name: "rotate",
    outputs: [x.sub(y), x.add(y), x.mul(y)],
    inputs: [
      { kind: "tensor", strides: [1] },
      { kind: "tensor", strides: [1] },
    ],
    dims: [n],
    inPlace: [0, 1, -1],
  };
  const bytes = await runProgram(backend, pointwise(spec, backend.profile), [a, b, n], [0, 1]);
  const [product, difference, sum] = bytes.map((part) => new Float32Array(part));
  for (let i = 0; i < n; i++) {
    expect(product![i]).toBe(Math.fround(a[i]! * b[i]!));
    expect(difference![i]).toBe(Math.fround(a[i]! - b[i]!));
    expect(sum![i]).toBe(Math.fround(a[i]! + b[i]!));
  }
});

test("more than 8 tensors are refused by name", () => {
  const inputs = Array.from({ length: 8 }, (): PointwiseInput => ({ kind: "tensor", strides: [1] }));
  const sum = inputs.map((_, k) => input(k)).reduce((a, b) => a.add(b));
  const spec: PointwiseSpec = { name: "many", outputs: [sum], inputs, dims: [4], inPlace: [-1] };
  expect(() => pointwise(spec, backend.profile)).toThrow(/many.*9 storage buffers.*8/);
});
