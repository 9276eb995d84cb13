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
import { buildParams, huggingFaceName, parameterShapes } from "./parameters.ts";
import {
  readSafetensors,
  readSafetensorsHeader,
  type SafeDtype,
  type SafeTensor,
  type SafeTensorInfo,
  type SafeTensorInput,
  writeSafetensors,
} from "./safetensors.ts";
import type { Model } from "./transformer.ts";
import type { WeightSource } from "./weightFiles.ts";

/** File contents by name. */
export type Files = Readonly<Record<string, Uint8Array | string>>;

type Named = Map<string, SafeTensor>;

/** What a checkpoint has of a model: a configuration, and for each parameter its tensor in the files. */
interface Plan {
  readonly config: ModelConfig;
  /** By the parameter's path in our tree. */
  readonly found: ReadonlyMap<string, TensorInfo>;
}
type TensorInfo = Pick<SafeTensorInfo, "name" | "dtype" | "shape">;

/**
 * Finds every parameter of a configuration among tensors of which only the headers are known.
 * @throws if a tensor is missing, has another shape, is no float, or is not used by the model
 */
function planOf(configJson: unknown, tensors: Iterable<TensorInfo>): Plan {
  const config = configFromHuggingFace(configJson);
  const byName = new Map([...tensors].map((info) => [info.name, info]));
  const unused = new Set(byName.keys());
  const found = new Map<string, TensorInfo>();
  for (const [path, shape] of parameterShapes(config)) {
    const full = huggingFaceName(config, path);
    const name = byName.has(full) ? full : full.replace(/^transformer\./, "");
    const info = byName.get(name) ?? fail(`checkpoint: tensor "${full}" is missing`);
    checkInfo(info, shape);
    unused.delete(name);
    found.set(path, info);
  }
  // A tied head may be stored all the same; masks and rotary tables of old GPT-2 and Llama files are no parameters.
  for (const name of unused) {
    const known =
      (config.tieEmbeddings && name === "lm_head.weight") || /attn\.(masked_)?bias$|rotary_emb\.inv_freq$/.test(name);
    check(known, () => `checkpoint: tensor "${name}" is not part of a ${config.family} model`);
  }
  return { config, found };
}

/** Makes the parameters of a plan, outside all scopes; if `make` fails, those that exist are freed. */
class Loading {
  readonly #plan: Plan;
  readonly #device: Device;
  readonly #made = new Map<string, Tensor>();

  constructor(plan: Plan, device: Device) {
    this.#plan = plan;
    this.#device = device;
  }

  put(path: string, name: string, read: SafeTensor): void {
    const { shape } = this.#plan.found.get(path)!;
    const data = floats(name, read, shape);
    this.#made.set(
      path,
      outsideScopes(() => tensor(data, { device: this.#device, shape, dtype: this.#device.float })),
    );
  }

  model(): Model<Tensor> {
    const { config } = this.#plan;
    return { config, params: buildParams(config, (_shape, _kind, path) => this.#made.get(path)!) };
  }

  free(): void {
    for (const x of this.#made.values()) x.dispose();
  }
}

/**
 * A model from its tensors and its `config.json`.
 * @throws if a tensor is missing, has another shape, is no float, or is not used by the model
 */
export function modelFromTensors(configJson: unknown, tensors: Named, device: Device): Model<Tensor> {
  const plan = planOf(
    configJson,
    [...tensors].map(([name, { dtype, shape }]) => ({ name, dtype, shape })),
  );
  const loading = new Loading(plan, device);
  try {
    for (const [path, { name }] of plan.found) loading.put(path, name, tensors.get(name)!);
    return loading.model();
  } catch (error) {
    loading.free();
    throw error;
  }
}

/**
 * A model whose tensors are read one by one, in the order of their files: at most one of them is in the host's memory
 * besides what the device holds. Before the first is read, the configuration and all names, shapes and types are
 * checked.
 * @throws as `modelFromTensors`, or if reading fails; nothing is left on the device then
 */
export async function modelFromWeights(
  configJson: unknown,
  source: WeightSource,
  device: Device,
): Promise<Model<Tensor>> {
  const plan = planOf(configJson, source.tensors);
  const pathOf = new Map([...plan.found].map(([path, { name }]) => [name, path]));
  const loading = new Loading(plan, device);
  try {
    for (const info of source.tensors) {
      const path = pathOf.get(info.name);
      if (path !== undefined) loading.put(path, info.name, await source.read(info));
    }
    return loading.model();
  } catch (error) {
    loading.free();
    throw error;
  }
}

/** A model from the bytes of `model.safetensors` and the text of `config.json`. */
export function modelFromFiles(configText: string, weights: Uint8Array, device: Device): Model<Tensor> {
  return modelFromTensors(parseJson("config.json", configText), readSafetensors(weights), device);
}

/** How weights are stored, as `config.json` names it. */
export type WeightDtype = "float32" | "bfloat16" | "float16";
const STORED: Readonly<Record<WeightDtype, SafeDtype>> = { float32: "F32", bfloat16: "BF16", float16: "F16" };

/**
 * `config.json` and `model.safetensors`.
 * @param dtype of the weights, f32 unless given (f64 on an executor that computes in it); 16 bits round to nearest
 */
export async function modelToFiles(model: Model, dtype?: WeightDtype): Promise<Files> {
  check(
    treeLeaves(model.params).length === leafCount(model.config),
    () => "modelToFiles: the model has an adapter or packed weights: save the adapter (loraToFiles), or merge it first",
  );
  check(
    dtype === undefined || Object.hasOwn(STORED, dtype),
    () => `checkpoint: dtype is ${String(dtype)}, expected ${Object.keys(STORED).join(", ")}`,
  );
  const named = await namedTensors(model.config, model.params);
  const stored = named.map(([name, x]): [string, SafeTensorInput] => {
    if (dtype === undefined) return [name, x];
    const data = x.data instanceof Float32Array ? x.data : Float32Array.from(x.data as Float64Array);
    return [name, { dtype: STORED[dtype], shape: x.shape, data } as SafeTensorInput];
  });
  return {
    "config.json": `${JSON.stringify(configToHuggingFace(model.config, dtype), null, 2)}\n`,
    "model.safetensors": writeSafetensors(stored, { format: "pt" }),
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

const FLOATS: readonly SafeDtype[] = ["F32", "F16", "BF16", "F64"];

function checkInfo({ name, dtype, shape }: TensorInfo, expected: Shape): void {
  check(
    sameShape(shape, expected),
    () => `checkpoint: "${name}" has shape ${showShape(shape)}, expected ${showShape(expected)}`,
  );
  check(FLOATS.includes(dtype), () => `checkpoint: "${name}" has element type ${dtype}, expected a float`);
}

function floats(name: string, { dtype, data, shape }: SafeTensor, expected: Shape): Float32Array | Float64Array {
  checkInfo({ name, dtype, shape }, expected);
  return data as Float32Array | Float64Array;
}

function parseJson(file: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    return fail(`${file}: not valid JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}
