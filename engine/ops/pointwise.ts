/**
 * Pointwise ops: each is one scalar expression (kernels and derivatives come from it) beside an independent definition
 * in plain `Math`. Arguments are tensors and numbers, broadcasting as in NumPy; comparisons return 1 and 0.
 *
 * Derivatives at kinks: abs, relu, sign, floor take 0; maximum and minimum share a tie equally; clamp passes on the
 * closed interval. These are PyTorch's choices.
 */
import { type Expr, where as select } from "../../kernels/expr.ts";
import { erf as erf64 } from "../../kernels/erf.ts";
import { fuse, type Pointwise, type PointwiseParams, type TensorLike } from "../fuse.ts";
import type { Sample, SampleInput } from "../op.ts";
import { listed, mask, normal, uniform } from "../sampling.ts";
import type { Rng } from "../random.ts";
import { type Shape } from "../types.ts";
import type { Tensor } from "../tensor.ts";

type Unary = (x: TensorLike) => Tensor;
type Binary = (x: TensorLike, y: TensorLike) => Tensor;
type Fused<F> = F & Pick<Pointwise<Tensor>, "op">;

interface Domain {
  readonly low: number;
  readonly high: number;
  /** Points without a derivative: no sample comes near them. */
  readonly kinks?: readonly number[];
  /** Points far from 0, where the function has become flat or straight. */
  readonly far?: readonly number[];
}
const WIDE: Domain = { low: -3, high: 3 };
const FAR = [20, -20, 100, -100, 1000, -1000];
const SATURATED: Domain = { ...WIDE, far: FAR };
/** Points at which formulas are joined. Random numbers never hit them. */
const POINTS = [0, -0, 1, -1];

function unary(
  name: string,
  formula: (x: Expr) => Expr,
  reference: (x: number) => number,
  { low, high, kinks = [], far = [] }: Domain = WIDE,
  linear = false,
): Fused<Unary> {
  const near = POINTS.filter((x) => x >= low && x <= high && !kinks.includes(x + 0));
  const samples = (rng: Rng): Sample<PointwiseParams>[] => [
    ...[[], [1], [7], [2, 1, 5], [67]].map((shape) => ({
      params: { args: [null] },
      inputs: [uniform(rng, shape, low, high, kinks)],
    })),
    ...[near, far]
      .filter((points) => points.length > 0)
      .map((points) => ({ label: "points", params: { args: [null] }, inputs: [listed(points)] })),
  ];
  return fuse(name, formula, { reference, samples, linear });
}

const PAIRS: readonly (readonly [Shape, Shape])[] = [
  [[6], [6]],
  [[3, 5], [5]],
  [[3, 1], [1, 5]],
  [[], [4]],
  [[2, 3, 5], [3, 1]],
  [[2, 1, 3], [2, 67, 1]],
]; // prettier-ignore

/** All pairs of special points. */
const GRID = POINTS.flatMap((x) => POINTS.map((y) => [x, y] as const));
/** The pairs without ties, at which maximum, minimum and comparisons have their kinks. */
const UNEQUAL = GRID.filter(([x, y]) => x !== y);
const DIVISIBLE = GRID.filter(([, y]) => y !== 0);

function binary(
  name: string,
  formula: (x: Expr, y: Expr) => Expr,
  reference: (x: number, y: number) => number,
  draw: (rng: Rng, a: Shape, b: Shape) => [SampleInput, SampleInput] = (rng, a, b) => [normal(rng, a), normal(rng, b)],
  linear = false,
  points: readonly (readonly [x: number, y: number])[] = GRID,
): Fused<Binary> {
  const samples = (rng: Rng): Sample<PointwiseParams>[] => [
    ...PAIRS.map(([a, b]) => ({ params: { args: [null, null] }, inputs: draw(rng, a, b) })),
    {
      label: "points",
      params: { args: [null, null] },
      inputs: [listed(points.map(([x]) => x)), listed(points.map(([, y]) => y))],
    },
    ...(linear
      ? [] // a number beside the tensor makes an addition affine
      : [
          { label: "tensor · number", params: { args: [null, 1.5] }, inputs: [draw(rng, [5], [5])[0]] },
          { label: "number · tensor", params: { args: [1.5, null] }, inputs: [draw(rng, [5], [5])[1]] },
        ]),
  ];
  return fuse(name, formula, { reference, samples, linear });
}

/** Pairs that differ by at least 0.1 elementwise (a tie is a kink): x on even multiples of 0.2, y on odd ones. */
const apart = (rng: Rng, a: Shape, b: Shape): [SampleInput, SampleInput] => {
  const grid = (input: SampleInput, shift: number): SampleInput => ({
    ...input,
    data: input.data.map((v) => Math.round(v / 0.4) * 0.4 + shift),
  });
  return [grid(normal(rng, a), 0.05), grid(normal(rng, b), 0.25)];
};
const positive = (rng: Rng, a: Shape, b: Shape): [SampleInput, SampleInput] => [
  uniform(rng, a, 0.3, 2),
  uniform(rng, b, -2, 2, [0]),
];

/** x + y */
export const add: Fused<Binary> = binary(
  "add",
  (x, y) => x.add(y),
  (x, y) => x + y,
  undefined,
  true,
);
/** x − y */
export const sub: Fused<Binary> = binary(
  "sub",
  (x, y) => x.sub(y),
  (x, y) => x - y,
  undefined,
  true,
);
/** x · y */
export const mul: Fused<Binary> = binary("mul", (x, y) => x.mul(y), (x, y) => x * y); // prettier-ignore
/** x / y */
export const div: Fused<Binary> = binary(
  "div",
  (x, y) => x.div(y),
  (x, y) => x / y,
  positive,
  false,
  DIVISIBLE,
);
/** x^y for x > 0; for x ≤ 0 only whole y are defined, and the derivative with respect to y is 0 there. */
export const pow: Fused<Binary> = binary(
  "pow",
  (x, y) => x.pow(y),
  Math.pow,
  positive,
  false,
  [0.5, 1, 2].flatMap((x) => [0, -0, 1, -1, 2, 3, 0.5].map((y) => [x, y] as const)),
);
/** The larger of x and y. */
export const maximum: Fused<Binary> = binary("maximum", (x, y) => x.max(y), Math.max, apart, false, UNEQUAL);
/** The smaller of x and y. */
export const minimum: Fused<Binary> = binary("minimum", (x, y) => x.min(y), Math.min, apart, false, UNEQUAL);

/** A comparison, which jumps at ties: no sample has one. */
const compared = (
  name: string,
  formula: (x: Expr, y: Expr) => Expr,
  reference: (x: number, y: number) => number,
): Fused<Binary> => binary(name, formula, reference, apart, false, UNEQUAL);

/** 1 where x < y, else 0. No gradient flows through comparisons. */
export const lt: Fused<Binary> = compared("lt", (x, y) => x.lt(y), (x, y) => (x < y ? 1 : 0)); // prettier-ignore
/** 1 where x ≤ y, else 0. No gradient flows through comparisons. */
export const le: Fused<Binary> = compared("le", (x, y) => x.le(y), (x, y) => (x <= y ? 1 : 0)); // prettier-ignore
/** 1 where x > y, else 0. No gradient flows through comparisons. */
export const gt: Fused<Binary> = compared("gt", (x, y) => x.gt(y), (x, y) => (x > y ? 1 : 0)); // prettier-ignore
/** 1 where x ≥ y, else 0. No gradient flows through comparisons. */
export const ge: Fused<Binary> = compared("ge", (x, y) => x.ge(y), (x, y) => (x >= y ? 1 : 0)); // prettier-ignore
/** 1 where x = y, else 0. No gradient flows through comparisons. */
export const eq: Fused<Binary> = compared("eq", (x, y) => x.eq(y), (x, y) => (x === y ? 1 : 0)); // prettier-ignore
/** 1 where x ≠ y, else 0. No gradient flows through comparisons. */
export const ne: Fused<Binary> = compared("ne", (x, y) => x.ne(y), (x, y) => (x !== y ? 1 : 0)); // prettier-ignore

/** −x */
export const neg: Fused<Unary> = unary("neg", (x) => x.neg(), (x) => -x, WIDE, true); // prettier-ignore
/** |x| */
export const abs: Fused<Unary> = unary("abs", (x) => x.abs(), Math.abs, { ...WIDE, kinks: [0] }); // prettier-ignore
/** −1, 0 or 1 */
export const sign: Fused<Unary> = unary("sign", (x) => x.sign(), Math.sign, { ...WIDE, kinks: [0] }); // prettier-ignore
/** The largest integer ≤ x. */
export const floor: Fused<Unary> = unary("floor", (x) => x.floor(), Math.floor, {
  low: -1,
  high: 1,
  kinks: [-1, 0, 1],
});
/** e^x */
export const exp: Fused<Unary> = unary("exp", (x) => x.exp(), Math.exp, { ...WIDE, far: [-20, -1000] });
/** e^x − 1, exact for small |x| */
export const expm1: Fused<Unary> = unary("expm1", (x) => x.expm1(), Math.expm1, { ...WIDE, far: [-20, -1000] });
/** ln x */
export const log: Fused<Unary> = unary("log", (x) => x.log(), Math.log, { low: 0.1, high: 4 });
/** ln(1 + x), exact for small |x| */
export const log1p: Fused<Unary> = unary("log1p", (x) => x.log1p(), Math.log1p, { low: -0.8, high: 3 });
/** √x */
export const sqrt: Fused<Unary> = unary("sqrt", (x) => x.sqrt(), Math.sqrt, { low: 0.1, high: 4 });
/** 1/√x */
export const rsqrt: Fused<Unary> = unary(
  "rsqrt",
  (x) => x.rsqrt(),
  (x) => 1 / Math.sqrt(x),
  { low: 0.1, high: 4 },
);
/** sin x, x in radians */
export const sin: Fused<Unary> = unary("sin", (x) => x.sin(), Math.sin);
/** cos x, x in radians */
export const cos: Fused<Unary> = unary("cos", (x) => x.cos(), Math.cos);
/** tanh x */
export const tanh: Fused<Unary> = unary("tanh", (x) => x.tanh(), Math.tanh, SATURATED);
/** 1/(1 + e^−x) */
export const sigmoid: Fused<Unary> = unary(
  "sigmoid",
  (x) => x.sigmoid(),
  (x) => 1 / (1 + Math.exp(-x)),
  SATURATED,
);
/** The error function. */
export const erf: Fused<Unary> = unary("erf", (x) => x.erf(), erf64, SATURATED);
/** x² */
export const square: Fused<Unary> = unary("square", (x) => x.square(), (x) => x * x); // prettier-ignore
/** max(x, 0) */
export const relu: Fused<Unary> = unary("relu", reluExpr, (x) => Math.max(x, 0), { ...SATURATED, kinks: [0] });
/** x·σ(x), also called swish */
export const silu: Fused<Unary> = unary("silu", siluExpr, (x) => x / (1 + Math.exp(-x)), SATURATED);
/** ln(1 + e^x) */
export const softplus: Fused<Unary> = unary(
  "softplus",
  (x) => x.softplus(),
  (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))),
  SATURATED,
);
/** ½x(1 + tanh(√(2/π)(x + 0.044715x³))), the approximation that GPT-2 uses (`gelu_new`). */
export const gelu: Fused<Unary> = unary(
  "gelu",
  geluTanhExpr,
  (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  SATURATED,
);
/** ½x(1 + erf(x/√2)), exact (Hendrycks & Gimpel 2016). */
export const geluErf: Fused<Unary> = unary(
  "geluErf",
  geluErfExpr,
  (x) => 0.5 * x * (1 + erf64(x / Math.SQRT2)),
  SATURATED,
);

/** max(x, 0). The condition is x ≤ 0 and not x > 0, so that NaN stays NaN. */
export function reluExpr(x: Expr): Expr {
  return select(x.le(0), 0, x);
}
export function siluExpr(x: Expr): Expr {
  return x.mul(x.sigmoid());
}
/** ½(1 + tanh u) is the sigmoid of 2u: one exponential, and no digits lost where tanh is near −1. */
export function geluTanhExpr(x: Expr): Expr {
  const twice = x.mul(
    x
      .mul(x)
      .mul(2 * 0.044715 * Math.sqrt(2 / Math.PI))
      .add(2 * Math.sqrt(2 / Math.PI)),
  );
  return x.mul(twice.sigmoid());
}
export function geluErfExpr(x: Expr): Expr {
  return x.mul(0.5).mul(x.mul(Math.SQRT1_2).erf().add(1));
}

/** x limited to [low, high]. */
export const clamp: Fused<(x: TensorLike, low: TensorLike, high: TensorLike) => Tensor> = fuse(
  "clamp",
  (x, low, high) => x.clamp(low, high),
  {
    reference: (x, low, high) => Math.min(Math.max(x, low), high),
    samples: (rng) => [
      ...[[], [9], [2, 1, 5]].map((shape) => ({
        params: { args: [null, -0.5, 0.7] },
        inputs: [uniform(rng, shape, -2, 2, [-0.5, 0.7])],
      })),
      ...[
        [-0.5, 0.7],
        [2, -2], // reversed: the high one
      ].map((bounds) => ({ label: "points", params: { args: [null, ...bounds] }, inputs: [listed(POINTS)] })),
    ],
  },
);

/**
 * `a` where `condition` is not 0, else `b`. The other one does not influence the value, be it NaN or infinite. Its
 * gradient is 0, but 0 times an infinite slope is NaN: `where(gt(x, 0), sqrt(x), 0)` has the gradient NaN at 0, as in
 * PyTorch and JAX. Choose the argument too: `sqrt(where(gt(x, 0), x, 1))`.
 */
export const where: Fused<(condition: TensorLike, a: TensorLike, b: TensorLike) => Tensor> = fuse(
  "where",
  (condition, a, b) => select(condition, a, b),
  {
    reference: (condition, a, b) => (condition !== 0 ? a : b),
    samples: (rng) =>
      [
        {
          params: { args: [null, null, null] },
          inputs: [mask(rng, [3, 4]), normal(rng, [3, 4]), normal(rng, [4])],
        },
        { params: { args: [null, null, -2.5] }, inputs: [mask(rng, [3, 1]), normal(rng, [3, 4])] },
        { label: "points", params: { args: [null, null, 1] }, inputs: [listed(POINTS), listed(POINTS)] },
      ].map((sample) => ({ ...sample, differentiable: sample.inputs.map((_, i) => i > 0) })),
  },
);
