/**
 * What a training step asks of other learners: the gradients of some of its micro-batches. A gradient of a micro-batch
 * does not depend on who computes it, and all are added in the order of the micro-batches, as one learner adds them; so
 * the step is the same to the last bit on executors of one kind, however many learners there are (rl/learners/).
 */
import type { RngState, Tensor } from "../../engine/index.ts";
import type { Model } from "../../nn/index.ts";
import type { BatchLoss, LossParts, Trained } from "./loss.ts";
import type { MicroBatch } from "./pack.ts";
import type { Ratios } from "./score.ts";
import type { Optimizers, Part } from "./update.ts";

/** What a pass goes by beside weights, objective and micro-batches. */
export interface PassSettings {
  readonly lr: number;
  readonly ratios: Ratios;
  /** The stream of dropout; micro-batch n has `split(n)` of it. */
  readonly dropout?: RngState | undefined;
  readonly gradientCheckpointing?: boolean;
}

/** One pass over the rows of a step. */
export interface Pass {
  readonly model: Model;
  readonly objective: LossParts;
  readonly trained: Trained;
  readonly optimizers: Optimizers;
  readonly batches: readonly MicroBatch[];
  /** The loss of micro-batch n, of the tree that it is given. */
  readonly loss: (trained: Trained, batch: MicroBatch, n: number) => [Tensor, BatchLoss];
  readonly how: PassSettings;
}

/** A learner with others. */
export interface Learners {
  /** Adds the gradients of all micro-batches in their order, and makes one step of the optimisers with the sum. */
  pass(pass: Pass): Promise<{ readonly parts: readonly Part<BatchLoss>[]; readonly norm: Tensor }>;
}
