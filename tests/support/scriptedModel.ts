/**
 * A model that says what a test wants: a transformer of one block whose prediction depends on the position alone. The
 * table of positions is a unit matrix, blocks add nothing, and row p of the head's columns names the token behind p.
 */
import type { Device } from "../../engine/device.ts";
import { tensor } from "../../engine/ops/create.ts";
import { Rng } from "../../engine/random.ts";
import { assign } from "../../engine/state.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { modelConfig } from "../../nn/config.ts";
import { initParams } from "../../nn/parameters.ts";
import type { Model } from "../../nn/transformer.ts";

export const ROOM = 512;

/** A model that knows nothing to say yet. @param room its positions */
export function scriptedModel(device: Device, vocabSize: number, room: number = ROOM): Model<Tensor> {
  const config = modelConfig({
    family: "gpt2",
    vocabSize,
    hiddenSize: room,
    intermediateSize: 4,
    layers: 1,
    heads: 2,
    maxPositions: room,
    tieEmbeddings: false,
  });
  const params = initParams(config, new Rng(0), device);
  const fill = (x: Tensor, value: (i: number) => number): void => {
    const data = Float32Array.from({ length: x.size }, (_, i) => value(i));
    assign(x, tensor(data, { device, shape: x.shape }));
  };
  fill(params.embedding, () => 0);
  fill(params.positions!, (i) => (Math.floor(i / room) === i % room ? 10 : 0));
  for (const { attention, mlp } of params.layers)
    for (const { weight } of [attention.o, mlp.down]) fill(weight, () => 0);
  fill(params.head!, () => 0);
  return { config, params };
}

/** Makes the model say `said` behind prompts of certain lengths. */
export function teach(
  model: Model<Tensor>,
  said: readonly { readonly behind: number; readonly ids: readonly number[] }[],
): void {
  const head = model.params.head!;
  const data = new Float32Array(head.size);
  for (const { behind, ids } of said)
    ids.forEach((id, k) => (data[id * model.config.maxPositions + behind - 1 + k] = 1));
  assign(head, tensor(data, { device: head.device, shape: head.shape }));
}
