/**
 * The text of an answer while its tokens are drawn: the part that can be shown already, whether a stop string has
 * occurred, and where each token begins. Text is held back while it may still change (a character whose bytes are not
 * complete), may turn out to be the beginning of a stop string, or may belong to a call of a tool.
 */
import { TextStream } from "../../pretrained/index.ts";
import type { Tokenizer } from "../../nn/index.ts";
import type { Thought } from "../chat/thoughts.ts";

/** Options of `GrowingText`. */
export interface TextOptions {
  /** Texts that end the answer; the answer ends before the first of them. */
  readonly stop: readonly string[];
  /** Whether special tokens are left out of the text. */
  readonly skipSpecials: boolean;
  /** Tokens that are left out in any case. */
  readonly unseen?: readonly number[];
  /** Whether the text continues that of the prompt, so that a space at its start stays. Default false. */
  readonly continues?: boolean;
  /** The length of the part of a growing text that may be shown; default all of it. */
  readonly plainLength?: (text: string) => number;
  /** The thought of a growing text, which is shown apart; default none. */
  readonly thoughtIn?: (text: string) => Thought;
}

/** The growing text of one answer. */
export class GrowingText {
  readonly #tokenizer: Tokenizer;
  readonly #options: TextOptions;
  readonly #stream: TextStream;
  #text = "";
  #shown = 0;
  /** Characters of the thought that were shown. */
  #thoughtShown = 0;
  readonly #offsets: number[] = [];
  /** Characters that the tokens have begun. */
  #begun = 0;
  /**
   * The tokens before the first character, while decoding may leave out a space at the text's start; then undefined.
   */
  #leading: number[] | undefined;

  constructor(tokenizer: Tokenizer, options: TextOptions) {
    const { stop, continues = false } = options;
    this.#tokenizer = tokenizer;
    this.#options = options;
    this.#stream = new TextStream(tokenizer, { stop, specials: this.#specials, continues });
    this.#leading = continues ? undefined : [];
  }

  /** The text that is certain, up to a stop string if one has occurred; after `end` all of it. */
  get text(): string {
    return this.#text;
  }

  /** The stop string that has occurred. */
  get stoppedBy(): string | undefined {
    return this.#stream.stopped;
  }

  /** For each token the number of characters (code points, as Python counts) that begin before it. */
  get offsets(): readonly number[] {
    return this.#offsets;
  }

  get #specials(): "skip" | "name" {
    return this.#options.skipSpecials ? "skip" : "name";
  }

  /** Adds a token. @returns whether a stop string has occurred */
  push(id: number): boolean {
    this.#offsets.push(this.#begun);
    if (this.#options.unseen?.includes(id)) return false;
    this.#text += this.#stream.push([id]);
    if (this.#leading) {
      this.#leading.push(id);
      this.#begun = [...this.#tokenizer.decode(this.#leading, { specials: this.#specials })].length;
      if (this.#begun > 0) this.#leading = undefined;
    } else {
      const bytes = this.#tokenizer.decodeBytes([id], { specials: this.#specials });
      this.#begun += bytes.filter((byte) => (byte & 0xc0) !== 0x80).length; // the others continue a character
    }
    return this.stoppedBy !== undefined;
  }

  /** Completes the text: no token follows. */
  end(): void {
    this.#text += this.#stream.end();
  }

  /** The text and the thought that have become showable since the last call. */
  take(): { readonly text: string; readonly thought: string } {
    const { from = 0, to = 0, answer = 0 } = this.#options.thoughtIn?.(this.#text) ?? {};
    const thought = this.#text.slice(from, to).slice(this.#thoughtShown);
    this.#thoughtShown += thought.length;
    const end = this.#options.plainLength?.(this.#text) ?? this.#text.length;
    const start = answer + this.#shown;
    if (end <= start) return { text: "", thought };
    this.#shown = end - answer;
    return { text: this.#text.slice(start, end), thought };
  }

  /** The rest of a text and a thought that begin with what `take` has shown. */
  rest(whole: string, thought: string): { readonly text: string; readonly thought: string } {
    return { text: whole.slice(this.#shown), thought: thought.slice(this.#thoughtShown) };
  }
}
