/**
 * RMSNorm (Zhang & Sennrich 2019, arXiv 1910.07467) and LayerNorm (Ba, Kiros & Hinton 2016, arXiv 1607.06450) over the
 * last axis, each one kernel forward and one backward. The backward pass is an op of its own, whose derivative is that
 * of its unfused formula.
 */
import type { NormSpec } from "../../kernels/specs.ts";
import { vjpOf } from "../checkpoint.ts";
import { check } from "../errors.ts";
import { apply, apply1, type Call, type OpDef, type Sample, typed } from "../op.ts";
import type { Rng } from "../random.ts";
import { filled, normal } from "../sampling.ts";
import type { Tensor } from "../tensor.ts";
import { checkFloat, checkSameDtype, sameShape, showShape, sizeOf, type TensorType } from "../types.ts";
import { add, mul, rsqrt, sub } from "./pointwise.ts";
import { mean, sumTo } from "./reduce.ts";

interface NormParams {
  readonly kind: "rms" | "layer";
  readonly eps: number;
}
const nameOf = ({ kind }: NormParams): string => `${kind}Norm`;

function specOf({ inputs: [x], params: { kind, eps } }: Call<NormParams>): NormSpec {
  const cols = x!.shape[x!.shape.length - 1]!;
  return { kind, rows: sizeOf(x!.shape) / cols, cols, eps };
}

function checkOperands(inputs: readonly TensorType[], vectors: number, params: NormParams): void {
  const where = nameOf(params);
  const [x, ...rest] = inputs as [TensorType, ...TensorType[]];
  inputs.forEach((input) => checkFloat(where, input));
  check(params.eps >= 0, () => `${where}: eps must be ≥ 0, got ${String(params.eps)}`);
  checkSameDtype(where, inputs);
  check(x.shape.length > 0, () => `${where}: expected at least one axis, got a scalar`);
  const expected = [x.shape[x.shape.length - 1]!];
  for (const v of rest.slice(0, vectors)) {
    check(
      sameShape(v.shape, expected),
      () =>
        `${where}: x ${showShape(x.shape)} needs weights of shape ${showShape(expected)}, got ${showShape(v.shape)}`,
    );
  }
}

/** Mean (0 for rms) and 1/√(variance + eps) of the row that starts at `at`. */
function statistics(x: ArrayLike<number>, at: number, { kind, cols, eps }: NormSpec): [centre: number, scale: number] {
  let total = 0;
  for (let j = 0; j < cols; j++) total += x[at + j]!;
  const centre = kind === "layer" ? total / cols : 0;
  let squares = 0;
  for (let j = 0; j < cols; j++) squares += (x[at + j]! - centre) ** 2;
  return [centre, 1 / Math.sqrt(squares / cols + eps)];
}

/** Inputs x [..., C], w [C], and for LayerNorm b [C]. */
export const normOp: OpDef<NormParams> = {
  name: "norm",
  infer(inputs, params) {
    checkOperands(inputs, 2, params);
    return typed(inputs[0]!.shape, inputs[0]!);
  },
  reference([x, w, b], [y], call) {
    const spec = specOf(call);
    for (let row = 0; row < spec.rows; row++) {
      const at = row * spec.cols;
      const [centre, scale] = statistics(x!, at, spec);
      for (let j = 0; j < spec.cols; j++) y![at + j] = (x![at + j]! - centre) * scale * w![j]! + (b ? b[j]! : 0);
    }
  },
  kernel: (call) => ({ family: "norm", spec: specOf(call) }),
  vjp: ({ g, x: [x, w], params }) => apply(normBackwardOp, [x!, w!, g[0]!], params),
  samples: (rng) =>
    normSamples(rng, (shape, kind) => [shape, [shape.at(-1)!], ...(kind === "layer" ? [[shape.at(-1)!]] : [])]),
};

/** Inputs x, w, g → dx, dw, and for LayerNorm db. */
export const normBackwardOp: OpDef<NormParams> = {
  name: "normBackward",
  infer(inputs, params) {
    const [x, w] = inputs as [TensorType, TensorType, TensorType];
    checkOperands(inputs, 1, params);
    return params.kind === "layer" ? [x, w, w] : [x, w];
  },
  reference([x, w, g], [dx, dw, db], call) {
    const spec = specOf(call);
    const { rows, cols, kind } = spec;
    const sumW = new Float64Array(cols);
    const sumB = new Float64Array(cols);
    for (let row = 0; row < rows; row++) {
      const at = row * cols;
      const [centre, scale] = statistics(x!, at, spec);
      let meanG = 0;
      let meanGx = 0;
      for (let j = 0; j < cols; j++) {
        const normalised = (x![at + j]! - centre) * scale;
        meanG += (g![at + j]! * w![j]!) / cols;
        meanGx += (g![at + j]! * w![j]! * normalised) / cols;
        sumW[j]! += g![at + j]! * normalised;
        sumB[j]! += g![at + j]!;
      }
      for (let j = 0; j < cols; j++) {
        const normalised = (x![at + j]! - centre) * scale;
        dx![at + j] = scale * (g![at + j]! * w![j]! - (kind === "layer" ? meanG : 0) - normalised * meanGx);
      }
    }
    dw!.set(sumW);
    db?.set(sumB);
  },
  kernel: (call) => ({ family: "normBackward", spec: specOf(call) }),
  vjp: ({ g, x, params, needs }) => vjpOf(([v, w, h]) => unfusedBackward(v!, w!, h!, params), x, g, needs),
  samples: (rng) => normSamples(rng, (shape) => [shape, [shape.at(-1)!], shape]),
};

/** The computation of `normBackwardOp`, op by op. */
function unfusedBackward(x: Tensor, w: Tensor, g: Tensor, { kind, eps }: NormParams): Tensor[] {
  const rowMean = (v: Tensor): Tensor => mean(v, { axis: -1, keepdims: true });
  const layer = kind === "layer";
  const centred = layer ? sub(x, rowMean(x)) : x;
  const scale = rsqrt(add(rowMean(mul(centred, centred)), eps));
  const normalised = mul(centred, scale);
  const gw = mul(g, w);
  const direct = layer ? sub(gw, rowMean(gw)) : gw;
  const dx = mul(scale, sub(direct, mul(normalised, rowMean(mul(gw, normalised)))));
  const dw = sumTo(mul(g, normalised), w.shape);
  return layer ? [dx, dw, sumTo(g, w.shape)] : [dx, dw];
}

function normSamples(
  rng: Rng,
  inputs: (shape: readonly number[], kind: NormParams["kind"]) => readonly (readonly number[])[],
): Sample<NormParams>[] {
  const shapes = [[5], [3, 7], [2, 2, 4], [6, 1], [1, 67]];
  const rowsOf = (kind: NormParams["kind"]): Sample<NormParams> => ({
    label: `points: ${kind} of zeros and of equal elements`,
    inputs: inputs([3, 4], kind).map((s, i) => (i === 0 ? filled(s, (at) => [0, 1, -1][at >> 2]!) : normal(rng, s))),
    params: { kind, eps: 0.5 },
  });
  return (["rms", "layer"] as const).flatMap((kind) => [
    ...shapes.map((shape) => ({
      label: kind,
      inputs: inputs(shape, kind).map((s) => normal(rng, s)),
      // Large enough that a row of one element, whose variance is 0, has derivatives of a size that differences can
      // see.
      params: { kind, eps: shape.at(-1) === 1 ? 0.5 : 1e-5 },
    })),
    rowsOf(kind),
  ]);
}

/**
 * x / √(mean x² + eps) · w over the last axis.
 * @param x [..., C]
 * @param w [C]
 * @param eps 2^−23 unless given, the distance from 1 to the next f32, as in PyTorch
 * @throws if w is not [C]
 */
export function rmsNorm(x: Tensor, w: Tensor, eps: number = 2 ** -23): Tensor {
  return apply1(normOp, [x, w], { kind: "rms", eps });
}

/**
 * (x − mean) / √(variance + eps) · w + b over the last axis, with the population variance.
 * @param x [..., C]
 * @param w [C]
 * @param b [C]
 * @param eps 1e-5 unless given, as in PyTorch
 * @throws if w or b is not [C]
 */
export function layerNorm(x: Tensor, w: Tensor, b: Tensor, eps: number = 1e-5): Tensor {
  return apply1(normOp, [x, w, b], { kind: "layer", eps });
}
