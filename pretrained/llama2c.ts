/**
 * Models of llama2.c (A. Karpathy, github.com/karpathy/llama2.c): its weight files of version 0 and its tokenizer
 * files. Both are plain little-endian lists without names; everything is checked against the length of the file.
 *
 *     weights     int32 dim, hidden, layers, heads, kv heads, vocabulary (negative: with an output matrix of its own),
 *                 positions; then f32: each kind of tensor for all layers, see `tensorsOf`
 *     tokenizer   int32 longest token; then per token f32 score, int32 length, bytes
 *
 * llama2.c rotates the neighbours (2i, 2i + 1) of a head; Hugging Face's layout, which is ours, rotates (i, i + D/2).
 * Therefore the rows of the matrices to q and k are reordered.
 */
import type { Device } from "../engine/device.ts";
import { check } from "../engine/errors.ts";
import { modelFromTensors } from "./checkpoint.ts";
import { configToHuggingFace } from "./config/huggingface.ts";
import { type ModelConfig, modelConfig } from "../nn/config.ts";
import type { SafeTensor } from "../nn/safetensors.ts";
import type { Tokenizer } from "../nn/tokenizer.ts";
import { tokenizerFromJSON } from "./tokenizers/json.ts";
import { scoredBpeJson, type ScoredToken } from "./tokenizers/scoredBpe.ts";
import type { Tensor } from "../engine/tensor.ts";
import type { Model } from "../nn/transformer.ts";

const HEADER_BYTES = 28;

/**
 * A model from a llama2.c file of version 0, in the Llama family.
 * @throws WorldgradError if the file is none, or has another length than its header says
 */
export function modelFromLlama2c(bytes: Uint8Array, device: Device): Model<Tensor> {
  const config = llama2cConfig(bytes);
  return modelFromTensors(configToHuggingFace(config), tensorsOf(bytes, config), device);
}

/** The configuration in the header of a llama2.c file. @throws WorldgradError if it is none */
export function llama2cConfig(bytes: Uint8Array): ModelConfig {
  check(bytes.length >= HEADER_BYTES, () => `llama2.c: the file has ${bytes.length} bytes, its header takes 28`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const [dim, hidden, layers, heads, kvHeads, vocab, positions] = Array.from({ length: 7 }, (_, i) =>
    view.getInt32(4 * i, true),
  ) as [number, number, number, number, number, number, number];
  const sizes = { dim, hidden, layers, heads, kvHeads, vocab: Math.abs(vocab), positions };
  for (const [name, size] of Object.entries(sizes)) {
    check(
      size >= 1,
      () => `llama2.c: ${name} is ${size} in the header, expected at least 1; is this a version 0 file?`,
    );
  }
  return modelConfig({
    family: "llama",
    vocabSize: sizes.vocab,
    hiddenSize: dim,
    intermediateSize: hidden,
    layers,
    heads,
    kvHeads,
    maxPositions: positions,
    normEps: 1e-5,
    tieEmbeddings: vocab > 0,
    bosId: 1,
    eosIds: [2],
  });
}

function tensorsOf(bytes: Uint8Array, config: ModelConfig): Map<string, SafeTensor> {
  const { vocabSize: V, hiddenSize: C, intermediateSize: F, layers, heads, kvHeads, headDim: D, maxPositions } = config;
  const all = (name: string, shape: number[], turned = 0): [string, number[], number, number] => [
    `model.layers.#.${name}.weight`,
    shape,
    layers,
    turned,
  ];
  /** Name, shape, number of successive tensors, and the heads whose rows are reordered (0: none). */
  const parts: [name: string, shape: number[], count: number, turned: number][] = [
    ["model.embed_tokens.weight", [V, C], 1, 0],
    all("input_layernorm", [C]),
    all("self_attn.q_proj", [heads * D, C], heads),
    all("self_attn.k_proj", [kvHeads * D, C], kvHeads),
    all("self_attn.v_proj", [kvHeads * D, C]),
    all("self_attn.o_proj", [C, heads * D]),
    all("post_attention_layernorm", [C]),
    all("mlp.gate_proj", [F, C]),
    all("mlp.down_proj", [C, F]),
    all("mlp.up_proj", [F, C]),
    ["model.norm.weight", [C], 1, 0],
    ["", [2 * maxPositions, D / 2], 1, 0], // tables of cosines and sines, which we make ourselves
    ...(config.tieEmbeddings ? [] : [["lm_head.weight", [V, C], 1, 0] as [string, number[], number, number]]),
  ];
  const count = (shape: number[]): number => shape.reduce((a, b) => a * b);
  const expected = HEADER_BYTES + 4 * parts.reduce((sum, [, shape, times]) => sum + times * count(shape), 0);
  check(
    bytes.length === expected,
    () =>
      `llama2.c: the header describes ${expected} bytes, the file has ${bytes.length} (another version, or damaged?)`,
  );
  // A copy: the file need not lie at a multiple of four.
  const floats = new Float32Array(bytes.slice(HEADER_BYTES).buffer);
  const tensors = new Map<string, SafeTensor>();
  let at = 0;
  for (const [name, shape, times, turned] of parts) {
    for (let n = 0; n < times; n++, at += count(shape)) {
      if (name === "") continue;
      const own = floats.subarray(at, at + count(shape));
      const data = turned > 0 ? halvesFromNeighbours(own, turned, C) : own;
      tensors.set(name.replace("#", String(n)), { dtype: "F32", shape, data });
    }
  }
  return tensors;
}

/** Rows 2i, 2i + 1 of each head become rows i, i + D/2. */
function halvesFromNeighbours(matrix: Float32Array, heads: number, columns: number): Float32Array {
  const D = matrix.length / columns / heads;
  const result = new Float32Array(matrix.length);
  for (let row = 0; row < heads * D; row++) {
    const [head, d] = [Math.floor(row / D), row % D];
    const from = head * D + (d < D / 2 ? 2 * d : 2 * (d - D / 2) + 1);
    result.set(matrix.subarray(from * columns, (from + 1) * columns), row * columns);
  }
  return result;
}

/**
 * A tokenizer from a llama2.c file (`tokenizer.bin`, `tok512.bin`).
 * @param vocabSize of its model: the file does not say it
 * @throws WorldgradError if the file does not hold that many tokens, exactly
 */
export function tokenizerFromLlama2c(bytes: Uint8Array, vocabSize: number): Tokenizer {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const tokens: ScoredToken[] = [];
  let at = 4;
  for (let id = 0; id < vocabSize; id++) {
    check(at + 8 <= bytes.length, () => `llama2.c: the tokenizer's file ends at token ${id} of ${vocabSize}`);
    const [score, length] = [view.getFloat32(at, true), view.getInt32(at + 4, true)];
    const fits = length >= 0 && at + 8 + length <= bytes.length;
    check(fits, () => `llama2.c: token ${id} of the tokenizer has ${length} bytes, which the file does not have`);
    const data = bytes.slice(at + 8, at + 8 + length);
    tokens.push({ score, bytes: data });
    at += 8 + length;
  }
  check(at === bytes.length, () => `llama2.c: the tokenizer's file goes on behind its ${vocabSize} tokens`);
  return tokenizerFromJSON(scoredBpeJson(tokens));
}
