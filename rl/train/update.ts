/** The gradient of a step's loss, summed over its micro-batches, and the change of parameters that follows from it. */
import { check, fail } from "../../engine/errors.ts";
import { type Tensor, type Tree, treeLeaves, valueAndGrad } from "../../engine/index.ts";
import { accumulateGrads, type AdamW, type ValueHead } from "../../nn/index.ts";
import type { HeadTraining } from "../objective/terms.ts";
import type { Heads, Trained } from "./loss.ts";
import type { MicroBatch } from "./pack.ts";

/** The head of a term, and its optimiser. */
export interface TrainedHead {
  readonly head: ValueHead;
  readonly optimizer: AdamW<ValueHead>;
}

/** The optimiser of the policy, and the heads that are trained along with it. */
export interface Optimizers {
  readonly optimizer: AdamW<Tree>;
  readonly heads?: Heads<TrainedHead> | undefined;
}

/** The results of a loss beside its value, for each micro-batch. */
export interface Part<A> {
  readonly batch: MicroBatch;
  readonly result: A;
}

/** Σ over the micro-batches of ∇loss. @param loss of a micro-batch, given its number */
export function gradientOf<T extends Tree, A>(
  trained: T,
  batches: Iterable<MicroBatch>,
  loss: (trained: T, batch: MicroBatch, n: number) => readonly [Tensor, A],
): { gradient: T; parts: Part<A>[] } {
  let gradient: T | undefined;
  const parts: Part<A>[] = [];
  for (const batch of batches) {
    const { aux, grads } = valueAndGrad((tree: T) => loss(tree, batch, parts.length))(trained);
    const sum = accumulateGrads(gradient, grads);
    // Frees gradients that have been added: else those of every micro-batch would live on.
    if (gradient !== undefined) for (const g of treeLeaves(grads)) g.dispose();
    gradient = sum;
    parts.push({ batch, result: aux });
  }
  check(gradient !== undefined, () => "gradient: no token of the step has a weight; is every episode masked?");
  return { gradient, parts };
}

/** Options of the training of heads. */
export interface HeadOptions {
  /** The training of each head, by term. */
  readonly training: Heads<HeadTraining>;
  /** Whether only the heads learn: the policy and its optimiser stay as they are. */
  readonly alone: boolean;
}

/**
 * Changes the parameters of the policy, and of the heads that have a gradient, in place.
 * @returns the norm of the policy's gradient, before clipping; that of the last head's, if only heads learn
 */
export function update(
  { optimizer, heads = {} }: Optimizers,
  gradient: Trained,
  lr: number,
  { training, alone }: HeadOptions,
): Tensor {
  let norm = alone ? undefined : optimizer.step(gradient.policy, lr);
  for (const [name, ofHead] of Object.entries(gradient.heads ?? {})) {
    const headNorm = heads[name]!.optimizer.step(ofHead, lr * (training[name]?.rate ?? 1));
    if (alone) norm = headNorm;
  }
  return norm ?? fail("update: neither a policy nor a head is trained");
}
