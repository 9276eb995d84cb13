/**
 * State: tensors that live for the whole run and are overwritten in place. Together with `writeRows` and the optimisers
 * this is everything that changes a tensor's values; each counts a version, so that a backward pass that would need an
 * overwritten value is an error.
 */
import type { CopySpec } from "../kernels/specs.ts";
import { check } from "./errors.ts";
import { apply, type Call, type NoParams, type OpDef } from "./op.ts";
import { checkTensor } from "./operands.ts";
import { normal } from "./sampling.ts";
import type { Tensor } from "./tensor.ts";
import { sameShape, showType, sizeOf } from "./types.ts";

const specOf = ({ inputs: [value] }: Call<NoParams>): CopySpec => ({
  dims: [sizeOf(value!.shape)],
  inStrides: [1],
  inOffset: 0,
  outStrides: [1],
  outOffset: 0,
});

/** Inputs: the value, then the variable, which is overwritten. No outputs. */
export const assignOp: OpDef = {
  name: "assign",
  overwrites: () => [1],
  infer([value, variable]) {
    check(
      sameShape(value!.shape, variable!.shape) && value!.dtype === variable!.dtype,
      () => `assign: the variable is ${showType(variable!)}, the value ${showType(value!)}`,
    );
    return [];
  },
  reference: ([value, variable]) => void variable!.set(value!),
  kernel: (call) => ({ family: "copy", spec: specOf(call) }),
  vjp: () => [null, null],
  samples: (rng) => [
    { inputs: [normal(rng, [7]), normal(rng, [7])], params: {}, differentiable: [false, false] },
    { inputs: [normal(rng, [2, 3]), normal(rng, [2, 3])], params: {}, differentiable: [false, false] },
    { inputs: [normal(rng, []), normal(rng, [])], params: {}, differentiable: [false, false] },
  ],
};

/**
 * Overwrites `variable` with the elements of `value`. The value is copied, not shared; nothing of its history is kept.
 * Tensors that share memory with the variable change, too: results of `reshape` and `stopGradient`, of `broadcastTo`
 * and `sumTo` to its shape, of `cast` to its type, of `dropout` with p = 0, of `sum`, `mean`, `max` and `min` over no
 * axis. All other results are copies: `mul(variable, 1)` keeps the old numbers.
 * @throws if shapes, element types or devices differ, or if a gradient that depends on `variable` is being recorded
 */
export function assign(variable: Tensor, value: Tensor): void {
  for (const x of [variable, value]) checkTensor("assign", x);
  assignOp.infer([value, variable], {});
  if (value.storage === variable.storage) return; // itself
  apply(assignOp, [value, variable], {});
}
