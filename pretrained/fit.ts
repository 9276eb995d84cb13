/**
 * The memory that a model needs: weights in each form, a training step, a cache. Weights and cache are computed from
 * the sizes. What depends on the order of allocations (activations, gradients, temporaries) is measured by running the
 * step on an executor that allocates and computes nothing (pretrained/countingBackend.ts). All numbers are bytes; no
 * weights are read.
 */
import { createCountingBackend, type CountingStats } from "./countingBackend.ts";
import { Device } from "../engine/device.ts";
import { check, OutOfMemoryError } from "../engine/errors.ts";
import { valueAndGrad } from "../engine/grad.ts";
import { tokenLogProbs } from "../engine/ops/logProbs.ts";
import { tensor, zeros } from "../engine/ops/create.ts";
import { sum } from "../engine/ops/reduce.ts";
import { Rng } from "../engine/random.ts";
import { outsideScopes, scope } from "../engine/scope.ts";
import type { Weight } from "../engine/matrixForm.ts";
import type { Tensor } from "../engine/tensor.ts";
import { noGrad } from "../engine/tape.ts";
import type { Tree } from "../engine/tree.ts";
import type { Shape } from "../engine/types.ts";
import { packedRow } from "./packed/format.ts";
import type { WeightStorage } from "./checkpoint.ts";
import { type ModelConfig, estimateParameters } from "../nn/config.ts";
import { Decoder } from "../nn/decoder.ts";
import { zeroLora } from "./lora.ts";
import type { LoraOptions } from "./loraOptions.ts";
import { AdamW } from "../nn/optimizer.ts";
import { PackedMatrix } from "./packed/matrix.ts";
import { buildParams, freezeWeight, type TransformerParams } from "../nn/parameters.ts";
import { forward, type Model, outputMatrix, pickHidden, trainableOf } from "../nn/transformer.ts";

/** The largest size of a WebAssembly memory with 32-bit addresses. */
export const WASM_LIMIT: number = 2 ** 32;

/** The linear layers of a block, as [name, inputs, outputs]. */
function linearLayers(config: ModelConfig): [name: string, inputs: number, outputs: number][] {
  const { hiddenSize: C, intermediateSize: F, heads, kvHeads, headDim: D } = config;
  const attention: [string, number, number][] =
    config.family === "gpt2"
      ? [["qkv", C, 3 * C]]
      : [
          ["q", C, heads * D],
          ["k", C, kvHeads * D],
          ["v", C, kvHeads * D],
        ];
  const gate: [string, number, number][] = config.mlp === "swiglu" ? [["gate", C, F]] : [];
  return [...attention, ["o", heads * D, C], ...gate, ["up", C, F], ["down", F, C]];
}

/**
 * Bytes of the weights: everything in f32; or matrices in 16 bits, or in 8 bits with an f32 scale for each 32 numbers,
 * and vectors in f32.
 */
export function weightBytes(config: ModelConfig): { readonly f32: number; readonly bf16: number; readonly q8: number } {
  const all = estimateParameters(config);
  const blocks = linearLayers(config).reduce((total, [, inputs, outputs]) => total + inputs * outputs, 0);
  const tables = config.vocabSize * config.hiddenSize * (config.tieEmbeddings ? 1 : 2);
  const matrices = config.layers * blocks + tables;
  const vectors = 4 * (all - matrices);
  return { f32: 4 * all, bf16: 2 * matrices + vectors, q8: matrices * (1 + 4 / 32) + vectors };
}

/** Bytes of keys and values, for each row and token of a cache's capacity. */
export const cacheBytes = ({ layers, kvHeads, headDim }: ModelConfig): number => 2 * 4 * layers * kvHeads * headDim;

/** The number of parameters that LoRA trains on all linear layers of all blocks (PEFT's `all-linear`). */
export function loraParameters(config: ModelConfig, rank: number): number {
  check(Number.isInteger(rank) && rank >= 1, () => `loraParameters: rank must be an integer ≥ 1, got ${rank}`);
  return config.layers * linearLayers(config).reduce((n, [, inputs, outputs]) => n + rank * (inputs + outputs), 0);
}

/** The parameters that a step trains: all, or LoRA's alone, given by a rank (on all linear layers) or by options. */
export type Trains = "all" | { readonly rank: number } | { readonly lora: LoraOptions };

/** The training step whose memory is computed. */
export interface StepSize {
  /** Rows of a micro-batch, and tokens of each. */
  readonly rows: number;
  readonly tokens: number;
  readonly gradientCheckpointing?: boolean;
  /** Default "all". */
  readonly trains?: Trains;
  /** Storage of the matrices under LoRA; default f32. */
  readonly storage?: WeightStorage;
  /** Bytes of the memory; default `WASM_LIMIT`. */
  readonly limit?: number;
  /** Whether weights that do not fit may lie outside of it: default true, as on the CPU; false for a GPU. */
  readonly outside?: boolean;
}

/** Memory of a training step, in bytes. */
export interface StepMemory {
  /** Weights, rotary tables and the optimiser's moments: what stays between steps. */
  readonly held: number;
  /** The largest sum of live tensors, `held` and `outside` included. */
  readonly peak: number;
  /** The size that the memory had to grow to, `outside` included: the peak, and unused bytes between blocks. */
  readonly reserved: number;
  /** Weights that did not fit into the memory. A kernel that reads one copies it in first: slower, the same bits. */
  readonly outside: number;
  /** The largest tensor: on a GPU it must fit into one binding. */
  readonly largest: number;
}

/** The storage of a model's matrices, and the memory that they lie in. */
export type Place = Pick<StepSize, "storage" | "limit" | "outside">;

/** A model without values on an executor that only counts, and what that has counted. */
export interface CountedModel {
  readonly model: Model;
  readonly device: Device;
  /** Bytes that live now. */
  readonly live: () => number;
  /** @param held bytes for `StepMemory.held` */
  readonly memory: (held: number) => StepMemory;
}

/** @throws OutOfMemoryError if the weights do not fit */
export function countedModel(
  config: ModelConfig,
  { storage = "f32", limit = WASM_LIMIT, outside = true }: Place,
): CountedModel {
  const backend = createCountingBackend({ limit, outside });
  const device = new Device(backend);
  const stats = (): CountingStats => backend.stats() as CountingStats;
  const params = outsideScopes(() => emptyParams(config, device, storage));
  // The rotary tables are made in the first pass and stay.
  noGrad(() => scope(() => void forward(params, config, tensor(new Int32Array(1), { device, shape: [1, 1] }))));
  const memory = (held: number): StepMemory => {
    const { peakBytes, reservedBytes, largestBuffer, outsideBytes } = stats();
    return { held, peak: peakBytes, reserved: reservedBytes, outside: outsideBytes, largest: largestBuffer };
  };
  return { model: { config, params }, device, live: () => stats().liveBytes, memory };
}

/** For a caller's `catch`: null if memory did not fit. @throws all other errors */
export function doesNotFit(error: unknown): null {
  if (error instanceof OutOfMemoryError) return null;
  throw error;
}

/** Checks that all sizes are integers from 1 on. */
export function checkSizes(where: string, sizes: Readonly<Record<string, number>>): void {
  for (const [name, n] of Object.entries(sizes)) {
    check(Number.isInteger(n) && n >= 1, () => `${where}: ${name} must be an integer ≥ 1, got ${n}`);
  }
}

/**
 * The memory of an AdamW step on the log-probabilities of all tokens of `rows` texts, as the counting executor
 * allocates it.
 * @returns null if it does not fit into `limit`
 */
export function stepMemory(config: ModelConfig, size: StepSize): StepMemory | null {
  const { rows, tokens, trains = "all", storage = "f32" } = size;
  checkSizes("stepMemory", { rows, tokens });
  check(
    trains !== "all" || storage === "f32",
    () => `stepMemory: weights in ${storage} cannot be trained, LoRA on them can`,
  );
  try {
    const counted = countedModel(config, size);
    return counted.memory(step(counted, size));
  } catch (error) {
    return doesNotFit(error);
  }
}

/** The model itself or, if only LoRA is trained, with an adapter; nothing is drawn. */
export function trainedModel(model: Model, trains: Trains): Model {
  if (trains === "all") return model;
  return zeroLora(model, "lora" in trains ? trains.lora : { r: trains.rank, targetModules: "all-linear" });
}

/** Runs one step on a device that computes nothing. @returns the bytes that were allocated before it */
function step(
  { model: { config, params }, device, live }: CountedModel,
  { rows, tokens, gradientCheckpointing, trains = "all" }: StepSize,
): number {
  const N = rows * tokens;
  const readIds = (): Tensor => tensor(new Int32Array(N), { device, shape: [rows, tokens] });
  const trainable = trainableOf(trainedModel({ config, params }, trains));
  const { params: trained } = trainable;
  const loss = (p: Tree): Tensor => {
    const how = gradientCheckpointing === undefined ? {} : { gradientCheckpointing };
    const index = Int32Array.from({ length: N }, (_, i) => i);
    const { params: own } = trainable.modelOf(p);
    const hidden_NC = pickHidden(forward(own, config, readIds(), how), index);
    const targets = tensor(new Int32Array(N), { device });
    const temperature = tensor(new Float32Array(N).fill(1), { device });
    return sum(tokenLogProbs(hidden_NC, outputMatrix(own), targets, { temperature }).logProbs);
  };
  const optimizer = new AdamW(trained);
  const held = live();
  scope(() => void optimizer.step(valueAndGrad(loss)(trained).grads));
  return held;
}

/** The sizes of a batch of texts that are drawn together. */
export interface DrawSize extends Place {
  readonly rows: number;
  /** Tokens of each prompt. */
  readonly prompt: number;
  /** Tokens of each text that the cache has room for. */
  readonly capacity: number;
}

/** Memory of a loaded model that reads prompts and draws tokens. @returns null if it does not fit into `limit` */
export async function drawMemory(config: ModelConfig, size: DrawSize): Promise<StepMemory | null> {
  const { rows, prompt, capacity } = size;
  checkSizes("drawMemory", { rows, prompt, capacity });
  try {
    const counted = countedModel(config, size);
    const held = counted.live();
    const decoder = new Decoder(counted.model, rows, capacity);
    for (const length of prompt < capacity ? [prompt, 1] : [prompt]) {
      const tokens = Array<number>(length).fill(0);
      const parts = Array.from({ length: rows }, (_, row) => ({ row, tokens, rng: new Rng(0) }));
      await decoder.draw(parts, { temperature: 0 });
    }
    decoder.dispose();
    return counted.memory(held);
  } catch (error) {
    return doesNotFit(error);
  }
}

/** Parameters with arbitrary values, because drawing them would take minutes. */
function emptyParams(config: ModelConfig, device: Device, storage: WeightStorage): TransformerParams {
  const make = (shape: Shape, path: string): Weight => {
    if (storage === "f32" || shape.length !== 2 || path === "positions") return zeros(shape, { device });
    const transposed = config.family === "gpt2" && path.startsWith("layers.");
    const [rows, columns] = (transposed ? [shape[1], shape[0]] : shape) as [number, number];
    const packed = zeros([rows, packedRow(storage, columns).words], { device, dtype: "i32" });
    return new PackedMatrix(packed, shape, storage, transposed);
  };
  return buildParams(config, (shape, _kind, path) => {
    const weight = make(shape, path);
    freezeWeight(weight, path);
    return weight as Tensor; // `buildParams` is typed for tensors, but a matrix may have another form
  });
}

/** The largest number of tokens of a step with one row, a power of two up to the model's positions; 0 if none fits. */
export function mostTokens(config: ModelConfig, size: Omit<StepSize, "rows" | "tokens">): number {
  let most = 0;
  for (let tokens = 16; ; tokens *= 2) {
    const rows = Math.ceil(tokens / config.maxPositions);
    if (tokens > 65536 || stepMemory(config, { ...size, rows, tokens: Math.ceil(tokens / rows) }) === null) return most;
    most = tokens;
  }
}
