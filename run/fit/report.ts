/** The lines that `npm run fit` prints. */
import { check } from "../../engine/errors.ts";
import {
  cacheBytes,
  drawMemory,
  loraParameters,
  mostTokens,
  type StepMemory,
  stepMemory,
  type Trains,
  WASM_LIMIT,
  weightBytes,
} from "../../pretrained/fit.ts";
import { estimateParameters, type ModelConfig } from "../../nn/index.ts";
import type { WeightStorage } from "../../pretrained/index.ts";
import { bytesText, processMemory } from "../node/modelMemory.ts";
import { rlStepMemory } from "./rlStep.ts";

/** The step and the forms of weights that the report is about. */
export interface FitQuestion {
  /** The sizes of the training step. */
  readonly rows: number;
  readonly tokens: number;
  /** LoRA's rank. */
  readonly rank: number;
  /** The storage of matrices under LoRA; default f32. */
  readonly storage?: WeightStorage;
  /** The sizes of a step of RL: episodes of one group (default 2), tokens of a prompt (64) and of a completion (16). */
  readonly groupSize?: number;
  readonly prompt?: number;
  readonly completion?: number;
  /** The bytes of a GPU's memory, if the model is to run on one. */
  readonly gpu?: number | undefined;
}

/** The lines of the report. */
export async function fitReport(config: ModelConfig, question: FitQuestion): Promise<string> {
  const { rows, tokens, rank, gpu, storage = "f32" } = question;
  check(
    tokens <= config.maxPositions,
    () => `fit: --tokens ${tokens}: a row of this model has at most ${config.maxPositions} tokens`,
  );
  const place = gpu === undefined ? { limit: WASM_LIMIT, outside: true } : { limit: gpu, outside: false };
  const weights = weightBytes(config);
  const lora = loraParameters(config, rank);
  const parameters = estimateParameters(config);
  const cache = cacheBytes(config);
  const lines = [
    `${config.family}, ${config.layers} layers, ${parameters.toLocaleString("en")} parameters`,
    "",
    `weights in f32 / 16 bits / 8 bits   ` +
      `${bytesText(weights.f32)} / ${bytesText(weights.bf16)} / ${bytesText(weights.q8)}`,
    `AdamW's moments, all weights        ${bytesText(8 * parameters)}`,
    `LoRA, rank ${rank}, all linear layers   ` +
      `${lora.toLocaleString("en")} numbers; with moments ${bytesText(12 * lora)}`,
    `cache                               ` +
      `${bytesText(cache)} per token and row; ${bytesText(cache * rows * tokens)} for ${rows} × ${tokens}`,
    `logits                              ` +
      `${bytesText(4 * config.vocabSize)} per token, in chunks of ${bytesText(32 * 2 ** 20)}`,
    "",
    `A training step of ${rows} × ${tokens} tokens, of ${bytesText(place.limit)}` +
      (gpu === undefined ? " (one WebAssembly memory; frozen weights may lie outside):" : " (the GPU's):"),
  ];
  const ofProcess = (counted: StepMemory): string[] => (gpu === undefined ? [processLine(config, counted)] : []);
  const kinds: readonly (readonly [string, Trains, WeightStorage])[] = [
    ["all weights", "all", "f32"],
    [`LoRA, rank ${rank}, on ${storage}`, { rank }, storage],
  ];
  for (const [name, trains, form] of kinds) {
    for (const gradientCheckpointing of [false, true]) {
      const how = { trains, gradientCheckpointing, storage: form };
      const roomy = { ...how, limit: 2 ** 50 };
      const fitting = stepMemory(config, { rows, tokens, ...how, ...place });
      const counted = fitting ?? stepMemory(config, { rows, tokens, ...roomy })!;
      const longer = stepMemory(config, { rows: 2 * rows, tokens, ...roomy })!;
      const perToken = (longer.peak - stepMemory(config, { rows, tokens, ...roomy })!.peak) / (rows * tokens);
      const most = mostTokens(config, { ...how, ...place });
      lines.push(
        `  ${`${name}${gradientCheckpointing ? ", gradientCheckpointing" : ""}`.padEnd(44)} ` +
          `${bytesText(counted.peak)} (${bytesText(counted.held)} held, ${bytesText(perToken)} per further token): ` +
          `${fitting === null ? "does not fit" : fitsText(fitting)}; ` +
          (most === 0 ? "no step does" : `up to ${most} tokens in a micro-batch`),
        ...ofProcess(counted),
      );
      if (gpu !== undefined && counted.largest > 128 * 2 ** 20) {
        lines.push(
          `    its largest tensor, ${bytesText(counted.largest)}, is beyond the 128 MiB that every ` +
            "WebGPU adapter binds",
        );
      }
    }
  }
  const { groupSize = 2, prompt = 64, completion = 16 } = question;
  const episodes = { groups: 1, groupSize, prompt, completion };
  const played: readonly (readonly [string, StepMemory | null])[] = [
    [
      `Loading in ${storage}, and drawing with a cache of ${rows} × ${tokens} tokens:`,
      await drawMemory(config, { rows, prompt: tokens, capacity: tokens, storage, ...place }),
    ],
    [
      `A step of RL, LoRA, rank ${rank}, on ${storage}: ${groupSize} episodes of ${prompt} + ${completion} tokens:`,
      await rlStepMemory(config, { ...episodes, trains: { rank }, storage, ...place }),
    ],
  ];
  for (const [what, counted] of played) {
    if (counted === null) lines.push("", what, "  does not fit");
    else lines.push("", what, `  ${bytesText(counted.peak)}: ${fitsText(counted)}`, ...ofProcess(counted));
  }
  return `${lines.join("\n")}\n`;
}

const fitsText = ({ outside }: StepMemory): string =>
  outside === 0 ? "fits" : `fits, with ${bytesText(outside)} of the weights outside (slower)`;

function processLine(config: ModelConfig, counted: StepMemory): string {
  const { total, tensors, gaps, node, tokenizer } = processMemory(config, counted);
  return (
    `    the process: ${bytesText(total)} = ${bytesText(tensors)} tensors + ${bytesText(gaps)} between them + ` +
    `${bytesText(node)} Node and code + ${bytesText(tokenizer)} tokenizer`
  );
}
