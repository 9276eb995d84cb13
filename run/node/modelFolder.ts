/**
 * A folder with a pretrained model: in the layout of `transformers` (`config.json`, safetensors, tokenizer, chat
 * template, generation config), or of llama2.c (one file of weights, `*.bin`, and one of tokens, `tok*.bin`). Opening
 * it reads everything but the weights.
 */
import { createHash } from "node:crypto";
import { createReadStream, existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import type { ChatTemplate } from "../../connect/chat/index.ts";
import { THINK, THINK_END, writesThoughts } from "../../connect/chat/thoughts.ts";
import { check, fail, WorldgradError } from "../../engine/errors.ts";
import { type Device, treeLeaves } from "../../engine/index.ts";
import { UsageError } from "../usage.ts";
import {
  ADAPTER_FILES,
  configFromHuggingFace,
  type GenerationConfig,
  generationFromHuggingFace,
  llama2cConfig,
  loraFromFiles,
  type LoraModel,
  modelFromLlama2c,
  packModel,
  tokenizerFromJSON,
  tokenizerFromLlama2c,
  type WeightStorage,
} from "../../pretrained/index.ts";
import type { Model, ModelConfig, Tokenizer } from "../../nn/index.ts";
import type { EpisodeFormat, TemplateOptions } from "../../rl/index.ts";
import { checkSize, hasWeights, loadPretrained, parseJson, readText, sizeOfFile, weightFiles } from "./pretrained.ts";

/** A folder that was opened. */
export interface ModelFolder {
  /** Its absolute path. */
  readonly path: string;
  /** The configuration, with the end-of-text tokens that the generation config names, if it names any. */
  readonly config: ModelConfig;
  /** The sampling settings that the folder's generation config recommends, if it has any. */
  readonly generation: GenerationConfig | undefined;
  readonly tokenizer: Tokenizer;
  /** The token that the tokenizer puts before every text, if it does. */
  readonly bos: string | undefined;
  /** Its chat template; undefined if it has none. @throws if it is malformed */
  chat(): Promise<ChatTemplate | undefined>;
  load(device: Device, storage?: WeightStorage): Promise<Model>;
  /** Reads configuration, tokenizer and weights and returns their SHA-256. */
  hash(): Promise<string>;
}

/**
 * Opens a folder with a model.
 * @throws UsageError in one line that begins with `flag`, if the folder is missing, incomplete or not supported
 */
export async function openModelFolder(path: string, flag = "--model-path"): Promise<ModelFolder> {
  return ofFlag(flag, async () => {
    check(existsSync(path), () => `there is no folder ${path}`);
    check(statSync(path).isDirectory(), () => `${path} is no folder`);
    const bins = readdirSync(path).filter((name) => name.endsWith(".bin"));
    if (existsSync(join(path, "config.json"))) return openTransformers(resolve(path));
    const [tokens, weights] = [bins.filter(isTokens), bins.filter((name) => !isTokens(name))];
    check(
      tokens.length === 1 && weights.length === 1,
      () => `${path} has no config.json, and not one *.bin of weights and one tok*.bin as llama2.c has them`,
    );
    return openLlama2c(resolve(path), weights[0]!, tokens[0]!);
  });
}

/** Turns an error of the library into a one-line error about the flag. */
export async function ofFlag<T>(flag: string, read: () => T | Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    const isOurs = error instanceof WorldgradError || (error instanceof Error && "syscall" in error);
    if (isOurs && !(error instanceof UsageError)) throw new UsageError(`${flag}: ${error.message}`);
    throw error;
  }
}

const isTokens = (name: string): boolean => name.startsWith("tok");

async function openTransformers(path: string): Promise<ModelFolder> {
  const json = async (name: string): Promise<unknown> =>
    existsSync(join(path, name)) ? parseJson(name, await readText(join(path, name))) : undefined;
  const ofFile = configFromHuggingFace(await json("config.json"));
  check(hasWeights(path), () => `${path} has no model.safetensors and no model.safetensors.index.json`);
  const generationJson = await json("generation_config.json");
  const generation = generationJson === undefined ? undefined : generationFromHuggingFace(generationJson);
  const ends = generation?.eosIds ?? [];
  const config = ends.length > 0 ? { ...ofFile, eosIds: ends } : ofFile;
  const tokenizerJson = await json("tokenizer.json");
  check(tokenizerJson !== undefined, () => `${path} has no tokenizer.json`);
  const texts = ((await json("tokenizer_config.json")) ?? {}) as Readonly<Record<string, unknown>>;
  const areTexts = typeof texts === "object" && !Array.isArray(texts);
  check(areTexts, () => `${join(path, "tokenizer_config.json")}: expected an object`);
  const around = withAround(tokenizerJson, texts);
  const tokenizer = fitted(tokenizerFromJSON(around), around, config.vocabSize);
  const bos = "bos_token" in texts ? contentOf(texts["bos_token"]) : nameOf(tokenizer, config.bosId);
  // As transformers: `add_bos_token` decides, else the post-processor of tokenizer.json; `withAround` has both.
  return {
    path,
    config,
    generation,
    tokenizer,
    bos: typeof bos === "string" && bos === startOf(tokenizer) ? bos : undefined,
    async chat() {
      const jinja = join(path, "chat_template.jinja");
      const inJson = (await json("chat_template.json")) as { readonly chat_template?: unknown } | undefined;
      const template = existsSync(jinja) ? await readText(jinja) : inJson?.chat_template;
      if (template === undefined && !texts["chat_template"]) return undefined;
      const source = typeof template === "string" ? { template } : {};
      const { chatTemplate } = await import("../../connect/chat/index.ts");
      return chatTemplate({ tokenizer, config: texts, name: basename(path), ...source });
    },
    load: (device, storage = "f32") => loadPretrained(path, device, { storage }),
    hash: () => hashOf(path, ["config.json", "tokenizer.json", ...weightFiles(path)]),
  };
}

/** The name of the first token that the tokenizer puts before a text. */
const startOf = (tokenizer: Tokenizer): string | undefined =>
  nameOf(tokenizer, tokenizer.encode("", { addSpecialTokens: true })[0]);

async function openLlama2c(path: string, weights: string, tokens: string): Promise<ModelFolder> {
  const bytes = async (name: string): Promise<Uint8Array> => {
    sizeOfFile(join(path, name));
    return new Uint8Array(await readFile(join(path, name)));
  };
  const config = llama2cConfig(await bytes(weights));
  const tokenizer = tokenizerFromLlama2c(await bytes(tokens), config.vocabSize);
  return {
    path,
    config,
    generation: undefined,
    tokenizer,
    bos: nameOf(tokenizer, config.bosId),
    chat: () => Promise.resolve(undefined),
    async load(device, storage = "f32") {
      const model = modelFromLlama2c(await bytes(weights), device);
      if (storage === "f32") return model;
      const packed = await packModel(model, storage);
      const kept = new Set(treeLeaves(packed.params));
      for (const x of treeLeaves(model.params)) if (!kept.has(x)) x.dispose();
      return packed;
    },
    hash: () => hashOf(path, [weights, tokens]),
  };
}

/** The name of a token in `tokenizer_config.json`: a text, or an object with it. */
const contentOf = (token: unknown): unknown =>
  typeof token === "object" && token !== null ? (token as { content?: unknown }).content : token;

/**
 * `tokenizer.json` with the tokens around a text as in `transformers`: where `tokenizer_config.json` has
 * `add_bos_token` or `add_eos_token`, these decide and not the file's post-processor (huggingface/transformers,
 * tokenization_utils_tokenizers.py, 0111c30: `update_post_processor`).
 */
function withAround(json: unknown, texts: Readonly<Record<string, unknown>>): unknown {
  if (!("add_bos_token" in texts) && !("add_eos_token" in texts)) return json;
  const tokenizer = tokenizerFromJSON(json);
  const put = (part: "bos" | "eos"): { readonly name: string; readonly id: number }[] => {
    const name = texts[`add_${part}_token`] === true ? contentOf(texts[`${part}_token`]) : undefined;
    const id = typeof name === "string" ? tokenizer.tokenToId(name) : undefined;
    return id === undefined ? [] : [{ name: name as string, id }];
  };
  const [before, behind] = [put("bos"), put("eos")];
  const all = [...before, ...behind];
  const isSame = tokenizer.encode("", { addSpecialTokens: true }).join() === all.map(({ id }) => id).join();
  if (isSame) return json;
  const special = ({ name }: { readonly name: string }): object => ({ SpecialToken: { id: name, type_id: 0 } });
  const template = {
    type: "TemplateProcessing",
    single: [...before.map(special), { Sequence: { id: "A", type_id: 0 } }, ...behind.map(special)],
    pair: [],
    special_tokens: Object.fromEntries(all.map(({ name, id }) => [name, { id: name, ids: [id], tokens: [name] }])),
  };
  return { ...(json as object), post_processor: all.length === 0 ? null : template };
}

/**
 * A tokenizer for all rows of the model's embedding table. Many tables are padded (Qwen's has 267 rows more than
 * tokens), and a model may draw one of the padding ids. They get names as special tokens, so that they can be shown.
 */
function fitted(tokenizer: Tokenizer, json: unknown, vocabSize: number): Tokenizer {
  const missing = vocabSize - tokenizer.vocabSize;
  check(
    missing >= 0,
    () => `tokenizer.json has ${tokenizer.vocabSize} tokens, config.json's vocab_size is ${vocabSize}`,
  );
  if (missing === 0) return tokenizer;
  const root = json as Readonly<Record<string, unknown>>;
  const unused = Array.from({ length: missing }, (_, i) => {
    const id = tokenizer.vocabSize + i;
    return { id, content: `<|unused ${id}|>`, special: true, ...PLAIN };
  });
  const added = (root["added_tokens"] ?? []) as readonly unknown[];
  return tokenizerFromJSON({ ...root, added_tokens: [...added, ...unused] });
}

const PLAIN = { single_word: false, lstrip: false, rstrip: false, normalized: false } as const;

/** The name of a special token. */
const nameOf = ({ special }: Tokenizer, id: number | undefined): string | undefined =>
  Object.keys(special).find((name) => special[name] === id);

async function hashOf(path: string, names: readonly string[]): Promise<string> {
  const hash = createHash("sha256");
  for (const name of [...names].sort()) {
    hash.update(`${name} ${statSync(join(path, name)).size}\n`);
    for await (const chunk of createReadStream(join(path, name), { highWaterMark: 2 ** 20 })) {
      hash.update(chunk as Uint8Array);
    }
  }
  return hash.digest("hex");
}

/** Options of the text around a model's episodes. */
export interface EpisodeTextOptions {
  /** A system message, or without a chat template the first line; none if it is empty. */
  readonly system: string;
  /** Whether the model thinks before it acts (`enable_thinking` of its template). Default: not, where it may choose. */
  readonly thinking?: boolean;
}

/**
 * The text around the parts of an episode: the model's own chat template, with the task and the answers as the user's
 * messages, and thoughts as it is told (`thoughtOf` has their tags). A model without one gets plain lines, and the end
 * of a line ends an action:
 *
 *     Task:⏎ … ⏎ Action:⏎ … ⏎ Answer:⏎ … ⏎ Action:⏎ … ⏎
 *
 * @throws WorldgradError if the template cannot be used or knows no thoughts, or if nothing can end an action
 */
export async function episodeFormatFor(
  folder: ModelFolder,
  { system, thinking = false }: EpisodeTextOptions,
): Promise<EpisodeFormat> {
  const chat = await folder.chat();
  const variables = { enable_thinking: thinking };
  check(
    !thinking || (chat !== undefined && writesThoughts(chat, variables)),
    () =>
      `${folder.path}: thinking needs a chat template with thoughts between ${THINK} and ${THINK_END}, and it has none`,
  );
  if (chat === undefined) return plainFormat(folder, system);
  return chat.episodeFormat({ variables, ...(system === "" ? {} : { system }) });
}

/**
 * The tags around the thoughts of a model, for `Template`: if it thinks because it is asked to, or because the format
 * begins a thought, whatever it is asked.
 */
export function thoughtOf({ task, action }: EpisodeFormat, thinking: boolean): Pick<TemplateOptions, "thought"> {
  const asks = task[1] + action;
  return thinking || asks.lastIndexOf(THINK) > asks.lastIndexOf(THINK_END) ? { thought: [THINK, THINK_END] } : {};
}

/** The names of the tokens that end the model's text, by its configuration. */
export const endsOf = ({ tokenizer, config }: ModelFolder): string[] =>
  config.eosIds.flatMap((id) => nameOf(tokenizer, id) ?? []);

function plainFormat({ tokenizer, config, bos = "", path }: ModelFolder, system: string): EpisodeFormat {
  const newline = ["Ċ", "<0x0A>", "\n"].find((name) => {
    const id = tokenizer.tokenToId?.(name);
    return id !== undefined && tokenizer.decodeBytes([id]).join() === "10";
  });
  const eos = nameOf(tokenizer, config.eosIds[0]);
  const end =
    newline ??
    eos ??
    fail(
      `${path} has no chat template, its tokenizer no token for the end of a line, and its configuration no ` +
        "eos_token_id: nothing could end an action",
    );
  return {
    task: [`${bos}${system === "" ? "" : `${system}\n`}Task:\n`, "\n"],
    action: "Action:\n",
    observation: [newline === undefined ? "\nAnswer:\n" : "Answer:\n", "\n"],
    end,
    pad: nameOf(tokenizer, config.padId) ?? eos ?? end,
  };
}

/** The model with an adapter in PEFT's format on it. @throws UsageError in one line if the adapter does not fit */
export function withAdapter(model: Model, path: string, flag = "--adapter"): Promise<LoraModel> {
  return ofFlag(flag, () => {
    const files = Object.values(ADAPTER_FILES).map((name) => join(path, name));
    const missing = files.find((file) => !existsSync(file));
    check(missing === undefined, () => `there is no ${missing}`);
    const [config, weights] = files as [string, string];
    checkSize(config);
    sizeOfFile(weights);
    return loraFromFiles(model, readFileSync(config, "utf8"), new Uint8Array(readFileSync(weights)));
  });
}
