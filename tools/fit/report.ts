/** The lines that `npm run fit` prints. */
import { check } from "../../engine/errors.ts";
import {
  cacheBytes,
  loraParameters,
  mostTokens,
  type StepMemory,
  stepMemory,
  type Trains,
  WASM_LIMIT,
  weightBytes,
} from "../../nn/fit.ts";
import { estimateParameters, type ModelConfig, type WeightStorage } from "../../nn/index.ts";

/** The step and the forms of weights that the report is about. */
export interface FitQuestion {
  /** The sizes of the training step. */
  readonly rows: number;
  readonly tokens: number;
  /** LoRA's rank. */
  readonly rank: number;
  /** How matrices are stored under LoRA; default f32. */
  readonly storage?: WeightStorage;
  /** The bytes of a GPU's memory, if the model is to run on one. */
  readonly gpu?: number | undefined;
}

const size = (bytes: number): string => {
  const units = ["B", "KiB", "MiB", "GiB"];
  const power = Math.min(3, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${(bytes / 1024 ** power).toFixed(power === 0 || bytes / 1024 ** power >= 100 ? 0 : 2)} ${units[power]}`;
};

/** The resident memory of Node with the library's code and an empty heap, as measured on Linux with Node 20. */
const NODE = 97 * 2 ** 20;
/** Bytes of a tokenizer's tables for each token of the vocabulary: 48 MiB for 49,152 tokens, 130 MiB for 151,936. */
const TOKEN = 900;

/** Resident memory of a process that trains on the CPU, in bytes, by its parts. */
export interface ProcessMemory {
  readonly tensors: number;
  /** Unused bytes between tensors, because sizes are rounded and blocks are cut. */
  readonly gaps: number;
  readonly node: number;
  readonly tokenizer: number;
  readonly total: number;
}

/** The memory of a process that runs a step; bench/pretrained.md compares it with measurements. */
export function processMemory({ vocabSize }: ModelConfig, { peak, reserved }: StepMemory): ProcessMemory {
  const tokenizer = TOKEN * vocabSize;
  return { tensors: peak, gaps: reserved - peak, node: NODE, tokenizer, total: reserved + NODE + tokenizer };
}

/** The lines of the report. */
export function fitReport(config: ModelConfig, { rows, tokens, rank, gpu, storage = "f32" }: FitQuestion): string {
  check(
    tokens <= config.maxPositions,
    () => `fit: --tokens ${tokens}: a row of this model has at most ${config.maxPositions} tokens`,
  );
  const limit = gpu ?? WASM_LIMIT;
  const weights = weightBytes(config);
  const lora = loraParameters(config, rank);
  const parameters = estimateParameters(config);
  const cache = cacheBytes(config);
  const lines = [
    `${config.family}, ${config.layers} layers, ${parameters.toLocaleString("en")} parameters`,
    "",
    `weights in f32 / 16 bits / 8 bits   ${size(weights.f32)} / ${size(weights.bf16)} / ${size(weights.q8)}`,
    `AdamW's moments, all weights        ${size(8 * parameters)}`,
    `LoRA, rank ${rank}, all linear layers   ${lora.toLocaleString("en")} numbers; with moments ${size(12 * lora)}`,
    `cache                               ${size(cache)} per token and row; ${size(cache * rows * tokens)} for ` +
      `${rows} × ${tokens}`,
    `logits                              ${size(4 * config.vocabSize)} per token, in chunks of ${size(32 * 2 ** 20)}`,
    "",
    `A training step of ${rows} × ${tokens} tokens, of ${size(limit)}` +
      (gpu === undefined ? " (one WebAssembly memory):" : " (the GPU's):"),
  ];
  const kinds: readonly (readonly [string, Trains, WeightStorage])[] = [
    ["all weights", "all", "f32"],
    [`LoRA, rank ${rank}, on ${storage}`, { rank }, storage],
  ];
  for (const [name, trains, form] of kinds) {
    for (const gradientCheckpointing of [false, true]) {
      const how = { trains, gradientCheckpointing, storage: form };
      const step = stepMemory(config, { rows, tokens, ...how, limit: 2 ** 50 })!;
      const longer = stepMemory(config, { rows: 2 * rows, tokens, ...how, limit: 2 ** 50 })!;
      const perToken = (longer.peak - step.peak) / (rows * tokens);
      const most = mostTokens(config, { ...how, limit });
      lines.push(
        `  ${`${name}${gradientCheckpointing ? ", gradientCheckpointing" : ""}`.padEnd(44)} ${size(step.peak)}` +
          ` (${size(step.held)} held, ${size(perToken)} per further token): ` +
          `${stepMemory(config, { rows, tokens, ...how, limit }) === null ? "does not fit" : "fits"}; ` +
          (most === 0 ? "no step does" : `up to ${most} tokens in a micro-batch`),
      );
      if (gpu === undefined) {
        const { total, tensors, gaps, node, tokenizer } = processMemory(config, step);
        lines.push(
          `    the process: ${size(total)} = ${size(tensors)} tensors + ${size(gaps)} between them + ` +
            `${size(node)} Node and code + ${size(tokenizer)} tokenizer`,
        );
      }
      if (gpu !== undefined && step.largest > 128 * 2 ** 20) {
        lines.push(
          `    its largest tensor, ${size(step.largest)}, is beyond the 128 MiB that every WebGPU adapter binds`,
        );
      }
    }
  }
  return `${lines.join("\n")}\n`;
}
