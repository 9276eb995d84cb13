/**
 * The chat template: how an episode becomes tokens. One special token opens each part and one closes it:
 *
 *     <|task|> text <|end|>  <|act|> action <|end|>  <|obs|> answer <|end|>  <|act|> …
 *
 * It only ever appends, so what was sampled is never re-rendered or re-tokenised. The model writes the action and the <|end|>
 * that closes it; the tags are scaffold; the text of an answer is observation.
 */
import { check, fail } from "../../engine/errors.ts";
import { checkKeys } from "../../engine/options.ts";
import type { Tokenizer } from "../../nn/index.ts";
import { append, type AppendOptions, type Role, type TokenStream } from "./stream.ts";

export const SPECIAL_TOKENS = ["<|task|>", "<|act|>", "<|obs|>", "<|end|>", "<|pad|>"] as const;
const TRUNCATED = " … ";

export interface TemplateOptions {
  /**
   * What stands around the action proper in what the model writes, as in `["<answer>", "</answer>"]`: tokens of this span, tags included,
   * have the role `action`, everything else that the model wrote `thought`, and the environment gets what is between the tags.
   * Default: all of it is action.
   */
  readonly action?: readonly [open: string, close: string];
  /**
   * What becomes of an action whose tags are not there. False (default): the environment gets all that was written, and says what is
   * wrong with it. True: the episode ends with `parse_error`, with what was earned before, and the environment never hears of it.
   */
  readonly strict?: boolean;
}

export class Template {
  readonly tokenizer: Tokenizer;
  /** What it was made with; a template of the same tokenizer and options writes and reads the same. */
  readonly options: TemplateOptions;
  readonly #ids: Readonly<Record<(typeof SPECIAL_TOKENS)[number], number>>;

  /** @throws if the tokenizer lacks one of `SPECIAL_TOKENS` */
  constructor(tokenizer: Tokenizer, options: TemplateOptions = {}) {
    checkKeys("Template", options, ["action", "strict"]);
    check(options.action?.every((tag) => tag !== "") ?? true, () => "template: a tag of the action is empty");
    this.tokenizer = tokenizer;
    check(!options.strict || options.action !== undefined, () => "template: strict is about the tags of an action, and there are none"); // prettier-ignore
    this.options = options;
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

  /** Tokens of an action that is not the model's: its text between the tags, if there are such, and the end. */
  encodeAction(text: string): number[] {
    const [open, close] = this.options.action ?? ["", ""];
    return [...this.tokenizer.encode(open + text + close), this.endId];
  }

  /**
   * An action by somebody who is not the model, and what was thought before it: an expert's demonstration.
   * @throws if there is a thought and nothing that would tell it from the action
   */
  appendAction(stream: TokenStream, turn: number, text: string, thought = ""): void {
    check(thought === "" || this.options.action !== undefined, () => "template: a thought needs tags around the action, as in { action: [\"[\", \"]\"] }"); // prettier-ignore
    append(stream, "thought", turn, this.tokenizer.encode(thought));
    append(stream, "action", turn, this.encodeAction(text));
  }

  /** What the model wrote in a turn, its thoughts and its action. */
  appendSampled(stream: TokenStream, turn: number, ids: readonly number[], options: AppendOptions = {}): void {
    const roles = this.#rolesOf(ids);
    for (let from = 0; from < ids.length;) {
      const to = roles.findIndex((role, t) => t > from && role !== roles[from]);
      const part = <T>(column: readonly T[]): T[] => column.slice(from, to < 0 ? undefined : to);
      const { oldLogProbs, versions } = options;
      append(stream, roles[from]!, turn, part(ids), {
        ...options,
        ...(oldLogProbs ? { oldLogProbs: part(oldLogProbs) } : {}),
        ...(versions ? { versions: part(versions) } : {}),
      });
      from = to < 0 ? ids.length : to;
    }
  }

  /** Text of an action for its environment, without the closing tag; of tagged text what is between the tags, if they are there. */
  actionText(ids: readonly number[]): string {
    const text = this.tokenizer.decode(ids.at(-1) === this.endId ? ids.slice(0, -1) : ids);
    const tags = this.options.action;
    const span = tags && spanOf(text, tags);
    return span ? text.slice(span.start + tags[0].length, span.end - tags[1].length) : text;
  }

  /** `actionText`, or undefined where a strict template finds no whole action between its tags. */
  parseAction(ids: readonly number[]): string | undefined {
    const text = this.tokenizer.decode(ids);
    const { strict, action } = this.options;
    return strict && spanOf(text, action!) === undefined ? undefined : this.actionText(ids);
  }

  /** The token that ends the turn belongs to what it ends. A token that a tag shares with its neighbour is action. */
  #rolesOf(ids: readonly number[]): Role[] {
    const tags = this.options.action;
    if (!tags) return ids.map(() => "action");
    // One character for each byte: a token may hold a part of one.
    const pieces = ids.map((id) => (id === this.endId ? "" : String.fromCharCode(...this.tokenizer.decodeBytes([id]))));
    const bytes = (text: string): string => String.fromCharCode(...new TextEncoder().encode(text));
    const [open, close] = tags;
    const span = spanOf(pieces.join(""), [bytes(open), bytes(close)]);
    let at = 0;
    const roles = pieces.map((piece): Role => {
      const from = at;
      at += piece.length;
      return span && at > span.start && from < span.end ? "action" : "thought";
    });
    return roles.map((role, t) => (ids[t] === this.endId && t > 0 ? roles[t - 1]! : role));
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

/** The last whole span between two tags, tags included. */
function spanOf(text: string, [open, close]: readonly [string, string]): { start: number; end: number } | undefined {
  const closing = text.lastIndexOf(close);
  const start = closing < open.length ? -1 : text.lastIndexOf(open, closing - open.length);
  return start < 0 ? undefined : { start, end: closing + close.length };
}
