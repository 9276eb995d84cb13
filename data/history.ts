/**
 * What the model reads of an episode before it acts: by default all that came before. A `HistoryTemplate` leaves out
 * the thoughts of earlier turns, or the oldest turns. The stream of the episode stays whole: it records what was
 * written, in order, and beside it where the model began to read something else (`TokenStream.contexts`). `pack` lays
 * the stream out as the model read it, so that every token is trained once, behind what it was drawn behind.
 */
import { check } from "../engine/errors.ts";
import { flag, number, options, type OptionsOf } from "../engine/optionTable.ts";
import type { Tokenizer } from "../nn/index.ts";
import { emptyStream, readBefore, type TokenStream } from "../rl/episode/stream.ts";
import { OWN_FORMAT, Template, type TemplateOptions } from "../rl/episode/template.ts";

export const HISTORY = options("history", {
  thoughts: flag(true, "whether the model reads the thoughts of earlier turns"),
  turns: number(undefined, "largest number of earlier turns that it reads; by default all", { integer: true, min: 1 }),
  keep: number(undefined, "earlier turns that are left when there are more than `turns`; by default `turns`", {
    integer: true,
    min: 1,
  }),
});
/**
 * What the model reads of earlier turns when it acts. The task and the answer to the last action always stay. What is
 * left is read again after each drop, and trained as a line of its own, so that a `keep` below `turns` is cheaper.
 */
export type History = OptionsOf<typeof HISTORY>;

/** Options of a template, and what the model reads of earlier turns. */
export interface HistoryTemplateOptions extends TemplateOptions {
  readonly history?: History;
}

/** @throws WorldgradError if an option is of another kind, or more turns would be kept than are read */
export function checkHistory(given: History): void {
  const { turns, keep } = HISTORY.read(given);
  check(
    keep === undefined || (turns !== undefined && keep <= turns),
    () => `history.keep: expected at most history.turns, ${turns ?? "which is missing"}, got ${keep}`,
  );
}

/** The first turn that is read before turn `turn`. */
export function firstTurnRead({ turns = Infinity, keep = turns }: History, turn: number): number {
  if (turn <= turns) return 0;
  const dropped = turns - keep + 1;
  return dropped * Math.ceil((turn - turns) / dropped);
}

/**
 * A template whose model reads less than all of earlier turns.
 *
 * @example
 * const tags = ["<think>", "</think>"] as const;
 * new HistoryTemplate(tokenizer, { thought: tags, history: { thoughts: false, turns: 8, keep: 4 } })
 */
export class HistoryTemplate extends Template {
  override readonly options: HistoryTemplateOptions;
  readonly #history: History;
  /** The tokens that ask for an action, and those without the thought that the format begins there. */
  readonly #opening: readonly number[];
  readonly #bareOpening: readonly number[];

  /** @throws as `Template`, and on a history that is none */
  constructor(tokenizer: Tokenizer, given: HistoryTemplateOptions) {
    const { history = {}, ...rest } = given;
    super(tokenizer, rest);
    checkHistory(history);
    this.options = given;
    this.#history = history;
    const head = emptyStream();
    this.appendTask(head, "");
    this.#opening = head.ids.filter((_, t) => head.roles[t] === "scaffold");
    const { action } = rest.format ?? OWN_FORMAT;
    const [open, close] = rest.thought ?? ["", ""];
    const begun = open !== "" && action.lastIndexOf(open) > action.lastIndexOf(close) ? action.lastIndexOf(open) : -1;
    this.#bareOpening = begun < 0 ? this.#opening : tokenizer.encode(action.slice(0, begun), { specials: "tokens" });
  }

  /** If something is left out that the model has read so far, a context begins. */
  override beginTurn(stream: TokenStream, end: number = stream.ids.length): void {
    const ids = this.#readAt(stream, end);
    const before = readBefore(stream, end);
    if (ids.length === before.length && ids.every((id, t) => id === before[t])) return;
    stream.contexts = [...(stream.contexts ?? []), { at: end, ids }];
  }

  /** What is left of a stream up to `end`, where the model acts next. */
  #readAt({ ids, roles, turns }: TokenStream, end: number): number[] {
    const first = roles.findIndex((role) => role !== "prompt");
    const start = first < 0 ? end : first + this.#opening.length; // behind the task and the text that asks
    if (end <= start) return ids.slice(0, end);
    const next = turns[end - 1]! + 1;
    const isBare = this.#history.thoughts === false;
    const read = ids.slice(0, start - this.#opening.length);
    for (let turn = firstTurnRead(this.#history, next); turn < next; turn++) {
      const from = Math.max(start, turns.indexOf(turn));
      const to = turn + 1 < next ? turns.indexOf(turn + 1) : end;
      const answer = roles.indexOf("scaffold", from);
      const action = ids.slice(from, answer);
      read.push(...(isBare ? this.#bareOpening : this.#opening), ...(isBare ? this.#withoutThought(action) : action));
      read.push(...ids.slice(answer, to - this.#opening.length));
    }
    return [...read, ...this.#opening];
  }

  /** The tokens of an action without its thoughts, as a chat template writes an earlier turn. */
  #withoutThought(ids: readonly number[]): readonly number[] {
    const own = emptyStream();
    this.appendSampled(own, 0, ids);
    if (!own.roles.includes("thought")) return ids;
    const text = this.parseAction(ids, true);
    const [open, close] = this.options.action ?? ["", ""];
    return [...(text === undefined ? [] : this.tokenizer.encode(open + text + close)), ids.at(-1)!];
  }
}

/** The template with these options. */
export const templateOf = (tokenizer: Tokenizer, given: HistoryTemplateOptions): Template =>
  given.history === undefined ? new Template(tokenizer, given) : new HistoryTemplate(tokenizer, given);

/** `beginTurn` for every turn of a stream that this template's model has not played: a demonstration, say. */
export function beginTurns(template: Template, stream: TokenStream): void {
  for (const turn of new Set(stream.turns)) if (turn > 0) template.beginTurn(stream, stream.turns.indexOf(turn));
}
