/** `generate --model-path`: what it reads of a folder's texts, and what it says that it leaves out. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { afterEach, expect, it, vi } from "vitest";
import { continuePrompt } from "../../../run/cli/continuation.ts";

const saved = fileURLToPath(new URL("../../fixtures/models/saved_by_transformers", import.meta.url));
const work = mkdtempSync(join(tmpdir(), "worldgrad-continuation-"));
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(work, { recursive: true, force: true });
});

/** What `generate --raw --stats` writes to stderr for the saved model with other texts. */
async function generated(texts: Readonly<Record<string, object>>): Promise<string> {
  const folder = join(work, "model");
  cpSync(saved, folder, { recursive: true });
  for (const [name, json] of Object.entries(texts)) {
    const path = join(folder, name);
    const before = name === "tokenizer.json" ? (JSON.parse(readFileSync(path, "utf8")) as object) : {};
    writeFileSync(path, JSON.stringify({ ...before, ...json }));
  }
  let said = "";
  vi.spyOn(process.stderr, "write").mockImplementation((text) => (said += String(text)) !== "");
  vi.spyOn(process.stdout, "write").mockReturnValue(true);
  const flags = { "model-path": folder, prompt: "a", raw: true, "max-tokens": "1", stats: true };
  expect(await continuePrompt(flags)).toBe(0);
  return said;
}

it("names the fields of generation_config.json that it does not have", async () => {
  const said = await generated({ "generation_config.json": { do_sample: true, top_k: -1, repetition_penalty: 1.1 } });
  expect(said).toContain("generation_config.json: left out, as it is not supported here: repetition_penalty 1.1\n");
});

it.each([
  [{}, 1],
  [{ add_bos_token: false }, 1],
  [{ add_bos_token: true }, 2],
])("with %j and no post-processor it reads %i tokens", async (config, count) => {
  const { added_tokens: added } = JSON.parse(readFileSync(join(saved, "tokenizer.json"), "utf8")) as {
    added_tokens: { content: string }[];
  };
  const bos_token = added[0]!.content;
  const said = await generated({
    "tokenizer.json": { post_processor: null },
    "tokenizer_config.json": { ...config, bos_token },
  });
  expect(said).toContain(`\n${count} tokens read`);
});
