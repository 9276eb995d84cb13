/** Targets of fuzzing: files of models beside weights and configuration. */
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { chatTemplate } from "../../connect/chat/index.ts";
import { device, treeLeaves, Rng } from "../../engine/index.ts";
import { byteTokenizer, initParams, type Model, modelConfig, writeSafetensors } from "../../nn/index.ts";
import {
  llama2cConfig,
  loraFromFiles,
  modelFromLlama2c,
  openShards,
  tokenizerFromJSON,
  tokenizerFromLlama2c,
} from "../../pretrained/index.ts";
import type { Json, Target } from "./target.ts";

const on = await device("reference", { precision: "f32" });

/** Two shards of one tensor each. */
const SHARD = ["a", "b"].map((name) =>
  writeSafetensors([[name, { dtype: "F32", shape: [2], data: Float32Array.of(1, 2) }]]),
);
const readerOf = (bytes: Uint8Array): { size: number; read(begin: number, into: Uint8Array): Promise<void> } => ({
  size: bytes.length,
  read: (begin, into) => Promise.resolve(into.set(bytes.subarray(begin, begin + into.length))),
});

const tiny: Model = (() => {
  const config = modelConfig({ vocabSize: 16, hiddenSize: 8, layers: 1, heads: 2, maxPositions: 8 });
  return { config, params: initParams(config, new Rng(1), on) };
})();
/** Tensors of an adapter of rank 2 on q and v. */
const adapter = writeSafetensors(
  ["q_proj", "v_proj"].flatMap((layer) =>
    (["A", "B"] as const).map((part): [string, { dtype: "F32"; shape: number[]; data: Float32Array }] => {
      const shape = part === "A" ? [2, 8] : [8, 2];
      const name = `base_model.model.model.layers.0.self_attn.${layer}.lora_${part}.weight`;
      return [name, { dtype: "F32", shape, data: new Float32Array(16) }];
    }),
  ),
);
const ADAPTER: Json = {
  peft_type: "LORA",
  r: 2,
  lora_alpha: 4,
  lora_dropout: 0.1,
  target_modules: ["q_proj", "v_proj"],
  exclude_modules: null,
  bias: "none",
  use_rslora: false,
  use_dora: false,
  init_lora_weights: true,
  task_type: "CAUSAL_LM",
};

const numberOf = (value: Json | undefined): number => (typeof value === "number" ? value : 0);

/** A llama2.c file with this header and the weights of the first of `HEADERS`. */
function llama2cOf(document: Json): Uint8Array {
  const header = Array.isArray(document) ? (document as readonly Json[]) : [];
  const bytes = new Uint8Array(28 + 4 * 412);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < 7; i++) view.setInt32(4 * i, numberOf(header[i]), true);
  return bytes;
}
/** dim, hidden, layers, heads, kv heads, vocabulary, positions */
const HEADERS: readonly Json[] = [
  [8, 4, 1, 2, 1, 4, 8],
  [8, 4, 1, 2, 2, -4, 8],
];

/** A tokenizer of llama2.c: tokens as [score, text]. */
function tokensOf(document: Json): Uint8Array {
  const parts: number[] = [4, 0, 0, 0];
  const rows = Array.isArray(document) ? (document as readonly Json[]) : [];
  for (const row of rows) {
    const [score = 0, text = ""] = Array.isArray(row) ? (row as readonly Json[]) : [];
    const bytes = new TextEncoder().encode(typeof text === "string" ? text : JSON.stringify(text)).slice(0, 64);
    const head = new Uint8Array(8);
    new DataView(head.buffer).setFloat32(0, numberOf(score), true);
    new DataView(head.buffer).setInt32(4, bytes.length, true);
    parts.push(...head, ...bytes);
  }
  return Uint8Array.from(parts);
}
const BYTES = Array.from({ length: 256 }, (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, "0")}>`);
const WORDS = ["<unk>", "<s>", "</s>", ...BYTES, " ", "a", "b", "c", "ab", " a"];
const TOKENS: readonly Json[] = [WORDS.map((text, i): Json => [-i, text])];
const VOCABULARY = WORDS.length;
function readTokens(bytes: Uint8Array): void {
  const tokenizer = tokenizerFromLlama2c(bytes, VOCABULARY);
  tokenizer.decode(tokenizer.encode("abc é aab"));
}

const { conversations, tools, kinds } = JSON.parse(
  readFileSync(new URL("../../tests/fixtures/chat/templates.json", import.meta.url), "utf8"),
) as {
  readonly conversations: readonly (readonly { readonly role: string }[])[];
  readonly tools: readonly Json[];
  readonly kinds: readonly { readonly template: string }[];
};
/** A tokenizer with the special tokens of the usual templates. */
const speaker = tokenizerFromJSON({
  ...(byteTokenizer().toJSON() as object),
  added_tokens: ["<|im_start|>", "<|im_end|>", "<s>", "</s>", "<|endoftext|>"].map((content, i) => ({
    id: 256 + i,
    content,
    special: true,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
  })),
});
/** Renders some conversations; an accepted template gives ids. */
async function readTemplate(document: Json): Promise<void> {
  const chat = await chatTemplate({ tokenizer: speaker, config: document });
  for (const messages of conversations.slice(0, 4)) {
    chat.render(messages, { tools, addGenerationPrompt: true, now: new Date(0) });
    chat.renderWithRoles(messages);
  }
  chat.episodeFormat();
}

export const MODEL_FILES: readonly Target[] = [
  {
    name: "index of shards",
    documents: fc.constant<Json>({
      metadata: { total_size: 16 },
      weight_map: { a: "0.safetensors", b: "1.safetensors" },
    }),
    read: async (document) => {
      const source = await openShards(document, (file) =>
        Promise.resolve(readerOf(SHARD[file === "0.safetensors" ? 0 : 1]!)),
      );
      for (const info of source.tensors) await source.read(info);
    },
  },
  {
    name: "adapter_config.json",
    documents: fc.constantFrom<Json>(ADAPTER, { ...(ADAPTER as object), target_modules: ".*\\.(q|v)_proj" }),
    read: (document) => {
      const { trainable } = loraFromFiles(tiny, JSON.stringify(document), adapter);
      for (const x of treeLeaves(trainable.params)) x.dispose();
    },
  },
  {
    name: "tokenizer_config.json, chat templates",
    few: 60,
    documents: fc.constantFrom<Json>(
      ...kinds.map(({ template }) => ({ chat_template: template, bos_token: "<s>", eos_token: { content: "</s>" } })),
      { chat_template: [{ name: "default", template: kinds[0]!.template }], pad_token: "<|endoftext|>" },
    ),
    read: readTemplate,
  },
  {
    name: "llama2.c weights",
    documents: fc.constantFrom(...HEADERS),
    read: (document) => llama2cConfig(llama2cOf(document)),
    bytesOf: llama2cOf,
    readBytes: (bytes) => {
      for (const x of treeLeaves(modelFromLlama2c(bytes, on).params)) x.dispose();
    },
  },
  {
    name: "llama2.c tokens",
    documents: fc.constantFrom(...TOKENS),
    read: (document) => readTokens(tokensOf(document)),
    bytesOf: tokensOf,
    readBytes: readTokens,
  },
];
