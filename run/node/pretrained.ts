/**
 * Model folders in the format of `transformers`: `config.json`, `model.safetensors` or its shards and their index,
 * `generation_config.json`, and the tokenizer's files.
 */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { copyFile, type FileHandle, mkdir, open, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { check, fail } from "../../engine/errors.ts";
import type { Device } from "../../engine/index.ts";
import {
  type ByteReader,
  type GenerationConfig,
  generationFromHuggingFace,
  modelFiles,
  modelFromWeights,
  openSafetensors,
  openShards,
  type WeightStorage,
  tokenizerFromJSON,
  type WeightDtype,
  type WeightSource,
} from "../../pretrained/index.ts";
import type { Model, Tokenizer } from "../../nn/index.ts";
import { accidentOf } from "../../nn/safetensors.ts";
import { named } from "./disk.ts";

const WEIGHTS = "model.safetensors";
const SHARDS = "model.safetensors.index.json";
const GENERATION = "generation_config.json";
/** The largest megabytes of a text file; other files 4. Gemma 3's tokenizer has 32, an index of shards a few. */
const MOST_MEGABYTES: Readonly<Record<string, number>> = {
  "tokenizer.json": 128,
  "tokenizer_config.json": 32,
  [SHARDS]: 64,
};
/** The files of a model's tokenizer and chat template. */
const TEXT_FILES = [
  "tokenizer.json",
  "tokenizer_config.json",
  "special_tokens_map.json",
  "added_tokens.json",
  "chat_template.jinja",
  "chat_template.json",
  "vocab.json",
  "merges.txt",
  "tokenizer.model",
] as const;

/** A model from a folder, and the sampling settings that the folder recommends, if it has any. */
export interface Pretrained extends Model {
  readonly generation: GenerationConfig | undefined;
}

/** Options of `loadPretrained`. */
export interface LoadPretrainedOptions {
  /**
   * The storage of matrices in the device's memory: `f32` (the default), or, for weights that are not trained, `bf16`
   * and `f16` (16 bits a weight) or `q8` (9 bits a weight). Packing rounds, unless the file has that type already.
   */
  readonly storage?: WeightStorage;
}

/**
 * Loads a model from a folder with `config.json` and `model.safetensors` (or its shards and their index). Tensors are
 * read from the disk one by one, so that the host holds no more than one of them at a time besides the device's memory.
 * The end-of-text tokens of a `generation_config.json` become the model's `eosIds`.
 * @throws if a file is missing or damaged, or if the configuration is not supported; the error names which
 *
 * @example const { config, params } = await loadPretrained("models/tiny", await device("wasm"));
 * @example const frozen = await loadPretrained("models/tiny", await device("wasm"), { storage: "bf16" });
 */
export async function loadPretrained(
  folder: string,
  device: Device,
  { storage = "f32" }: LoadPretrainedOptions = {},
): Promise<Pretrained> {
  const config = parseJson("config.json", await readText(join(folder, "config.json")));
  const path = join(folder, GENERATION);
  const generation = existsSync(path)
    ? generationFromHuggingFace(parseJson(GENERATION, await readText(path)))
    : undefined;
  return withWeights(folder, async (source) => {
    const model = await modelFromWeights(config, source, device, storage);
    const ends = generation?.eosIds ?? [];
    return { ...model, config: ends.length > 0 ? { ...model.config, eosIds: ends } : model.config, generation };
  });
}

/** Whether a folder has weights, in one file or in shards. */
export const hasWeights = (folder: string): boolean => [WEIGHTS, SHARDS].some((name) => existsSync(join(folder, name)));

/** The names of the files that hold a folder's weights, the index of shards among them. */
export function weightFiles(folder: string): string[] {
  if (existsSync(join(folder, WEIGHTS))) return [WEIGHTS];
  checkSize(join(folder, SHARDS));
  const index = parseJson(SHARDS, readFileSync(join(folder, SHARDS), "utf8")) as { weight_map?: object } | null;
  const names = Object.values(index?.weight_map ?? {}) as unknown[];
  check(
    names.length > 0 && names.every((name) => typeof name === "string" && name === basename(name) && /[^.]/.test(name)),
    () =>
      `${SHARDS}: expected weight_map with the names of files in this folder, got ${JSON.stringify(names.slice(0, 3))}`,
  );
  return [SHARDS, ...new Set(names as string[])];
}

/**
 * Opens the weights of a folder while `use` runs: the headers are read and checked at once, each tensor when it is
 * asked for.
 * @throws WorldgradError if a file is missing or damaged
 */
export async function withWeights<T>(folder: string, use: (source: WeightSource) => T | Promise<T>): Promise<T> {
  const files: FileHandle[] = [];
  const opened = async (name: string): Promise<ByteReader> => {
    if (existsSync(join(folder, name))) sizeOfFile(join(folder, name));
    const file = await open(join(folder, name)).catch((error: Error) => fail(`loadPretrained: ${error.message}`));
    files.push(file);
    return { size: (await file.stat()).size, read: (begin, into) => fill(file, name, begin, into) };
  };
  try {
    const single = existsSync(join(folder, WEIGHTS));
    const source = single
      ? await openSafetensors(await opened(WEIGHTS))
      : await openShards(parseJson(SHARDS, await readText(join(folder, SHARDS))), opened);
    return await use(source);
  } finally {
    for (const file of files) await file.close();
  }
}

async function fill(file: FileHandle, name: string, begin: number, into: Uint8Array): Promise<void> {
  for (let at = 0; at < into.length;) {
    const { bytesRead } = await file.read(into, at, into.length - at, begin + at);
    check(bytesRead > 0, () => `loadPretrained: ${name} ends at byte ${begin + at}, expected ${into.length - at} more`);
    at += bytesRead;
  }
}

/** Loads the tokenizer of a folder, its `tokenizer.json`. */
export async function loadTokenizer(folder: string): Promise<Tokenizer> {
  return tokenizerFromJSON(parseJson("tokenizer.json", await readText(join(folder, "tokenizer.json"))));
}

/** Options of `savePretrained`. */
export interface SavePretrainedOptions {
  /** The tokenizer, written as `tokenizer.json`. */
  readonly tokenizer?: Tokenizer;
  /** The sampling settings, written as `generation_config.json`; those of `from` unless given. */
  readonly generation?: GenerationConfig | undefined;
  /**
   * The folder that the model came from: its tokenizer files, chat template and generation config are copied as they
   * are.
   */
  readonly from?: string;
  /** The element type of the stored weights; f32 unless given. */
  readonly dtype?: WeightDtype;
  /** The largest file of weights, in bytes; more are written in shards with an index. Default 5e9. */
  readonly maxShardSize?: number;
}

/**
 * Writes `config.json`, `model.safetensors` or its shards and their index, and the files of `options`. Each file
 * appears completely or not at all; files of weights that were there before are removed at the end.
 */
export async function savePretrained(
  folder: string,
  model: Model,
  { tokenizer, generation, from, dtype, maxShardSize }: SavePretrainedOptions = {},
): Promise<void> {
  const written: string[] = [];
  const put = async (name: string, data: Uint8Array | string): Promise<void> => {
    if (written.push(name) === 1) await mkdir(folder, { recursive: true });
    await appear(folder, name, (draft) => writeFile(draft, data));
  };
  for await (const [name, data] of modelFiles(model, { dtype, maxShardSize })) await put(name, data);
  if (tokenizer) await put("tokenizer.json", JSON.stringify(tokenizer.toJSON()));
  if (generation) await put(GENERATION, `${JSON.stringify(generation.json, null, 2)}\n`);
  // A single file would be read in the place of shards.
  const old = readdirSync(folder).filter((name) => WEIGHT_FILE.test(name) && !written.includes(name));
  for (const name of old) await rm(join(folder, name));
  if (from !== undefined) await copyTexts(from, folder, written);
}

/** The weights of a model that `savePretrained` or `transformers` has written: one file, shards, and their index. */
const WEIGHT_FILE = /^model(-\d+-of-\d+)?\.safetensors(\.index\.json)?$/;

/**
 * Copies the files of a model's tokenizer and chat template and its generation config unchanged, except those of
 * `except`.
 */
export async function copyTexts(from: string, to: string, except: readonly string[]): Promise<void> {
  for (const name of [...TEXT_FILES, GENERATION].filter((name) => !except.includes(name))) {
    if (existsSync(join(from, name))) await appear(to, name, (draft) => copyFile(join(from, name), draft));
  }
}

async function appear(folder: string, name: string, write: (draft: string) => Promise<void>): Promise<void> {
  const draft = join(folder, `.${name}.tmp`);
  await write(draft).catch((error: unknown) =>
    named(draft, () => {
      throw error;
    }),
  );
  await rename(draft, join(folder, name));
}

/** The size of a file. @throws if it is no file: a pipe would be waited for and a device read for ever */
export function sizeOfFile(path: string): number {
  const found = statSync(path);
  check(found.isFile(), () => `loadPretrained: ${path} is no regular file`);
  return found.size;
}

/**
 * Refuses a text much longer than those of published models before it is read: as JSON it takes ten times the memory.
 */
export function checkSize(path: string): void {
  const most = (MOST_MEGABYTES[basename(path)] ?? 4) * 2 ** 20;
  const size = sizeOfFile(path);
  check(size <= most, () => `loadPretrained: ${path} has ${size} bytes, at most ${most} are read`);
}

/** @throws WorldgradError if it cannot be read */
export async function readText(path: string): Promise<string> {
  check(existsSync(path), () => `loadPretrained: there is no ${path}`);
  checkSize(path);
  return readFile(path, "utf8").catch((error: Error) => fail(`loadPretrained: ${path}: ${error.message}`));
}

/** @throws WorldgradError if it is no JSON */
export function parseJson(name: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const accident = accidentOf(text.slice(0, 64));
    check(accident === undefined, () => `loadPretrained: ${name} is ${accident}; download the file itself`);
    return fail(`loadPretrained: ${name} is not valid JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}
