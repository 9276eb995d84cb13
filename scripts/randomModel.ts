/**
 * Folder with a model of a published shape and random weights, for measurements: memory and time do not depend on the
 * weights. The tokenizer has as many tokens as the shape: bytes, and words without merges.
 *
 *     npx tsx scripts/randomModel.ts SmolLM2-135M models/smol
 */
import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { bfloat16Bits } from "../nn/half.ts";
import { configToHuggingFace } from "../pretrained/index.ts";
import { huggingFaceName, type ModelConfig } from "../nn/index.ts";
import { parameterShapes } from "../nn/parameters.ts";
import { DEFAULT_PATTERN } from "../nn/tokenizer.ts";
import { toAlphabet } from "../nn/tokenizers/alphabet.ts";
import { SHAPES } from "./shapes.ts";

const [END, START] = ["<|im_end|>", "<|im_start|>"];
const CHATML =
  "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

const [shape = "", folder] = process.argv.slice(2);
const config = (SHAPES as Readonly<Record<string, ModelConfig>>)[shape];
if (config === undefined || folder === undefined) {
  console.error(`expected one of ${Object.keys(SHAPES).join(", ")}, and a folder`);
  process.exit(2);
}
mkdirSync(folder, { recursive: true });
const vocab: Record<string, number> = {};
for (let byte = 0; byte < 256; byte++) vocab[toAlphabet(Uint8Array.of(byte))] = byte;
for (let id = 256; id < config.vocabSize - 2; id++) vocab[`word${id}`] = id;
const special = [START, END].map((content, i) => ({
  id: config.vocabSize - 2 + i,
  content,
  special: true,
  single_word: false,
  lstrip: false,
  rstrip: false,
  normalized: false,
}));
const byteLevel = { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false };
const split = { type: "Split", pattern: { Regex: DEFAULT_PATTERN }, behavior: "Isolated", invert: false };
const write = (name: string, json: unknown): void => writeFileSync(join(folder, name), JSON.stringify(json));
write("tokenizer.json", {
  version: "1.0",
  added_tokens: special,
  normalizer: null,
  pre_tokenizer: { type: "Sequence", pretokenizers: [split, byteLevel] },
  decoder: byteLevel,
  model: { type: "BPE", vocab, merges: [] },
});
write("tokenizer_config.json", { tokenizer_class: "PreTrainedTokenizerFast", eos_token: END, chat_template: CHATML });
const ends = { ...config, eosIds: [special[1]!.id] };
write("config.json", configToHuggingFace(ends, "bfloat16"));
write("generation_config.json", { do_sample: false, eos_token_id: ends.eosIds });

const header: Record<string, unknown> = { __metadata__: { format: "pt" } };
let end = 0;
for (const [path, sizes] of parameterShapes(config)) {
  const begin = end;
  end += 2 * sizes.reduce((product, n) => product * n, 1);
  header[huggingFaceName(config, path)] = { dtype: "BF16", shape: sizes, data_offsets: [begin, end] };
}
const text = Buffer.from(JSON.stringify(header));
const padded = Buffer.concat([text, Buffer.alloc((8 - (text.length % 8)) % 8, " ")]);
const length = Buffer.alloc(8);
length.writeBigUInt64LE(BigInt(padded.length));
const file = openSync(join(folder, "model.safetensors"), "w");
writeSync(file, length);
writeSync(file, padded);
let state = 1;
for (const [path, sizes] of parameterShapes(config)) {
  const isGain = /[nN]orm(\.|$)/.test(path);
  const count = sizes.reduce((product, n) => product * n, 1);
  for (let at = 0; at < count; at += 2 ** 20) {
    // Uniform by xorshift32, with the usual standard deviation of 0.02.
    const values = Float32Array.from({ length: Math.min(2 ** 20, count - at) }, () => {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      return isGain ? 1 : 0.0346 * (state / 2 ** 31);
    });
    const bits = bfloat16Bits(values);
    writeSync(file, new Uint8Array(bits.buffer, bits.byteOffset, bits.byteLength));
  }
}
closeSync(file);
