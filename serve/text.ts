/**
 * The text of tokens while they are drawn: the part that can be shown already, and whether a stop string has occurred.
 * Text is held back while it may still change (a character whose bytes are not complete) or may turn out to be the
 * beginning of a stop string.
 */
import type { Tokenizer } from "../nn/index.ts";

/** How tokens become text. */
export interface TextOptions {
  /** Texts that end the answer; the answer ends before the first of them. */
  readonly stop: readonly string[];
  /** Whether special tokens are left out of the text. */
  readonly skipSpecials: boolean;
  /** How much of a growing text may be shown; default all of it. */
  readonly plainLength?: (text: string) => number;
}

/** The growing text of one answer. */
export class GrowingText {
  readonly #tokenizer: Tokenizer;
  readonly #options: TextOptions;
  readonly #ids: number[] = [];
  #text = "";
  #shown = 0;
  /** The stop string that has occurred. */
  stoppedBy: string | undefined;

  constructor(tokenizer: Tokenizer, options: TextOptions) {
    this.#tokenizer = tokenizer;
    this.#options = options;
  }

  /** The text so far, up to a stop string if one has occurred. */
  get text(): string {
    return this.#text;
  }

  /** Adds a token. @returns whether a stop string has occurred */
  push(id: number): boolean {
    this.#ids.push(id);
    const { stop, skipSpecials } = this.#options;
    this.#text = this.#tokenizer.decode(this.#ids, { specials: skipSpecials ? "skip" : "name" });
    // The search starts at the text that was not shown; shown text contains no beginning of a stop string.
    const found = stop
      .map((text) => ({ text, at: this.#text.indexOf(text, this.#shown) }))
      .filter(({ at }) => at >= 0)
      .reduce<{ text: string; at: number } | undefined>((a, b) => (a && a.at <= b.at ? a : b), undefined);
    if (found === undefined) return false;
    this.stoppedBy = found.text;
    this.#text = this.#text.slice(0, found.at);
    return true;
  }

  /** The text that has become certain since the last call; with `isLast`, all the rest. */
  take(isLast = false): string {
    return this.takeTo(isLast ? this.#text.length : this.#certain());
  }

  /** Those of the first `end` characters that were not returned before. */
  takeTo(end: number): string {
    if (end <= this.#shown) return "";
    const part = this.#text.slice(this.#shown, end);
    this.#shown = end;
    return part;
  }

  #certain(): number {
    let end = this.#text.replace(/\uFFFD{1,3}$/, "").length;
    for (const stop of this.#options.stop) {
      for (let length = Math.min(stop.length - 1, this.#text.length); length > 0; length--) {
        if (!this.#text.endsWith(stop.slice(0, length))) continue;
        end = Math.min(end, this.#text.length - length);
        break;
      }
    }
    return Math.min(end, this.#options.plainLength?.(this.#text) ?? end);
  }
}
