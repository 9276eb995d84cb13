/**
 * Points on purpose: 0, −0, ties, ±1, where functions are flat, and the ends of f32. Random numbers never meet them,
 * and a formula whose halves do not fit there is wrong at the very point where training starts (jax-ml/jax#2107).
 *
 * - Where mathematics has a derivative: the samples that are labelled `points`. On the f64 reference ops.test.ts
 *   compares them with differences; here the other executors' derivatives, of both orders, are compared with the
 *   reference's.
 * - At kinks, PyTorch's subgradients, by their numbers, on every executor.
 * - At the ends of f32, the limits, by their numbers, on every executor.
 * - Functions that are made of several ops, as the first.
 * - Second derivatives beside infinities and NaN that count nothing, by their numbers, on every executor.
 */
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { checkGradient, device, type Device, fuse, grad, type Tensor } from "../../engine/index.ts";
import * as ops from "../../engine/ops/index.ts";
import { where } from "../../kernels/expr.ts";
import { type AnyOp, allOps, derivatives, difference, labelOf, samplesOf } from "../support/opChecks.ts";
import { everyExecutor, reference, wasm } from "../support/rlExecutors.ts";

vi.setConfig({ testTimeout: 300_000 }); // software adapters compile many kernels that nothing else uses

/** Rounding of derivatives in f32, relative to the largest. */
const ROUNDED = { first: 2e-5, second: 1e-4 } as const;

let exact: Device;
let others: { readonly name: string; readonly on: Device }[];
beforeAll(async () => {
  exact = await device("reference");
  const f32 = everyExecutor.filter(({ name }) => name !== reference.name && name !== wasm.name);
  others = [
    { name: "wasm, 1 thread", on: await device("wasm", { threads: 1 }) },
    { name: "wasm, 2 threads", on: await device("wasm", { threads: 2 }) },
    ...(await Promise.all(f32.map(async ({ name, open }) => ({ name, on: await open() })))),
  ];
});
afterAll(() => [exact, ...others.map(({ on }) => on)].forEach((d) => d.dispose()));

const pointsOf = (op: AnyOp): ReturnType<typeof samplesOf> =>
  samplesOf(op).filter(({ label }) => label?.startsWith("points"));
const withPoints = allOps().filter((op) => pointsOf(op).length > 0 && op.overwrites === undefined);

test("every pointwise op of numbers has such samples", () => {
  const names = new Set(withPoints.map(({ name }) => name));
  const without = allOps()
    .filter(({ name }) => !names.has(name))
    .map(({ name }) => name);
  for (const name of ["softplus", "sigmoid", "exp", "pow", "div", "clamp", "softmax", "logProbs", "norm", "attention"])
    expect(without).not.toContain(name);
  expect(withPoints.length).toBeGreaterThan(40);
});

describe.each(withPoints.map((op) => ({ name: op.name, op })))("derivatives at points: $name", ({ op }) => {
  test.each(pointsOf(op).map((sample) => ({ label: labelOf(sample), sample })))("$label", async ({ sample }) => {
    const expected = await derivatives(exact, op, sample);
    expect(Object.values(expected).flat(2).every(Number.isFinite)).toBe(true);
    for (const { name, on } of others) {
      const actual = await derivatives(on, op, sample);
      for (const order of ["first", "second"] as const) {
        expected[order].forEach((d, i) =>
          expect(difference(actual[order][i]!, d), `${name}, ${order}, input ${i}`).toBeLessThan(ROUNDED[order]),
        );
      }
    }
  });
});

const slopeOf = (f: (x: Tensor) => Tensor, x: Tensor): Tensor => grad((y: Tensor) => ops.sum(f(y)))(x);
/** The slope of Σ f at these numbers, on every executor. */
async function everySlope(f: (x: Tensor) => Tensor, at: readonly number[]): Promise<[name: string, slope: number[]][]> {
  return Promise.all(
    [{ name: "reference", on: exact }, ...others].map(async ({ name, on }): Promise<[string, number[]]> => {
      const x = ops.tensor(Float64Array.from(at), { device: on, dtype: on.float });
      const slope = slopeOf(f, x);
      const values = [...(await slope.read())];
      [x, slope].forEach((t) => t.dispose());
      return [name, values];
    }),
  );
}

type ByNumber = readonly [what: string, f: (x: Tensor) => Tensor, at: readonly number[], slope: readonly number[]];
const I = Infinity;
const beside = (x: Tensor, ...values: number[]): Tensor =>
  ops.tensor(Float64Array.from(values), { device: x.device, dtype: x.device.float });

const rows = (x: Tensor): Tensor => ops.reshape(x, [2, x.size / 2]);
const ids = (x: Tensor, ...values: number[]): Tensor => ops.tensor(Int32Array.from(values), { device: x.device });

/** PyTorch's choices: 0 at the kink of |x| and relu, 1 on the closed interval of clamp, ties share. */
const KINKS: readonly ByNumber[] = [
  ["abs", ops.abs, [0, -0], [0, 0]],
  ["relu", ops.relu, [0, -0], [0, 0]],
  ["sign", ops.sign, [0, -0], [0, 0]],
  ["floor", ops.floor, [0, -0, 1, -1], [0, 0, 0, 0]],
  ["maximum, both sides of a tie", (x) => ops.maximum(x, ops.mul(x, 3)), [0, -0], [2, 2]],
  ["minimum with a number", (x) => ops.minimum(x, 1), [1, 0, 2], [0.5, 1, 0]],
  ["clamp at its bounds", (x) => ops.clamp(x, -1, 1), [-1, 1, 0, 2, -2], [1, 1, 1, 0, 0]],
  ["clamp to a point", (x) => ops.clamp(x, 1, 1), [1, 0, 2], [1, 0, 0]],
  ["comparisons", (x) => ops.add(ops.lt(x, 0), ops.ge(x, ops.mul(x, 2))), [0, -0, 1], [0, 0, 0]],
  ["max, ties", (x) => ops.max(x), [3, 1, 3, 3], [1 / 3, 0, 1 / 3, 1 / 3]],
  ["min of zeros of both signs", (x) => ops.min(x), [0, -0, 1], [0.5, 0.5, 0]],
  ["maskedMax, ties", (x) => ops.maskedMax(x, beside(x, 1, 1, 0)), [2, 2, 2], [0.5, 0.5, 0]],
  ["a hinge", fuse("hinge", (x) => x.neg().add(1).max(0)), [1, 0, 2], [-0.5, -1, 0]],
];
test.each(KINKS)("the subgradient at a kink: %s", async (_, f, at, expected) => {
  for (const [name, slope] of await everySlope(f, at))
    expect(difference(slope, expected), `${name}: ${slope.join()}`).toBeLessThan(1e-6);
});

/** Queries, keys and values are alike; with a start there is one query, the second. */
const attended = (x: Tensor, keys: number, options: ops.AttentionOptions): Tensor => {
  const own = ops.reshape(x, [1, keys, 1, x.size / keys]);
  return ops.attention(options.start ? ops.slice(own, [0, 1], [1, 2]) : own, own, own, options);
};
/** The slope by b of Σ x^b, as a function of x. */
const byExponent = (x: Tensor, ...b: number[]): Tensor => slopeOf((y) => ops.pow(x, y), beside(x, ...b));
const temperature = (x: Tensor, ...logits: number[]): ops.LogProbs =>
  ops.logProbs(ops.reshape(beside(x, ...logits), [1, logits.length]), ids(x, 0), x);
const ENTROPY = 0.08317014; // of [0, 1], by the second logit

/** The slope of Σ slope², which is right where the slope is: no 0·∞ and no 0·NaN on the way. */
const BENDS: readonly ByNumber[] = [
  [
    "crossEntropy, a logit of −∞",
    (x) => ops.crossEntropy(ops.reshape(x, [1, 3]), ids(x, 0)),
    [0, -I, 0],
    [-0.5, 0, 0.5],
  ],
  [
    "crossEntropy, an ignored row of NaN",
    (x) => ops.crossEntropy(rows(x), ids(x, -100, 0), { ignoreIndex: -100 }),
    [NaN, 1, 0, 0],
    [0, 0, -0.5, 0.5],
  ],
  [
    "crossEntropy, a row without weight of ∞",
    (x) => ops.crossEntropy(rows(x), ids(x, 0, 0), { weights: beside(x, 0, 1) }),
    [I, 1, 0, 0],
    [0, 0, -0.5, 0.5],
  ],
  [
    "entropy, a logit of −∞",
    (x) => ops.logProbs(ops.reshape(x, [1, 3]), ids(x, 0)).entropy,
    [0, -I, 1],
    [-ENTROPY, 0, ENTROPY],
  ],
  // As without that logit.
  ["a log-probability by its temperature", (x) => temperature(x, 0, -I, 1).logProbs, [1], [-2.4252563]],
  ["an entropy by its temperature", (x) => temperature(x, 0, -I, 1).entropy, [1], [-0.1962101]],
  [
    "attention, NaN in a key of another segment",
    (x) => attended(x, 2, { segments: ops.reshape(ids(x, 0, -1), [1, 2]), causal: false }),
    [1, 2, NaN, NaN],
    [0, 0, 0, 0],
  ],
  [
    "attention, NaN in a key behind the query",
    (x) => attended(x, 3, { start: ids(x, 1) }),
    [1, 2, NaN],
    [-0.3773588, 0.3149402, 0],
  ],
];
test.each(BENDS)("a bend beside what is infinite or no number: %s", async (_, f, at, expected) => {
  const squares = (x: Tensor): Tensor => ops.square(slopeOf(f, x));
  for (const [name, bend] of await everySlope(squares, at))
    expect(difference(bend, expected), `${name}: ${bend.join()}`).toBeLessThan(ROUNDED.second);
});
test("the mixed slope of xᵇ is 0 for x ≤ 0, as that by b is", async () => {
  const mixed = await everySlope((x) => byExponent(x, 2, 2, 0.5, -1, 3), [0, -2, 0, 0, 2]);
  for (const [name, slope] of mixed)
    expect(difference(slope, [0, 0, 0, 0, 4 + 12 * Math.LN2]), `${name}: ${slope.join()}`).toBeLessThan(ROUNDED.second);
});

/** Limits. 1e30 is far beyond the root of the largest float, so that squares and cubes are infinite. */
const ENDS: readonly ByNumber[] = [
  ["tanh", ops.tanh, [1e30, -1e30, I, -I], [0, 0, 0, 0]],
  ["sigmoid", ops.sigmoid, [1e30, -1e30, I, -I], [0, 0, 0, 0]],
  ["softplus", ops.softplus, [1e30, -1e30, I, -I], [1, 0, 1, 0]],
  ["relu", ops.relu, [1e30, -1e30, I, -I], [1, 0, 1, 0]],
  ["abs", ops.abs, [1e30, -1e30, I, -I], [1, -1, 1, -1]],
  ["silu", ops.silu, [1e30, -1e30], [1, 0]],
  ["gelu, whose cube must fit", ops.gelu, [1e12, -1e12], [1, 0]],
  ["geluErf", ops.geluErf, [1e30, -1e30], [1, 0]],
  ["erf", ops.erf, [1e30, -1e30, I, -I], [0, 0, 0, 0]],
  ["exp", ops.exp, [-1e30, -I], [0, 0]],
  ["log", ops.log, [1e30, I], [1e-30, 0]],
  ["clamp", (x) => ops.clamp(x, -1, 1), [1e30, -1e30, I, -I], [0, 0, 0, 0]],
  ["clamp to everything", (x) => ops.clamp(x, -I, I), [1e30, -1e30], [1, 1]],
  ["square", ops.square, [1e30, -1e30], [2e30, -2e30]],
  // Above the smallest normal float, 1.2e-38: WGSL lets an adapter take what is below for 0, and SwiftShader does.
  ["pow", (x) => ops.pow(x, 2), [1e30, -1e30, 1.2e-38], [2e30, -2e30, 2.4e-38]],
  ["softmax", (x) => ops.mul(ops.softmax(x), beside(x, 1, 2, 3)), [1e30, -1e30, 0], [0, 0, 0]],
  ["logSoftmax", (x) => ops.mul(ops.logSoftmax(x), beside(x, 1, 0, 0)), [1e30, -1e30, 0], [0, 0, 0]],
  ["logsumexp", (x) => ops.logsumexp(x), [1e30, -1e30, -I, 1e30], [0.5, 0, 0, 0.5]],
  ["max", (x) => ops.max(x), [-1e30, -3e38, -I], [1, 0, 0]],
];
test.each(ENDS)("the slope at the ends: %s", async (_, f, at, expected) => {
  const near = (a: number, b: number): boolean => Object.is(a + 0, b + 0) || Math.abs(a - b) <= 1e-6 * Math.abs(b);
  for (const [name, slope] of await everySlope(f, at))
    expect(
      slope.every((d, i) => near(d, expected[i]!)),
      `${name}: ${slope.join()}`,
    ).toBe(true);
});

/** Functions of several ops, at ties and zeros. */
const COMPOSED: readonly (readonly [what: string, f: (x: Tensor) => Tensor, at: readonly number[]])[] = [
  ["logsumexp of equal rows", (x) => ops.logsumexp(rows(x), { axis: -1 }), [0, 0, -0, 7, 7, 7]],
  ["logsumexp of a row that one has", (x) => ops.logsumexp(rows(x), { axis: -1 }), [0, 100, 0, -100, 0, 0]],
  ["crossEntropy of zeros", (x) => ops.crossEntropy(rows(x), ids(x, 0, 2)), [0, 0, 0, 0, 0, 0]],
  ["crossEntropy that is sure", (x) => ops.crossEntropy(rows(x), ids(x, 0, 2)), [100, 0, 0, 100, 0, 0]],
  ["variance of equal elements", (x) => ops.variance(rows(x), { axis: -1 }), [1, 1, 0, 0]],
  ["maskedVariance of one", (x) => ops.maskedVariance(x, beside(x, 0, 1, 0)), [0, 1, 2]],
  ["maskedMean of nothing", (x) => ops.add(ops.maskedMean(x, beside(x, 0, 0)), ops.sum(ops.square(x))), [0, -1]],
  ["binary cross-entropy of a logit 0", (x) => ops.sub(ops.softplus(x), ops.mul(x, beside(x, 0, 0.5, 1))), [0, 0, -0]],
  ["−log σ", (x) => ops.softplus(ops.neg(x)), [0, -0, 1, -1]],
];
test.each(COMPOSED)("several ops: %s", async (_, f, at) => {
  const values = Float64Array.from(at);
  const gradientOf = (x: Tensor): Tensor => slopeOf((y) => ops.square(ops.add(f(y), 0.5)), x);
  const both = (x: Tensor): Tensor[] => [
    gradientOf(x),
    slopeOf((y) => ops.mul(gradientOf(y), ops.add(ops.square(y), 1)), x),
  ];
  const on64 = ops.tensor(values, { device: exact, dtype: "f64" });
  await checkGradient(f, on64, { order: 2 });
  const expected = await Promise.all(both(on64).map(async (y) => [...(await y.read())]));
  for (const { name, on } of others) {
    const actual = await Promise.all(
      both(ops.tensor(values, { device: on, dtype: on.float })).map(async (y) => [...(await y.read())]),
    );
    expect(difference(actual[0]!, expected[0]!), `${name}, first`).toBeLessThan(ROUNDED.first);
    expect(difference(actual[1]!, expected[1]!), `${name}, second`).toBeLessThan(ROUNDED.second);
  }
});

/** WGSL lets a compiler take every number for finite, and `x < ∞` for true. */
test("comparisons with ±∞ are those of IEEE, for NaN too", async () => {
  const at = [NaN, I, -I, 0, -0, 3.4e38, -3.4e38];
  const comparisons = {
    lt: (x: number, y: number) => x < y,
    le: (x: number, y: number) => x <= y,
    gt: (x: number, y: number) => x > y,
    ge: (x: number, y: number) => x >= y,
    eq: (x: number, y: number) => x === y,
    ne: (x: number, y: number) => x !== y,
  };
  for (const [name, compare] of Object.entries(comparisons)) {
    const both = fuse(name, (x) => {
      const [above, below] = [x[name as "lt"](I), x[name as "lt"](-I)];
      return where(above, 1, 0)
        .add(where(below, 2, 0))
        .add(where(x.abs()[name as "lt"](I), 4, 0));
    });
    const expected = at.map(
      (x) => Number(compare(x, I)) + 2 * Number(compare(x, -I)) + 4 * Number(compare(Math.abs(x), I)),
    );
    for (const on of [exact, ...others.map((other) => other.on)]) {
      const x = ops.tensor(Float64Array.from(at), { device: on, dtype: on.float });
      const result = both(x);
      expect([...(await result.read())], `${name}, ${on.description}`).toEqual(expected);
      [x, result].forEach((t) => t.dispose());
    }
  }
});
