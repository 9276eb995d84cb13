/** A run's model in its checkpoints: the weights, and an adapter beside them if RL trains one. */
import { type Device, treeLeaves } from "../engine/index.ts";
import { fail } from "../engine/errors.ts";
import { ADAPTER_FILES, modelFromFiles, modelToFiles, tokenizerFromJSON } from "../pretrained/index.ts";
import type { Files, Model, Tokenizer } from "../nn/index.ts";
import type { Preset } from "./preset.ts";
import type { Checkpoint } from "./runStore.ts";

const WEIGHTS = "model.safetensors";
/** The file of the optimiser's moments in a checkpoint. */
export const MOMENTS = "optimizer.safetensors";

/** A model and its tokenizer. */
export interface ModelWithTokenizer {
  readonly model: Model;
  readonly tokenizer: Tokenizer;
}
/** Loads the pretrained model that a run began with (`PretrainedSettings`). @throws if its files have changed */
export type LoadSource = (device: Device) => Promise<ModelWithTokenizer>;

/**
 * The model and the tokenizer of a checkpoint.
 * @param source loads the pretrained model of a run that began with one: its checkpoints have only the changed weights
 */
export async function modelFromCheckpoint(
  checkpoint: Checkpoint,
  device: Device,
  source?: LoadSource,
): Promise<ModelWithTokenizer> {
  const text = (name: string): string => new TextDecoder().decode(fileOf(checkpoint, name));
  const isWhole = WEIGHTS in checkpoint.files;
  const from = isWhole ? undefined : await (source ?? (() => fileOf(checkpoint, WEIGHTS) as never))(device);
  const model = from?.model ?? modelFromFiles(text("config.json"), fileOf(checkpoint, WEIGHTS), device);
  try {
    const tokenizer = from?.tokenizer ?? tokenizerFromJSON(JSON.parse(text("tokenizer.json")));
    if (!(ADAPTER_FILES.config in checkpoint.files)) return { model, tokenizer };
    const weights = fileOf(checkpoint, ADAPTER_FILES.weights);
    const { loraFromFiles } = await import("./adapter.ts");
    return { model: loraFromFiles(model, text(ADAPTER_FILES.config), weights), tokenizer };
  } catch (error) {
    for (const x of treeLeaves(model.params)) x.dispose();
    throw error;
  }
}

/** A file of a checkpoint. @throws if it is missing */
export function fileOf(checkpoint: Checkpoint, name: string): Uint8Array {
  return checkpoint.files[name] ?? fail(`checkpoint ${checkpoint.path}: ${name} is missing`);
}

/** The parts of its model that a run saves; they depend on the phase and its finished steps. */
export function partsToSave(
  { pretrained, sft, lora }: Preset,
  { phase, done }: { readonly phase: "sft" | "rl"; readonly done: number },
): Parameters<typeof filesOfModel>[1] {
  const isBehindStart = phase === "rl" && done > 0;
  return {
    // The folder of a pretrained model has its weights, as long as none of them was trained.
    weights: pretrained === undefined || sft.steps > 0 || (isBehindStart && lora === undefined),
    // The warm start is saved without an adapter, so that a run of any method can start from it.
    adapter: isBehindStart,
  };
}

/**
 * The files of a model. Under an adapter the weights are those that it was added to.
 * @param parts the files to save
 */
export async function filesOfModel(
  { model, tokenizer }: ModelWithTokenizer,
  parts: { readonly weights: boolean; readonly adapter: boolean },
): Promise<Files> {
  return {
    ...(parts.weights ? await modelToFiles(model.trainable?.base ?? model) : {}),
    ...(parts.weights ? { "tokenizer.json": JSON.stringify(tokenizer.toJSON()) } : {}),
    ...(parts.adapter && model.trainable ? await (await import("./adapter.ts")).adapterFiles(model) : {}),
  };
}
