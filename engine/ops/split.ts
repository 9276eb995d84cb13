/** Equal parts of a tensor along an axis, as one op: the parts' gradients are joined, and not padded and added. */
import type { CopySpec } from "../../kernels/specs.ts";
import { check } from "../errors.ts";
import { apply, type Call, type OpDef } from "../op.ts";
import { type AxisOptions, axisOf } from "../operands.ts";
import { normal } from "../sampling.ts";
import type { Tensor } from "../tensor.ts";
import { showShape, sizeOf } from "../types.ts";
import { zerosLike } from "./create.ts";
import { concat } from "./movement.ts";

interface SplitParams {
  readonly axis: number;
  readonly parts: number;
}

/** One copy per part: [outer, length, inner] of x [outer, parts · length, inner]. */
function splitSpecs({ inputs: [x], params: { axis, parts } }: Call<SplitParams>): CopySpec[] {
  const { shape } = x!;
  const width = sizeOf(shape.slice(axis)) / parts;
  const outer = sizeOf(shape.slice(0, axis));
  return Array.from({ length: parts }, (_, k) => ({
    dims: [outer, width],
    inStrides: [width * parts, 1],
    inOffset: k * width,
    outStrides: [width, 1],
    outOffset: 0,
  }));
}

/** Inputs: x. Outputs: the parts. */
export const splitOp: OpDef<SplitParams> = {
  name: "split",
  linear: true,
  infer([x], { axis, parts }) {
    const { shape, dtype } = x!;
    check(
      Number.isInteger(parts) && parts >= 1 && shape[axis]! % parts === 0,
      () => `split: axis ${axis} of ${showShape(shape)} has no ${parts} equal parts`,
    );
    const part = { shape: shape.map((n, d) => (d === axis ? n / parts : n)), dtype };
    return Array.from({ length: parts }, () => part);
  },
  reference([x], ys, call) {
    splitSpecs(call).forEach(({ dims, inStrides, inOffset }, k) => {
      const [outer, width] = dims as [number, number];
      for (let o = 0; o < outer; o++) {
        const from = o * inStrides[0]! + inOffset;
        ys[k]!.set(x!.subarray(from, from + width), o * width);
      }
    });
  },
  kernel: (call) => splitSpecs(call).map((spec, k) => ({ family: "copy", spec, operands: [0, 1 + k] })),
  vjp: ({ g, y, params: { axis } }) => [
    concat(
      g.map((part, k) => part ?? zerosLike(y[k]!)),
      { axis },
    ),
  ],
  samples: (rng) => [
    { inputs: [normal(rng, [2, 3, 6])], params: { axis: 2, parts: 3 } },
    { inputs: [normal(rng, [4, 3])], params: { axis: 0, parts: 2 } },
    { inputs: [normal(rng, [5])], params: { axis: 0, parts: 5 } },
    { inputs: [normal(rng, [3, 16, 2])], params: { axis: 1, parts: 2 } },
    { inputs: [normal(rng, [3])], params: { axis: 0, parts: 1 } },
  ],
};

/**
 * x cut into `parts` tensors of equal size along `axis`, the last unless given.
 * @throws if the axis is not a multiple of `parts` long
 *
 * @example
 * const [q, k, v] = split(qkv_BT3C, 3);   // each [B, T, C]
 */
export function split(x: Tensor, parts: number, options: AxisOptions = {}): Tensor[] {
  return apply(splitOp, [x], { parts, axis: axisOf("split", x, options, -1) });
}
