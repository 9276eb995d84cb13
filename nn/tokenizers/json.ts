/**
 * Reading `tokenizer.json`, the format of Hugging Face's `tokenizers`, as far as it describes byte-level BPE without
 * normalisation: what `toJSON` writes, and GPT-2's own file. Whatever would make our ids differ from theirs
 * (normalisers, templates, prefix spaces, `ignore_merges`, …) is refused by the field's name.
 *
 * Two differences remain. Ours never finds special tokens in text (theirs: `encode_special_tokens = true`). A foreign
 * pattern with `\s` means JavaScript's white space, which has U+FEFF and lacks U+0085.
 */
import { check, fail } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import { fromAlphabet, GPT2_PATTERN } from "./alphabet.ts";
import { BpeTokenizer, pairKey } from "./bpe.ts";

type Json = Record<string, unknown>;

/**
 * The tokenizer that a parsed `tokenizer.json` describes.
 * @throws WorldgradError naming the field that is malformed or not supported
 */
export function tokenizerFromJSON(json: unknown): BpeTokenizer {
  const root = object(json, "the root");
  expectAbsent(root, ["normalizer", "truncation", "padding"]);
  const model = object(root["model"], "model");
  expectValue(model["type"], "BPE", "model.type");
  for (const key of ["dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "ignore_merges"]) {
    const value = model[key] ?? false;
    check(value === false || value === "" || value === 0, () => unsupported(`model.${key}`, value));
  }
  checkPostProcessor(object(root["post_processor"] ?? {}, "post_processor"));
  expectValue(object(root["decoder"] ?? {}, "decoder")["type"] ?? "ByteLevel", "ByteLevel", "decoder.type");
  const pattern = readPattern(object(root["pre_tokenizer"], "pre_tokenizer"));

  const ids = new Map<string, number>();
  for (const [name, id] of Object.entries(object(model["vocab"], "model.vocab"))) {
    ids.set(name, integer(id, `model.vocab[${JSON.stringify(name)}]`));
  }
  const special = readSpecial(root["added_tokens"] ?? [], ids);
  const tokens = readTokens(ids, special);
  return new BpeTokenizer({ tokens, special, merges: readMerges(model["merges"], ids, special), pattern });
}

/**
 * `transformers` gives every tokenizer that it saves a template; one that is the text and nothing else adds nothing.
 */
function checkPostProcessor(processor: Json): void {
  if (processor["type"] !== "TemplateProcessing") {
    return expectValue(processor["type"] ?? "ByteLevel", "ByteLevel", "post_processor.type");
  }
  const single = list(processor["single"], "post_processor.single");
  const isText = single.length === 1 && Object.hasOwn(object(single[0], "post_processor.single[0]"), "Sequence");
  check(isText, () => unsupported("post_processor.single", single));
}

/** Returns the pattern of the pieces; undefined: no cutting. */
function readPattern(preTokenizer: Json): string | undefined {
  const sequence = preTokenizer["type"] === "Sequence";
  const steps = sequence ? list(preTokenizer["pretokenizers"], "pre_tokenizer.pretokenizers") : [preTokenizer];
  const where = (i: number): string => (sequence ? `pre_tokenizer.pretokenizers[${i}]` : "pre_tokenizer");
  check(
    steps.length === 1 || steps.length === 2,
    () => `tokenizer.json: pre_tokenizer has ${steps.length} steps, expected 1 or 2`,
  );

  const lastAt = where(steps.length - 1);
  const last = object(steps.at(-1), lastAt);
  expectValue(last["type"], "ByteLevel", `${lastAt}.type`);
  expectValue(last["add_prefix_space"] ?? true, false, `${lastAt}.add_prefix_space`);
  const useRegex = last["use_regex"] ?? true;
  if (steps.length === 1) {
    check(typeof useRegex === "boolean", () => unsupported(`${lastAt}.use_regex`, useRegex));
    return useRegex ? GPT2_PATTERN : undefined;
  }
  expectValue(useRegex, false, `${lastAt}.use_regex`);
  const split = object(steps[0], where(0));
  expectValue(split["type"], "Split", `${where(0)}.type`);
  expectValue(split["behavior"], "Isolated", `${where(0)}.behavior`);
  expectValue(split["invert"] ?? false, false, `${where(0)}.invert`);
  const pattern = object(split["pattern"], `${where(0)}.pattern`)["Regex"];
  check(typeof pattern === "string", () => unsupported(`${where(0)}.pattern.Regex`, pattern));
  return pattern;
}

/** The added tokens by name; adds those that the vocabulary lacks to `ids`. */
function readSpecial(added: unknown, ids: Map<string, number>): Map<string, number> {
  const special = new Map<string, number>();
  list(added, "added_tokens").forEach((entry, i) => {
    const { id: rawId, content } = object(entry, `added_tokens[${i}]`);
    check(typeof content === "string" && content !== "", () => unsupported(`added_tokens[${i}].content`, content));
    const id = integer(rawId, `added_tokens[${i}].id`);
    const known = ids.get(content) ?? id;
    check(
      known === id,
      () => `tokenizer.json: added_tokens[${i}]: '${content}' has id ${id}, but ${known} in model.vocab`,
    );
    check(!special.has(content), () => `tokenizer.json: added_tokens[${i}]: '${content}' is added twice`);
    ids.set(content, id);
    special.set(content, id);
  });
  return special;
}

function readTokens(ids: ReadonlyMap<string, number>, special: ReadonlyMap<string, number>): Uint8Array[] {
  const tokens: Uint8Array[] = [];
  const encoder = new TextEncoder();
  for (const [name, id] of ids) {
    check(id < ids.size, () => `tokenizer.json: '${name}' has id ${id}, but there are only ${ids.size} tokens`);
    check(tokens[id] === undefined, () => `tokenizer.json: '${name}' has id ${id}, and so has another token`);
    const bytes = special.has(name) ? encoder.encode(name) : fromAlphabet(name);
    tokens[id] = bytes ?? fail(`tokenizer.json: model.vocab: '${name}' is not written in the byte-level alphabet`);
  }
  return tokens;
}

function readMerges(
  raw: unknown,
  ids: ReadonlyMap<string, number>,
  special: ReadonlyMap<string, number>,
): [number, number, number][] {
  const seen = new Set<number>();
  return list(raw, "model.merges").map((entry, rank) => {
    const where = `model.merges[${rank}]`;
    const parts: unknown = typeof entry === "string" ? entry.split(" ") : entry;
    const isPair = Array.isArray(parts) && parts.length === 2 && parts.every((part) => typeof part === "string");
    check(isPair, () => unsupported(where, entry));
    const [left, right] = parts as [string, string];
    const idOf = (name: string): number => {
      const id = special.has(name) ? undefined : ids.get(name);
      return id ?? fail(`tokenizer.json: ${where}: '${name}' is not in model.vocab`);
    };
    const merge: [number, number, number] = [idOf(left), idOf(right), idOf(left + right)];
    const key = pairKey(merge[0], merge[1]);
    check(!seen.has(key), () => `tokenizer.json: ${where}: '${left} ${right}' is listed twice`);
    seen.add(key);
    return merge;
  });
}

function object(value: unknown, where: string): Json {
  const fits = typeof value === "object" && value !== null && !Array.isArray(value);
  check(fits, () => `tokenizer.json: ${where} is ${showValue(value)}, expected an object`);
  return value as Json;
}

function list(value: unknown, where: string): unknown[] {
  check(Array.isArray(value), () => `tokenizer.json: ${where} is ${showValue(value)}, expected a list`);
  return value as unknown[];
}

function integer(value: unknown, where: string): number {
  const fits = typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
  check(fits, () => `tokenizer.json: ${where} is ${showValue(value)}, expected a non-negative integer`);
  return value;
}

function expectValue(value: unknown, expected: string | boolean, where: string): void {
  check(
    value === expected,
    () => `tokenizer.json: ${where} is ${showValue(value)}, only ${showValue(expected)} is supported`,
  );
}

function expectAbsent(root: Json, keys: readonly string[]): void {
  for (const key of keys) check((root[key] ?? null) === null, () => unsupported(key, root[key]));
}

function unsupported(where: string, value: unknown): string {
  return `tokenizer.json: ${where} is ${showValue(value)}, which is not supported`;
}
