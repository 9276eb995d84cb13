/** The cross-entropy of next-token prediction, with weights and an ignored label. No probabilities are stored. */
import { check } from "../errors.ts";
import { checkTensor } from "../operands.ts";
import { checkKeys } from "../options.ts";
import type { Tensor } from "../tensor.ts";
import { sameShape, showShape } from "../types.ts";
import { onesLike } from "./create.ts";
import { cast, checkIds } from "./indexing.ts";
import { logProbs } from "./logProbs.ts";
import { mean, maskedSum, sum } from "./reduce.ts";
import { reshape } from "./movement.ts";
import { div, gt, mul, ne, neg, where } from "./pointwise.ts";

/** The weights of rows. */
export interface CrossEntropyOptions {
  /** One weight ≥ 0 per row [...]; 1 unless given. */
  readonly weights?: Tensor;
  /** The target of rows that do not count; −100 in PyTorch. */
  readonly ignoreIndex?: number;
}

/**
 * −Σ w·ln softmax(logits)[target] / Σ w over rows, in nats; 0 where no row has weight.
 * @param logits [..., V]
 * @param targets i32 [...]
 * @returns a scalar
 * @throws if shapes do not fit, or if a host-made target is outside [0, V) and is not ignored
 */
export function crossEntropy(logits: Tensor, targets: Tensor, options: CrossEntropyOptions = {}): Tensor {
  checkKeys("crossEntropy", options, ["weights", "ignoreIndex"]);
  const { weights, ignoreIndex } = options;
  for (const x of [logits, targets, ...(weights === undefined ? [] : [weights])]) checkTensor("crossEntropy", x);
  check(
    logits.rank > 0 && sameShape(logits.shape.slice(0, -1), targets.shape),
    () =>
      "crossEntropy: expected logits [..., V] and targets [...], " +
      `got ${showShape(logits.shape)} · ${showShape(targets.shape)}`,
  );
  check(
    weights === undefined || sameShape(weights.shape, targets.shape),
    () => `crossEntropy: expected weights ${showShape(targets.shape)}, got ${showShape(weights!.shape)}`,
  );
  const vocab = logits.shape[logits.rank - 1]!;
  const ignored = (id: number): boolean => id === ignoreIndex;
  checkIds("crossEntropy", targets, vocab, ignored);

  const ids = reshape(targets, [targets.size]);
  const rows = reshape(logits, [targets.size, vocab]);
  if (weights === undefined && ignoreIndex === undefined) return neg(mean(logProbs(rows, ids).logProbs));

  const labels = cast(ids, logits.dtype);
  const kept = ignoreIndex === undefined ? onesLike(labels) : ne(labels, ignoreIndex);
  const w = weights === undefined ? kept : where(kept, reshape(weights, [targets.size]), 0);
  const logp = logProbs(rows, ignoreIndex === undefined ? ids : cast(where(kept, labels, 0), "i32")).logProbs;
  const total = sum(w);
  return neg(div(maskedSum(mul(logp, w), w), where(gt(total, 0), total, 1)));
}
