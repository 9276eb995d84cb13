/**
 * The chat template: how an episode becomes tokens. One special token opens each part and one closes it:
 *
 *     <|task|> text <|end|>  <|act|> action <|end|>  <|obs|> answer <|end|>  <|act|> …
 *
 * It only ever appends, so what was sampled is never re-rendered or re-tokenised. The model writes the action and the <|end|>
 * that closes it; the tags are scaffold; the text of an answer is observation.
 */
import { fail } from "../engine/errors.ts";
import type { Tokenizer } from "../nn/tokenizer.ts";
import { append, type TokenStream } from "./stream.ts";

export const SPECIAL_TOKENS = ["<|task|>", "<|act|>", "<|obs|>", "<|end|>", "<|pad|>"] as const;
const TRUNCATED = " … ";

export class Template {
  readonly tokenizer: Tokenizer;
  readonly #ids: Readonly<Record<(typeof SPECIAL_TOKENS)[number], number>>;

  /** @throws if the tokenizer lacks one of `SPECIAL_TOKENS` */
  constructor(tokenizer: Tokenizer) {
    this.tokenizer = tokenizer;
    const idOf = (name: string): number =>
      tokenizer.special[name] ?? fail(`template: the tokenizer has no special token ${name}`);
    this.#ids = Object.fromEntries(SPECIAL_TOKENS.map((name) => [name, idOf(name)])) as Record<
      (typeof SPECIAL_TOKENS)[number],
      number
    >;
  }

  /** Sampling this token ends an action. */
  get endId(): number {
    return this.#ids["<|end|>"];
  }
  get padId(): number {
    return this.#ids["<|pad|>"];
  }

  /** The task, and the tag that asks for the first action. */
  appendTask(stream: TokenStream, text: string): void {
    append(stream, "prompt", 0, [this.#ids["<|task|>"], ...this.tokenizer.encode(text), this.endId]);
    append(stream, "scaffold", 0, [this.#ids["<|act|>"]]);
  }

  /** An action by somebody who is not the model: an expert's demonstration. */
  appendAction(stream: TokenStream, turn: number, text: string): void {
    append(stream, "action", turn, [...this.tokenizer.encode(text), this.endId]);
  }

  /** Text of sampled ids, without the closing tag. */
  actionText(ids: readonly number[]): string {
    return this.tokenizer.decode(ids.at(-1) === this.endId ? ids.slice(0, -1) : ids);
  }

  /**
   * An answer (ids from `encodeObservation`), optionally a warning of the harness, and the tag that asks for the next action.
   * Answers belong to the turn of the action that they answer. The closing tag for the next action is left out of the last one.
   */
  appendObservation(stream: TokenStream, turn: number, ids: readonly number[], warning = "", last = false): void {
    append(stream, "scaffold", turn, [this.#ids["<|obs|>"]]);
    append(stream, "observation", turn, ids);
    if (warning !== "") append(stream, "observation", turn, this.tokenizer.encode(warning), { target: false });
    append(stream, "scaffold", turn, last ? [this.endId] : [this.endId, this.#ids["<|act|>"]]);
  }

  /** Tokens of an answer, cut in the middle with a marker if they are more than `maxTokens`. */
  encodeObservation(text: string, maxTokens: number): number[] {
    const ids = this.tokenizer.encode(text);
    if (ids.length <= maxTokens) return ids;
    const marker = this.tokenizer.encode(TRUNCATED);
    const room = Math.max(0, maxTokens - marker.length);
    const head = Math.ceil(room / 2);
    const tail = room - head;
    return [...ids.slice(0, head), ...marker, ...ids.slice(ids.length - tail)].slice(0, maxTokens);
  }
}
