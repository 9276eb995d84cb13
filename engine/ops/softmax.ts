/**
 * Softmax and log-softmax, with an optional mask. Excluded entries get probability 0 (log-probability −1e30) whatever
 * their value; a row in which nothing is left gets that everywhere, and no gradient.
 *
 * The kernels work on the last axis; other axes are moved there. Log-probabilities of single targets are in
 * logProbs.ts, which never stores a row of probabilities.
 */
import type { SoftmaxSpec } from "../../kernels/specs.ts";
import { check } from "../errors.ts";
import { apply1, type Call, type OpDef, type Sample, typed } from "../op.ts";
import { type AxisOptions, axisOf } from "../operands.ts";
import { checkKeys } from "../options.ts";
import { filled, mask, normal, tiedOrFar, uniform } from "../sampling.ts";
import type { Tensor } from "../tensor.ts";
import { checkFloat, checkSameDtype, sameShape, showShape, sizeOf, type TensorType } from "../types.ts";
import { broadcastTo, transpose } from "./movement.ts";
import { exp, le, mul, neg, sub, where } from "./pointwise.ts";
import { sum } from "./reduce.ts";

/** The log-probability of an excluded entry: e^−1e30 is 0, and −1e30 is finite, so that sums over it stay numbers. */
export const EXCLUDED = -1e30;
/** The border between log-probabilities and excluded entries, which are below it. */
const EXCLUDED_BELOW = -1e29;

interface SoftmaxParams {
  readonly log: boolean;
}

const lastAxis = (shape: readonly number[]): number => shape[shape.length - 1] ?? 1;

function specOf({ inputs, params: { log } }: Call<SoftmaxParams>): SoftmaxSpec {
  const { shape } = inputs[0]!;
  const cols = lastAxis(shape);
  return { rows: sizeOf(shape) / cols, cols, log, masked: inputs.length > 1 };
}

/** Inputs x [..., cols] and, if masked, a mask of the same shape. */
export const softmaxOp: OpDef<SoftmaxParams> = {
  name: "softmax",
  infer(inputs) {
    const [x, m] = inputs as [TensorType, TensorType?];
    inputs.forEach((input) => checkFloat("softmax", input));
    checkSameDtype("softmax", inputs);
    check(x.shape.length > 0, () => "softmax: expected at least one axis, got a scalar");
    check(
      m === undefined || sameShape(m.shape, x.shape),
      () => `softmax: expected a mask of shape ${showShape(x.shape)}, got ${showShape(m!.shape)}`,
    );
    return typed(x.shape, x);
  },
  reference([x, m], [y], call) {
    const { rows, cols, log } = specOf(call);
    for (let row = 0; row < rows; row++) {
      const included: number[] = [];
      for (let i = row * cols; i < (row + 1) * cols; i++) if (m === undefined || m[i] !== 0) included.push(i);
      const largest = included.reduce((max, i) => Math.max(max, x![i]!), -Infinity);
      const total = included.reduce((total, i) => total + Math.exp(x![i]! - largest), 0);
      y!.fill(log ? EXCLUDED : 0, row * cols, (row + 1) * cols);
      for (const i of included) {
        const shifted = x![i]! - largest;
        y![i] = log ? shifted - Math.log(total) : Math.exp(shifted) / total;
      }
    }
  },
  kernel: (call) => ({ family: "softmax", spec: specOf(call) }),
  vjp: ({ g, x, y, params }) => [apply1(softmaxBackwardOp, [y[0]!, g[0]!], params), ...x.slice(1).map(() => null)],
  samples: (rng) =>
    [false, true].flatMap((log): Sample<SoftmaxParams>[] => [
      { inputs: [normal(rng, [3, 5])], params: { log } },
      { inputs: [normal(rng, [2, 1])], params: { log } },
      { inputs: [normal(rng, [2, 1, 67])], params: { log } },
      { label: "points: ties, and one that has nearly all", inputs: [tiedOrFar()], params: { log } },
      { label: "masked", inputs: [normal(rng, [4, 7]), mask(rng, [4, 7])], params: { log }, differentiable },
      {
        label: "a row with nothing left",
        inputs: [normal(rng, [3, 4]), filled([3, 4], (i) => Number(i < 4 || i === 9))],
        params: { log },
        differentiable,
      },
    ]),
};
const differentiable = [true, false];

/**
 * Inputs y (the result, so never negative without log) and g. Softmax: y·(g − Σ g·y). Log-softmax: g − e^y·Σ g over
 * included entries, 0 elsewhere.
 */
export const softmaxBackwardOp: OpDef<SoftmaxParams> = {
  name: "softmaxBackward",
  infer([y, g]) {
    checkFloat("softmaxBackward", y!);
    checkSameDtype("softmaxBackward", [y!, g!]);
    check(
      sameShape(y!.shape, g!.shape),
      () => `softmaxBackward: shapes differ: ${showShape(y!.shape)} · ${showShape(g!.shape)}`,
    );
    return typed(y!.shape, y!);
  },
  reference([y, g], [dx], call) {
    const { rows, cols, log } = specOf(call);
    for (let row = 0; row < rows; row++) {
      let total = 0;
      for (let i = row * cols; i < (row + 1) * cols; i++) {
        if (!log) total += g![i]! * y![i]!;
        else if (!(y![i]! <= EXCLUDED_BELOW)) total += g![i]!;
      }
      for (let i = row * cols; i < (row + 1) * cols; i++) {
        if (!log) dx![i] = y![i]! * (g![i]! - total);
        else dx![i] = y![i]! <= EXCLUDED_BELOW ? 0 : g![i]! - Math.exp(y![i]!) * total;
      }
    }
  },
  kernel: (call) => ({ family: "softmaxBackward", spec: specOf(call) }),
  vjp({ g: [h], x: [y, g], params: { log } }) {
    const rowSum = (x: Tensor): Tensor => sum(x, { axis: -1, keepdims: true });
    if (!log) {
      const total = rowSum(mul(g!, y!));
      const along = rowSum(mul(h!, y!));
      return [sub(mul(h!, sub(g!, total)), mul(g!, along)), mul(y!, sub(h!, along))];
    }
    const excluded = le(y!, EXCLUDED_BELOW);
    const total = rowSum(where(excluded, 0, g!));
    const weighted = mul(where(excluded, 0, h!), exp(y!));
    return [neg(mul(weighted, total)), where(excluded, 0, sub(h!, rowSum(weighted)))];
  },
  samples: (rng) => [
    { inputs: [uniform(rng, [3, 5], 0.05, 1), normal(rng, [3, 5])], params: { log: false } },
    { inputs: [uniform(rng, [2, 1], 0.05, 1), normal(rng, [2, 1])], params: { log: false } },
    {
      label: "excluded entries",
      inputs: [filled([2, 5], (i) => (i % 3 === 1 || i > 4 ? 0 : 0.1 * i)), normal(rng, [2, 5])],
      params: { log: false },
      differentiable: [false, true],
    },
    { inputs: [normal(rng, [2, 67]), normal(rng, [2, 67])], params: { log: true } },
    {
      label: "excluded entries",
      inputs: [filled([2, 5], (i) => (i % 3 === 1 || i > 4 ? EXCLUDED : -i)), normal(rng, [2, 5])],
      params: { log: true },
      differentiable: [false, true],
    },
  ],
};

/** Options of `softmax` and `logSoftmax`. */
export interface SoftmaxOptions extends AxisOptions {
  /** A float tensor that broadcasts to x; entries where it is 0 are left out, whatever x holds there (NaN too). */
  readonly mask?: Tensor;
}

function alongAxis(name: string, x: Tensor, options: SoftmaxOptions, log: boolean): Tensor {
  checkKeys(name, options, ["axis", "mask"]);
  const { axis, mask: m } = options;
  const at = axisOf(name, x, { axis }, -1);
  const moved = (y: Tensor): Tensor => (at === x.rank - 1 ? y : transpose(y, at, -1));
  const inputs = [moved(x), ...(m === undefined ? [] : [moved(broadcastTo(m, x.shape))])];
  return moved(apply1(softmaxOp, inputs, { log }));
}

/**
 * e^x / Σ e^x along `axis` (the last unless given), without overflow; 0 where the mask is 0, also in a row where all of
 * it is.
 *
 * @example
 * softmax(scores_BTS, { mask: causalMask(T) });   // [B, T, S], each row sums to 1
 */
export function softmax(x: Tensor, options: SoftmaxOptions = {}): Tensor {
  return alongAxis("softmax", x, options, false);
}

/** ln softmax(x), computed without the logarithm of a small number; −1e30 where the mask is 0. */
export function logSoftmax(x: Tensor, options: SoftmaxOptions = {}): Tensor {
  return alongAxis("logSoftmax", x, options, true);
}
