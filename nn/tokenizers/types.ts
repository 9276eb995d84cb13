/** The interface of a tokenizer, and the data that defines one. */
import type { AddedToken, Range } from "./added.ts";

/** Options of `Tokenizer.encode`. */
export interface EncodeOptions {
  /**
   * The reading of a special token's name in the text: as text (the default, so that no observation can forge the end
   * of a turn), or as the token, as in `tokenizers`, for text that a chat template wrote.
   */
  readonly specials?: "text" | "tokens";
  /** With `specials: "tokens"`: places of the text where the name of a special token is still text. */
  readonly plain?: readonly Range[];
  /** Whether the tokens that `tokenizer.json` puts around a text are added (BOS, say). Default false. */
  readonly addSpecialTokens?: boolean;
}

/** Options of `Tokenizer.decode`. */
export interface DecodeOptions {
  /** The text of a special token: its name (the default: nothing disappears unseen), or nothing. */
  readonly specials?: "name" | "skip";
}

/** A part of a text with its ids: an added token, the text between two of them, or tokens put around the text. */
export interface EncodedPart {
  /** The part's place in the text, in UTF-16 units; for tokens that were put around it, start and end are the same. */
  readonly start: number;
  readonly end: number;
  readonly ids: readonly number[];
  /** Whether the ids are those of an added token, and the part is all of it. */
  readonly isToken: boolean;
}

/** Text ↔ ids in [0, vocabSize). It has no state for its user: the same input always gives the same output. */
export interface Tokenizer {
  /** Number of ids, special tokens included. */
  readonly vocabSize: number;
  /** Ids of the special tokens by name. No prototype: an unknown name is undefined. */
  readonly special: Readonly<Record<string, number>>;
  /**
   * The tokens that are found as a whole in texts: the special ones, and others such as `<think>`. Chat templates of
   * checkpoints need this and the optional members below; the tokenizers of `tokenizerFromJSON` and `trainBpe` have
   * them.
   */
  readonly addedTokens?: readonly AddedToken[];
  /** The normalisation of a text before it is cut; undefined if there is none. */
  readonly normalizer?: Normalizer | undefined;
  /**
   * The ids of `text`: a plain array, made to be concatenated. Never a special token unless asked for: the literal text
   * "<|end|>" is encoded as the seven characters that it is. Added tokens that are not special are always found. A lone
   * surrogate, which UTF-8 cannot express, is encoded as U+FFFD, as TextEncoder does. With bytes and byte-level BPE
   * that does not normalise, every well-formed string survives encode → decode unchanged.
   */
  encode(text: string, options?: EncodeOptions): number[];
  /** As `encode`, in parts with their places in the text. */
  encodeParts?(text: string, options?: EncodeOptions): EncodedPart[];
  /** The text of `ids`. Bytes that are no UTF-8 (a cut character, say) become U+FFFD, as in `tokenizers`. */
  decode(ids: ArrayLike<number>, options?: DecodeOptions): string;
  /**
   * The bytes of `ids`, lossless: of two halves of a character, each gives its own bytes. The space that SentencePiece
   * puts before a text is among them, which `decode` leaves out.
   */
  decodeBytes(ids: ArrayLike<number>, options?: DecodeOptions): Uint8Array;
  /** The id of a token by its name in `tokenizer.json`, undefined without one (`convert_tokens_to_ids`). */
  tokenToId?(token: string): number | undefined;
  /**
   * Hugging Face's `tokenizer.json` as an object; `tokenizerFromJSON` reads it, and so does the `tokenizers` package.
   */
  toJSON(): Record<string, unknown>;
}

/** Pieces of a text before they are merged. */
export type PreTokenizer = (pieces: readonly string[], isStart: boolean) => readonly string[];

/** A normaliser. */
export interface Normalizer {
  readonly apply: (text: string) => string;
  /** Unicode's form, if that (and white space that is written otherwise) is all that it changes. */
  readonly form: "NFC" | "NFD" | "NFKC" | "NFKD" | "none" | "other";
  /** The largest number of letters that it may make of one, Unicode's forms apart; see `expectGrowth`. */
  readonly growth: number;
}

/** The data that defines a tokenizer. Ids index `tokens`. */
export interface BpeTables {
  /** The bytes of each token; for an added token the UTF-8 of its name. */
  readonly tokens: readonly Uint8Array[];
  /** The added tokens, special ones among them. */
  readonly added: readonly AddedToken[];
  /** [left, right, result], in order of rank. */
  readonly merges: readonly (readonly [number, number, number])[];
  /** Source of a pattern in `tokenizer.json`'s syntax; undefined: the text is one piece. */
  readonly pattern: string | undefined;
  /** Further properties of a tokenizer from another library. */
  readonly foreign?: ForeignParts;
}

/** Properties of tokenizers of other libraries, from `tokenizer.json`. */
export interface ForeignParts {
  /** Each token as its key in the vocabulary. */
  readonly names: readonly string[];
  /** The tokens of plain text: the vocabulary of the model, without special tokens and added ones that it lacks. */
  readonly plain: ReadonlyMap<string, number>;
  readonly normalizer: Normalizer | undefined;
  readonly preTokenize: PreTokenizer | undefined;
  /** Whether a piece is merged from its bytes; else from its characters. */
  readonly byteLevel: boolean;
  /** Per byte the token for a character that has none, or undefined. */
  readonly byteFallback: Int32Array | undefined;
  readonly unknown: number | undefined;
  readonly fuseUnknown: boolean;
  /** Whether a piece that is a token becomes that token, without merges. */
  readonly ignoreMerges: boolean;
  /** The ids that are put before and after a text. */
  readonly around: readonly [before: readonly number[], behind: readonly number[]];
  /** The number of spaces at the start of a text that decoding leaves out. */
  readonly strip: number;
  /** The mark of a space, all of which decoding leaves out in the first token. */
  readonly firstWithout: string | undefined;
  /** Whether the file has merges as pairs; else as "left right". */
  readonly pairs: boolean;
  /** The file without merges, and with names only as its vocabulary. */
  readonly rest: Record<string, unknown>;
}
