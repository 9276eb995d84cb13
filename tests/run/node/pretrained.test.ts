/**
 * Folders of models: shards, generation config, tokenizer files that are kept; what is damaged or not supported is
 * refused before any weight is read. How much memory loading takes: pretrained.long.test.ts.
 */
import { spawnSync } from "node:child_process";
import {
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../../engine/device.ts";
import { treeLeaves } from "../../../engine/tree.ts";
import { generationFromHuggingFace } from "../../../pretrained/config/generation.ts";
import { addLora } from "../../../pretrained/lora.ts";
import { type PackedMatrix, packModel } from "../../../pretrained/packed/matrix.ts";
import { readSafetensors } from "../../../nn/safetensors.ts";
import type { Tensor } from "../../../engine/tensor.ts";
import { loadPretrained, loadTokenizer, savePretrained } from "../../../run/node/index.ts";
import { readAll } from "../../support/rlExecutors.ts";

const families = fileURLToPath(new URL("../../fixtures/models/families/", import.meta.url));
const json = (path: string): Record<string, unknown> => JSON.parse(readFileSync(path, "utf8")) as never;

let device: Device;
let work: string;
beforeAll(async () => {
  device = await makeDevice("wasm");
  work = mkdtempSync(join(tmpdir(), "worldgrad-pretrained-"));
});
afterAll(() => {
  device.dispose();
  rmSync(work, { recursive: true });
});

describe("loadPretrained", () => {
  it("shards hold what one file holds; the generation config says where a text ends", async () => {
    const [whole, sharded] = [
      await loadPretrained(join(families, "llama"), device),
      await loadPretrained(join(families, "llama_sharded"), device),
    ];
    expect(await readAll(treeLeaves(sharded.params))).toEqual(await readAll(treeLeaves(whole.params)));
    expect([whole.config.eosIds, sharded.config.eosIds]).toEqual([[2], [2, 5]]);
    expect(sharded.generation).toMatchObject({
      eosIds: [2, 5],
      bosId: 1,
      padId: 0,
      sampling: { temperature: 0.6, topK: 20, topP: 0.95 },
      maxNewTokens: 40,
      unsupported: { repetition_penalty: 1.05 },
    });
    expect(whole.generation!.sampling).toEqual({ temperature: 0 });
  });

  it("refuses by name before a weight is read, and leaves nothing on the device", async () => {
    const folder = join(work, "broken");
    cpSync(join(families, "llama_sharded"), folder, { recursive: true });
    const before = device.backend.stats().liveBytes;
    const config = json(join(folder, "config.json"));
    const refusal = async (changes: object): Promise<string> => {
      writeFileSync(join(folder, "config.json"), JSON.stringify({ ...config, ...changes }));
      return loadPretrained(folder, device).then(
        () => "no error",
        (error: Error) => error.message,
      );
    };
    expect(await refusal({ quantization_config: { bits: 4 } })).toContain("'quantization_config'");
    expect(await refusal({ num_hidden_layers: 2 ** 32 })).toContain("layers is 4294967296, expected at most");
    expect(await refusal({ num_hidden_layers: 3 })).toContain('"model.layers.2.input_layernorm.weight" is missing');
    expect(await refusal({ hidden_size: 64 })).toContain("has shape [48, 32], expected [48, 64]");
    expect(await refusal({ tie_word_embeddings: true })).toBe("no error");
    truncateSync(join(folder, "model-00002-of-00002.safetensors"), 9000);
    expect(await refusal({})).toMatch(/^safetensors: the header describes \d+ bytes of data/);
    rmSync(join(folder, "model-00002-of-00002.safetensors"));
    expect(await refusal({})).toMatch(/^loadPretrained: ENOENT.*model-00002/);
    const freed = treeLeaves((await loadPretrained(join(families, "llama"), device)).params);
    freed.forEach((x) => x.dispose());
    expect(device.backend.stats().liveBytes).toBeGreaterThanOrEqual(before);
  });
});

describe("packed weights", () => {
  it.each(["llama_sharded", "gpt2", "qwen3"])(
    "%s: packed as they are read, saved as what they stand for",
    async (name) => {
      const folder = join(families, name);
      const whole = await loadPretrained(folder, device);
      for (const storage of ["bf16", "f16", "q8"] as const) {
        const read = await loadPretrained(folder, device, { storage });
        const packed = await packModel(whole, storage);
        expect(await readAll(treeLeaves(read.params))).toEqual(await readAll(treeLeaves(packed.params)));
        expect(read.config).toEqual(whole.config);
        const to = join(work, `${name}-${storage}`);
        await savePretrained(to, read, storage === "q8" ? {} : { dtype: storage === "bf16" ? "bfloat16" : "float16" });
        const again = await loadPretrained(to, device, { storage });
        // Of 8 bits the values come back, up to a scale that was rounded up; those of 16 bits come back bit for bit.
        if (storage !== "q8")
          expect(await readAll(treeLeaves(again.params))).toEqual(await readAll(treeLeaves(read.params)));
        const stored = await loadPretrained(to, device);
        const [weight, table] = [
          stored.params.layers[0]!.mlp.up.weight as Tensor,
          read.params.layers[0]!.mlp.up.weight,
        ];
        expect(await weight.read()).toEqual(await (table as PackedMatrix).unpack().read());
      }
      const adapted = addLora(await packModel(whole, "bf16"));
      await expect(savePretrained(join(work, "no"), adapted)).rejects.toThrow("has an adapter: save the adapter");
      await expect(loadPretrained(folder, device, { storage: "int4" as never })).rejects.toThrow(
        "storage must be one of f32, bf16, f16, q8, got int4",
      );
    },
  );
});

describe("what came instead of a file", () => {
  const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
  it.each([
    ["config.json", "<!DOCTYPE html>\n<html></html>", "loadPretrained: config.json is a web page; download"],
    ["tokenizer.json", pointer, "loadPretrained: tokenizer.json is a pointer of Git LFS (install git-lfs"],
    ["model.safetensors", pointer, "safetensors: the file is a pointer of Git LFS (install git-lfs"],
    ["model.safetensors", "Entry not found", 'safetensors: the file is a text that begins with "Entry not found"'],
  ])("%s: %j", async (name, text, message) => {
    const folder = join(mkdtempSync(join(work, "instead-")), "model");
    cpSync(join(families, "..", "llama_tiny"), folder, { recursive: true });
    writeFileSync(join(folder, name), text);
    await expect(name === "tokenizer.json" ? loadTokenizer(folder) : loadPretrained(folder, device)).rejects.toThrow(
      message,
    );
  });
});

describe("texts that are too long", () => {
  it.each(["config.json", "model.safetensors", "tokenizer.json"])("%s that is a device is not read", async (name) => {
    const folder = join(mkdtempSync(join(work, "odd-")), "model");
    cpSync(join(families, "..", "llama_tiny"), folder, { recursive: true });
    rmSync(join(folder, name), { force: true });
    symlinkSync("/dev/zero", join(folder, name));
    const loading = name === "tokenizer.json" ? loadTokenizer(folder) : loadPretrained(folder, device);
    await expect(loading).rejects.toThrow(`loadPretrained: ${join(folder, name)} is no regular file`);
  });

  it.each([
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-00002-of-00002.safetensors",
  ])("%s that is a pipe is not waited for", { timeout: 10_000 }, async (name) => {
    const folder = join(mkdtempSync(join(work, "pipe-")), "model");
    cpSync(join(families, "llama_sharded"), folder, { recursive: true });
    rmSync(join(folder, name), { force: true });
    expect(spawnSync("mkfifo", [join(folder, name)]).status).toBe(0);
    const loading = name === "tokenizer.json" ? loadTokenizer(folder) : loadPretrained(folder, device);
    // A reader that waits cannot be stopped otherwise: it sees the end of the pipe.
    const end = setTimeout(() => spawnSync("sh", ["-c", ': > "$0"', join(folder, name)]), 5_000);
    await expect(loading).rejects.toThrow(`loadPretrained: ${join(folder, name)} is no regular file`);
    clearTimeout(end);
  });

  it("are refused by their size, before they are parsed", async () => {
    const folder = join(work, "long");
    cpSync(join(families, "llama_sharded"), folder, { recursive: true });
    const sparse = (name: string, megabytes: number): void => {
      writeFileSync(join(folder, name), "");
      truncateSync(join(folder, name), megabytes * 2 ** 20);
    };
    sparse("config.json", 200);
    await expect(loadPretrained(folder, device)).rejects.toThrow(/config\.json has 209715200 bytes, at most 4194304/);
    sparse("tokenizer.json", 129);
    await expect(loadTokenizer(folder)).rejects.toThrow(/tokenizer\.json has 135266304 bytes, at most 134217728/);
  });
});

describe("savePretrained", () => {
  it("keeps the generation config and the text files as they were; 16 bits come back exactly", async () => {
    const from = join(work, "from");
    cpSync(join(families, "llama_sharded"), from, { recursive: true });
    const texts = { "tokenizer.json": '{"a": 1}', "chat_template.jinja": "{{ x }}\n", "tokenizer_config.json": "{ }" };
    for (const [name, text] of Object.entries(texts)) writeFileSync(join(from, name), text);
    writeFileSync(join(from, "README.md"), "not copied");
    const model = await loadPretrained(from, device);
    const to = join(work, "to");
    await savePretrained(to, model, { from, dtype: "bfloat16" });
    expect(readdirSync(to).sort()).toEqual(
      ["config.json", "generation_config.json", "model.safetensors", ...Object.keys(texts)].sort(),
    );
    for (const [name, text] of Object.entries(texts)) expect(readFileSync(join(to, name), "utf8")).toBe(text);
    expect(readFileSync(join(to, "generation_config.json"))).toEqual(
      readFileSync(join(from, "generation_config.json")),
    );
    expect(json(join(to, "config.json"))["dtype"]).toBe("bfloat16");
    const stored = readSafetensors(new Uint8Array(readFileSync(join(to, "model.safetensors"))));
    expect(new Set([...stored.values()].map(({ dtype }) => dtype))).toEqual(new Set(["BF16"]));
    const again = await loadPretrained(to, device);
    expect(await readAll(treeLeaves(again.params))).toEqual(await readAll(treeLeaves(model.params)));
    expect(again.config).toEqual(model.config);
    // Without `from`: what was read is written.
    const third = join(work, "third");
    await savePretrained(third, model, { generation: model.generation });
    expect(json(join(third, "generation_config.json"))).toEqual(json(join(from, "generation_config.json")));
    expect(readdirSync(third).sort()).toEqual(["config.json", "generation_config.json", "model.safetensors"]);
  });

  it("writes shards with an index, as transformers names them, and leaves none to be read first", async () => {
    const model = await loadPretrained(join(families, "llama_sharded"), device);
    const values = await readAll(treeLeaves(model.params));
    const to = join(work, "shards");
    await savePretrained(to, model);
    const whole = readSafetensors(new Uint8Array(readFileSync(join(to, "model.safetensors"))));
    const bytes = [...whole.values()].map(({ data }) => data.byteLength);
    const largest = Math.max(...bytes);
    for (const [maxShardSize, dtype] of [[largest], [1.5 * largest, "bfloat16"], [1]] as const) {
      await savePretrained(to, model, { maxShardSize, ...(dtype ? { dtype } : {}) });
      const index = json(join(to, "model.safetensors.index.json")) as {
        metadata: object;
        weight_map: Record<string, string>;
      };
      const half = dtype ? 2 : 1;
      const total = bytes.reduce((a, b) => a + b) / half;
      expect(index.metadata).toEqual({ total_parameters: (total * half) / 4, total_size: total });
      expect(Object.keys(index.weight_map)).toEqual([...whole.keys()].sort());
      const files = [...new Set(Object.values(index.weight_map))].sort();
      const count = files.length;
      expect(count).toBe(maxShardSize === 1 ? whole.size : count);
      expect(count).toBeGreaterThan(1);
      const number = (n: number): string => String(n).padStart(5, "0");
      expect(files).toEqual(files.map((_, i) => `model-${number(i + 1)}-of-${number(count)}.safetensors`));
      expect(readdirSync(to).sort()).toEqual(["config.json", ...files, "model.safetensors.index.json"].sort());
      for (const file of files) {
        const tensors = [...readSafetensors(new Uint8Array(readFileSync(join(to, file)))).values()];
        const size = tensors.reduce((sum, { shape }) => sum + (4 / half) * shape.reduce((a, b) => a * b, 1), 0);
        if (tensors.length > 1) expect(size).toBeLessThanOrEqual(maxShardSize);
      }
      const again = await loadPretrained(to, device);
      if (!dtype) expect(await readAll(treeLeaves(again.params))).toEqual(values);
      for (const x of treeLeaves(again.params)) x.dispose();
    }
    await savePretrained(to, model);
    expect(readdirSync(to).sort()).toEqual(["config.json", "model.safetensors"]);
    await expect(savePretrained(to, model, { maxShardSize: 0 })).rejects.toThrow("at least 1 byte, got 0");
  });
});

describe("generation_config.json", () => {
  it.each([
    [{}, { sampling: { temperature: 0 }, eosIds: [], unsupported: {} }],
    [{ do_sample: true }, { sampling: { temperature: 1, topK: 50 } }],
    [{ do_sample: true, top_k: null, min_p: 0.1 }, { sampling: { temperature: 1, topK: 0, minP: 0.1 } }],
    // −1 is all tokens in vLLM; Transformers' TopPLogitsWarper keeps one token with 0.
    [{ do_sample: true, top_k: -1 }, { sampling: { temperature: 1, topK: 0 } }],
    [{ do_sample: true, top_p: 0 }, { sampling: { temperature: 1, topK: 1 } }],
    [{ eos_token_id: 7, pad_token_id: null }, { eosIds: [7] }],
    [{ repetition_penalty: 1, num_beams: 4 }, { unsupported: { num_beams: 4 } }],
  ])("%j", (file, expected) => expect(generationFromHuggingFace(file)).toMatchObject(expected));

  it.each([
    [[], "expected an object"],
    [{ temperature: "hot" }, "'temperature' is \"hot\", expected a number in [0.000001, 1000000], or 0"],
    [{ do_sample: true, temperature: 1e-40 }, "'temperature' is 1e-40, expected a number in"],
    [{ top_p: -0.1 }, "'top_p' is -0.1"],
    [{ top_k: -2 }, "'top_k' is -2"],
    [{ top_k: 1.5 }, "'top_k' is 1.5"],
    [{ do_sample: 1 }, "'do_sample' is 1, expected true or false"],
    [{ eos_token_id: ["x"] }, "'eos_token_id' is [\"x\"]"],
  ])("%j is refused", (file, message) => expect(() => generationFromHuggingFace(file)).toThrow(message));
});
