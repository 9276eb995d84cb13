/** The Euclidean norm, whose square root has an infinite slope at 0 and whose squares leave the numbers early. */
import { abs, div, eq, fuse, max, mul, type ReduceOptions, select, sqrt, square } from "../engine/index.ts";
import { stopGradient, sum, type Tensor, where } from "../engine/index.ts";
import { axesOfReduction } from "../engine/ops/reduce.ts";

/** By what elements are divided, so that squares stay numbers: the largest, or 1 where that is 0, infinite or NaN. */
const scaleOf = fuse("normScale", (largest) => select(largest.gt(0), select(largest.lt(Infinity), largest, 1), 1));

/**
 * √Σx² over the axes, all unless given, as PyTorch's `linalg.vector_norm`.
 *
 * Its gradient is x/‖x‖, and 0 where all x are 0, as in PyTorch; so are the further derivatives there. The gradient of
 * `sqrt(sum(square(x)))` is NaN there, and in f32 it is 0 below 1e-23 and infinite above 1e19, where this is right.
 */
export function vectorNorm(x: Tensor, options: ReduceOptions = {}): Tensor {
  axesOfReduction("vectorNorm", x, options);
  const scale = stopGradient(scaleOf(max(abs(stopGradient(x)), { ...options, keepdims: true })));
  const total = sum(square(div(x, scale)), options);
  const isZero = eq(total, 0);
  // Over axes of size 1 the sum only drops them.
  return mul(where(isZero, 0, sqrt(where(isZero, 1, total))), sum(scale, options));
}
