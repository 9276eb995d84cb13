/** Running sums along an axis. Linear; the adjoint of a sum from the front is a sum from the end. */
import type { CumsumSpec } from "../../kernels/specs.ts";
import { apply1, type Call, type OpDef, typed } from "../op.ts";
import { type AxisOptions, axisOf } from "../operands.ts";
import { checkKeys } from "../options.ts";
import { normal } from "../sampling.ts";
import type { Tensor } from "../tensor.ts";
import { checkFloat, sizeOf } from "../types.ts";

interface CumsumParams {
  readonly axis: number;
  readonly reverse: boolean;
}

function specOf({ inputs: [x], params: { axis, reverse } }: Call<CumsumParams>): CumsumSpec {
  const { shape } = x!;
  return { outer: sizeOf(shape.slice(0, axis)), length: shape[axis]!, inner: sizeOf(shape.slice(axis + 1)), reverse };
}

export const cumsumOp: OpDef<CumsumParams> = {
  name: "cumsum",
  linear: true,
  infer([x]) {
    checkFloat("cumsum", x!);
    return typed(x!.shape, x!);
  },
  reference([x], [y], call) {
    const { outer, length, inner, reverse } = specOf(call);
    for (let o = 0; o < outer; o++) {
      for (let i = 0; i < inner; i++) {
        let total = 0;
        for (let step = 0; step < length; step++) {
          const at = (o * length + (reverse ? length - 1 - step : step)) * inner + i;
          total += x![at]!;
          y![at] = total;
        }
      }
    }
  },
  kernel: (call) => ({ family: "cumsum", spec: specOf(call) }),
  vjp: ({ g, params: { axis, reverse } }) => [apply1(cumsumOp, [g[0]!], { axis, reverse: !reverse })],
  samples: (rng) => [
    { inputs: [normal(rng, [7])], params: { axis: 0, reverse: false } },
    { inputs: [normal(rng, [2, 67])], params: { axis: 1, reverse: true } },
    { inputs: [normal(rng, [2, 5, 3])], params: { axis: 1, reverse: false } },
    { inputs: [normal(rng, [3, 1, 2])], params: { axis: 1, reverse: true } },
    { inputs: [normal(rng, [140])], params: { axis: 0, reverse: false } }, // more than one block of WebGPU's additions
  ],
};

/** Options of `cumsum`. */
export interface CumsumOptions extends AxisOptions {
  /** Whether to sum from the end, as returns-to-go do. */
  readonly reverse?: boolean;
}

/** Σ of the elements up to and including each one along `axis`, the last unless given. */
export function cumsum(x: Tensor, options: CumsumOptions = {}): Tensor {
  checkKeys("cumsum", options, ["axis", "reverse"]);
  const { axis, reverse = false } = options;
  return apply1(cumsumOp, [x], { axis: axisOf("cumsum", x, { axis }, -1), reverse });
}
