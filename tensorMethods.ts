/**
 * `worldgrad/tensor-methods`: ops as methods of tensors, `x.matmul(w).add(b)` for `add(matmul(x, w), b)`. Importing it
 * installs them; a program that does not import it neither carries nor sees them.
 *
 * A method is the op of its name with the tensor as first argument, at run time and in its type: nothing is defined a
 * second time. Not here: ops whose first argument is no tensor of their own (`where`, `concat`, `stack`) and whole
 * layers.
 *
 * @example
 * import "worldgrad/tensor-methods";
 * const y = x.matmul(w).add(b).relu().mean({ axis: 0 });
 */
import * as ops from "./engine/index.ts";
import { Tensor } from "./engine/tensor.ts";
import type { DType } from "./engine/types.ts";

// prettier-ignore
const NAMES = [
  "abs", "add", "clamp", "cos", "div", "eq", "erf", "exp", "expm1", "floor", "ge", "gelu", "geluErf", "gt", "le",
  "log", "log1p", "lt", "maximum", "minimum", "mul", "ne", "neg", "pow", "relu", "rsqrt", "sigmoid", "sign", "silu",
  "sin", "softplus", "sqrt", "square", "sub", "tanh", "cast", "argmax", "argmin", "cumsum", "logsumexp", "max",
  "mean", "min", "sum", "variance", "broadcastTo", "gather", "pad", "permute", "reshape", "slice", "split",
  "takeAlong", "transpose", "logSoftmax", "matmul", "softmax",
] as const;
type Name = (typeof NAMES)[number];

/** The function without its first argument. */
type Method<F> = F extends (x: Tensor, ...rest: infer Rest) => infer Result ? (...rest: Rest) => Result : never;
/** The ops that are methods. Over the keys of `Pick`, so that editors show the ops' own texts. */
export type TensorMethods = { readonly [N in keyof Pick<typeof ops, Name>]: Method<(typeof ops)[N]> };

declare module "./engine/tensor.ts" {
  interface Tensor<D extends DType = DType> extends TensorMethods {}
}

for (const name of NAMES) {
  const op = ops[name] as (x: Tensor, ...rest: readonly unknown[]) => unknown;
  Object.defineProperty(Tensor.prototype, name, {
    value(this: Tensor, ...rest: readonly unknown[]) {
      return op(this, ...rest);
    },
  });
}
