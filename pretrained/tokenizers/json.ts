/**
 * Reading `tokenizer.json`, the format of Hugging Face's `tokenizers`, as far as it describes byte-pair encoding: what
 * `toJSON` writes, and what GPT-2, Llama 2 and 3, Mistral, Qwen and SmolLM ship. Tests compare the ids with the
 * package's own (tests/pretrained/tokenizerFamilies.test.ts). A field that would make them differ (another model, a
 * part of the pipeline that is not in pipeline.ts, dropout) is refused by its name.
 *
 * `truncation` and `padding` are ignored, because transformers sets both anew for each call. One difference remains:
 * ours finds special tokens in a text only if asked to (`specials: "tokens"`).
 */
import { check, fail } from "../../engine/errors.ts";
import type { AddedToken } from "../../nn/tokenizers/added.ts";
import { BpeTokenizer, pairKey } from "../../nn/tokenizers/bpe.ts";
import { expectValue, flag, integer, list, object, text, unsupported } from "./fields.ts";
import { readDecoder, readNormalizer, readPostProcessor, readPreTokenizer } from "./pipeline.ts";
import type { ForeignParts } from "../../nn/tokenizers/types.ts";

/**
 * The tokenizer that a parsed `tokenizer.json` describes.
 * @throws WorldgradError naming the field that is malformed or not supported
 */
export function tokenizerFromJSON(json: unknown): BpeTokenizer {
  const root = object(json, "the root");
  const model = object(root["model"], "model");
  // Files of older versions of `tokenizers` leave the type out.
  expectValue(model["type"] ?? ("merges" in model ? "BPE" : model["type"]), "BPE", "model.type");
  for (const key of ["dropout", "continuing_subword_prefix", "end_of_word_suffix"]) {
    const value = model[key] ?? 0;
    check(value === "" || value === 0, () => unsupported(`model.${key}`, value));
  }
  const normalizer = readNormalizer(root["normalizer"]);
  const { pieces: preTokenize, byteLevel } = readPreTokenizer(root["pre_tokenizer"]);
  const around = readPostProcessor(root["post_processor"]);
  const decoder = readDecoder(root["decoder"], byteLevel);

  const vocab = object(model["vocab"], "model.vocab");
  const ids = new Map<string, number>();
  for (const [name, id] of Object.entries(vocab)) ids.set(name, integer(id, `model.vocab[${JSON.stringify(name)}]`));
  const own = new Map(ids);
  const added = readAdded(root["added_tokens"] ?? [], ids);
  const names = namesOf(ids);
  const contents = new Set(added.map(({ content }) => content));
  const encoder = new TextEncoder();
  // The name of an added token is text, which the alphabet of bytes would read otherwise; `▁` in it is a space.
  const isText = (name: string): boolean => byteLevel && contents.has(name);
  const tokens = names.map((name) => (isText(name) ? encoder.encode(name) : decoder.bytes(name)));
  const plain = new Map(own);
  for (const { content, special } of added) if (special) plain.delete(content);
  for (const id of around.flat()) {
    check(id < names.length, () => `tokenizer.json: post_processor has the id ${id}, of ${names.length} tokens`);
  }
  const unknown = model["unk_token"] ?? undefined;
  const foreign: ForeignParts = {
    names,
    plain,
    normalizer,
    preTokenize,
    byteLevel,
    byteFallback: flag(model["byte_fallback"], "model.byte_fallback", false) ? byteTokens(own) : undefined,
    unknown: unknown === undefined ? undefined : idOf(text(unknown, "model.unk_token"), own, "model.unk_token"),
    fuseUnknown: flag(model["fuse_unk"], "model.fuse_unk", false),
    ignoreMerges: flag(model["ignore_merges"], "model.ignore_merges", false),
    around,
    strip: decoder.strip,
    firstWithout: decoder.firstWithout,
    pairs: Array.isArray((model["merges"] as unknown[] | undefined)?.[0]),
    rest: { ...root, model: { ...model, vocab: Object.keys(vocab), merges: [] } },
  };
  return new BpeTokenizer({ tokens, added, merges: readMerges(model["merges"], own), pattern: undefined, foreign });
}

/** For each byte the id of its token (`<0x0A>` and the like), −1 without one. */
function byteTokens(ids: ReadonlyMap<string, number>): Int32Array {
  return Int32Array.from({ length: 256 }, (_, byte) => {
    return ids.get(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`) ?? -1;
  });
}

/** The added tokens; adds those that the vocabulary lacks to `ids`. */
function readAdded(given: unknown, ids: Map<string, number>): AddedToken[] {
  const seen = new Set<string>();
  return list(given, "added_tokens").map((entry, i) => {
    const where = `added_tokens[${i}]`;
    const fields = object(entry, where);
    const { content } = fields;
    check(typeof content === "string" && content !== "", () => unsupported(`${where}.content`, content));
    const id = integer(fields["id"], `${where}.id`);
    const known = ids.get(content) ?? id;
    check(known === id, () => `tokenizer.json: ${where}: '${content}' has id ${id}, but ${known} in model.vocab`);
    check(!seen.has(content), () => `tokenizer.json: ${where}: '${content}' is added twice`);
    seen.add(content);
    ids.set(content, id);
    const special = flag(fields["special"], `${where}.special`, true);
    return {
      id,
      content,
      special,
      single_word: flag(fields["single_word"], `${where}.single_word`, false),
      lstrip: flag(fields["lstrip"], `${where}.lstrip`, false),
      rstrip: flag(fields["rstrip"], `${where}.rstrip`, false),
      normalized: flag(fields["normalized"], `${where}.normalized`, !special),
    };
  });
}

function namesOf(ids: ReadonlyMap<string, number>): string[] {
  const names: string[] = [];
  for (const [name, id] of ids) {
    check(id < ids.size, () => `tokenizer.json: '${name}' has id ${id}, but there are only ${ids.size} tokens`);
    check(names[id] === undefined, () => `tokenizer.json: '${name}' has id ${id}, and so has another token`);
    names[id] = name;
  }
  return names;
}

function idOf(name: string, ids: ReadonlyMap<string, number>, where: string): number {
  return ids.get(name) ?? fail(`tokenizer.json: ${where}: '${name}' is not in model.vocab`);
}

function readMerges(raw: unknown, ids: ReadonlyMap<string, number>): [number, number, number][] {
  const seen = new Set<number>();
  return list(raw, "model.merges").map((entry, rank) => {
    const where = `model.merges[${rank}]`;
    const parts: unknown = typeof entry === "string" ? entry.split(" ") : entry;
    const isPair = Array.isArray(parts) && parts.length === 2 && parts.every((part) => typeof part === "string");
    check(isPair, () => unsupported(where, entry));
    const [left, right] = parts as [string, string];
    const merge: [number, number, number] = [
      idOf(left, ids, where),
      idOf(right, ids, where),
      idOf(left + right, ids, where),
    ];
    const key = pairKey(merge[0], merge[1]);
    check(!seen.has(key), () => `tokenizer.json: ${where}: '${left} ${right}' is listed twice`);
    seen.add(key);
    return merge;
  });
}
