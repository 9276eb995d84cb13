/**
 * The interface of other learners, which compute the gradients of some micro-batches of a step. A micro-batch has the
 * same gradient on every learner, and all gradients are added in the order of the micro-batches, as a single learner
 * adds them. So the step is the same to the last bit for any number of learners on executors of one kind
 * (rl/learners/).
 */
import type { RngState, Tensor } from "../../engine/index.ts";
import type { Model } from "../../nn/index.ts";
import type { BatchLoss, LossParts, Trained } from "./loss.ts";
import type { MicroBatch } from "./pack.ts";
import type { Ratios } from "./score.ts";
import type { Optimizers, Part } from "./update.ts";

/** The settings of a pass, beside weights, objective and micro-batches. */
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
  /** The loss of micro-batch n as a function of the trained parameters. */
  readonly loss: (trained: Trained, batch: MicroBatch, n: number) => [Tensor, BatchLoss];
  readonly how: PassSettings;
}

/** A learner that shares its passes with others. */
export interface Learners {
  /** Adds the gradients of all micro-batches in their order, and makes one step of the optimisers with the sum. */
  pass(pass: Pass): Promise<{ readonly parts: readonly Part<BatchLoss>[]; readonly norm: Tensor }>;
}
