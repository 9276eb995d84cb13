/**
 * stories260K, a model that others trained (tests/fixtures/pretrained), and the text that it continues nothing with.
 */
import { readFileSync } from "node:fs";
import type { Device } from "../../engine/device.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { generate } from "../../nn/generate.ts";
import { modelFromLlama2c, tokenizerFromLlama2c } from "../../pretrained/llama2c.ts";
import type { Tokenizer } from "../../nn/tokenizer.ts";

export const fixture = (path: string): Uint8Array =>
  new Uint8Array(readFileSync(new URL(`../fixtures/pretrained/${path}`, import.meta.url)));
export const stories: Uint8Array = fixture("stories260K/stories260K.bin");
export const tokenizer: Tokenizer = tokenizerFromLlama2c(fixture("stories260K/tok512.bin"), 512);
export const BOS: number = tokenizer.special["<s>"]!;
/** The greedy text that llama2.c's own test expects. */
export const STORY: string = new TextDecoder().decode(fixture("stories260K/oracle.txt")).trimEnd();

/** Our greedy continuation of the start of a text, as long as `STORY`. */
export async function greedyStory(device: Device): Promise<string> {
  const model = modelFromLlama2c(stories, device);
  const [text] = await generate(model, [[BOS]], { maxNewTokens: 199, temperature: 0, stopIds: [] });
  for (const x of treeLeaves(model.params)) x.dispose();
  return tokenizer.decode([BOS, ...text!.tokens.map(({ id }) => id)], { specials: "skip" });
}
