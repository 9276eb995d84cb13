/**
 * Models and optimiser states as files: safetensors with Hugging Face names and a `config.json`, so that what PyTorch
 * wrote loads unchanged and what we write opens in `transformers`. Bytes in, bytes out; where they are kept is the
 * caller's business.
 */
import type { Device } from "../engine/device.ts";
import { check, fail } from "../engine/errors.ts";
import { tensor } from "../engine/ops/create.ts";
import { outsideScopes, scope } from "../engine/scope.ts";
import { assign } from "../engine/state.ts";
import type { Tensor } from "../engine/tensor.ts";
import { type Tree, treeEntries, treeLeaves } from "../engine/tree.ts";
import { sameShape, type Shape, showShape } from "../engine/types.ts";
import { configFromHuggingFace, configToHuggingFace, type ModelConfig } from "./config.ts";
import type { AdamW } from "./optimizer.ts";
import { buildParams, huggingFaceName } from "./parameters.ts";
import {
  readSafetensors,
  readSafetensorsHeader,
  type SafeTensor,
  type SafeTensorInput,
  writeSafetensors,
} from "./safetensors.ts";
import type { Model } from "./transformer.ts";

/** File contents by name. */
export type Files = Readonly<Record<string, Uint8Array | string>>;

type Named = Map<string, SafeTensor>;

/**
 * A model from its tensors and its `config.json`.
 * @throws if a tensor is missing, has another shape, is no float, or is not used by the model
 */
export function modelFromTensors(configJson: unknown, tensors: Named, device: Device): Model<Tensor> {
  const config = configFromHuggingFace(configJson);
  const unused = new Set(tensors.keys());
  const load = (shape: Shape, path: string): Tensor => {
    const full = huggingFaceName(config, path);
    const name = tensors.has(full) ? full : full.replace(/^transformer\./, "");
    const found = tensors.get(name) ?? fail(`checkpoint: tensor "${full}" is missing`);
    unused.delete(name);
    return tensor(floats(name, found, shape), { device, shape, dtype: device.float });
  };
  // The scope frees what was made if something is wrong; what it returns has no scope around it and lives on.
  const params = outsideScopes(() =>
    scope(() => {
      const tree = buildParams(config, (shape, _, path) => load(shape, path));
      // A tied head may be stored all the same; masks and rotary tables of old GPT-2 and Llama files are no parameters.
      for (const name of unused) {
        const known =
          (config.tieEmbeddings && name === "lm_head.weight") ||
          /attn\.(masked_)?bias$|rotary_emb\.inv_freq$/.test(name);
        check(known, () => `checkpoint: tensor "${name}" is not part of a ${config.family} model`);
      }
      return tree;
    }, "modelFromTensors"),
  );
  return { config, params };
}

/** A model from the bytes of `model.safetensors` and the text of `config.json`. */
export function modelFromFiles(configText: string, weights: Uint8Array, device: Device): Model<Tensor> {
  return modelFromTensors(parseJson("config.json", configText), readSafetensors(weights), device);
}

/** `config.json` and `model.safetensors`. */
export async function modelToFiles(model: Model): Promise<Files> {
  check(
    treeLeaves(model.params).length === leafCount(model.config),
    () => "modelToFiles: the model has an adapter or packed weights: save the adapter (loraToFiles), or merge it first",
  );
  const named = await namedTensors(model.config, model.params);
  return {
    "config.json": `${JSON.stringify(configToHuggingFace(model.config), null, 2)}\n`,
    "model.safetensors": writeSafetensors(named, { format: "pt" }),
  };
}

function leafCount(config: ModelConfig): number {
  let count = 0;
  buildParams(config, () => (count++, undefined as unknown as Tensor));
  return count;
}

/** `optimizer.safetensors`: AdamW's moments as `m.<name>`, `v.<name>`, its step count in the metadata. */
export async function optimizerToFiles(config: ModelConfig, optimizer: AdamW<Tree>): Promise<Files> {
  const { step, m, v } = optimizer.state;
  const prefixed = async (prefix: string, tree: Tree): Promise<[string, SafeTensorInput][]> =>
    (await namedTensors(config, tree)).map(([name, x]) => [`${prefix}.${name}`, x]);
  const tensors = [...(await prefixed("m", m)), ...(await prefixed("v", v))];
  return { "optimizer.safetensors": writeSafetensors(tensors, { step: String(step) }) };
}

/**
 * Writes saved moments into a fresh optimiser of the same model.
 * @param step how many updates had been done; as saved in the file unless given
 * @throws as `modelFromTensors`, or if the file does not say its step; nothing is changed then
 */
export function restoreOptimizer(
  config: ModelConfig,
  optimizer: AdamW<Tree>,
  weights: Uint8Array,
  step: number = savedStep(weights),
): void {
  const saved = readSafetensors(weights);
  const { m, v } = optimizer.state;
  scope(() => {
    const updates: [moment: Tensor, value: Tensor][] = [];
    for (const [prefix, tree] of Object.entries({ m, v })) {
      for (const [path, moment] of treeEntries(tree)) {
        const name = `${prefix}.${huggingFaceName(config, path)}`;
        const found = saved.get(name) ?? fail(`checkpoint: tensor "${name}" is missing`);
        saved.delete(name);
        const { device, shape, dtype } = moment;
        updates.push([moment, tensor(floats(name, found, shape), { device, shape, dtype })]);
      }
    }
    for (const name of saved.keys()) fail(`checkpoint: tensor "${name}" is no moment of this model`);
    optimizer.resume(step);
    for (const [moment, value] of updates) assign(moment, value);
  }, "restoreOptimizer");
}

function savedStep(weights: Uint8Array): number {
  const step = readSafetensorsHeader(weights).metadata.get("step") ?? "missing";
  check(/^\d+$/.test(step), () => `checkpoint: the optimiser's step in the metadata is ${step}, expected a number`);
  return Number(step);
}

async function namedTensors(config: ModelConfig, tree: Tree): Promise<[string, SafeTensorInput][]> {
  const named: [string, SafeTensorInput][] = [];
  for (const [path, x] of treeEntries(tree)) {
    const data = await x.read();
    if (data instanceof Int32Array) fail(`checkpoint: "${path}" is an integer tensor`);
    named.push([
      huggingFaceName(config, path),
      data instanceof Float64Array
        ? { dtype: "F64", shape: [...x.shape], data }
        : { dtype: "F32", shape: [...x.shape], data },
    ]);
  }
  return named;
}

function floats(name: string, { dtype, data, shape }: SafeTensor, expected: Shape): Float32Array | Float64Array {
  check(
    sameShape(shape, expected),
    () => `checkpoint: "${name}" has shape ${showShape(shape)}, expected ${showShape(expected)}`,
  );
  if (data instanceof Float32Array || data instanceof Float64Array) return data;
  return fail(`checkpoint: "${name}" has element type ${dtype}, expected a float`);
}

function parseJson(file: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    return fail(`${file}: not valid JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}
