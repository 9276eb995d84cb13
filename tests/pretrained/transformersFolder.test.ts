/**
 * A folder that `transformers` wrote (tests/fixtures/models/saved_by_transformers: shards in bfloat16, its own
 * rewriting of one of our tokenizers) opens with `loadPretrained` and `loadTokenizer` and computes what it computes
 * there; what `savePretrained` writes comes back.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { tensor } from "../../engine/ops/create.ts";
import { scope } from "../../engine/scope.ts";
import { forward, logits, type Model } from "../../nn/transformer.ts";
import { loadPretrained, loadTokenizer, savePretrained } from "../../run/node/index.ts";
import { relativeError } from "../support/rlExecutors.ts";

const folder = fileURLToPath(new URL("../fixtures/models/saved_by_transformers", import.meta.url));
const { text, ids, logits_last } = JSON.parse(readFileSync(join(folder, "fixture.json"), "utf8")) as {
  text: string;
  ids: number[];
  logits_last: number[];
};

let device: Device;
let written: string;
beforeAll(async () => {
  device = await makeDevice("reference");
  written = mkdtempSync(join(tmpdir(), "worldgrad-folder-"));
});
afterAll(() => {
  device.dispose();
  rmSync(written, { recursive: true });
});

async function lastLogits({ params, config }: Model): Promise<number[]> {
  const all = scope(() => logits(params, forward(params, config, tensor([ids], { device, dtype: "i32" }))));
  return [...(await all.read())].slice(-config.vocabSize);
}

it("opens, and comes back after savePretrained", async () => {
  const [model, tokenizer] = [await loadPretrained(folder, device), await loadTokenizer(folder)];
  expect(tokenizer.encode(text)).toEqual(ids);
  expect(tokenizer.decode(ids)).toBe(text);
  expect(tokenizer.special["<|end|>"]).toBe(model.config.eosIds[0]);
  // transformers computes its rotary table in float32.
  expect(relativeError(await lastLogits(model), logits_last)).toBeLessThan(3e-6);

  await savePretrained(written, model, { tokenizer });
  const [again, sameTokenizer] = [await loadPretrained(written, device), await loadTokenizer(written)];
  expect(await lastLogits(again)).toEqual(await lastLogits(model));
  expect(JSON.stringify(sameTokenizer)).toBe(JSON.stringify(tokenizer));
});

it("says which file is damaged or missing", async () => {
  writeFileSync(join(written, "tokenizer.json"), "{");
  await expect(loadTokenizer(written)).rejects.toThrow("tokenizer.json is not valid JSON");
  await expect(loadTokenizer(join(written, "nowhere"))).rejects.toThrow("there is no");
});
