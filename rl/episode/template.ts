/**
 * The chat template: how an episode becomes tokens. One special token opens each part and one closes it:
 *
 *     <|task|> text <|end|>  <|act|> action <|end|>  <|obs|> answer <|end|>  <|act|> …
 *
 * The template only appends, so sampled tokens are never rendered or tokenised again. The model writes the action and
 * the <|end|> that closes it; the tags have the role `scaffold`, the text of an answer `observation`.
 */
import { check, fail } from "../../engine/errors.ts";
import { checkKeys } from "../../engine/options.ts";
import type { Tokenizer } from "../../nn/index.ts";
import { append, type AppendOptions, type Role, type TokenStream } from "./stream.ts";

/** The special tokens that a tokenizer needs for the template. */
export const SPECIAL_TOKENS = ["<|task|>", "<|act|>", "<|obs|>", "<|end|>", "<|pad|>"] as const;
const TRUNCATED = " … ";

/** Options of `Template`: whether tags tell an action from the thoughts around it, and what happens without them. */
export interface TemplateOptions {
  /**
   * The tags around the action in what the model writes, as in `["<answer>", "</answer>"]`. Tokens from the opening to
   * the closing tag, tags included, have the role `action`; everything else that the model wrote has the role
   * `thought`. The environment gets the text between the tags. Default: all text is action.
   */
  readonly action?: readonly [open: string, close: string];
  /**
   * What happens if the tags are missing. False (default): the environment gets the whole text and answers what is
   * wrong with it. True: the episode ends with `parse_error`; it keeps what was earned before, and the environment does
   * not see the action.
   */
  readonly strict?: boolean;
}

/**
 * The chat template, which turns an episode into tokens: `<|task|> text <|end|> <|act|> action <|end|> <|obs|> answer
 * <|end|> <|act|> …`. It only appends to a `TokenStream`, so sampled tokens are never rendered or tokenised again.
 */
export class Template {
  readonly tokenizer: Tokenizer;
  /** The options that it was made with. Templates of the same tokenizer and options write and read the same. */
  readonly options: TemplateOptions;
  readonly #ids: Readonly<Record<(typeof SPECIAL_TOKENS)[number], number>>;

  /** @throws if the tokenizer lacks one of `SPECIAL_TOKENS` */
  constructor(tokenizer: Tokenizer, options: TemplateOptions = {}) {
    checkKeys("Template", options, ["action", "strict"]);
    check(options.action?.every((tag) => tag !== "") ?? true, () => "template: a tag of the action is empty");
    this.tokenizer = tokenizer;
    check(
      !options.strict || options.action !== undefined,
      () => "template: strict is about the tags of an action, and there are none",
    );
    this.options = options;
    const idOf = (name: string): number =>
      tokenizer.special[name] ?? fail(`template: the tokenizer has no special token ${name}`);
    const ids = SPECIAL_TOKENS.map((name) => [name, idOf(name)]);
    this.#ids = Object.fromEntries(ids) as Record<(typeof SPECIAL_TOKENS)[number], number>;
  }

  /** The token that ends an action. */
  get endId(): number {
    return this.#ids["<|end|>"];
  } /** The token that fills batches. */
  get padId(): number {
    return this.#ids["<|pad|>"];
  }

  /** The task, and the tag that asks for the first action. */
  appendTask(stream: TokenStream, text: string): void {
    append(stream, "prompt", 0, [this.#ids["<|task|>"], ...this.tokenizer.encode(text), this.endId]);
    append(stream, "scaffold", 0, [this.#ids["<|act|>"]]);
  }

  /**
   * The tokens of an action that the model did not write: its text, between the tags if there are any, and the end
   * token.
   */
  encodeAction(text: string): number[] {
    const [open, close] = this.options.action ?? ["", ""];
    return [...this.tokenizer.encode(open + text + close), this.endId];
  }

  /**
   * Appends an action that the model did not write (an expert's demonstration), and the thought before it.   *
   * @throws if there is a thought but the template has no tags that separate it from the action
   */
  appendAction(stream: TokenStream, turn: number, text: string, thought = ""): void {
    check(
      thought === "" || this.options.action !== undefined,
      () => 'template: a thought needs tags around the action, as in { action: ["[", "]"] }',
    );
    append(stream, "thought", turn, this.tokenizer.encode(thought));
    append(stream, "action", turn, this.encodeAction(text));
  }

  /** Appends what the model wrote in a turn, its thoughts and its action. */
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

  /**
   * The text of an action for the environment, without the end token. If the template has tags and both are found, it
   * is the text between them.
   */
  actionText(ids: readonly number[]): string {
    const text = this.tokenizer.decode(ids.at(-1) === this.endId ? ids.slice(0, -1) : ids);
    const tags = this.options.action;
    const span = tags && spanOf(text, tags);
    return span ? text.slice(span.start + tags[0].length, span.end - tags[1].length) : text;
  }

  /** `actionText`, or undefined if the template is strict and its tags are not found. */
  parseAction(ids: readonly number[]): string | undefined {
    const text = this.tokenizer.decode(ids);
    const { strict, action } = this.options;
    return strict && spanOf(text, action!) === undefined ? undefined : this.actionText(ids);
  }

  /**
   * The role of each token. The end token has the role of the token before it. A token that holds part of a tag is
   * action.
   */
  #rolesOf(ids: readonly number[]): Role[] {
    const tags = this.options.action;
    if (!tags) return ids.map(() => "action");
    // One character stands for each byte, because a token may hold a part of a character only.
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
   * Appends an answer (ids from `encodeObservation`), an optional warning of the harness, and the tag that asks for the
   * next action, unless this is the last answer. Answers belong to the turn of the action that they answer.
   */
  appendObservation(stream: TokenStream, turn: number, ids: readonly number[], warning = "", last = false): void {
    append(stream, "scaffold", turn, [this.#ids["<|obs|>"]]);
    append(stream, "observation", turn, ids);
    if (warning !== "") append(stream, "observation", turn, this.tokenizer.encode(warning), { target: false });
    append(stream, "scaffold", turn, last ? [this.endId] : [this.endId, this.#ids["<|act|>"]]);
  }

  /** The tokens of an answer. If there are more than `maxTokens`, a marker replaces those in the middle. */
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

/** The last complete span from an opening to a closing tag, tags included. */
function spanOf(text: string, [open, close]: readonly [string, string]): { start: number; end: number } | undefined {
  const closing = text.lastIndexOf(close);
  const start = closing < open.length ? -1 : text.lastIndexOf(open, closing - open.length);
  return start < 0 ? undefined : { start, end: closing + close.length };
}
