/**
 * Models as files: safetensors with Hugging Face names and a `config.json`. Files that PyTorch wrote load unchanged,
 * and files written here open in `transformers`. Bytes go in and out; the caller stores them.
 */
import { checkDevice, type Device } from "../engine/device.ts";
import { check, fail } from "../engine/errors.ts";
import type { MatrixForm, Weight } from "../engine/matrixForm.ts";
import { tensor } from "../engine/ops/create.ts";
import { outsideScopes } from "../engine/scope.ts";
import { Tensor } from "../engine/tensor.ts";
import { treeLeaves } from "../engine/tree.ts";
import { estimateParameters, type ModelConfig } from "../nn/config.ts";
import { configFromHuggingFace, configToHuggingFace } from "./config/huggingface.ts";
import { checkInfo, type Files, floats, namedTensor } from "../nn/optimizerFiles.ts";
import { type PackedFormat, packMatrix } from "./packed/matrix.ts";
import type { MatrixBytes } from "./packed/packing.ts";
import { buildParams, freezeWeight, huggingFaceName, parameterShapes } from "../nn/parameters.ts";
import {
  BYTES,
  readSafetensors,
  type SafeDtype,
  type SafeTensor,
  type SafeTensorInfo,
  type SafeTensorInput,
  writeSafetensors,
} from "../nn/safetensors.ts";
import type { Model } from "../nn/transformer.ts";
import type { WeightSource } from "./weightFiles.ts";

/**
 * Storage of matrices in the device's memory: as tensors (`f32`, or f64 where the device computes in it), or packed.
 */
export type WeightStorage = "f32" | PackedFormat;
/** All forms of `WeightStorage`. */
export const WEIGHT_STORAGES: readonly WeightStorage[] = ["f32", "bf16", "f16", "q8"];

/**
 * Names of an adapter's files. They are not in loraFiles.ts, so that looking for the files does not load their reader.
 */
export const ADAPTER_FILES = { config: "adapter_config.json", weights: "adapter_model.safetensors" } as const;

type Named = Map<string, SafeTensor>;

/** The parts of a checkpoint that make a model: its configuration, and for each parameter the tensor in the files. */
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
  readonly #made = new Map<string, Weight>();

  constructor(plan: Plan, device: Device) {
    this.#plan = plan;
    this.#device = device;
  }

  put(path: string, name: string, read: SafeTensor): void {
    const { shape } = this.#plan.found.get(path)!;
    const data = floats(name, read, shape);
    this.take(
      path,
      outsideScopes(() => tensor(data, { device: this.#device, shape, dtype: this.#device.float })),
    );
  }

  /** Takes a weight that was made elsewhere. */
  take(path: string, weight: Weight): void {
    this.#made.set(path, weight);
    freezeWeight(weight, path);
  }

  /** Whether the checkpoint has this matrix as [in, out]. */
  isTransposed(path: string): boolean {
    return this.#plan.config.family === "gpt2" && path.startsWith("layers.");
  }

  model(): Model {
    const { config } = this.#plan;
    // `buildParams` is typed for tensors, but a matrix may have another form (`MatrixForm`).
    const params = buildParams(config, (_shape, _kind, path) => this.#made.get(path) as Tensor);
    return { config, params };
  }

  free(): void {
    for (const x of this.#made.values()) for (const leaf of treeLeaves(x)) leaf.dispose();
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
    return loading.model() as Model<Tensor>;
  } catch (error) {
    loading.free();
    throw error;
  }
}

/**
 * A model whose tensors are read one by one, in the order of their files: at most one of them is in the host's memory
 * besides what the device holds. The configuration and all names, shapes and types are checked before the first is
 * read.
 * @param storage of the matrices: the linear layers, the embedding and the head; packed ones cannot be trained, an
 *   adapter on them can. They are packed from the bytes of the file, so they never exist in f32
 * @throws as `modelFromTensors`, or if reading fails; nothing is left on the device then
 */
export function modelFromWeights(configJson: unknown, source: WeightSource, device: Device): Promise<Model<Tensor>>;
export function modelFromWeights(
  configJson: unknown,
  source: WeightSource,
  device: Device,
  storage: WeightStorage,
): Promise<Model>;
export async function modelFromWeights(
  configJson: unknown,
  source: WeightSource,
  device: Device,
  storage: WeightStorage = "f32",
): Promise<Model> {
  check(
    WEIGHT_STORAGES.includes(storage),
    () => `modelFromWeights: storage must be one of ${WEIGHT_STORAGES.join(", ")}, got ${String(storage)}`,
  );
  const plan = planOf(configJson, source.tensors);
  const pathOf = new Map([...plan.found].map(([path, { name }]) => [name, path]));
  const loading = new Loading(plan, device);
  try {
    for (const info of source.tensors) {
      const path = pathOf.get(info.name);
      if (path === undefined) continue;
      const isMatrix = info.shape.length === 2 && path !== "positions";
      if (storage !== "f32" && isMatrix) {
        const matrix = packable(path, info, await source.readBytes(info));
        const how = { format: storage, device, transposed: loading.isTransposed(path) };
        loading.take(
          path,
          outsideScopes(() => packMatrix(matrix, how)),
        );
      } else loading.put(path, info.name, await source.read(info));
    }
    return loading.model();
  } catch (error) {
    loading.free();
    throw error;
  }
}

/** A matrix as it lies in the file, to be packed. @throws for element types other than f32, f16 and bf16 */
function packable(path: string, { dtype, shape }: TensorInfo, bytes: Uint8Array): MatrixBytes {
  if (dtype === "F32" || dtype === "F16" || dtype === "BF16") return { dtype, shape, bytes };
  return fail(`checkpoint: the tensor of "${path}" has element type ${dtype}, which cannot be packed; load it in f32`);
}

/** A model from the bytes of `model.safetensors` and the text of `config.json`. */
export function modelFromFiles(configText: string, weights: Uint8Array, device: Device): Model<Tensor> {
  checkDevice("modelFromFiles", device);
  return modelFromTensors(parseJson("config.json", configText), readSafetensors(weights), device);
}

/** Element type of stored weights, by its name in `config.json`. */
export type WeightDtype = "float32" | "bfloat16" | "float16";
const STORED: Readonly<Record<WeightDtype, SafeDtype>> = { float32: "F32", bfloat16: "BF16", float16: "F16" };

/**
 * The files `config.json` and `model.safetensors`. Packed matrices are unpacked, one at a time, to the weights that
 * the model computes with; a matrix packed in `bf16` or `f16` keeps its bits if `dtype` is the same type.
 * @param dtype of the weights, f32 unless given (f64 on an executor that computes in it); 16 bits round to nearest
 * @throws if the model has an adapter
 */
export async function modelToFiles(model: Model, dtype?: WeightDtype): Promise<Files> {
  const files: Record<string, Uint8Array | string> = {};
  for await (const [name, data] of modelFiles(model, { dtype, maxShardSize: Infinity })) files[name] = data;
  return files;
}

/** Options of `modelFiles`. */
export interface ModelFilesOptions {
  /** Element type of the weights; see `modelToFiles`. */
  readonly dtype?: WeightDtype | undefined;
  /** Largest number of tensor bytes in one file; a larger tensor has a file of its own. Default 5e9. */
  readonly maxShardSize?: number | undefined;
}

/**
 * The files of a model one by one, so that no more than one of them is in the host's memory: `config.json`, and
 * `model.safetensors` or, if that would be larger than `maxShardSize`, `model-00001-of-00003.safetensors` and so on
 * with `model.safetensors.index.json`, as `transformers` has them.
 * @throws as `modelToFiles`
 */
export async function* modelFiles(
  model: Model,
  { dtype, maxShardSize = 5e9 }: ModelFilesOptions = {},
): AsyncGenerator<[name: string, data: Uint8Array | string], void, undefined> {
  check(
    model.trainable === undefined,
    () => "modelToFiles: the model has an adapter: save the adapter (loraToFiles), or merge it first (mergeLora)",
  );
  check(
    dtype === undefined || Object.hasOwn(STORED, dtype),
    () => `checkpoint: dtype is ${String(dtype)}, expected ${Object.keys(STORED).join(", ")}`,
  );
  check(maxShardSize >= 1, () => `checkpoint: maxShardSize must be at least 1 byte, got ${maxShardSize}`);
  const { config } = model;
  const shapes = new Map(parameterShapes(config));
  const bytesOf = ([path, weight]: NamedWeight): number => {
    const own = weight instanceof Tensor && weight.dtype === "f64" ? 8 : 4;
    return shapes.get(path)!.reduce((n, size) => n * size, dtype === undefined ? own : BYTES[STORED[dtype]]);
  };
  const shards: NamedWeight[][] = [[]];
  let [filled, total] = [0, 0];
  for (const weight of namedWeights(model)) {
    const bytes = bytesOf(weight);
    if (filled > 0 && filled + bytes > maxShardSize) [filled] = [0, shards.push([])];
    shards.at(-1)!.push(weight);
    filled += bytes;
    total += bytes;
  }
  yield ["config.json", `${JSON.stringify(configToHuggingFace(config, dtype), null, 2)}\n`];
  const number = (n: number): string => String(n).padStart(5, "0");
  const places: [weight: string, file: string][] = [];
  for (const [i, shard] of shards.entries()) {
    const isWhole = shards.length === 1;
    const file = isWhole ? SINGLE : `model-${number(i + 1)}-of-${number(shards.length)}.safetensors`;
    const named: [string, SafeTensorInput][] = [];
    for (const weight of shard) named.push(await stored(config, weight, dtype));
    places.push(...named.map(([name]): [string, string] => [name, file]));
    yield [file, writeSafetensors(named, { format: "pt" })];
  }
  if (shards.length === 1) return;
  const weights = Object.fromEntries(places.sort(([a], [b]) => (a < b ? -1 : 1)));
  const index = { metadata: { total_parameters: estimateParameters(config), total_size: total }, weight_map: weights };
  yield [`${SINGLE}.index.json`, `${JSON.stringify(index, null, 2)}\n`];
}

const SINGLE = "model.safetensors";

/** A weight as it is written to a file; a packed one is unpacked first. */
async function stored(
  config: ModelConfig,
  [path, weight]: NamedWeight,
  dtype: WeightDtype | undefined,
): Promise<[name: string, SafeTensorInput]> {
  const x = weight instanceof Tensor ? weight : outsideScopes(() => weight.unpack!());
  const [name, read] = await namedTensor(config, path, x);
  if (x !== weight) x.dispose();
  if (dtype === undefined) return [name, read];
  const data = read.data instanceof Float32Array ? read.data : Float32Array.from(read.data as Float64Array);
  return [name, { dtype: STORED[dtype], shape: read.shape, data } as SafeTensorInput];
}

type NamedWeight = readonly [path: string, weight: Weight];

/**
 * The parameters by their paths, in the order of the tree: tensors, and matrices with `unpack`.
 * @throws for other forms
 */
function namedWeights({ config, params }: Model): NamedWeight[] {
  return parameterShapes(config).map(([path]) => {
    let node: unknown = params;
    for (const key of path.split(".")) node = (node as Readonly<Record<string, unknown>>)[key];
    if (node instanceof Tensor || (node as MatrixForm).unpack !== undefined) return [path, node as Weight];
    return fail(`modelToFiles: "${path}" is neither a tensor nor packed; merge its adapter first (mergeLora)`);
  });
}

function parseJson(file: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    return fail(`${file}: not valid JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}
