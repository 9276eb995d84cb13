/**
 * A transformer of a few hundred parameters and a loop that trains it: the smallest thing that uses what a real run
 * uses.
 */
import type { Device } from "../../engine/device.ts";
import { crossEntropy, type Tensor, tensor, scope, valueAndGrad } from "../../engine/index.ts";
import { Rng } from "../../engine/random.ts";
import { AdamW, forward, initParams, logits, type Model, modelConfig, type TransformerParams } from "../../nn/index.ts";

export const TINY = { vocabSize: 11, hiddenSize: 8, layers: 1, heads: 2, kvHeads: 1, maxPositions: 4 } as const;
const BATCH = 2;
const T = TINY.maxPositions;

export interface TinyTraining {
  readonly model: Model;
  readonly optimizer: AdamW<TransformerParams>;
  /** One update on the batch of this step number; the loss before it, which the caller disposes. */
  step(n: number): Tensor;
}

/** @param model to go on with; a fresh one unless given */
export function tinyTraining(device: Device, seed = 1, model: Model = freshModel(device, seed)): TinyTraining {
  const { config, params } = model;
  const optimizer = new AdamW(params, { lr: 0.01, clipNorm: 1 });
  return {
    model,
    optimizer,
    step: (n) =>
      scope(() => {
        const rng = new Rng(seed).split(n);
        // Counting upwards from anywhere: easy to learn, so that a loss that does not fall is a fault.
        const text = Array.from({ length: BATCH }, () => rng.int(TINY.vocabSize)).flatMap((first) =>
          Array.from({ length: T + 1 }, (_, t) => (first + t) % TINY.vocabSize),
        );
        const part = (shift: number): Int32Array =>
          Int32Array.from(text.filter((_, i) => i % (T + 1) !== (shift ? 0 : T)));
        const ids = tensor(part(0), { device, shape: [BATCH, T] });
        const targets = tensor(part(1), { device, shape: [BATCH, T] });
        const { value, grads } = valueAndGrad((p: TransformerParams) =>
          crossEntropy(logits(p, forward(p, config, ids)), targets),
        )(params);
        optimizer.step(grads);
        return value;
      }, "step"),
  };
}

function freshModel(device: Device, seed: number): Model {
  const config = modelConfig({ ...TINY, initializerRange: 0.3 });
  return { config, params: initParams(config, new Rng(seed).split("init"), device) };
}
