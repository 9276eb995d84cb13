/**
 * Byte-level BPE: the tokenizer itself. Encoding cuts the text into pieces by a pattern and, in each piece, merges
 * neighbours in the order in which the merges were learnt, leftmost first, until none applies. A heap over a linked
 * list makes that O(n log n) for a piece of n bytes, so that a megabyte without a space is no trap; pieces met before
 * come from a cache.
 */
import { check, fail } from "../../engine/errors.ts";
import { toAlphabet } from "./alphabet.ts";
import { Heap } from "./heap.ts";

/** Options of `Tokenizer.decode`. */
export interface DecodeOptions {
  /** What a special token becomes: its name (the default: nothing disappears unseen), or nothing. */
  readonly specials?: "name" | "skip";
}

/** Text ↔ ids in [0, vocabSize). Stateless to its user: the same input gives the same output, always. */
export interface Tokenizer {
  /** Number of ids, special tokens included. */
  readonly vocabSize: number;
  /**
   * Ids of the special tokens by name. They enter a sequence by id only. No prototype: an unknown name is undefined.
   */
  readonly special: Readonly<Record<string, number>>;
  /**
   * The ids of `text`: a plain array, made to be concatenated. Never a special token: the literal text "<|end|>" is
   * encoded as the seven characters that it is, so no observation can forge a turn's end. A lone surrogate, which UTF-8
   * cannot express, is encoded as U+FFFD, as TextEncoder does; every well-formed string survives encode → decode
   * unchanged.
   */
  encode(text: string): number[];
  /** The text of `ids`. Bytes that are no UTF-8 (a cut character, say) become U+FFFD, as TextDecoder does. */
  decode(ids: ArrayLike<number>, options?: DecodeOptions): string;
  /** The bytes of `ids`, lossless: of two halves of a character, each gives its own bytes. */
  decodeBytes(ids: ArrayLike<number>, options?: DecodeOptions): Uint8Array;
  /**
   * Hugging Face's `tokenizer.json` as an object; `tokenizerFromJSON` reads it, and so does the `tokenizers` package.
   */
  toJSON(): Record<string, unknown>;
}

/** What defines a tokenizer. Ids index `tokens`. */
export interface BpeTables {
  /** Each token's bytes; for a special token the UTF-8 of its name. All 256 single bytes are among them. */
  readonly tokens: readonly Uint8Array[];
  readonly special: ReadonlyMap<string, number>;
  /** [left, right, result], in order of rank. */
  readonly merges: readonly (readonly [number, number, number])[];
  /** Source of a regular expression (flag u); undefined: the text is one piece. */
  readonly pattern: string | undefined;
}

/** Pairs of ids as one number, exact while ids stay below 2^24. */
const ID_LIMIT = 2 ** 24;
const MAX_CACHED_PIECES = 1 << 16;
const MAX_CACHED_LENGTH = 32;

export function pairKey(left: number, right: number): number {
  return left * ID_LIMIT + right;
}

/** `tokens` and `special` for given tokens followed by special ones, whose names are checked. */
export function specialTable(
  tokens: readonly Uint8Array[],
  names: readonly string[],
): Pick<BpeTables, "tokens" | "special"> {
  const taken = new Set(tokens.map(toAlphabet));
  const special = new Map<string, number>();
  for (const name of names) {
    check(name !== "" && !/\p{Cs}/u.test(name), () => `tokenizer: ${JSON.stringify(name)} cannot be a special token`);
    check(!special.has(name), () => `tokenizer: special token '${name}' is given twice`);
    check(!taken.has(name), () => `tokenizer: special token '${name}' has the name of an ordinary token`);
    special.set(name, tokens.length + special.size);
  }
  const encoder = new TextEncoder();
  return { tokens: [...tokens, ...names.map((name) => encoder.encode(name))], special };
}

/** Compiles a pattern for `splitPieces`. @throws WorldgradError with the engine's reason */
export function compilePattern(pattern: string): RegExp {
  try {
    return new RegExp(pattern, "gu");
  } catch (error) {
    return fail(`tokenizer: the pattern cannot be used: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** Cuts `text` at the matches of `pattern`; what lies between two matches is a piece too, so nothing is lost. */
export function* splitPieces(text: string, pattern: RegExp): Generator<string> {
  let end = 0;
  for (const { 0: piece, index } of text.matchAll(pattern)) {
    if (index > end) yield text.slice(end, index);
    if (piece !== "") yield piece;
    end = index + piece.length;
  }
  if (end < text.length) yield text.slice(end);
}

export class BpeTokenizer implements Tokenizer {
  readonly vocabSize: number;
  readonly special: Readonly<Record<string, number>>;
  readonly #tables: BpeTables;
  readonly #specialIds: ReadonlySet<number>;
  readonly #idOfByte = new Int32Array(256).fill(-1);
  readonly #rankOfPair = new Map<number, number>();
  readonly #pattern: RegExp | undefined;
  readonly #cache = new Map<string, readonly number[]>();
  readonly #encoder = new TextEncoder();

  /** Use `byteTokenizer`, `trainBpe` or `tokenizerFromJSON`. @throws WorldgradError if a byte has no token */
  constructor(tables: BpeTables) {
    const { tokens, special, merges, pattern } = tables;
    check(tokens.length < ID_LIMIT, () => `tokenizer: ${tokens.length} tokens, fewer than ${ID_LIMIT} are supported`);
    this.vocabSize = tokens.length;
    this.special = Object.freeze(
      Object.assign(Object.create(null) as Record<string, number>, Object.fromEntries(special)),
    );
    this.#tables = tables;
    this.#specialIds = new Set(special.values());
    tokens.forEach((bytes, id) => {
      if (bytes.length === 1 && !this.#specialIds.has(id)) this.#idOfByte[bytes[0]!] = id;
    });
    const missing = this.#idOfByte.indexOf(-1);
    check(missing === -1, () => `tokenizer: byte ${missing} has no token`);
    merges.forEach(([left, right], rank) => this.#rankOfPair.set(pairKey(left, right), rank));
    this.#pattern = pattern === undefined ? undefined : compilePattern(pattern);
  }

  encode(text: string): number[] {
    if (this.#pattern === undefined) return this.#encodePiece(text);
    const ids: number[] = [];
    for (const piece of splitPieces(text, this.#pattern)) {
      let encoded = this.#cache.get(piece);
      if (encoded === undefined) {
        encoded = this.#encodePiece(piece);
        if (this.#cache.size >= MAX_CACHED_PIECES) this.#cache.clear();
        if (piece.length <= MAX_CACHED_LENGTH) this.#cache.set(piece, encoded);
      }
      for (const id of encoded) ids.push(id);
    }
    return ids;
  }

  #encodePiece(piece: string): number[] {
    const ids = Array.from(this.#encoder.encode(piece), (byte) => this.#idOfByte[byte]!);
    return this.#tables.merges.length === 0 ? ids : this.#merge(ids);
  }

  /** Applies the merges to the ids of one piece, which it consumes. */
  #merge(ids: number[]): number[] {
    const { merges } = this.#tables;
    const count = ids.length;
    // A linked list: next[i] is the neighbour to the right (count: none), previous[i] to the left; −1 in ids: merged
    // away.
    const next = Int32Array.from(ids, (_, i) => i + 1);
    const previous = Int32Array.from(ids, (_, i) => i - 1);
    const rankAt = (i: number): number | undefined =>
      i >= 0 && next[i]! < count ? this.#rankOfPair.get(pairKey(ids[i]!, ids[next[i]!]!)) : undefined;
    // Candidates as rank · count + position: the smallest number is the lowest rank, leftmost.
    const heap = new Heap<number>((a, b) => a < b);
    const offer = (i: number): void => {
      const rank = rankAt(i);
      if (rank !== undefined) heap.push(rank * count + i);
    };
    for (let i = 0; i < count; i++) offer(i);
    for (let candidate = heap.pop(); candidate !== undefined; candidate = heap.pop()) {
      const i = candidate % count;
      const rank = (candidate - i) / count;
      if (ids[i] === -1 || rankAt(i) !== rank) continue; // outdated by a merge nearby
      const right = next[i]!;
      ids[i] = merges[rank]![2];
      ids[right] = -1;
      next[i] = next[right]!;
      if (next[i] < count) previous[next[i]] = i;
      offer(previous[i]!);
      offer(i);
    }
    return ids.filter((id) => id !== -1);
  }

  decodeBytes(ids: ArrayLike<number>, options: DecodeOptions = {}): Uint8Array {
    const skip = options.specials === "skip";
    const chunks: Uint8Array[] = [];
    let length = 0;
    for (let i = 0; i < ids.length; i++) {
      const id = ids[i]!;
      const bytes = this.#tables.tokens[id];
      check(bytes !== undefined, () => `decode: id ${id} at position ${i} is not in [0, ${this.vocabSize})`);
      if (skip && this.#specialIds.has(id)) continue;
      chunks.push(bytes);
      length += bytes.length;
    }
    const result = new Uint8Array(length);
    let at = 0;
    for (const chunk of chunks) {
      result.set(chunk, at);
      at += chunk.length;
    }
    return result;
  }

  decode(ids: ArrayLike<number>, options: DecodeOptions = {}): string {
    // ignoreBOM: otherwise the decoder would swallow a U+FEFF at the start.
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.decodeBytes(ids, options));
  }

  toJSON(): Record<string, unknown> {
    const { tokens, special, merges, pattern } = this.#tables;
    const names = tokens.map(toAlphabet);
    for (const [name, id] of special) names[id] = name;
    const byteLevel = { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false };
    const split = { type: "Split", pattern: { Regex: pattern }, behavior: "Isolated", invert: false };
    const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
    return {
      version: "1.0",
      truncation: null,
      padding: null,
      added_tokens: Array.from(special, ([content, id]) => ({ id, content, ...flags })),
      normalizer: null,
      pre_tokenizer: pattern === undefined ? byteLevel : { type: "Sequence", pretokenizers: [split, byteLevel] },
      post_processor: null,
      decoder: byteLevel,
      model: {
        type: "BPE",
        dropout: null,
        unk_token: null,
        continuing_subword_prefix: null,
        end_of_word_suffix: null,
        fuse_unk: false,
        byte_fallback: false,
        ignore_merges: false,
        vocab: Object.fromEntries(names.map((name, id) => [name, id])),
        // As "left right", which every version of `tokenizers` reads; the alphabet has no space.
        merges: merges.map(([left, right]) => `${names[left]!} ${names[right]!}`),
      },
    };
  }
}
