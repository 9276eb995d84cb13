/** Dropout (Srivastava et al. 2014), inverted: elements that stay are scaled up, so evaluation needs no change. */
import { where as select } from "../../kernels/expr.ts";
import { check } from "../errors.ts";
import { fuse, type Pointwise } from "../fuse.ts";
import { checkTensor } from "../operands.ts";
import { checkRng, type Rng } from "../random.ts";
import { normal, uniform } from "../sampling.ts";
import type { Tensor } from "../tensor.ts";
import { isFloat, showType } from "../types.ts";
import { randomUniform } from "./create.ts";
import { reshape } from "./movement.ts";

/** x/(1 − p) where the uniform number u is at least p, else 0. */
export const dropoutAt: Pointwise<Tensor> = fuse("dropout", (x, u, p) => select(u.ge(p), x.div(p.neg().add(1)), 0), {
  reference: (x, u, p) => (u >= p ? x / (1 - p) : 0),
  samples: (rng) =>
    [[5], [2, 1, 7], [1]].map((shape) => ({
      params: { args: [null, null, 0.4] },
      inputs: [normal(rng, shape), uniform(rng, shape, 0, 1, [0.4])],
      differentiable: [true, false],
    })),
});

/**
 * Zeroes each element with probability `p` and divides the others by 1 − p.
 * @param p in [0, 1); 0 changes nothing, and the result shares memory with `x` (see `assign`)
 * @param rng the stream to draw from; it is not advanced, so give every call its own: `rng.split("layer 3")`
 * @throws if p is outside [0, 1), or rng is none
 */
export function dropout(x: Tensor, p: number, rng: Rng): Tensor {
  checkTensor("dropout", x);
  check(p >= 0 && p < 1, () => `dropout: p must be in [0, 1), got ${String(p)}`);
  checkRng("dropout", rng);
  check(isFloat(x.dtype), () => `dropout: expected a float tensor, got ${showType(x)}`);
  return p === 0
    ? reshape(x, x.shape)
    : dropoutAt(x, randomUniform(rng, x.shape, { device: x.device, dtype: x.dtype }), p);
}
