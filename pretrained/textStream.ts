/** Text while it is being generated: token by token, never with half a character, up to a stop string. */
import { check } from "../engine/errors.ts";
import { checkKeys } from "../engine/options.ts";
import type { DecodeOptions, Tokenizer } from "../nn/tokenizer.ts";

/** Options of `TextStream`. */
export interface TextStreamOptions extends DecodeOptions {
  /** Texts that end the stream; they may span tokens and are no part of what is given out. */
  readonly stop?: readonly string[];
  /** Whether the tokens continue a text. If so, the space that decoding leaves out at a text's start stays. */
  readonly continues?: boolean;
}

/**
 * Decodes the tokens of one text as they come. Text that `push` returns is final: bytes of an unfinished character are
 * held back, and so is text that may yet be the start of a stop string. All text from `push` and `end` together is
 * `tokenizer.decode` of all tokens up to the stop string; if the tokens continue a text, it is the part that they add.
 *
 * @example
 * const stream = new TextStream(tokenizer, { stop: ["\nUser:"] });
 * for (const id of ids) {
 *   process.stdout.write(stream.push([id]));
 *   if (stream.stopped !== undefined) break;
 * }
 * process.stdout.write(stream.end());
 */
export class TextStream {
  readonly #tokenizer: Tokenizer;
  readonly #options: DecodeOptions;
  readonly #stop: readonly string[];
  /** Tokens such as `<0x0A>`, whose bytes are text only if all in a row are UTF-8. */
  readonly #byteTokens: ReadonlySet<number>;
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  /** All tokens, while they decode to spaces only, because decoding may leave out the first. */
  #leading: number[] | undefined = [];
  /** Tokens that stand for bytes, in a row that may go on. */
  #bytes: number[] = [];
  /** The end of that row's text so far, for finding stop strings; undefined if its bytes are no UTF-8. */
  #row: string | undefined = "";
  readonly #longest: number;
  #rowDecoder: TextDecoder | undefined;
  #held = "";
  #stopped: string | undefined;
  #ended = false;

  constructor(tokenizer: Tokenizer, options: TextStreamOptions = {}) {
    checkKeys("TextStream", options, ["stop", "specials", "continues"]);
    const { stop = [], continues = false, ...rest } = options;
    check(!stop.includes(""), () => "TextStream: a stop string is empty");
    this.#tokenizer = tokenizer;
    this.#options = rest;
    this.#stop = stop;
    this.#longest = Math.max(0, ...stop.map((one) => one.length));
    if (continues) this.#leading = undefined;
    const names = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
    const ids = names.flatMap((name) => tokenizer.tokenToId?.(name) ?? []);
    this.#byteTokens = new Set(ids.filter((id) => tokenizer.decodeBytes([id]).length === 1));
  }

  /** The stop string that was met, undefined if none was. */
  get stopped(): string | undefined {
    return this.#stopped;
  }

  /** Takes tokens. @returns the text that has become final; "" after a stop string */
  push(ids: ArrayLike<number>): string {
    check(!this.#ended, () => "TextStream.push: the stream has ended");
    if (this.#stopped !== undefined) return "";
    let text = "";
    for (let i = 0; i < ids.length && this.#stopped === undefined; i++) {
      const more = this.#decode(ids[i]!);
      if (more !== "") text += this.#release(more, false);
      else if (this.#endsInStop(ids[i]!)) text += this.#release(this.#pending(), false);
    }
    return text;
  }

  /** Ends the stream. @returns what was held back; an unfinished character as U+FFFD */
  end(): string {
    if (this.#ended || this.#stopped !== undefined) return "";
    this.#ended = true;
    return this.#release(this.#pending(), true);
  }

  /** The text of the tokens that are held back. */
  #pending(): string {
    return this.#leading
      ? this.#tokenizer.decode(this.#leading, this.#options)
      : this.#flush() + this.#decoder.decode();
  }

  /**
   * Whether a token that is held back completes a stop string. A later byte may turn a row of byte tokens into U+FFFD,
   * so the row is held back; but a model that writes line ends as bytes for ever has to be stopped. Without byte
   * tokens only half a character is held back, and no stop string ends in one.
   */
  #endsInStop(id: number): boolean {
    if (this.#longest === 0 || this.#byteTokens.size === 0 || this.#row === undefined) return false;
    this.#rowDecoder ??= new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });
    let more: string;
    try {
      more = this.#rowDecoder.decode(this.#tokenizer.decodeBytes([id], this.#options), { stream: true });
    } catch {
      this.#row = undefined;
      return false;
    }
    if (more === "") return false;
    // Earlier text is kept only as far as a stop string may begin in it.
    this.#row = (this.#row + more).slice(1 - this.#longest - more.length);
    const seen = this.#held + this.#row;
    if (!this.#stop.some((one) => seen.includes(one))) return false;
    // At the start of a text, decoding may leave out a space.
    const whole = this.#leading ? this.#tokenizer.decode(this.#leading, this.#options) : seen;
    return this.#stop.some((one) => whole.includes(one));
  }

  /** The text that a token adds. */
  #decode(id: number): string {
    if (this.#leading) {
      this.#leading.push(id);
      // Byte tokens are text only with those that follow; a token that is left out ends no row of them.
      if (this.#byteTokens.has(id) || this.#tokenizer.decodeBytes([id], this.#options).length === 0) return "";
      const bytes = this.#tokenizer.decodeBytes(this.#leading, this.#options);
      if (bytes.every((byte) => byte === 0x20)) return "";
      const ids = this.#leading;
      this.#leading = undefined;
      this.#beginRow();
      // `decode` writes an unfinished character as U+FFFD, and may leave out spaces at the start.
      const shown = this.#tokenizer.decode(ids, this.#options);
      const whole = this.#byteTokens.size > 0 ? shown : this.#decoder.decode(bytes, { stream: true });
      if (this.#byteTokens.size > 0) return whole;
      const all = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes).length;
      // The complete characters, without the spaces that `decode` left out at the start.
      return whole.length === all ? shown : whole.slice(all - shown.length);
    }
    if (this.#byteTokens.has(id)) {
      this.#bytes.push(id);
      return "";
    }
    const bytes = this.#tokenizer.decodeBytes([id], this.#options);
    // A token that is left out ends no row of bytes.
    if (bytes.length === 0) return "";
    return this.#flush() + this.#decoder.decode(bytes, { stream: true });
  }

  #beginRow(): void {
    this.#row = "";
    this.#rowDecoder = undefined;
  }

  /** The text of the row of bytes, which is complete. */
  #flush(): string {
    this.#beginRow();
    if (this.#bytes.length === 0) return "";
    const bytes = this.#tokenizer.decodeBytes(this.#bytes);
    this.#bytes = [];
    try {
      return new TextDecoder("utf-8", { ignoreBOM: true, fatal: true }).decode(bytes);
    } catch {
      return "\ufffd".repeat(bytes.length);
    }
  }

  /** Adds to the text that is held back, and returns the part that is final. */
  #release(text: string, isEnd: boolean): string {
    this.#held += text;
    let first = -1;
    for (const stop of this.#stop) {
      const at = this.#held.indexOf(stop);
      if (at < 0 || (first >= 0 && at >= first)) continue;
      first = at;
      this.#stopped = stop;
    }
    const keep = first >= 0 ? first : this.#held.length - (isEnd ? 0 : this.#openLength());
    const released = this.#held.slice(0, keep);
    this.#held = first >= 0 ? "" : this.#held.slice(keep);
    return released;
  }

  /** The length of the longest end of the held-back text that a stop string begins with. */
  #openLength(): number {
    let longest = 0;
    for (const stop of this.#stop) {
      for (let length = Math.min(stop.length - 1, this.#held.length); length > longest; length--) {
        if (this.#held.endsWith(stop.slice(0, length))) longest = length;
      }
    }
    return longest;
  }
}
