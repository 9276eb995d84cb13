/**
 * Targets of fuzzing: everything that reads what others wrote. A target has valid documents, and a reader that accepts
 * a changed document or refuses it with an error of the library, in little time.
 */
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { Connection, type SocketLike } from "../../environments/openenv/connection.ts";
import { configFromHuggingFace, generationFromHuggingFace } from "../../pretrained/index.ts";
import { readSafetensors, writeSafetensors } from "../../nn/index.ts";
import { type GrpoConfigLike, objectiveFromGrpoConfig } from "../../connect/index.ts";
import type { Json, Target } from "./target.ts";
import { RUN_FILES } from "./runFiles.ts";
import { MODEL_FILES } from "./modelFiles.ts";
import { SERVERS } from "./servers.ts";
import { readTokenizer, tokenizers } from "./tokenizers.ts";

const fixtures = new URL("../../tests/fixtures/", import.meta.url);
const json = (path: string): Json => JSON.parse(readFileSync(new URL(path, fixtures), "utf8")) as Json;
const configs = ["llama_tiny", "qwen2_tiny", "qwen3_tiny", "gpt2_tiny"].map((name) =>
  json(`models/${name}/config.json`),
);
/** A safetensors file with this header and 24 bytes of data. */
function safetensorsOf(header: Json): Uint8Array {
  const text = new TextEncoder().encode(JSON.stringify(header));
  const file = new Uint8Array(8 + text.length + 24);
  new DataView(file.buffer).setUint32(0, text.length, true);
  file.set(text, 8);
  return file;
}

/** Opens a connection whose server answers a request with one frame, and never more. */
async function frameSaid(text: string): Promise<unknown> {
  class Socket implements SocketLike {
    onopen: ((event: never) => void) | null = null;
    onmessage: ((event: never) => void) | null = null;
    onclose: ((event: never) => void) | null = null;
    onerror: ((event: never) => void) | null = null;
    constructor() {
      queueMicrotask(() => this.onopen?.({} as never));
    }
    send(): void {
      queueMicrotask(() => this.onmessage?.({ data: text } as never));
    }
    close(): void {}
  }
  const connection = await Connection.open("ws://x/ws", Socket, { timeout: 1_000 });
  try {
    return await connection.exchange({ type: "step", data: {} }, { timeout: 1_000 });
  } finally {
    connection.close();
  }
}

export const TARGETS: readonly Target[] = [
  {
    name: "safetensors",
    documents: fc.constantFrom<Json>(
      { a: { dtype: "F32", shape: [2, 3], data_offsets: [0, 24] } },
      {
        a: { dtype: "BF16", shape: [4], data_offsets: [0, 8] },
        b: { dtype: "I64", shape: [], data_offsets: [8, 16] },
        c: { dtype: "U8", shape: [8, 1], data_offsets: [16, 24] },
        __metadata__: { format: "pt" },
      },
    ),
    read: (header) => readSafetensors(safetensorsOf(header)),
    bytesOf: (header) => safetensorsOf(header),
    readBytes: (bytes) => {
      const tensors = readSafetensors(bytes);
      return writeSafetensors(tensors);
    },
  },
  { name: "config.json", documents: fc.constantFrom(...configs), read: (document) => configFromHuggingFace(document) },
  {
    name: "generation_config.json",
    documents: fc.constantFrom<Json>({
      temperature: 0.7,
      top_k: 20,
      top_p: 0.8,
      eos_token_id: [1, 2],
      do_sample: true,
      max_new_tokens: 9,
    }),
    read: (document) => generationFromHuggingFace(document),
  },
  {
    name: "tokenizer.json",
    few: 30,
    documents: tokenizers,
    read: readTokenizer,
  },
  {
    name: "GRPOConfig",
    documents: fc.constantFrom<Json>(
      { num_generations: 8, beta: 0.04, epsilon: 0.2, loss_type: "dapo", scale_rewards: "group", learning_rate: 1e-6 },
      { num_generations: 4, beta: 0, temperature: 0.9, importance_sampling_level: "sequence", max_grad_norm: 0.2 },
    ),
    read: (document) => objectiveFromGrpoConfig(document as GrpoConfigLike),
  },
  ...MODEL_FILES,
  ...RUN_FILES,
  ...SERVERS,
  {
    name: "OpenEnv frames",
    documents: fc.constantFrom<Json>(
      { type: "observation", data: { observation: { text: "a" }, reward: 1, done: false } },
      { type: "error", data: { message: "no", code: "EXECUTION_ERROR" } },
    ),
    read: (document) => frameSaid(JSON.stringify(document)),
  },
];
