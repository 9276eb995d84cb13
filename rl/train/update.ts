/** The gradient of a step's loss, summed over its micro-batches, and the change of parameters that follows from it. */
import { check } from "../../engine/errors.ts";
import { type Tensor, type Tree, treeLeaves, valueAndGrad } from "../../engine/index.ts";
import { accumulateGrads, type AdamW, type ValueHead } from "../../nn/index.ts";
import type { Trained } from "./loss.ts";
import type { MicroBatch } from "./pack.ts";

/** A value head and what trains it. */
export interface Critic {
  readonly head: ValueHead;
  readonly optimizer: AdamW<ValueHead>;
}

/** What trains the policy, and the critic's head if it is trained along with it. */
export interface Optimizers {
  readonly optimizer: AdamW<Tree>;
  readonly critic?: Critic | undefined;
}

/** What a loss returned beside its value, for each micro-batch. */
export interface Part<A> {
  readonly batch: MicroBatch;
  readonly result: A;
}

/** Σ over the micro-batches of ∇loss. @param loss of a micro-batch, and which it is */
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
    // What has been added is not needed any more: else the gradients of every micro-batch would live on.
    if (gradient !== undefined) for (const g of treeLeaves(grads)) g.dispose();
    gradient = sum;
    parts.push({ batch, result: aux });
  }
  check(gradient !== undefined, () => "gradient: no token of the step has a weight; is every episode masked?");
  return { gradient, parts };
}

/** How the head learns beside the policy. */
export interface HeadOptions {
  /** Its learning rate, as a multiple of the policy's. Default 1. */
  readonly rate?: number | undefined;
  /** Whether it learns alone: the policy and its optimiser stay as they are. Default false. */
  readonly alone?: boolean | undefined;
}

/**
 * Changes the parameters of the policy, and of the critic if its head has a gradient, in place.
 * @returns the norm of the policy's gradient, before clipping; of the head's, if it learns alone
 */
export function update(
  { optimizer, critic }: Optimizers,
  gradient: Trained,
  lr: number,
  { rate = 1, alone = false }: HeadOptions = {},
): Tensor {
  const ofHead = (): Tensor => critic!.optimizer.step(gradient.head!, lr * rate);
  if (alone) return ofHead();
  const norm = optimizer.step(gradient.policy, lr);
  if (gradient.head) ofHead();
  return norm;
}
