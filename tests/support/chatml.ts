/** Qwen's tokenizer, cut to a test's size, and the text that its chat template puts around the parts of an episode. */
import { readFileSync } from "node:fs";
import type { Tokenizer } from "../../nn/index.ts";
import { tokenizerFromJSON } from "../../pretrained/index.ts";
import type { EpisodeFormat } from "../../rl/episode/template.ts";

const url = new URL("../fixtures/tokenizers/families.json", import.meta.url);
const { sets } = JSON.parse(readFileSync(url, "utf8")) as { sets: { name: string; tokenizer: unknown }[] };
export const qwen: Tokenizer = tokenizerFromJSON(sets.find(({ name }) => name === "qwen")!.tokenizer);

export const CHATML: EpisodeFormat = {
  task: ["<|im_start|>user\n", "<|im_end|>\n"],
  observation: ["\n<|im_start|>user\n", "<|im_end|>\n"],
  action: "<|im_start|>assistant\n",
  end: "<|im_end|>",
  pad: "<|endoftext|>",
};
