/** The lines that `npm run fit` prints. */
import { check } from "../../engine/errors.ts";
import * as fit from "../../pretrained/fit.ts";
import { estimateParameters, type ModelConfig } from "../../nn/index.ts";
import type { WeightStorage } from "../../pretrained/index.ts";
import { bytesText, processMemory } from "../node/modelMemory.ts";
import { rlStepMemory } from "./promptSteps.ts";

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
  readonly episodes?: number;
  readonly prompt?: number;
  readonly completion?: number;
  /** The bytes of a GPU's memory, if the model is to run on one. */
  readonly gpu?: number | undefined;
}

/** The lines of the report. */
export async function fitReport(config: ModelConfig, question: FitQuestion): Promise<string> {
  const { rows, tokens, rank, gpu, storage = "f32", episodes = 2, prompt = 64, completion = 16 } = question;
  const { maxPositions } = config;
  check(
    tokens <= maxPositions,
    () => `fit: --tokens ${tokens}: a row of this model has at most ${maxPositions} tokens`,
  );
  const place = gpu === undefined ? { limit: fit.WASM_LIMIT, outside: true } : { limit: gpu, outside: false };
  const weights = fit.weightBytes(config);
  const lora = fit.loraParameters(config, rank);
  const parameters = estimateParameters(config);
  const cache = fit.cacheBytes(config);
  const named = (name: string, text: string): string => `${name.padEnd(35)} ${text}`;
  const [adapter, sizes] = [`${lora.toLocaleString("en")} numbers`, `${rows} × ${tokens}`];
  const lines = [
    `${config.family}, ${config.layers} layers, ${parameters.toLocaleString("en")} parameters`,
    "",
    named("weights in f32 / 16 bits / 8 bits", [weights.f32, weights.bf16, weights.q8].map(bytesText).join(" / ")),
    named("AdamW's moments, all weights", bytesText(8 * parameters)),
    `LoRA, rank ${rank}, all linear layers   ${adapter}; with moments ${bytesText(12 * lora)}`,
    named("cache", `${bytesText(cache)} per token and row; ${bytesText(cache * rows * tokens)} for ${sizes}`),
    named("logits", `${bytesText(4 * config.vocabSize)} per token, in chunks of ${bytesText(32 * 2 ** 20)}`),
    "",
    `A training step of ${sizes} tokens, of ${bytesText(place.limit)}` +
      (gpu === undefined ? " (one WebAssembly memory; frozen weights may lie outside):" : " (the GPU's):"),
  ];
  const ofProcess = (counted: fit.StepMemory): string[] => (gpu === undefined ? [processLine(config, counted)] : []);
  const kinds: readonly (readonly [string, fit.Trains, WeightStorage])[] = [
    ["all weights", "all", "f32"],
    [`LoRA, rank ${rank}, on ${storage}`, { rank }, storage],
  ];
  for (const [name, trains, form] of kinds)
    for (const gradientCheckpointing of [false, true]) {
      const how = { trains, gradientCheckpointing, storage: form };
      const roomy = (rows: number): fit.StepMemory => fit.stepMemory(config, { rows, tokens, ...how, limit: 2 ** 50 })!;
      const fitting = fit.stepMemory(config, { rows, tokens, ...how, ...place });
      const counted = fitting ?? roomy(rows);
      const perToken = (roomy(2 * rows).peak - roomy(rows).peak) / (rows * tokens);
      const most = fit.mostTokens(config, { ...how, ...place });
      lines.push(
        `  ${`${name}${gradientCheckpointing ? ", gradientCheckpointing" : ""}`.padEnd(44)} ` +
          `${bytesText(counted.peak)} (${bytesText(counted.held)} held, ${bytesText(perToken)} per further token): ` +
          `${fitting === null ? "does not fit" : fitsText(fitting)}; ` +
          (most === 0 ? "no step does" : `up to ${most} tokens in a micro-batch`),
        ...ofProcess(counted),
      );
      if (gpu !== undefined && counted.largest > 128 * 2 ** 20) {
        const largest = bytesText(counted.largest);
        lines.push(`    its largest tensor, ${largest}, is beyond the 128 MiB that every WebGPU adapter binds`);
      }
    }
  const drawn = { rows, prompt: tokens, capacity: tokens, storage, ...place };
  const step = { groups: 1, groupSize: episodes, prompt, completion, trains: { rank }, storage, ...place };
  const played = `${episodes} episodes of ${prompt} + ${completion} tokens`;
  for (const [what, counted] of [
    [`Loading in ${storage}, and drawing with a cache of ${sizes} tokens:`, await fit.drawMemory(config, drawn)],
    [`A step of RL, LoRA, rank ${rank}, on ${storage}: ${played}:`, await rlStepMemory(config, step)],
  ] as const) {
    if (counted === null) lines.push("", what, "  does not fit");
    else lines.push("", what, `  ${bytesText(counted.peak)}: ${fitsText(counted)}`, ...ofProcess(counted));
  }
  return `${lines.join("\n")}\n`;
}

const fitsText = ({ outside }: fit.StepMemory): string =>
  outside === 0 ? "fits" : `fits, with ${bytesText(outside)} of the weights outside (slower)`;

function processLine(config: ModelConfig, counted: fit.StepMemory): string {
  const { total, ...parts } = processMemory(config, counted);
  const [tensors, gaps, node, tokenizer] = [parts.tensors, parts.gaps, parts.node, parts.tokenizer].map(bytesText);
  const sum = `${tensors} tensors + ${gaps} between them + ${node} Node and code + ${tokenizer} tokenizer`;
  return `    the process: ${bytesText(total)} = ${sum}`;
}
