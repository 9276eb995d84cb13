/** A WebAssembly memory that is smaller than the frozen weights of a model, and that model. */
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import type { ModelConfig } from "../../nn/config.ts";
import { addLora, type LoraModel } from "../../pretrained/lora.ts";
import { type PackedFormat, packModel } from "../../pretrained/packed/matrix.ts";
import { frozenModel, type FrozenWeights, frozenWeights } from "../../distribute/async/frozen.ts";
import { toyModel } from "./rlToy.ts";

/** Bytes: less than the weights in 16 bits (6 MiB), or those in 8 bits (3 MiB) and what a step needs beside them. */
export const SMALL_MEMORY: number = 5 * 2 ** 20;

const SIZES = { hiddenSize: 128, layers: 16, heads: 4, kvHeads: 1, intermediateSize: 384, initializerRange: 0.05 };

export interface PackedWeights {
  readonly config: ModelConfig;
  readonly frozen: FrozenWeights;
}

/** The weights of a model, packed where there is room for it. */
export async function packedWeights(format: PackedFormat): Promise<PackedWeights> {
  const roomy = await makeDevice("wasm", { threads: 1 });
  const model = toyModel(roomy, 1, SIZES);
  const frozen = await frozenWeights(await packModel(model, format));
  roomy.dispose();
  return { config: model.config, frozen };
}

/** An adapter on them. */
export const adapterOn = ({ config, frozen }: PackedWeights, device: Device): LoraModel =>
  addLora(frozenModel(config, frozen, device), { r: 2, loraAlpha: 8, targetModules: "all-linear" }, new Rng(1));
