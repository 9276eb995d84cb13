/**
 * The chat template: how an episode becomes tokens. Fixed text stands around each part, by default one special token
 * that opens the part and one that closes it:
 *
 *     <|task|> text <|end|>  <|act|> action <|end|>  <|obs|> answer <|end|>  <|act|> …
 *
 * `format` is any other text around them, ChatML for example; `worldgrad/chat` derives it from a checkpoint's Jinja
 * template. The template only appends, so sampled tokens are never rendered or tokenised again. The model writes the
 * action and the token that ends it; the text around has the role `scaffold`, the text of an answer `observation`.
 */
import { check, fail } from "../../engine/errors.ts";
import { checkKeys, showValue } from "../../engine/options.ts";
import { encodeWithOffsets, type Tokenizer } from "../../nn/index.ts";
import { append, type AppendOptions, type Role, type TokenStream } from "./stream.ts";

/** The special tokens that a tokenizer needs for the template's own format. */
export const SPECIAL_TOKENS = ["<|task|>", "<|act|>", "<|obs|>", "<|end|>", "<|pad|>"] as const;
const TRUNCATED = " … ";

/** The tokens of an answer, and which of them a world model may be trained on (`TokenStream.targets`). */
export interface AnswerTokens {
  readonly ids: readonly number[];
  readonly targets: readonly boolean[];
}

/** The text around the parts of an episode. Names of special tokens in it are these tokens. */
export interface EpisodeFormat {
  /** The text before and behind the task. A system prompt and the descriptions of tools are part of the former. */
  readonly task: readonly [before: string, behind: string];
  /** The text before and behind an answer of the environment, which follows the token that ended the action. */
  readonly observation: readonly [before: string, behind: string];
  /** The text that asks for an action; it follows a task or an answer. */
  readonly action: string;
  /** The name of the token that ends an action. */
  readonly end: string;
  /** The name of the token that fills batches. */
  readonly pad: string;
}

/** The text around the parts if no other is given: `SPECIAL_TOKENS`. */
export const OWN_FORMAT: EpisodeFormat = {
  task: ["<|task|>", "<|end|>"],
  observation: ["<|obs|>", "<|end|>"],
  action: "<|act|>",
  end: "<|end|>",
  pad: "<|pad|>",
};

/**
 * Options of `Template`: the text around the parts, the tags that tell actions from thoughts, and whether an action
 * without them ends the episode.
 */
export interface TemplateOptions {
  /**
   * The tags around the action in the model's text, as in `["<answer>", "</answer>"]`. Tokens from the opening to the
   * closing tag, tags included, have the role `action`; everything else that the model wrote has the role `thought`.
   * The environment gets the text between the tags. Default: all text is action.
   */
  readonly action?: readonly [open: string, close: string];
  /**
   * The tags around the thought with which the model's text may begin, as in `["<think>", "</think>"]`, in the place of
   * `action`. The format may have written the opening tag. Tokens up to the end of the closing tag have the role
   * `thought`, all others `action`. The environment gets the text behind the thought, and an empty one if the thought
   * has no end. Thoughts stay in the context of later turns.
   */
  readonly thought?: readonly [open: string, close: string];
  /**
   * Whether missing tags, or a thought without an end, end the episode. False (default): the environment gets the text
   * and answers with an error. True: the episode ends with `parse_error`; it keeps the rewards that it has, and the
   * environment does not see the action.
   */
  readonly strict?: boolean;
  /**
   * The text around the parts of an episode, of a checkpoint with a chat template of its own. Default: one special
   * token before and one behind each part, `SPECIAL_TOKENS`.
   *
   * @example
   * const chatML = {
   *   task: ["<|im_start|>user\n", "<|im_end|>\n"],
   *   observation: ["\n<|im_start|>user\n", "<|im_end|>\n"],
   *   action: "<|im_start|>assistant\n",
   *   end: "<|im_end|>",
   *   pad: "<|endoftext|>",
   * } as const;
   */
  readonly format?: EpisodeFormat;
  /**
   * The names of further tokens that end an action, beside the format's: many models have several (`eos_token_id` of a
   * `generation_config.json`). Any of them ends the action and stays as the model drew it; no other is put behind it.
   * Default none.
   */
  readonly ends?: readonly string[];
}

/**
 * The chat template, which turns an episode into tokens: by default `<|task|> text <|end|> <|act|> action <|end|>
 * <|obs|> answer <|end|> <|act|> …`, else as its `format` says. It only appends to a `TokenStream`, so sampled tokens
 * are never rendered or tokenised again.
 */
export class Template {
  readonly tokenizer: Tokenizer;
  /** The options of the template. Templates of the same tokenizer and options write and read the same. */
  readonly options: TemplateOptions;
  /** The token that ends an action which the model did not write. */
  readonly endId: number;
  /** All tokens that end an action of the model's, `endId` first. */
  readonly endIds: readonly number[];
  /** The token that fills batches. */
  readonly padId: number;
  readonly #format: EpisodeFormat;
  /** The tokens of a text between two others; names of special tokens count only in those two. */
  readonly #encodeBetween: (text: string, around: readonly [string, string]) => number[];
  readonly #action: readonly number[];
  readonly #observation: readonly [before: readonly number[], behind: readonly number[]];

  /** @throws if the tokenizer lacks one of `SPECIAL_TOKENS`, or of a format the tokens that end and fill */
  constructor(tokenizer: Tokenizer, options: TemplateOptions = {}) {
    checkKeys("Template", options, ["action", "thought", "strict", "format", "ends"]);
    const { action: tags, thought, strict } = options;
    check(!tags || !thought, () => "template: there are tags of the action or of the thought, not of both");
    check(
      (tags ?? thought ?? ["-"]).every((tag) => tag !== ""),
      () => `template: a tag of the ${tags ? "action" : "thought"} is empty`,
    );
    check(
      typeof (tokenizer as Tokenizer | undefined)?.encode === "function" && typeof tokenizer.special === "object",
      () => `Template: expected a tokenizer, with encode, decode and special, got ${showValue(tokenizer)}`,
    );
    this.tokenizer = tokenizer;
    check(
      !strict || tags !== undefined || thought !== undefined,
      () => "template: strict is about the tags of an action or a thought, and there are none",
    );
    this.options = options;
    const idOf = (name: string): number =>
      tokenizer.special[name] ??
      tokenizer.tokenToId?.(name) ??
      fail(`template: the tokenizer has no special token ${name}`);
    if (options.format === undefined) SPECIAL_TOKENS.forEach(idOf);
    this.#format = options.format ?? OWN_FORMAT;
    const { action, observation, end, pad } = this.#format;
    this.endId = idOf(end);
    this.endIds = [...new Set([this.endId, ...(options.ends ?? []).map(idOf)])];
    this.padId = idOf(pad);
    this.#encodeBetween =
      options.format === undefined
        ? // Special tokens by their ids, so that a tokenizer of one's own need not find them in texts.
          (text, [before, behind]) => [idOf(before), ...tokenizer.encode(text), idOf(behind)]
        : (text, [before, behind]) => {
            const plain = [[before.length, before.length + text.length]] as const;
            return tokenizer.encode(before + text + behind, { specials: "tokens", plain });
          };
    if (options.format === undefined) {
      this.#action = [idOf(action)];
      this.#observation = [[idOf(observation[0])], [idOf(observation[1])]];
      return;
    }
    this.#action = tokenizer.encode(action, { specials: "tokens" });
    // The text around an answer is tokenised with an answer in between: its ends may be joined to the answer.
    const [before, behind] = observation;
    const { ids, offsets } = encodeWithOffsets(tokenizer, `${before}x${behind}`, { specials: "tokens" });
    const first = offsets.findIndex(([, to]) => to > before.length);
    const last = offsets.findLastIndex(([from]) => from <= before.length);
    this.#observation = [ids.slice(0, first), ids.slice(last + 1)];
    check(first > 0, () => "template: no token of the format stands before an answer");
  }

  /** Whether the token ends an action. */
  isEnd(id: number | undefined): boolean {
    return id !== undefined && this.endIds.includes(id);
  }

  /** The tokens before an answer; where they stand as `scaffold`, an answer follows. */
  get answerOpening(): readonly number[] {
    return this.#observation[0];
  }

  /** The number of tokens around an answer; after the `last` one of an episode the model does not act. */
  tokensAroundAnswer(last: boolean): number {
    const [before, behind] = this.#observation;
    return before.length + behind.length + (last ? 0 : this.#action.length);
  }

  /** Appends the task and the text that asks for the first action. */
  appendTask(stream: TokenStream, text: string): void {
    append(stream, "prompt", 0, this.#encodeBetween(text, this.#format.task));
    append(stream, "scaffold", 0, this.#action);
  }

  /** Whether the format has begun a thought where the model's text begins. */
  get #isThoughtBegun(): boolean {
    const { task, action } = this.#format;
    const [open, close] = this.options.thought ?? ["", ""];
    return open !== "" && (task[1] + action).lastIndexOf(open) > (task[1] + action).lastIndexOf(close);
  }

  /** The text before an action that the model did not write; with tags of a thought that is the thought. */
  #before(thought: string): string {
    if (!this.options.thought) return thought;
    const [open, close] = this.options.thought;
    if (thought === "" && !this.#isThoughtBegun) return "";
    return `${this.#isThoughtBegun ? "" : `${open}\n`}${thought}\n${close}\n\n`;
  }

  /** The tokens of an action without a thought before it. */
  #encodeBare(text: string): number[] {
    const [open, close] = this.options.action ?? ["", ""];
    return [...this.tokenizer.encode(open + text + close), this.endId];
  }

  /**
   * The tokens of an action that the model did not write: its text, between the tags if there are any, and the end
   * token. A thought that the format has begun is ended before it.
   */
  encodeAction(text: string): number[] {
    return [...this.tokenizer.encode(this.#before("")), ...this.#encodeBare(text)];
  }

  /**
   * Appends an action that the model did not write (an expert's demonstration), and the thought before it.
   * @throws if there is a thought but the template has no tags that separate it from the action
   */
  appendAction(stream: TokenStream, turn: number, text: string, thought = ""): void {
    check(
      thought === "" || this.options.action !== undefined || this.options.thought !== undefined,
      () => 'template: a thought needs tags around the action, as in { action: ["[", "]"] }',
    );
    append(stream, "thought", turn, this.tokenizer.encode(this.#before(thought)));
    append(stream, "action", turn, this.#encodeBare(text));
  }

  /**
   * Called where the model acts next, behind a task or an answer. Here it reads all that came before. A template that
   * leaves something out notes it in the stream's `contexts` (`HistoryTemplate` of data/history.ts).
   * @param _end the place, in a stream that goes on
   */
  beginTurn(_stream: TokenStream, _end?: number): void {}

  /** Appends the model's text of a turn, its thoughts and its action. */
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
   * The text of an action for the environment, without the end token. If the template has tags of the action and both
   * are found, it is the text between them; if it has tags of a thought, the text behind the thought.
   */
  actionText(ids: readonly number[]): string {
    return this.parseAction(ids, false)!;
  }

  /** `actionText`, or undefined if the template is `strict` and its tags are not found. */
  parseAction(ids: readonly number[], strict = this.options.strict): string | undefined {
    const text = this.tokenizer.decode(this.isEnd(ids.at(-1)) ? ids.slice(0, -1) : ids);
    const { action, thought } = this.options;
    const span = this.#actionIn(text, (tag) => tag);
    if (span === undefined) return strict ? undefined : thought ? "" : text;
    return action
      ? text.slice(span.start + action[0].length, span.end - action[1].length)
      : thought
        ? text.slice(span.start).trimStart()
        : text;
  }

  /**
   * The place of the action in a text of the model's, tags of the action included; undefined if there are tags and they
   * are not found. @param as the form of a tag in this text
   */
  #actionIn(text: string, as: (tag: string) => string): { start: number; end: number } | undefined {
    const { action, thought } = this.options;
    if (action) return spanOf(text, [as(action[0]), as(action[1])]);
    const start = thought ? thoughtEnd(text, [as(thought[0]), as(thought[1])], this.#isThoughtBegun) : 0;
    return start < 0 ? undefined : { start, end: text.length };
  }

  /**
   * The role of each token. The end token has the role of the token before it. A token that holds part of the action,
   * or of a tag around it, has the role `action`.
   */
  #rolesOf(ids: readonly number[]): Role[] {
    const { action: tags, thought } = this.options;
    if (!tags && !thought) return ids.map(() => "action");
    // One character stands for each byte, because a token may hold a part of a character only.
    const pieces = ids.map((id) => (this.isEnd(id) ? "" : String.fromCharCode(...this.tokenizer.decodeBytes([id]))));
    const bytes = (text: string): string => String.fromCharCode(...new TextEncoder().encode(text));
    const span = this.#actionIn(pieces.join(""), bytes);
    if (thought && span?.start === 0) return ids.map(() => "action"); // also an empty one
    let at = 0;
    const roles = pieces.map((piece): Role => {
      const from = at;
      at += piece.length;
      return span && at > span.start && from < span.end ? "action" : "thought";
    });
    return roles.map((role, t) => (this.isEnd(ids[t]) && t > 0 ? roles[t - 1]! : role));
  }

  /**
   * Appends an answer (of `encodeObservation`, or tokens that are an answer as a whole), an optional warning of the
   * harness, and the tag that asks for the next action, unless this is the last answer. Answers belong to the turn of
   * the action that they answer.
   */
  appendObservation(
    stream: TokenStream,
    turn: number,
    answer: AnswerTokens | readonly number[],
    warning = "",
    last = false,
  ): void {
    const [before, behind] = this.#observation;
    append(stream, "scaffold", turn, before);
    if ("ids" in answer) append(stream, "observation", turn, answer.ids, { target: answer.targets });
    else append(stream, "observation", turn, answer);
    if (warning !== "") append(stream, "observation", turn, this.tokenizer.encode(warning), { target: false });
    append(stream, "scaffold", turn, last ? behind : [...behind, ...this.#action]);
  }

  /**
   * The tokens of an answer between those of the format: a text that begins with a space, say, is split as it is in the
   * whole. If there are more than `maxTokens`, a marker replaces those in the middle. Neither the marker's tokens,
   * which the world has not written, nor the next one, which nothing predicts, are targets.
   */
  encodeObservation(text: string, maxTokens: number): AnswerTokens {
    // An answer that is far too long is not read whole: its middle is dropped anyway, and ten megabytes take a
    // tokenizer seconds.
    const most = LETTERS_PER_TOKEN * Math.max(maxTokens, 64);
    const isLong = text.length > 2 * most;
    const ids = this.#encodeAnswer(isLong ? text.slice(0, most) + text.slice(-most) : text);
    if (!isLong && ids.length <= maxTokens) return { ids, targets: ids.map(() => true) };
    const marker = this.tokenizer.encode(TRUNCATED);
    const room = Math.max(0, maxTokens - marker.length);
    const head = Math.ceil(room / 2);
    const tail = room - head;
    const rest = ids.slice(Math.max(ids.length - tail, head));
    const cut = [...ids.slice(0, head), ...marker, ...rest].slice(0, maxTokens);
    return { ids: cut, targets: cut.map((_, t) => t < head || t > head + marker.length) };
  }

  #encodeAnswer(text: string): number[] {
    const ids = this.#encodeBetween(text, this.#format.observation);
    const [before, behind] = this.#observation;
    const between = ids.slice(before.length, ids.length - behind.length);
    const isWhole =
      ids.length >= before.length + behind.length &&
      before.every((id, i) => ids[i] === id) &&
      behind.every((id, i) => ids[ids.length - behind.length + i] === id);
    // A text that is joined to the text around it (a newline to a newline) is split by itself.
    return isWhole ? between : this.tokenizer.encode(text);
  }
}

/** The largest number of letters in a token of a published vocabulary, but for runs of blanks. */
const LETTERS_PER_TOKEN = 64;

/**
 * The place behind the thought with which a text begins: 0 without a thought, −1 if it has no end.
 * @param isBegun whether the opening tag stands before the text
 */
function thoughtEnd(text: string, [open, close]: readonly [string, string], isBegun: boolean): number {
  const start = text.length - text.trimStart().length;
  if (!isBegun && !text.startsWith(open, start)) return 0;
  const end = text.indexOf(close, isBegun ? 0 : start + open.length);
  return end < 0 ? -1 : end + close.length;
}

/** The last complete span from an opening to a closing tag, tags included. */
function spanOf(text: string, [open, close]: readonly [string, string]): { start: number; end: number } | undefined {
  const closing = text.lastIndexOf(close);
  const start = closing < open.length ? -1 : text.lastIndexOf(open, closing - open.length);
  return start < 0 ? undefined : { start, end: closing + close.length };
}
