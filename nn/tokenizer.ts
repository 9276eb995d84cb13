/**
 * Tokenizers: text ↔ token ids. Raw bytes, and byte-pair encoding over UTF-8 bytes (Sennrich, Haddow, Birch 2016; on
 * bytes: Radford et al. 2019, "GPT-2").
 *
 *     tokenizers/alphabet.ts   bytes as printable characters, and the pattern that cuts text into pieces
 *     tokenizers/bpe.ts        the tokenizer: encode, decode, toJSON
 *     tokenizers/added.ts      the search for added tokens such as `<think>` in a text
 *     tokenizers/train.ts      the training of the merges on text
 *     tokenizers/offsets.ts    the places of tokens in a text
 *
 * `tokenizer.json` is read in pretrained/tokenizers; chat templates are in `worldgrad/chat`; there is no WordPiece and
 * no Unigram. Episodes are stored as ids: sampled tokens are never decoded and encoded again, since encode(decode(ids))
 * may be different ids for the same text.
 */
import { checkKeys } from "../engine/options.ts";
import { BpeTokenizer, specialTable } from "./tokenizers/bpe.ts";

export { DEFAULT_PATTERN } from "./tokenizers/alphabet.ts";
export type { AddedToken, Range } from "./tokenizers/added.ts";
export { encodeWithOffsets } from "./tokenizers/offsets.ts";
export { trainBpe, type TrainBpeOptions } from "./tokenizers/train.ts";
export type { DecodeOptions, EncodedPart, EncodeOptions, Tokenizer } from "./tokenizers/types.ts";

/**
 * The tokenizer whose ids are the bytes: ids 0–255 are UTF-8 bytes, the special tokens follow from 256 in the given
 * order.
 *
 * @throws WorldgradError if a special token is empty, given twice, a single printable byte, or has a lone surrogate
 *
 * @example
 * const tokenizer = byteTokenizer({ specials: ["<|end|>"] });
 * tokenizer.encode("hé");                          // [104, 195, 169]
 * tokenizer.special["<|end|>"];                    // 256
 */
export function byteTokenizer(options: { specials?: readonly string[] } = {}): BpeTokenizer {
  checkKeys("byteTokenizer", options, ["specials"]);
  const bytes = Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte));
  return new BpeTokenizer({ ...specialTable(bytes, options.specials ?? []), merges: [], pattern: undefined });
}
