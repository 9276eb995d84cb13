/** The memory of a process that holds a model, and one line about it before the model is loaded. */
import { freemem } from "node:os";
import type { Device } from "../../engine/index.ts";
import { drawMemory, type DrawSize, type StepMemory, WASM_LIMIT } from "../../pretrained/fit.ts";
import type { ModelConfig } from "../../nn/index.ts";
import type { WeightStorage } from "../../pretrained/index.ts";

/** Bytes for people: `2.31 GiB`. */
export const bytesText = (bytes: number): string => {
  const units = ["B", "KiB", "MiB", "GiB"];
  const power = Math.min(3, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${(bytes / 1024 ** power).toFixed(power === 0 || bytes / 1024 ** power >= 100 ? 0 : 2)} ${units[power]}`;
};

/** The resident memory of Node with the library's code and an empty heap, as measured on Linux with Node 20. */
const NODE = 97 * 2 ** 20;
/** The bytes of a tokenizer's tables for each token of the vocabulary: 48 MiB for 49,152, 130 MiB for 151,936. */
const TOKEN = 900;

/** Resident memory of a process that computes on the CPU, in bytes, by its parts. */
export interface ProcessMemory {
  readonly tensors: number;
  /** The unused bytes between tensors, because sizes are rounded and blocks cut. */
  readonly gaps: number;
  readonly node: number;
  readonly tokenizer: number;
  readonly total: number;
}

/** The memory of a process, from the counted step; bench/pretrained.md has measurements beside it. */
export function processMemory({ vocabSize }: ModelConfig, { peak, reserved }: StepMemory): ProcessMemory {
  const tokenizer = TOKEN * vocabSize;
  return { tensors: peak, gaps: reserved - peak, node: NODE, tokenizer, total: reserved + NODE + tokenizer };
}

/** The memory of an executor: a GPU has all in one, of unknown size. */
export const placeOn = (kind: Device["kind"]): { readonly limit: number; readonly outside: boolean } =>
  kind === "wasm" ? { limit: WASM_LIMIT, outside: true } : { limit: 2 ** 50, outside: false };

/**
 * The needed memory, and whether it is there, in one line.
 * @param the work, as in `to draw 1 × 4,096 tokens with weights in bf16`
 * @param counted null: it does not fit
 * @param free available bytes of the machine's memory
 */
export function memoryLine(
  config: ModelConfig,
  kind: Device["kind"],
  what: string,
  counted: StepMemory | null,
  free: number = freemem(),
): string {
  if (counted === null) {
    return `memory: ${what}: does not fit into one WebAssembly memory of ${bytesText(WASM_LIMIT)}`;
  }
  if (kind === "webgpu") return `memory: ${what}: ${bytesText(counted.peak)} on the GPU`;
  const { total } = processMemory(config, counted);
  const outside =
    counted.outside === 0
      ? ""
      : `, ${bytesText(counted.outside)} of them weights outside of the WebAssembly memory (slower)`;
  const fits = total <= free ? "fits" : "does not fit";
  return `memory: ${what}: the process takes ${bytesText(total)}${outside}; ${fits}, ${bytesText(free)} are free`;
}

/** The line for a model that is loaded and draws; none on the reference executor, which is too slow for such models. */
export async function drawMemoryLine(
  config: ModelConfig,
  size: DrawSize & { readonly storage: WeightStorage },
  { kind }: Device,
): Promise<string | undefined> {
  if (kind === "reference") return undefined;
  const { rows, capacity, storage } = size;
  const what = `to draw ${rows} × ${capacity.toLocaleString("en")} tokens with weights in ${storage}`;
  return memoryLine(config, kind, what, await drawMemory(config, { ...size, ...placeOn(kind) }));
}
