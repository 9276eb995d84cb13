/**
 * Reductions over axes, plain and masked, and `sumTo`, the adjoint of broadcasting.
 *
 * Masked reductions read a mask of zeros and non-zeros that broadcasts to the input; excluded values influence nothing,
 * whatever they are, and an empty mask gives exactly 0. A NaN that is included makes sums and extremes NaN;
 * positions of extremes pass over it.
 */
import { constant, type Expr, input, where as select } from "../../kernels/expr.ts";
import type { ReduceSpec } from "../../kernels/specs.ts";
import { check, fail } from "../errors.ts";
import { apply1, type Call, type Elements, type OpDef, type Sample, type SampleInput } from "../op.ts";
import { type AxisOptions, axisOf, checkMove, checkTensor } from "../operands.ts";
import { checkKeys, showValue } from "../options.ts";
import type { Rng } from "../random.ts";
import { mask as randomMask, normal } from "../sampling.ts";
import type { Tensor } from "../tensor.ts";
import { checkFloat, normalizeAxis, sameShape, type Shape, showShape, sizeOf, type TensorType } from "../types.ts";
import { broadcastTo, reshape } from "./movement.ts";
import { fuse, type Pointwise } from "../fuse.ts";
import { add, div, eq, gt, maximum, mul, ne, rsqrt, sub, where } from "./pointwise.ts";

/** One run of neighbouring axes, [start, end), is reduced. */
interface ReduceParams {
  readonly start: number;
  readonly end: number;
  /** The factor of a sum, for means; 1 otherwise. */
  readonly scale: number;
}

/** The value in place of an excluded one. */
const EXCLUDED = { sum: 0, max: -Infinity, min: Infinity } as const;

function reduceOp(
  name: string,
  kind: ReduceSpec["kind"],
  masked: boolean,
  vjp: OpDef<ReduceParams>["vjp"],
): OpDef<ReduceParams> {
  const isIndex = kind === "argmax" || kind === "argmin";
  const prologue: Expr = masked && !isIndex ? select(input(1).ne(0), input(0), constant(EXCLUDED[kind])) : input(0);
  const spec = ({ inputs: [x], params: { start, end, scale } }: Call<ReduceParams>): ReduceSpec => ({
    kind,
    prologue,
    inputs: masked ? 2 : 1,
    outer: sizeOf(x!.shape.slice(0, start)),
    length: sizeOf(x!.shape.slice(start, end)),
    inner: sizeOf(x!.shape.slice(end)),
    scale,
  });
  return {
    name,
    infer(inputs, { start, end }) {
      const [x, m] = inputs as [TensorType, TensorType];
      checkFloat(name, x);
      check(
        !masked || (sameShape(x.shape, m.shape) && m.dtype === x.dtype),
        () => `${name}: the mask must have the shape and type of the input, ${showShape(x.shape)}`,
      );
      return [{ shape: [...x.shape.slice(0, start), ...x.shape.slice(end)], dtype: isIndex ? "i32" : x.dtype }];
    },
    reference: ([x, m], [y], call) => reduceElements(spec(call), x!, masked ? m! : undefined, y!),
    kernel: (call) => ({ family: "reduce", spec: spec(call) }),
    vjp,
    samples: (rng): Sample<ReduceParams>[] =>
      (
        [
          [[7], 0, 1],
          [[3, 5], 1, 2],
          [[3, 5], 0, 1],
          [[2, 3, 5], 1, 2],
          [[2, 67, 3], 0, 2],
          [[1], 0, 1],
          [[3, 1, 2], 1, 2],
        ] as const
      ).map(([shape, start, end]) => ({
        params: { start, end, scale: kind === "sum" ? 0.5 : 1 },
        inputs: [distinct(normal(rng, shape)), ...(masked ? [maskFor(kind, rng, shape, start)] : [])],
        differentiable: [!isIndex, ...(masked ? [false] : [])],
      })),
    ...(kind === "sum" && !masked ? { linear: true } : {}),
  };
}

/** Zeros and ones; for extremes few zeros and no empty group, which gives −∞. */
function maskFor(kind: ReduceSpec["kind"], rng: Rng, shape: Shape, start: number): SampleInput {
  const mask = randomMask(rng, shape);
  return kind === "sum"
    ? mask
    : { ...mask, data: mask.data.map((_, i) => (i % 4 === 3 && shape[start] !== 1 ? 0 : 1)) };
}

/** Values that differ pairwise by at least 0.01, so that a finite difference does not change the largest. */
function distinct<T extends { readonly data: readonly number[] }>(sample: T): T {
  return { ...sample, data: sample.data.map((v, i) => Math.round(v * 2) + i * 0.01) };
}

function reduceElements(spec: ReduceSpec, x: Elements, mask: Elements | undefined, y: Elements): void {
  const { kind, outer, length, inner, scale } = spec;
  const isIndex = kind === "argmax" || kind === "argmin";
  const sign = kind === "argmin" || kind === "min" ? -1 : 1;
  for (let o = 0; o < outer; o++) {
    for (let i = 0; i < inner; i++) {
      let total = 0;
      let best = -Infinity;
      let at = 0;
      for (let j = 0; j < length; j++) {
        const index = (o * length + j) * inner + i;
        const included = mask === undefined || mask[index] !== 0;
        if (included) total += x[index]!;
        const candidate = included ? sign * x[index]! : -Infinity;
        const isNew = candidate > best || (!isIndex && Number.isNaN(candidate));
        if (isNew) [best, at] = [candidate, j];
      }
      y[o * inner + i] = kind === "sum" ? total * scale : kind === "max" || kind === "min" ? sign * best : at;
    }
  }
}

/** The gradient or result of a reduction, broadcast to the input's shape. */
function spread(y: Tensor, { start, end }: ReduceParams, shape: Shape): Tensor {
  const withOnes = shape.map((n, d) => (d >= start && d < end ? 1 : n));
  return broadcastTo(reshape(y, withOnes), shape);
}

export const sumOp: OpDef<ReduceParams> = reduceOp("sum", "sum", false, ({ g, x: [x], params }) => [
  spread(params.scale === 1 ? g[0]! : mul(g[0]!, params.scale), params, x!.shape),
]);
export const maskedSumOp: OpDef<ReduceParams> = reduceOp("maskedSum", "sum", true, ({ g, x: [x, m], params }) => [
  where(m!, spread(mul(g[0]!, params.scale), params, x!.shape), 0),
  null,
]);
/** The derivative of an extreme: ties share the gradient equally. */
const extremeVjp: OpDef<ReduceParams>["vjp"] = ({ g, x: [x], y: [y], params }) => {
  const hit = eq(x!, spread(y!, params, x!.shape));
  const ties = spread(apply1(sumOp, [hit], { ...params, scale: 1 }), params, x!.shape);
  return [div(mul(spread(g[0]!, params, x!.shape), hit), ties)];
};
const maskedExtremeVjp: OpDef<ReduceParams>["vjp"] = ({ g, x: [x, m], y: [y], params }) => {
  const hit = where(m!, eq(x!, spread(y!, params, x!.shape)), 0);
  const ties = maximum(spread(apply1(sumOp, [hit], { ...params, scale: 1 }), params, x!.shape), 1);
  return [div(mul(spread(g[0]!, params, x!.shape), hit), ties), null];
};
export const maxOp: OpDef<ReduceParams> = reduceOp("max", "max", false, extremeVjp);
export const minOp: OpDef<ReduceParams> = reduceOp("min", "min", false, extremeVjp);
export const maskedMaxOp: OpDef<ReduceParams> = reduceOp("maskedMax", "max", true, maskedExtremeVjp);
export const argmaxOp: OpDef<ReduceParams> = reduceOp("argmax", "argmax", false, () => [null]);
export const argminOp: OpDef<ReduceParams> = reduceOp("argmin", "argmin", false, () => [null]);

/** Options of ops that reduce several axes at once. */
export interface ReduceOptions {
  /**
   * Axes to reduce, negative ones from the end; all unless given. Over none, `[]`, the result of `sum`, `mean`, `max`
   * and `min` shares memory with the input (see `assign`).
   */
  readonly axis?: number | readonly number[];
  /** Whether reduced axes are kept, with size 1. */
  readonly keepdims?: boolean;
}
const REDUCE_KEYS = ["axis", "keepdims"] as const;

/** The axes of a reduction, in order. @throws one line with its `name` if they or the options do not fit */
export function axesOfReduction(name: string, x: Tensor, options: ReduceOptions): readonly number[] {
  checkTensor(name, x);
  checkKeys(name, options, REDUCE_KEYS);
  const { axis } = options;
  const listed = axis === undefined ? x.shape.map((_, d) => d) : typeof axis === "object" ? axis : [axis];
  const axes = [...new Set(listed.map((a) => normalizeAxis(name, a, x.rank)))].sort((a, b) => a - b);
  check(axes.length === listed.length, () => `${name}: an axis is listed twice in ${showShape(listed)}`);
  return axes;
}

/** Reduces runs of neighbouring axes, from the last to the first. */
function overAxes(
  name: string,
  x: Tensor,
  options: ReduceOptions,
  step: (x: Tensor, start: number, end: number) => Tensor,
): Tensor {
  const axes = axesOfReduction(name, x, options);
  const { keepdims = false } = options;
  let y = x;
  for (let last = axes.length - 1; last >= 0;) {
    let first = last;
    while (first > 0 && axes[first - 1] === axes[first]! - 1) first--;
    y = step(y, axes[first]!, axes[last]! + 1);
    last = first - 1;
  }
  if (!keepdims && y !== x) return y;
  const ones = x.shape.map((n, d) => (axes.includes(d) ? 1 : n)); // x itself, over no axis, as a tensor of its own
  return reshape(y, ones);
}

function reduced(x: Tensor, options: ReduceOptions): number {
  const { axis } = options;
  if (axis === undefined) return x.size;
  const axes = typeof axis === "number" ? [axis] : axis;
  return axes.reduce((n, a) => n * x.shape[normalizeAxis("reduce", a, x.rank)]!, 1);
}

/** Σ x over `axis`. */
export function sum(x: Tensor, options: ReduceOptions = {}): Tensor {
  return overAxes("sum", x, options, (y, start, end) => apply1(sumOp, [y], { start, end, scale: 1 }));
}
/** The arithmetic mean over `axis`. */
export function mean(x: Tensor, options: ReduceOptions = {}): Tensor {
  const step = (y: Tensor, start: number, end: number): Tensor =>
    apply1(sumOp, [y], { start, end, scale: 1 / sizeOf(y.shape.slice(start, end)) });
  return overAxes("mean", x, options, step);
}
/** The largest element over `axis`. */
export function max(x: Tensor, options: ReduceOptions = {}): Tensor {
  return overAxes("max", x, options, (y, start, end) => apply1(maxOp, [y], { start, end, scale: 1 }));
}
/** The smallest element over `axis`. */
export function min(x: Tensor, options: ReduceOptions = {}): Tensor {
  return overAxes("min", x, options, (y, start, end) => apply1(minOp, [y], { start, end, scale: 1 }));
}
/** Position of the largest element along one axis, the last unless given; the lowest on a tie. */
export function argmax(x: Tensor, options: AxisOptions = {}): Tensor<"i32"> {
  return positionOf(argmaxOp, x, options);
}
/** Position of the smallest element along one axis, the last unless given; the lowest on a tie. */
export function argmin(x: Tensor, options: AxisOptions = {}): Tensor<"i32"> {
  return positionOf(argminOp, x, options);
}
function positionOf(op: OpDef<ReduceParams>, x: Tensor, options: AxisOptions): Tensor<"i32"> {
  const start = axisOf(op.name, x, options, -1);
  return apply1(op, [x], { start, end: start + 1, scale: 1 }) as Tensor<"i32">;
}

function checkDdof(where: string, ddof: number): void {
  const fits = Number.isSafeInteger(ddof) && ddof >= 0;
  check(fits, () => `${where}: ddof must be a whole number ≥ 0, of degrees of freedom, got ${showValue(ddof)}`);
}

/** Population variance over `axis`; `ddof` 1 for the sample variance. @throws if `ddof` is no whole number ≥ 0 */
export function variance(x: Tensor, options: ReduceOptions & { readonly ddof?: number } = {}): Tensor {
  checkKeys("variance", options, [...REDUCE_KEYS, "ddof"]);
  const { ddof = 0, ...over } = options;
  checkDdof("variance", ddof);
  const centred = sub(x, mean(x, { ...over, keepdims: true }));
  return mul(sum(mul(centred, centred), over), 1 / (reduced(x, over) - ddof));
}

/** e^(x − largest); 1 where the largest is infinite, whose difference to itself is NaN. */
const belowLargest: Pointwise<Tensor> = fuse("belowLargest", (x, largest) =>
  select(largest.abs().eq(Infinity), 0, x.sub(largest.stopGradient())).exp(),
);
/** ln total + largest, or the largest where that is infinite: +∞ has its gradient, and −∞ none. */
const fromLargest: Pointwise<Tensor> = fuse("fromLargest", (total, largest) =>
  select(
    largest.abs().eq(Infinity),
    select(largest.gt(0), largest, largest.stopGradient()),
    total.log().add(largest.stopGradient()),
  ),
);

/**
 * ln Σ e^x over `axis`, without overflow: −∞ if all elements are, with gradient 0 (SciPy and JAX guard the maximum in
 * the same way, jax-ml/jax#6811); +∞ if one is, and the gradient goes to the elements that are.
 */
export function logsumexp(x: Tensor, options: ReduceOptions = {}): Tensor {
  checkKeys("logsumexp", options, REDUCE_KEYS);
  const largest = max(x, { ...options, keepdims: true });
  const result = fromLargest(sum(belowLargest(x, largest), { ...options, keepdims: true }), largest);
  return options.keepdims ? result : reshape(result, sumShape(x, options));
}

function sumShape(x: Tensor, { axis }: ReduceOptions): Shape {
  if (axis === undefined) return [];
  const axes = (typeof axis === "number" ? [axis] : axis).map((a) => normalizeAxis("reduce", a, x.rank));
  return x.shape.filter((_, d) => !axes.includes(d));
}

/**
 * `x` summed to `shape`, which must broadcast to x's: the adjoint of `broadcastTo`. With x's shape it shares memory.
 */
export function sumTo(x: Tensor, shape: Shape): Tensor {
  checkMove("sumTo", x, shape);
  if (sameShape(x.shape, shape)) return reshape(x, shape);
  const lead = x.rank - shape.length;
  const fits = lead >= 0 && shape.every((n, d) => n === 1 || n === x.shape[lead + d]);
  if (!fits) fail(`sumTo: ${showShape(shape)} does not broadcast to ${showShape(x.shape)}`);
  const axis = x.shape.flatMap((n, d) => (d < lead || (shape[d - lead] === 1 && n !== 1) ? [d] : []));
  return reshape(sum(x, { axis }), shape);
}

/** Σ of the elements of `x` where `mask` (broadcast to x) is not 0. */
export function maskedSum(x: Tensor, mask: Tensor, options: ReduceOptions = {}): Tensor {
  return overMasked("maskedSum", x, mask, options, maskedSumOp, sumOp);
}
/** The largest element of `x` where `mask` is not 0; exactly 0 where the mask is empty. */
export function maskedMax(x: Tensor, mask: Tensor, options: ReduceOptions = {}): Tensor {
  const largest = overMasked("maskedMax", x, mask, options, maskedMaxOp, maxOp);
  return where(gt(count(x, mask, options), 0), largest, 0);
}
/** The mean of the elements of `x` where `mask` is not 0; exactly 0 where the mask is empty. */
export function maskedMean(x: Tensor, mask: Tensor, options: ReduceOptions = {}): Tensor {
  return div(maskedSum(x, mask, options), maximum(count(x, mask, options), 1));
}
/** The variance of the elements of `x` where `mask` is not 0 (population; `ddof` 1: sample); 0 for an empty mask. */
export function maskedVariance(
  x: Tensor,
  mask: Tensor,
  options: ReduceOptions & { readonly ddof?: number } = {},
): Tensor {
  checkKeys("maskedVariance", options, [...REDUCE_KEYS, "ddof"]);
  const { ddof = 0, ...over } = options;
  for (const y of [x, mask]) checkTensor("maskedVariance", y);
  checkDdof("maskedVariance", ddof);
  const included = where(mask, x, 0); // so that a NaN outside the mask cannot come back as 0·NaN in the gradient
  const centred = sub(included, maskedMean(included, mask, { ...over, keepdims: true }));
  const n = sub(count(x, mask, over), ddof);
  return div(maskedSum(mul(centred, centred), mask, over), maximum(n, 1));
}
/** (x − mean)/√(variance + eps) over the masked elements; 0 elsewhere. `shiftMean: false` adds the mean back. */
export function maskedWhiten(
  x: Tensor,
  mask: Tensor,
  options: { readonly eps?: number; readonly ddof?: number; readonly shiftMean?: boolean } = {},
): Tensor {
  checkKeys("maskedWhiten", options, ["eps", "ddof", "shiftMean"]);
  const { eps = 1e-8, ddof = 1, shiftMean = true } = options;
  for (const y of [x, mask]) checkTensor("maskedWhiten", y);
  checkDdof("maskedWhiten", ddof);
  const included = where(mask, x, 0);
  const average = maskedMean(included, mask);
  const scaled = mul(sub(included, average), rsqrt(add(maskedVariance(included, mask, { ddof }), eps)));
  return where(mask, shiftMean ? scaled : add(scaled, average), 0);
}

function count(x: Tensor, mask: Tensor, options: ReduceOptions): Tensor {
  return sum(broadcastTo(ne(mask, 0), x.shape), options);
}

/** A masked reduction: the first run of axes is reduced under the mask, the others without one. */
function overMasked(
  name: string,
  x: Tensor,
  mask: Tensor,
  options: ReduceOptions,
  first: OpDef<ReduceParams>,
  rest: OpDef<ReduceParams>,
): Tensor {
  for (const y of [x, mask]) checkTensor(name, y);
  let under: Tensor | null = broadcastTo(mask, x.shape);
  const result = overAxes(name, x, options, (y, start, end) => {
    const params = { start, end, scale: 1 };
    if (under === null) return apply1(rest, [y], params);
    const result: Tensor = apply1(first, [y, under], params);
    under = null;
    return result;
  });
  return under === null ? result : where(under, result, 0); // over no axis
}
