/** Cross-entropy of tokens: the loss of imitation and of world models. */
import { where } from "../../kernels/expr.ts";
import { fuse, type Pointwise, type Tensor } from "../../engine/index.ts";

/** −lp on tokens with weight ≠ 0: supervised fine-tuning, and the world model's cross-entropy. */
export const crossEntropyLoss: Pointwise<Tensor> = fuse("tokenCrossEntropy", (lp, mask) => where(mask, lp.neg(), 0));
