/**
 * A folder with a model, served: what its files say about how tokens are drawn and what stands around a text is what
 * `transformers` makes of them.
 */
import { copyFileSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../../engine/device.ts";
import { openModelFolder } from "../../../run/node/modelFolder.ts";
import { folderSubject, type Subject } from "../../../connect/serve/subjects.ts";
import { wasm } from "../../support/rlExecutors.ts";
import { sentencePiece } from "../../support/sentencePiece.ts";

let device: Device;
beforeAll(async () => {
  device = await wasm.open();
});
afterAll(() => device.dispose());

const MODEL = fileURLToPath(new URL("../../fixtures/models/llama_tiny", import.meta.url));
const STORIES = fileURLToPath(new URL("../../fixtures/pretrained/stories260K", import.meta.url));
/** A tokenizer of 96 tokens: its specials, a space, letters, and words for the rest. */
const NAMES = ["<unk>", "<s>", "</s>", "▁", ..."abcdefghi", ...Array.from({ length: 83 }, (_, i) => `word${i}`)];
const TOKENIZER = sentencePiece([]);
const vocab = Object.fromEntries(NAMES.map((name, id) => [name, id]));
const tokenizer = { ...TOKENIZER, model: { ...(TOKENIZER["model"] as object), byte_fallback: false, vocab } };

/** A folder with the model of 96 tokens and further files. */
function folder(files: Readonly<Record<string, unknown>>): string {
  const path = mkdtempSync(join(tmpdir(), "worldgrad-"));
  for (const name of ["config.json", "model.safetensors"]) copyFileSync(join(MODEL, name), join(path, name));
  for (const [name, json] of Object.entries({ "tokenizer.json": tokenizer, ...files }))
    writeFileSync(join(path, name), JSON.stringify(json));
  return path;
}

describe("what stands around a text", () => {
  // transformers, tokenization_utils_tokenizers.py (0111c30): a file's add_bos_token and add_eos_token decide where
  // they are given, else the post-processor. So DeepSeek's and Yi's files are read.
  const bare = { ...tokenizer, post_processor: null };
  const names = { bos_token: "<s>", eos_token: { content: "</s>", __type: "AddedToken" } };
  it.each<[string, object, object | undefined, number[]]>([
    ["the post-processor's", tokenizer, names, [1, 3, 4]],
    ["nothing without one", bare, names, [3, 4]],
    ["nothing without one and without names", bare, undefined, [3, 4]],
    ["BOS, as add_bos_token says", bare, { ...names, add_bos_token: true }, [1, 3, 4]],
    ["not BOS, as add_bos_token says", tokenizer, { ...names, add_bos_token: false }, [3, 4]],
    ["both", tokenizer, { ...names, add_bos_token: true, add_eos_token: true }, [1, 3, 4, 2]],
    ["EOS alone, as transformers reads it", tokenizer, { ...names, add_eos_token: true }, [3, 4, 2]],
    ["a BOS that has no name", bare, { add_bos_token: true }, [3, 4]],
  ])("%s", async (_, json, config, ids) => {
    const path = folder({ "tokenizer.json": json, ...(config ? { "tokenizer_config.json": config } : {}) });
    const opened = await openModelFolder(path);
    expect(opened.tokenizer.encode("a", { addSpecialTokens: true })).toEqual(ids);
    expect(opened.tokenizer.encode("a")).toEqual([3, 4]);
  });

  it("llama2.c puts BOS before every text", async () => {
    const opened = await openModelFolder(STORIES);
    const ids = opened.tokenizer.encode("once");
    expect(opened.tokenizer.encode("once", { addSpecialTokens: true })).toEqual([1, ...ids]);
  });
});

describe("generation_config.json", () => {
  const subject = async (generation: object | undefined): Promise<{ subject: Subject; notes: string[] }> => {
    const notes: string[] = [];
    const flags = { adapter: undefined, storage: "f32", maxContext: undefined, rows: 1 } as const;
    const path = folder(generation ? { "generation_config.json": generation } : {});
    return { subject: await folderSubject({ ...flags, path, note: (line) => notes.push(line) }, device), notes };
  };
  // vLLM takes a folder's settings for its defaults (vllm-project/vllm#11164).
  it.each<[object | undefined, object | undefined]>([
    [undefined, undefined],
    [{ eos_token_id: 2 }, undefined],
    [{ do_sample: false, temperature: 0.6 }, { temperature: 0 }],
    [
      { do_sample: true, temperature: 0.7, top_k: 20, top_p: 0.8 },
      { temperature: 0.7, topK: 20, topP: 0.8 },
    ],
  ])("%j", async (generation, sampling) => {
    expect((await subject(generation)).subject.options.sampling).toEqual(sampling);
  });

  it("what is not supported is said", async () => {
    const { notes } = await subject({ do_sample: true, repetition_penalty: 1.05 });
    expect(notes.join("\n")).toContain("generation_config.json: not supported and left out: repetition_penalty 1.05");
  });
});
