/**
 * Added tokens: names such as `<|im_end|>` or `<think>`, which are searched in a text before anything else. The
 * leftmost match is taken, and the longest of those that begin at the same place, as in `tokenizers`.
 */

/** A token that was added to a vocabulary, by the names and meanings of `tokenizer.json`. */
export interface AddedToken {
  readonly id: number;
  readonly content: string;
  /** Whether it is a marker, which `decode` can leave out and which `encode` finds only on request. */
  readonly special: boolean;
  /** Whether it is found only where no letter, digit or underscore is beside it. */
  readonly single_word: boolean;
  /** Whether the token includes white space before it. */
  readonly lstrip: boolean;
  /** Whether the token includes white space after it. */
  readonly rstrip: boolean;
  /** Whether it is searched in the normalised text instead of the text. */
  readonly normalized: boolean;
}

/** Places of a text, [start, end) in UTF-16 units. */
export type Range = readonly [start: number, end: number];

/** A part of a text: an added token, or the text between two of them. */
export interface Stretch {
  readonly start: number;
  readonly end: number;
  readonly token?: AddedToken;
}

const ENDS_WITH_WORD = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]$/u;
const BEGINS_WITH_WORD = /^[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]/u;
const SPACE = /\p{White_Space}/u;

/** A set of added tokens, which are found in texts. */
export class AddedTokens {
  readonly #byContent: ReadonlyMap<string, AddedToken>;
  readonly #names: RegExp | undefined;
  /** Whether all are special, so that nothing is found unless special tokens are searched. */
  readonly #allSpecial: boolean;

  /** @param contentOf gives the text by which a token is found: its name, normalised if the text is */
  constructor(tokens: readonly AddedToken[], contentOf = ({ content }: AddedToken): string => content) {
    this.#byContent = new Map(
      tokens.map((token) => [contentOf(token), token] as const).filter(([name]) => name !== ""),
    );
    const names = [...this.#byContent.keys()].sort((a, b) => b.length - a.length);
    const source = names.map((name) => name.replace(/[\^$\\.*+?()[\]{}|/]/g, String.raw`\$&`)).join("|");
    this.#names = names.length === 0 ? undefined : new RegExp(source, "gu");
    this.#allSpecial = tokens.every(({ special }) => special);
  }

  /** Cuts a text at the tokens. @param isPlain whether a special token at this place counts as plain text */
  split(text: string, specials: boolean, isPlain?: (start: number, end: number) => boolean): Stretch[] {
    if (text === "") return [];
    if (this.#names === undefined || (!specials && this.#allSpecial)) return [{ start: 0, end: text.length }];
    const found: Stretch[] = [];
    let at = 0;
    for (const { 0: name, index } of text.matchAll(this.#names)) {
      const token = this.#byContent.get(name)!;
      let start = index;
      let end = index + name.length;
      if (token.special && (!specials || isPlain?.(start, end))) continue;
      // Two UTF-16 units contain the character beside it, in all cases.
      const besideWord = (): boolean =>
        ENDS_WITH_WORD.test(text.slice(Math.max(0, start - 2), start)) ||
        BEGINS_WITH_WORD.test(text.slice(end, end + 2));
      if (token.single_word && besideWord()) continue;
      if (token.lstrip) while (start > at && SPACE.test(text[start - 1]!)) start--;
      if (token.rstrip) while (end < text.length && SPACE.test(text[end]!)) end++;
      if (start > at) found.push({ start: at, end: start });
      found.push({ start, end, token });
      at = end;
    }
    if (at < text.length) found.push({ start: at, end: text.length });
    return found;
  }
}
