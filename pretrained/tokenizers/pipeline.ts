/**
 * The steps before and after BPE, which `tokenizer.json` describes in parts: a normaliser changes the text, a
 * pre-tokeniser cuts it into pieces that are never merged across, a post-processor adds tokens such as BOS, a decoder
 * turns tokens back into text. Each is read into a function; a part that is not here is refused by its name.
 */
import { check, fail } from "../../engine/errors.ts";
import { fromAlphabet } from "../../nn/tokenizers/alphabet.ts";
import { expectValue, flag, integer, type Json, list, object, text, unsupported } from "./fields.ts";
import { compilePattern } from "./pattern.ts";
import type { Normalizer, PreTokenizer } from "../../nn/tokenizers/types.ts";

/** GPT-2's pattern: what `"use_regex": true` means. */
export const GPT2_PATTERN: string = [
  "'(?:s|t|re|ve|m|ll|d)",
  String.raw` ?\p{L}+`,
  String.raw` ?\p{N}+`,
  String.raw` ?[^\s\p{L}\p{N}]+`,
  String.raw`\s+(?!\S)`,
  String.raw`\s+`,
].join("|");

/** The bytes of a token, and the number of spaces at the start of a text that are not part of it. */
export interface TokenDecoder {
  readonly bytes: (token: string) => Uint8Array;
  readonly strip: number;
  /** The mark of a space; the first token is decoded without any of them. */
  readonly firstWithout?: string;
  /** Whether tokens such as `<0x0A>` stand for bytes; each that is no UTF-8 becomes a U+FFFD of its own. */
  readonly byteFallback: boolean;
}

const UTF8 = new TextEncoder();
const FORMS: Readonly<Record<string, true>> = { NFC: true, NFD: true, NFKC: true, NFKD: true };

/** The largest growth by replacements; published tokenizers have 2 at most. */
const MOST_GROWTH = 256;

/**
 * Refuses replacements that multiply a text: a file of a few lines, each of which makes ten thousand letters of one,
 * could take any time and memory with a short text.
 * @param growth letters that are made of one
 */
function expectGrowth(growth: number, where: string): number {
  const ask = (): string =>
    `tokenizer.json: ${where} makes ${growth} letters of one, at most ${MOST_GROWTH} are supported`;
  check(growth <= MOST_GROWTH, ask);
  return growth;
}

/** Letters that a replacement makes of one. An expression, and an empty text, may match between letters as well. */
function growthOf(pattern: string | RegExp, content: string): number {
  if (content === "") return 1;
  return typeof pattern === "string" && pattern !== "" ? content.length : content.length + 1;
}

/** The largest depth of sequences within each other; published tokenizers have one. */
const DEEPEST = 16;

function expectDepth(depth: number, where: string): void {
  check(depth <= DEEPEST, () => `tokenizer.json: ${where} has more than ${DEEPEST} sequences within each other`);
}

/** Reads `normalizer`. */
export function readNormalizer(value: unknown, where = "normalizer", depth = 0): Normalizer | undefined {
  if ((value ?? null) === null) return undefined;
  expectDepth(depth, "normalizer");
  const json = object(value, where);
  const type = json["type"];
  if (type === "Sequence") {
    const parts = list(json["normalizers"], `${where}.normalizers`).map(
      (part, i) =>
        readNormalizer(part, `${where}.normalizers[${i}]`, depth + 1) ?? fail(unsupported(`${where}[${i}]`, part)),
    );
    const forms = new Set(parts.map(({ form }) => form).filter((form) => form !== "none"));
    return {
      apply: (given) => parts.reduce((result, part) => part.apply(result), given),
      form: forms.size > 1 ? "other" : ([...forms][0] ?? "none"),
      growth: expectGrowth(
        parts.reduce((product, { growth }) => product * growth, 1),
        where,
      ),
    };
  }
  if (typeof type === "string" && Object.hasOwn(FORMS, type)) {
    const form = type as "NFC";
    return { apply: (given) => given.normalize(form), form, growth: 1 };
  }
  if (type === "Prepend") {
    const prefix = text(json["prepend"], `${where}.prepend`);
    const isSpace = prefix === "▁" || prefix === " ";
    const growth = expectGrowth(1 + prefix.length, where);
    return { apply: (given) => (given === "" ? "" : prefix + given), form: isSpace ? "none" : "other", growth };
  }
  if (type === "Replace") {
    const content = text(json["content"], `${where}.content`);
    const pattern = readPattern(json["pattern"], `${where}.pattern`);
    const isSpace = typeof pattern === "string" && pattern === " " && content === "▁";
    const growth = expectGrowth(growthOf(pattern, content), where);
    return { apply: (given) => given.replaceAll(pattern, () => content), form: isSpace ? "none" : "other", growth };
  }
  // Character by character, as Rust's `char::to_lowercase`: no final sigma.
  if (type === "Lowercase") {
    const apply = (given: string): string => Array.from(given, (char) => char.toLowerCase()).join("");
    return { apply, form: "other", growth: 1 };
  }
  if (type === "Strip") {
    const left = flag(json["strip_left"], `${where}.strip_left`, true);
    const right = flag(json["strip_right"], `${where}.strip_right`, true);
    const apply = (given: string): string => {
      const begun = left ? given.replace(/^\p{White_Space}+/u, "") : given;
      let end = begun.length;
      if (right) while (end > 0 && /\p{White_Space}/u.test(begun[end - 1]!)) end--;
      return begun.slice(0, end);
    };
    return { apply, form: "other", growth: 1 };
  }
  return fail(unsupported(`${where}.type`, type));
}

/** A pattern as `{"String": …}` or `{"Regex": …}`. */
function readPattern(value: unknown, where: string): string | RegExp {
  const { String: plain, Regex: regex } = object(value, where);
  if (plain !== undefined) return text(plain, `${where}.String`);
  return compilePattern(text(regex, `${where}.Regex`));
}

/** The ways in which a split treats its matches, by their names in `tokenizers`. */
const BEHAVIORS = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"] as const;
type Behavior = (typeof BEHAVIORS)[number];

/** Reads `pre_tokenizer`, which must end in bytes (`ByteLevel`) or have none. */
export function readPreTokenizer(value: unknown): { pieces: PreTokenizer | undefined; byteLevel: boolean } {
  if ((value ?? null) === null) return { pieces: undefined, byteLevel: false };
  const json = object(value, "pre_tokenizer");
  const isSequence = json["type"] === "Sequence";
  const steps = isSequence ? list(json["pretokenizers"], "pre_tokenizer.pretokenizers") : [json];
  const at = (i: number): string => (isSequence ? `pre_tokenizer.pretokenizers[${i}]` : "pre_tokenizer");
  const read = steps.map((step, i) => {
    const part = object(step, at(i));
    const isBytes = part["type"] === "ByteLevel";
    check(
      !isBytes || i === steps.length - 1,
      () => `tokenizer.json: ${at(i)} is ByteLevel, which must be the last step`,
    );
    return readStep(part, at(i));
  });
  return {
    byteLevel: object(steps.at(-1) ?? {}, at(0))["type"] === "ByteLevel",
    pieces: (given, isStart) => read.reduce((pieces, step) => step(pieces, isStart), given),
  };
}

function readStep(json: Json, where: string): PreTokenizer {
  const type = json["type"];
  if (type === "ByteLevel") {
    const pattern = flag(json["use_regex"], `${where}.use_regex`, true) ? compilePattern(GPT2_PATTERN) : undefined;
    const spaced = flag(json["add_prefix_space"], `${where}.add_prefix_space`, true);
    return (pieces) => {
      const begun = spaced ? pieces.map((piece) => (piece.startsWith(" ") ? piece : ` ${piece}`)) : pieces;
      return pattern === undefined ? begun : splitAll(begun, pattern, "Isolated", false);
    };
  }
  if (type === "Metaspace") return readMetaspace(json, where);
  if (type === "Split") {
    const behavior = json["behavior"];
    check(BEHAVIORS.includes(behavior as Behavior), () => unsupported(`${where}.behavior`, behavior));
    const pattern = readPattern(json["pattern"], `${where}.pattern`);
    const invert = flag(json["invert"], `${where}.invert`, false);
    return (pieces) => splitAll(pieces, pattern, behavior as Behavior, invert);
  }
  if (type === "Digits") {
    const single = flag(json["individual_digits"], `${where}.individual_digits`, false);
    return (pieces) => splitAll(pieces, /\p{N}/gu, single ? "Isolated" : "Contiguous", false);
  }
  if (type === "Punctuation") {
    const behavior = json["behavior"] ?? "Isolated";
    check(BEHAVIORS.includes(behavior as Behavior), () => unsupported(`${where}.behavior`, behavior));
    return (pieces) => splitAll(pieces, /[!-/:-@[-`{-~\p{P}]/gu, behavior as Behavior, false);
  }
  if (type === "WhitespaceSplit") return (pieces) => splitAll(pieces, /\p{White_Space}/gu, "Removed", false);
  if (type === "Whitespace") {
    const word = String.raw`[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+`;
    const other = String.raw`[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}\p{White_Space}]+`;
    const pattern = new RegExp(`${word}|${other}`, "gu");
    return (pieces) => splitAll(pieces, pattern, "Removed", true);
  }
  return fail(unsupported(`${where}.type`, type));
}

function readMetaspace(json: Json, where: string): PreTokenizer {
  const mark = text(json["replacement"] ?? "▁", `${where}.replacement`);
  check(
    [...mark].length === 1,
    () => `tokenizer.json: ${where}.replacement is ${JSON.stringify(mark)}, expected one character`,
  );
  const scheme = json["prepend_scheme"] ?? (flag(json["add_prefix_space"], where, true) ? "always" : "never");
  check(["first", "always", "never"].includes(scheme as string), () => unsupported(`${where}.prepend_scheme`, scheme));
  const splits = flag(json["split"], `${where}.split`, true);
  return (pieces, isStart) => {
    const marked = pieces.map((piece, i) => {
      const result = piece.replaceAll(" ", () => mark);
      const prepends = scheme === "always" || (scheme === "first" && isStart && i === 0);
      return prepends && !result.startsWith(mark) ? mark + result : result;
    });
    return splits ? splitAll(marked, mark, "MergedWithNext", false) : marked;
  };
}

function* matchesOf(piece: string, pattern: string | RegExp): Generator<readonly [start: number, end: number]> {
  if (typeof pattern !== "string") {
    for (const { 0: match, index } of piece.matchAll(pattern)) if (match !== "") yield [index, index + match.length];
  } else if (pattern !== "") {
    for (let at = piece.indexOf(pattern); at >= 0; at = piece.indexOf(pattern, at + pattern.length)) {
      yield [at, at + pattern.length];
    }
  }
}

/** Cuts pieces at the matches of a pattern; empty pieces vanish. */
export function splitAll(
  pieces: readonly string[],
  pattern: string | RegExp,
  behavior: Behavior,
  invert: boolean,
): string[] {
  const result: string[] = [];
  for (const piece of pieces) {
    const cut: [text: string, isMatch: boolean][] = [];
    let end = 0;
    for (const [start, to] of matchesOf(piece, pattern)) {
      if (start > end) cut.push([piece.slice(end, start), invert]);
      cut.push([piece.slice(start, to), !invert]);
      end = to;
    }
    if (end < piece.length) cut.push([piece.slice(end), invert]);
    join(cut, behavior, result);
  }
  return result;
}

function join(cut: readonly (readonly [text: string, isMatch: boolean])[], behavior: Behavior, result: string[]): void {
  const first = result.length;
  let before: boolean | undefined;
  if (behavior === "MergedWithNext") {
    // From the end, so that each match finds what follows it.
    const reversed: string[] = [];
    for (const [piece, isMatch] of cut.toReversed()) {
      if (isMatch && before === false) reversed[reversed.length - 1] = piece + reversed.at(-1)!;
      else reversed.push(piece);
      before = isMatch;
    }
    for (const piece of reversed.toReversed()) result.push(piece);
    return;
  }
  for (const [piece, isMatch] of cut) {
    const merges =
      behavior === "Contiguous" ? isMatch === before : behavior === "MergedWithPrevious" && isMatch && before === false;
    if (merges && result.length > first) result[result.length - 1] += piece;
    else if (behavior !== "Removed" || !isMatch) result.push(piece);
    before = isMatch;
  }
}

/** Reads `post_processor`: the ids before and behind a text. */
export function readPostProcessor(
  value: unknown,
  where = "post_processor",
  depth = 0,
): [before: number[], behind: number[]] {
  if ((value ?? null) === null) return [[], []];
  expectDepth(depth, "post_processor");
  const json = object(value, where);
  if (json["type"] === "ByteLevel") return [[], []];
  if (json["type"] === "Sequence") {
    const result: [number[], number[]] = [[], []];
    list(json["processors"], `${where}.processors`).forEach((part, i) => {
      const [before, behind] = readPostProcessor(part, `${where}.processors[${i}]`, depth + 1);
      result[0].unshift(...before);
      result[1].push(...behind);
    });
    return result;
  }
  expectValue(json["type"], "TemplateProcessing", `${where}.type`);
  const known = object(json["special_tokens"] ?? {}, `${where}.special_tokens`);
  const result: [number[], number[]] = [[], []];
  let texts = 0;
  list(json["single"], `${where}.single`).forEach((entry, i) => {
    const at = `${where}.single[${i}]`;
    const { SpecialToken: token, Sequence: sequence } = object(entry, at);
    if (sequence !== undefined) return void texts++;
    const name = text(object(token, `${at}.SpecialToken`)["id"], `${at}.SpecialToken.id`);
    const place = `${where}.special_tokens[${JSON.stringify(name)}]`;
    const ids = list(object(known[name], place)["ids"], `${place}.ids`);
    result[texts === 0 ? 0 : 1].push(...ids.map((id) => integer(id, `${place}.ids`)));
  });
  check(texts === 1, () => unsupported(`${where}.single`, json["single"]));
  return result;
}

/** Reads `decoder`. @param byteLevel whether the tokens are written in the byte-level alphabet */
export function readDecoder(value: unknown, byteLevel: boolean): TokenDecoder {
  const ofBytes = {
    bytes: (token: string) => fromAlphabet(token) ?? UTF8.encode(token),
    strip: 0,
    byteFallback: false,
  };
  if ((value ?? null) === null) {
    return byteLevel ? ofBytes : fail(unsupported("decoder", value));
  }
  const json = object(value, "decoder");
  if (byteLevel) {
    const only = json["type"] === "Sequence" ? list(json["decoders"], "decoder.decoders") : [json];
    check(only.length === 1, () => unsupported("decoder.decoders", only));
    expectValue(object(only[0], "decoder")["type"], "ByteLevel", "decoder.type");
    return ofBytes;
  }
  const isSequence = json["type"] === "Sequence";
  const steps = isSequence ? list(json["decoders"], "decoder.decoders") : [json];
  const replaced: (readonly [string, string])[] = [];
  let [strip, byteFallback] = [0, false];
  let firstWithout: string | undefined;
  steps.forEach((step, i) => {
    const where = isSequence ? `decoder.decoders[${i}]` : "decoder";
    const part = object(step, where);
    const type = part["type"];
    if (type === "Replace") {
      const from = readPattern(part["pattern"], `${where}.pattern`);
      check(typeof from === "string", () => unsupported(`${where}.pattern`, part["pattern"]));
      replaced.push([from, text(part["content"], `${where}.content`)]);
    } else if (type === "ByteFallback") byteFallback = true;
    else if (type === "Metaspace") {
      const mark = text(part["replacement"] ?? "▁", `${where}.replacement`);
      replaced.push([mark, " "]);
      const scheme = part["prepend_scheme"] ?? (flag(part["add_prefix_space"], where, true) ? "always" : "never");
      if (scheme !== "never") firstWithout = mark;
    } else if (type === "Strip") {
      expectValue(part["content"], " ", `${where}.content`);
      expectValue(part["stop"] ?? 0, 0, `${where}.stop`);
      strip = integer(part["start"] ?? 0, `${where}.start`);
    } else expectValue(type, "Fuse", `${where}.type`);
  });
  const growth = replaced.reduce((product, [from, to]) => product * growthOf(from, to), 1);
  expectGrowth(growth, "decoder");
  return {
    bytes: (token) => {
      const byte = byteFallback ? byteOf(token) : undefined;
      if (byte !== undefined) return Uint8Array.of(byte);
      return UTF8.encode(replaced.reduce((result, [from, to]) => result.replaceAll(from, () => to), token));
    },
    strip,
    ...(firstWithout === undefined ? {} : { firstWithout }),
    byteFallback,
  };
}

/** The byte that a token such as `<0x0A>` stands for. */
export function byteOf(token: string): number | undefined {
  return /^<0x[0-9A-F]{2}>$/.test(token) ? Number.parseInt(token.slice(3, 5), 16) : undefined;
}
