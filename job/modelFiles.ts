/** A run's model in its checkpoints: the weights, and an adapter beside them if RL trains one. */
import type { Device } from "../engine/index.ts";
import { fail } from "../engine/errors.ts";
import {
  ADAPTER_FILES,
  type Files,
  isLora,
  loraFromFiles,
  loraToFiles,
  type Model,
  modelFromFiles,
  modelToFiles,
  type Tokenizer,
  tokenizerFromJSON,
} from "../nn/index.ts";
import type { Checkpoint } from "./runStore.ts";

/** The file of the optimiser's moments in a checkpoint. */
export const MOMENTS = "optimizer.safetensors";

/** The model and the tokenizer of a checkpoint. */
export function modelFromCheckpoint(checkpoint: Checkpoint, device: Device): { model: Model; tokenizer: Tokenizer } {
  const text = (name: string): string => new TextDecoder().decode(fileOf(checkpoint, name));
  const tokenizer = tokenizerFromJSON(JSON.parse(text("tokenizer.json")));
  const model = modelFromFiles(text("config.json"), fileOf(checkpoint, "model.safetensors"), device);
  if (!(ADAPTER_FILES.config in checkpoint.files)) return { model, tokenizer };
  const weights = fileOf(checkpoint, ADAPTER_FILES.weights);
  return { model: loraFromFiles(model, text(ADAPTER_FILES.config), weights), tokenizer };
}

/** A file of a checkpoint. @throws if it is missing */
export function fileOf(checkpoint: Checkpoint, name: string): Uint8Array {
  return checkpoint.files[name] ?? fail(`checkpoint ${checkpoint.path}: ${name} is missing`);
}

/**
 * The files of a model. Under an adapter the weights are those that it was added to.
 * @param adapter whether to save it
 */
export async function filesOfModel(model: Model, { adapter }: { readonly adapter: boolean }): Promise<Files> {
  return {
    ...(await modelToFiles(model.trainable?.base ?? model)),
    ...(adapter && isLora(model) ? await loraToFiles(model) : {}),
  };
}
