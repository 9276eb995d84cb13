/**
 * Added tokens: names that are found in a text before anything else happens to it, `<|im_end|>` or `<think>`. They are
 * matched leftmost first, the longest of those that begin at the same place, as `tokenizers` does.
 */

/** A token that was added to a vocabulary, by the names and meanings of `tokenizer.json`. */
export interface AddedToken {
  readonly id: number;
  readonly content: string;
  /** A marker, which `decode` can leave out and which `encode` finds on request only; else it is text like any. */
  readonly special: boolean;
  /** Found only where no letter, digit or underscore stands beside it. */
  readonly single_word: boolean;
  /** Takes white space before it along. */
  readonly lstrip: boolean;
  /** Takes white space behind it along. */
  readonly rstrip: boolean;
  /** Looked for in the normalised text instead of the text. */
  readonly normalized: boolean;
}

/** Places of a text, [start, end) in UTF-16 units. */
export type Range = readonly [start: number, end: number];

/** A stretch of a text: an added token, or what lies between two of them. */
export interface Stretch {
  readonly start: number;
  readonly end: number;
  readonly token?: AddedToken;
}

const ENDS_WITH_WORD = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]$/u;
const BEGINS_WITH_WORD = /^[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]/u;
const SPACE = /\p{White_Space}/u;

/** Finds added tokens in texts. */
export class AddedTokens {
  readonly #byContent: ReadonlyMap<string, AddedToken>;
  readonly #names: RegExp | undefined;
  /** Whether all are special: then a text in which these are not looked for has nothing to be found. */
  readonly #allSpecial: boolean;

  /** @param contentOf what is looked for: a token's name, normalised where the text is */
  constructor(tokens: readonly AddedToken[], contentOf = ({ content }: AddedToken): string => content) {
    this.#byContent = new Map(
      tokens.map((token) => [contentOf(token), token] as const).filter(([name]) => name !== ""),
    );
    const names = [...this.#byContent.keys()].sort((a, b) => b.length - a.length);
    const source = names.map((name) => name.replace(/[\^$\\.*+?()[\]{}|/]/g, String.raw`\$&`)).join("|");
    this.#names = names.length === 0 ? undefined : new RegExp(source, "gu");
    this.#allSpecial = tokens.every(({ special }) => special);
  }

  /** Cuts a text at the tokens. @param isPlain whether a special token at this place is text and no more */
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
      // Two units hold the character beside it, whatever it is.
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
