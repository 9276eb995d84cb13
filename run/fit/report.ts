/** The lines that `npm run fit` prints. */
import * as fit from "../../pretrained/fit.ts";
import { estimateParameters, type ModelConfig } from "../../nn/index.ts";
import type { WeightStorage } from "../../pretrained/index.ts";
import { bytesText, processMemory } from "../node/modelMemory.ts";
import { UsageError } from "../usage.ts";
import { rlStepMemory } from "./promptSteps.ts";

/** Default sizes: of a training step, of LoRA, and of a step of RL on one group. */
export const SIZES = { rows: 1, tokens: 256, rank: 16, episodes: 2, prompt: 64, completion: 16 };

/** Sizes, the storage of matrices under LoRA, and the bytes of a GPU's memory, if the model is to run on one. */
export type FitQuestion = Partial<typeof SIZES> & { readonly storage?: WeightStorage; readonly gpu?: number };

/** The lines of the report. */
export async function fitReport(config: ModelConfig, question: FitQuestion): Promise<string> {
  const { rows, tokens, rank, episodes, prompt, completion, gpu, storage = "f32" } = { ...SIZES, ...question };
  const most = config.maxPositions;
  if (tokens > most) throw new UsageError(`--tokens: a row of this model has at most ${most} tokens, got ${tokens}`);
  const [weights, parameters] = [fit.weightBytes(config), estimateParameters(config)];
  const [lora, cache] = [fit.loraParameters(config, rank), fit.cacheBytes(config)];
  const [adapter, size] = [`LoRA, rank ${rank}, on ${storage}`, `${rows} × ${tokens}`];
  const lines = [`${config.family}, ${config.layers} layers, ${parameters.toLocaleString("en")} parameters`, ""];
  const add = (name: string, text: string): void => void lines.push(`${name.padEnd(35)} ${text}`);
  add("weights in f32 / 16 bits / 8 bits", [weights.f32, weights.bf16, weights.q8].map(bytesText).join(" / "));
  add("AdamW's moments, all weights", bytesText(8 * parameters));
  add("LoRA's parameters", `${lora.toLocaleString("en")} at rank ${rank}; with moments ${bytesText(12 * lora)}`);
  add("cache", `${bytesText(cache)} per token and row; ${bytesText(cache * rows * tokens)} for ${size}`);
  add("logits", `${bytesText(4 * config.vocabSize)} per token, in chunks of ${bytesText(32 * 2 ** 20)}`);

  const place = { limit: gpu ?? fit.WASM_LIMIT, outside: gpu === undefined };
  const roomy = { limit: 2 ** 50, outside: false };
  type Count = (place: fit.Place) => fit.StepMemory | null | Promise<fit.StepMemory | null>;
  /** Adds the peak of the tensors, whether they fit, and the process that holds them. */
  const addMemory = async (count: Count, name = "", perToken = "", end = ""): Promise<void> => {
    const fitting = await count(place);
    const memory = fitting ?? (await count(roomy))!;
    const { total, ...parts } = processMemory(config, memory);
    const [peak, gaps, node, tokenizer] = [parts.tensors, parts.gaps, parts.node, parts.tokenizer].map(bytesText);
    const outside = memory.outside > 0 ? `, with ${bytesText(memory.outside)} of the weights outside (slower)` : "";
    const fits = fitting === null ? "does not fit" : `fits${outside}`;
    lines.push(`  ${name}${peak} (${bytesText(memory.held)} held${perToken}): ${fits}${end}`);
    const sum = `${peak} tensors + ${gaps} between them + ${node} Node and code + ${tokenizer} tokenizer`;
    if (gpu === undefined) lines.push(`    the process: ${bytesText(total)} = ${sum}`);
    const largest = bytesText(memory.largest);
    if (gpu !== undefined && memory.largest > 128 * 2 ** 20)
      lines.push(`    its largest tensor, ${largest}, is beyond the 128 MiB that every WebGPU adapter binds`);
  };

  const where = gpu === undefined ? "one WebAssembly memory; frozen weights may lie outside" : "the GPU's";
  lines.push("", `A training step of ${size} tokens, of ${bytesText(place.limit)} (${where}):`);
  const forms = { "all weights": { trains: "all" }, [adapter]: { trains: { rank }, storage } } as const;
  for (const [name, form] of Object.entries(forms))
    for (const gradientCheckpointing of [false, true]) {
      const how = { ...form, gradientCheckpointing, tokens };
      const peak = (rows: number): number => fit.stepMemory(config, { ...how, ...roomy, rows })!.peak;
      const perToken = `, ${bytesText((peak(2 * rows) - peak(rows)) / (rows * tokens))} per further token`;
      const most = fit.mostTokens(config, { ...how, ...place });
      const end = most === 0 ? "; no step does" : `; up to ${most} tokens in a micro-batch`;
      const title = `${name}${gradientCheckpointing ? ", gradientCheckpointing" : ""}`.padEnd(45);
      await addMemory((at) => fit.stepMemory(config, { ...how, ...at, rows }), title, perToken, end);
    }

  lines.push("", `Loading in ${storage}, and drawing with a cache of ${size} tokens:`);
  await addMemory((at) => fit.drawMemory(config, { rows, prompt: tokens, capacity: tokens, storage, ...at }));
  lines.push("", `A step of RL, ${adapter}: ${episodes} episodes of ${prompt} + ${completion} tokens:`);
  const step = { groups: 1, groupSize: episodes, prompt, completion, trains: { rank }, storage };
  await addMemory((at) => rlStepMemory(config, { ...step, ...at }));
  return `${lines.join("\n")}\n`;
}
