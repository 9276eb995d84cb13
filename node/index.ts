/**
 * `worldgrad/node`: everything that needs Node. It has models in Hugging Face's folder format, run folders that survive
 * a kill, and threads that play while the learner learns.
 *
 * The other entry points run in browsers too; this is the only one that imports `node:`.
 */
import { existsSync } from "node:fs";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Device } from "../engine/index.ts";
import { check, fail } from "../engine/errors.ts";
import {
  type Model,
  modelFromFiles,
  modelFromTensors,
  modelToFiles,
  readShardedSafetensors,
  type Tokenizer,
  tokenizerFromJSON,
} from "../nn/index.ts";

export { createRun, openRun, RunFolder } from "./runFolder.ts";
export { lockFolder, type LockOptions } from "./lock.ts";
export type { Checkpoint, RunConfig } from "../job/runStore.ts";
export { type ThreadOptions, threadWorkers } from "./threads.ts";
export type { MetricsRecord, Transcript } from "../job/records.ts";
export { codeReward, type CodeRewardOptions } from "./sandbox/codeReward.ts";
export { javascriptRunner, type SandboxOptions } from "./sandbox/runner.ts";

const SHARDS = "model.safetensors.index.json";

/**
 * Loads a model from a folder with `config.json` and `model.safetensors` (or its shards and their index).
 * @throws if a file is missing or damaged, or if the configuration is not supported; the error names which
 *
 * @example const { config, params } = await loadModel("models/tiny", await device("wasm"));
 */
export async function loadModel(folder: string, device: Device): Promise<Model> {
  const config = await readText(join(folder, "config.json"));
  const single = join(folder, "model.safetensors");
  if (existsSync(single)) return modelFromFiles(config, new Uint8Array(await readFile(single)), device);
  const index = parseJson(SHARDS, await readText(join(folder, SHARDS)));
  const readShard = async (name: string): Promise<Uint8Array> => new Uint8Array(await readFile(join(folder, name)));
  const tensors = await readShardedSafetensors(index, readShard);
  return modelFromTensors(parseJson("config.json", config), tensors, device);
}

/** Loads the tokenizer of a folder, its `tokenizer.json`. */
export async function loadTokenizer(folder: string): Promise<Tokenizer> {
  return tokenizerFromJSON(parseJson("tokenizer.json", await readText(join(folder, "tokenizer.json"))));
}

/**
 * Writes `config.json`, `model.safetensors` and, if there is a tokenizer, `tokenizer.json`. Each file appears
 * completely or not at all.
 */
export async function saveModel(folder: string, model: Model, tokenizer?: Tokenizer): Promise<void> {
  const files = {
    ...(await modelToFiles(model)),
    ...(tokenizer ? { "tokenizer.json": JSON.stringify(tokenizer.toJSON()) } : {}),
  };
  await mkdir(folder, { recursive: true });
  for (const [name, data] of Object.entries(files)) {
    const draft = join(folder, `.${name}.tmp`);
    await writeFile(draft, data);
    await rename(draft, join(folder, name));
  }
}

async function readText(path: string): Promise<string> {
  check(existsSync(path), () => `loadModel: there is no ${path}`);
  return readFile(path, "utf8").catch((error: Error) => fail(`loadModel: ${path}: ${error.message}`));
}

function parseJson(name: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    return fail(`loadModel: ${name} is not valid JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}
