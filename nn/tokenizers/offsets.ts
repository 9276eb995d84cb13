/** The places of tokens in a text. */
import { check } from "../../engine/errors.ts";
import type { Range } from "./added.ts";
import type { EncodeOptions, Tokenizer } from "./types.ts";

const UTF8 = new TextEncoder();

/**
 * As `tokenizer.encode`, with the place of each token in the text. Tokens that hold parts of the same character all
 * have the whole character's place; a token that stands for no text (BOS, the mark that SentencePiece puts first) has
 * an empty one. If Unicode normalisation changes a character, its tokens have the place of all characters that it was
 * made of. If a normaliser changes more than that, or characters have no token, the tokens have the place of the whole
 * stretch between two added tokens.
 *
 * @returns `offsets[i]`: [start, end) of `ids[i]` in UTF-16 units, as `text.slice` takes them
 */
export function encodeWithOffsets(
  tokenizer: Tokenizer,
  text: string,
  options: EncodeOptions = {},
): { ids: number[]; offsets: Range[] } {
  const ids: number[] = [];
  const offsets: Range[] = [];
  check(tokenizer.encodeParts !== undefined, () => "encodeWithOffsets: the tokenizer has no encodeParts");
  for (const part of tokenizer.encodeParts(text, options)) {
    const { start, end, isToken } = part;
    ids.push(...part.ids);
    if (isToken) offsets.push(...part.ids.map((): Range => [start, end]));
    else {
      const stretch = text.slice(start, end);
      // A tokenizer that marks spaces reads the mark in a text as a space.
      const shown = stretch.replaceAll("▁", " ");
      const places = placesIn(tokenizer, stretch, start, part.ids) ?? placesIn(tokenizer, shown, start, part.ids);
      offsets.push(...(places ?? part.ids.map((): Range => [start, end])));
    }
  }
  return { ids, offsets };
}

/** The places of a stretch's tokens: their bytes are those of the stretch, but for a space put first. */
function placesIn(tokenizer: Tokenizer, stretch: string, start: number, ids: readonly number[]): Range[] | undefined {
  const form = tokenizer.normalizer?.form ?? "none";
  if (form === "other") return undefined;
  // The original place of each byte of the normalised text.
  const bytes: number[] = [];
  const places: Range[] = [];
  for (const [cluster, from] of clustersOf(stretch, form)) {
    const place: Range = [start + from, start + from + cluster.length];
    for (const byte of UTF8.encode(form === "none" ? cluster : cluster.normalize(form))) {
      bytes.push(byte);
      places.push(place);
    }
  }
  const offsets: Range[] = [];
  let at = 0;
  for (const id of ids) {
    const token = tokenizer.decodeBytes([id]);
    const fits = (skip: number): boolean => token.every((byte, i) => i < skip || bytes[at + i - skip] === byte);
    // The space that SentencePiece puts first stands for no text.
    const skip = fits(0) ? 0 : token[0] === 0x20 && fits(1) ? 1 : undefined;
    if (skip === undefined) return undefined;
    const last = at + token.length - skip;
    const from = places[at]?.[0] ?? start + stretch.length;
    offsets.push([from, last === at ? from : places[last - 1]![1]]);
    at = last;
  }
  return at === bytes.length ? offsets : undefined;
}

/** Characters, or with Unicode's forms the sequences that may become one: a letter with marks, a Hangul syllable. */
function* clustersOf(text: string, form: string): Generator<readonly [cluster: string, at: number]> {
  if (form === "none") {
    let at = 0;
    for (const char of text) {
      yield [char, at];
      at += char.length;
    }
    return;
  }
  const joined = /(?:[\u1100-\u11ff\uac00-\ud7ff]+|[^])\p{M}*/gu;
  for (const { 0: cluster, index } of text.matchAll(joined)) {
    // Only those that change need to stay together.
    if (cluster.normalize(form) === cluster) {
      let at = index;
      for (const char of cluster) {
        yield [char, at];
        at += char.length;
      }
    } else yield [cluster, index];
  }
}
