/**
 * The tokenizer of byte-pair encoding. Encoding looks for added tokens, normalises, cuts the text into pieces and, in
 * each piece, merges neighbours in the order in which the merges were learnt, leftmost first, until none applies. A
 * heap over a linked list makes that O(n log n) for a piece of n bytes, so that a megabyte without a space takes no
 * longer than other text; known pieces come from a cache.
 */
import { check, fail, reasonOf } from "../../engine/errors.ts";
import { type AddedToken, AddedTokens, type Range } from "./added.ts";
import { toAlphabet } from "./alphabet.ts";
import { Merges } from "./merges.ts";
import type {
  Normalizer,
  BpeTables,
  DecodeOptions,
  EncodedPart,
  EncodeOptions,
  ForeignParts,
  Tokenizer,
} from "./types.ts";

/** The limit of ids: a pair of them as one number is exact below 2^24. */
const ID_LIMIT = 2 ** 24;
const MAX_CACHED_PIECES = 1 << 16;
const MAX_CACHED_LENGTH = 32;

export function pairKey(left: number, right: number): number {
  return left * ID_LIMIT + right;
}

/** `tokens` and `added` for given tokens followed by special ones, whose names are checked. */
export function specialTable(
  tokens: readonly Uint8Array[],
  names: readonly string[],
): Pick<BpeTables, "tokens" | "added"> {
  const taken = new Set(tokens.map(toAlphabet));
  const given = new Set<string>();
  for (const name of names) {
    check(name !== "" && !/\p{Cs}/u.test(name), () => `tokenizer: ${JSON.stringify(name)} cannot be a special token`);
    check(!given.has(name), () => `tokenizer: special token '${name}' is given twice`);
    check(!taken.has(name), () => `tokenizer: special token '${name}' has the name of an ordinary token`);
    given.add(name);
  }
  const encoder = new TextEncoder();
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  const added = names.map((content, i) => ({ id: tokens.length + i, content, ...flags }));
  return { tokens: [...tokens, ...names.map((name) => encoder.encode(name))], added };
}

/** The expression whose matches are pieces, flags g and u. @throws WorldgradError if it is malformed */
export function piecesBy(pattern: string): RegExp {
  try {
    return new RegExp(pattern, "gu");
  } catch (error) {
    return fail(`tokenizer: the pattern cannot be used: ${reasonOf(error)}, in ${JSON.stringify(pattern)}`);
  }
}

/** Cuts `text` at the matches of `pattern`; text between two matches is a piece too, so nothing is lost. */
export function* splitPieces(text: string, pattern: RegExp): Generator<string> {
  let end = 0;
  for (const { 0: piece, index } of text.matchAll(pattern)) {
    if (index > end) yield text.slice(end, index);
    if (piece !== "") yield piece;
    end = index + piece.length;
  }
  if (end < text.length) yield text.slice(end);
}

const UTF8 = new TextEncoder();

export class BpeTokenizer implements Tokenizer {
  readonly vocabSize: number;
  readonly special: Readonly<Record<string, number>>;
  readonly addedTokens: readonly AddedToken[];
  readonly normalizer: Normalizer | undefined;
  readonly #tables: BpeTables;
  readonly #specialIds: ReadonlySet<number>;
  /** Added tokens that are searched in the text, and those that are searched in the normalised text. */
  readonly #found: AddedTokens;
  readonly #foundNormalized: AddedTokens;
  readonly #idOfByte = new Int32Array(256).fill(-1);
  /** Ids by name. For tokenizers of the library the map is made at its first use. */
  #idOfName: Map<string, number> | undefined;
  /** Ids by UTF-16 unit of the tokens of plain text that are one character, if a text is merged from characters. */
  #idOfUnit: Int32Array | undefined;
  readonly #merges: Merges;
  readonly #pattern: RegExp | undefined;
  readonly #cache = new Map<string, readonly number[]>();

  /** Not for users: see `byteTokenizer`, `trainBpe` and `tokenizerFromJSON`. */
  constructor(tables: BpeTables) {
    const { tokens, added, merges, pattern, foreign } = tables;
    check(tokens.length < ID_LIMIT, () => `tokenizer: ${tokens.length} tokens, fewer than ${ID_LIMIT} are supported`);
    this.vocabSize = tokens.length;
    this.addedTokens = added;
    this.normalizer = foreign?.normalizer;
    const specials = added.filter(({ special }) => special);
    this.special = Object.freeze(
      Object.assign(
        Object.create(null) as Record<string, number>,
        Object.fromEntries(specials.map(({ content, id }) => [content, id])),
      ),
    );
    this.#tables = tables;
    this.#specialIds = new Set(specials.map(({ id }) => id));
    const apart = (normalized: boolean): AddedToken[] => added.filter((token) => token.normalized === normalized);
    // Without normalisation both texts are equal, and only the order of the search differs.
    this.#found = new AddedTokens(apart(false));
    this.#foundNormalized = new AddedTokens(
      apart(true),
      ({ content }) => foreign?.normalizer?.apply(content) ?? content,
    );
    const addedIds = new Set(added.map(({ id }) => id));
    tokens.forEach((bytes, id) => {
      if (bytes.length === 1 && !addedIds.has(id)) this.#idOfByte[bytes[0]!] = id;
    });
    if (foreign) {
      this.#idOfName = new Map(foreign.names.map((name, id) => [name, id]));
      if (foreign.byteLevel)
        for (let byte = 0; byte < 256; byte++) {
          this.#idOfByte[byte] = foreign.plain.get(toAlphabet(Uint8Array.of(byte))) ?? -1;
        }
      else {
        const idOfUnit = new Int32Array(2 ** 16).fill(-1);
        for (const [name, id] of foreign.plain) if (name.length === 1) idOfUnit[name.charCodeAt(0)] = id;
        this.#idOfUnit = idOfUnit;
      }
    } else {
      const missing = this.#idOfByte.indexOf(-1);
      check(missing === -1, () => `tokenizer: byte ${missing} has no token`);
    }
    this.#merges = new Merges(merges, tokens.length);
    this.#pattern = pattern === undefined ? undefined : piecesBy(pattern);
  }

  encode(text: string, options: EncodeOptions = {}): number[] {
    const ids: number[] = [];
    for (const part of this.encodeParts(text, options)) for (const id of part.ids) ids.push(id);
    return ids;
  }

  encodeParts(given: string, options: EncodeOptions = {}): EncodedPart[] {
    const { specials = "text", plain = [], addSpecialTokens = false } = options;
    const text = given.replace(/\p{Surrogate}/gu, "\ufffd");
    const parts: EncodedPart[] = [];
    const [before, behind] = (addSpecialTokens && this.#tables.foreign?.around) || [[], []];
    if (before.length > 0) parts.push({ start: 0, end: 0, ids: before, isToken: true });
    const isPlain = (from: number, to: number): boolean => plain.some(([start, end]) => start < to && from < end);
    for (const { start, end, token } of this.#found.split(text, specials === "tokens", isPlain)) {
      if (token) parts.push({ start, end, ids: [token.id], isToken: true });
      else this.#encodeStretch(text.slice(start, end), start, specials === "tokens", isPlain, parts);
    }
    if (behind.length > 0) parts.push({ start: text.length, end: text.length, ids: behind, isToken: true });
    return parts;
  }

  /** The parts of a text between two added tokens. */
  #encodeStretch(
    stretch: string,
    at: number,
    specials: boolean,
    isPlain: (start: number, end: number) => boolean,
    parts: EncodedPart[],
  ): void {
    const text = this.normalizer?.apply(stretch) ?? stretch;
    // If the text was changed, places in it are not those of the original; then the place is the whole part.
    const isSame = text === stretch;
    const place = (start: number, end: number): Range => (isSame ? [at + start, at + end] : [at, at + stretch.length]);
    for (const { start, end, token } of this.#foundNormalized.split(text, specials, (from, to) =>
      isPlain(...place(from, to)),
    )) {
      const [from, to] = place(start, end);
      const ids = token ? [token.id] : this.#encodeText(text.slice(start, end), at === 0 && start === 0);
      parts.push({ start: from, end: to, ids, isToken: token !== undefined });
    }
  }

  /** The ids of normalised text without added tokens. */
  #encodeText(text: string, isStart: boolean): number[] {
    const { foreign } = this.#tables;
    const pieces = foreign
      ? (foreign.preTokenize?.([text], isStart) ?? [text])
      : this.#pattern
        ? splitPieces(text, this.#pattern)
        : [text];
    const ids: number[] = [];
    for (const piece of pieces) {
      let encoded = this.#cache.get(piece);
      if (encoded === undefined) {
        encoded = this.#encodePiece(piece);
        if (piece.length <= MAX_CACHED_LENGTH) {
          if (this.#cache.size >= MAX_CACHED_PIECES) this.#cache.clear();
          this.#cache.set(piece, encoded);
        }
      }
      for (const id of encoded) ids.push(id);
    }
    return ids;
  }

  #encodePiece(piece: string): number[] {
    const { foreign, merges } = this.#tables;
    if (foreign?.ignoreMerges) {
      const whole = foreign.plain.get(foreign.byteLevel ? toAlphabet(UTF8.encode(piece)) : piece);
      if (whole !== undefined) return [whole];
    }
    const ids = foreign
      ? this.#symbols(piece, foreign)
      : Array.from(UTF8.encode(piece), (byte) => this.#idOfByte[byte]!);
    return merges.length === 0 ? ids : this.#merges.apply(ids);
  }

  /**
   * The ids that a piece is merged from: those of its bytes or characters; for a character without token those of its
   * bytes, or the unknown one.
   */
  #symbols(piece: string, { byteLevel, byteFallback, unknown, fuseUnknown, plain }: ForeignParts): number[] {
    const ids: number[] = [];
    let wasUnknown = false;
    const add = (id: number): void => {
      ids.push(id);
      wasUnknown = false;
    };
    /** Adds a character without token, whose bytes are those from `start` on. */
    const addMissing = (bytes: Uint8Array, start: number, end: number): void => {
      let isComplete = byteFallback !== undefined;
      for (let at = start; isComplete && at < end; at++) isComplete = byteFallback![bytes[at]!]! >= 0;
      if (isComplete) {
        for (let at = start; at < end; at++) add(byteFallback![bytes[at]!]!);
      } else if (unknown !== undefined) {
        if (!(wasUnknown && fuseUnknown)) ids.push(unknown);
        wasUnknown = true;
      }
    };
    const bytes = UTF8.encode(piece);
    if (byteLevel) {
      for (const byte of bytes) {
        const id = this.#idOfByte[byte]!;
        if (id >= 0) add(id);
        else {
          const name = UTF8.encode(toAlphabet(Uint8Array.of(byte)));
          addMissing(name, 0, name.length);
        }
      }
      return ids;
    }
    for (let [at, start] = [0, 0]; at < piece.length; at++) {
      const unit = piece.charCodeAt(at);
      const isPair = piece.codePointAt(at)! > 0xffff;
      const end = start + (unit < 0x80 ? 1 : unit < 0x800 ? 2 : isPair ? 4 : 3);
      const id = isPair ? (plain.get(piece.slice(at, ++at + 1)) ?? -1) : this.#idOfUnit![unit]!;
      if (id >= 0) add(id);
      else addMissing(bytes, start, end);
      start = end;
    }
    return ids;
  }

  decodeBytes(ids: ArrayLike<number>, options: DecodeOptions = {}): Uint8Array {
    const skip = options.specials === "skip";
    const chunks: Uint8Array[] = [];
    for (let i = 0; i < ids.length; i++) {
      const id = ids[i]!;
      const bytes = this.#tables.tokens[id];
      check(bytes !== undefined, () => `decode: id ${id} at position ${i} is not in [0, ${this.vocabSize})`);
      if (!skip || !this.#specialIds.has(id)) chunks.push(bytes);
    }
    return concatenate(chunks);
  }

  decode(ids: ArrayLike<number>, options: DecodeOptions = {}): string {
    const { foreign } = this.#tables;
    const bytes = this.decodeBytes(ids, options); // throws for unknown ids
    const mark = foreign?.firstWithout;
    if (mark !== undefined) {
      const kept = Array.from(ids).filter((id) => options.specials !== "skip" || !this.#specialIds.has(id));
      const first = foreign!.names[kept[0] ?? 0]!;
      if (kept.length > 0 && first.includes(mark)) return first.replaceAll(mark, "") + this.#decodeAll(kept.slice(1));
    }
    const text = this.#decodeAll(ids, bytes, options);
    let start = 0;
    while (start < (foreign?.strip ?? 0) && text[start] === " ") start++;
    return text.slice(start);
  }

  /** The text of tokens, its start included. */
  #decodeAll(ids: ArrayLike<number>, bytes: Uint8Array = this.decodeBytes(ids), options: DecodeOptions = {}): string {
    const byteFallback = this.#tables.foreign?.byteFallback;
    // ignoreBOM: otherwise the decoder would swallow a U+FEFF at the start.
    return byteFallback
      ? this.#decodeFallback(ids, options, byteFallback)
      : new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  }

  /** Decodes with byte tokens: a run of them is text if it is UTF-8, else one U+FFFD a byte, as in `tokenizers`. */
  #decodeFallback(given: ArrayLike<number>, { specials }: DecodeOptions, byteFallback: Int32Array): string {
    const ids = Array.from(given).filter((id) => specials !== "skip" || !this.#specialIds.has(id));
    const isByte = new Set(byteFallback);
    const strict = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });
    let text = "";
    for (let at = 0; at < ids.length;) {
      let end = at + 1;
      while (end < ids.length && isByte.has(ids[end]!) === isByte.has(ids[at]!)) end++;
      const bytes = this.decodeBytes(ids.slice(at, end));
      try {
        text += strict.decode(bytes);
      } catch {
        text += "\ufffd".repeat(bytes.length);
      }
      at = end;
    }
    return text;
  }

  tokenToId(token: string): number | undefined {
    this.#idOfName ??= new Map(this.#names().map((name, id) => [name, id]));
    return this.#idOfName.get(token);
  }

  #names(): string[] {
    const names = this.#tables.tokens.map(toAlphabet);
    for (const { content, id } of this.addedTokens) names[id] = content;
    return names;
  }

  toJSON(): Record<string, unknown> {
    const { merges, pattern, foreign } = this.#tables;
    if (foreign) {
      const { names, rest, pairs } = foreign;
      const model = rest["model"] as Record<string, unknown>;
      const inWords = merges.map(([left, right]) => [names[left]!, names[right]!]);
      const inVocabulary = new Set(model["vocab"] as string[]);
      return {
        ...rest,
        model: {
          ...model,
          vocab: Object.fromEntries(names.flatMap((name, id) => (inVocabulary.has(name) ? [[name, id]] : []))),
          merges: pairs ? inWords : inWords.map((pair) => pair.join(" ")),
        },
      };
    }
    const names = this.#names();
    const byteLevel = { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false };
    const split = { type: "Split", pattern: { Regex: pattern }, behavior: "Isolated", invert: false };
    return {
      version: "1.0",
      truncation: null,
      padding: null,
      added_tokens: this.addedTokens.map(({ id, content, single_word, lstrip, rstrip, normalized, special }) => ({
        id,
        content,
        single_word,
        lstrip,
        rstrip,
        normalized,
        special,
      })),
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

function concatenate(chunks: readonly Uint8Array[]): Uint8Array {
  const result = new Uint8Array(chunks.reduce((length, chunk) => length + chunk.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    result.set(chunk, at);
    at += chunk.length;
  }
  return result;
}
