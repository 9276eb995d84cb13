/**
 * Episodes that somebody else's agent plays with our policy over HTTP. Each has an address of its own (as in Agent
 * Lightning, Luo et al. 2025, arXiv 2508.03680), which is all that the agent needs to know: every request under it
 * belongs to the episode.
 *
 * An episode consists of rows of tokens. If a prompt begins with all tokens of a row, sampled ones included, it
 * continues that row, and its further tokens are the environment's answer. If not (the agent has rewritten its
 * history, or tokenised the text again and got different tokens), a new row begins. Its prompt is the tokens that the
 * model saw, except for answers that the model sees for the first time: these are the environment's there, too. All
 * rows share the episode's reward. Token ids and log-probabilities are those that were sampled.
 */
import { check } from "../../engine/errors.ts";
import { append, emptyStream, type StopReason, type TokenStream, type Trajectory } from "../../rl/episode/stream.ts";
import type { Template } from "../../rl/episode/template.ts";
import { type ChatFormat, type ChatMessage, objectIn } from "./chat.ts";
import type { ServedToken } from "./scores.ts";
import { HttpError } from "./http.ts";

/** The facts that are known of an episode when it is opened. */
export interface RolloutFacts {
  /** Its name in the address. Default: a number. */
  readonly id?: string;
  /** Episodes of the same task share it; advantages compare them. Default: a number of its own. */
  readonly group?: number;
  readonly env?: string;
  readonly task?: string;
  readonly seed?: number;
}

/** The outcome of an episode. */
export interface RolloutEnd {
  readonly reward: number;
  /** The reward of each turn, if they are known; they need not sum to `reward`. */
  readonly stepRewards?: readonly number[];
  readonly success?: boolean;
  /** True if the episode failed for reasons outside the agent; then nothing of it is trained. */
  readonly masked?: boolean;
  readonly stopReason?: StopReason;
  /** The reason for its failure: `info.error` of its rows. */
  readonly error?: string;
}

/** A prompt of an episode, and the row that it continues, if there is one. */
export interface RolloutPrompt {
  readonly stream: TokenStream;
  readonly row: RolloutRow | undefined;
}

/** Tokens in the order in which the model saw them. */
export interface RolloutRow {
  readonly stream: TokenStream;
  /** The conversation that led here, the last answer included; none if prompts were tokens. */
  messages: readonly ChatMessage[] | undefined;
}

/** An episode that is being played. */
export class Rollout {
  readonly id: string;
  readonly group: number;
  readonly facts: RolloutFacts;
  /** Resolves to the rows of the episode when it is over; there are none if nothing was sampled. */
  readonly finished: Promise<readonly Trajectory[]>;
  /** Aborted when the episode is over: then nothing is sampled for it any more. */
  readonly signal: AbortSignal;
  readonly #abort = new AbortController();
  readonly #number: number;
  readonly #template: Template | undefined;
  readonly #onFork: "split" | "refuse";
  readonly #rows: RolloutRow[] = [];
  /** The largest number of times that each answer of the environment has occurred in one conversation. */
  readonly #seen = new Map<string, number>();
  #turn = 0;
  #end: RolloutEnd | undefined;
  #resolve: (trajectories: readonly Trajectory[]) => void = () => undefined;

  constructor(number: number, facts: RolloutFacts, template: Template | undefined, onFork: "split" | "refuse") {
    this.#number = number;
    this.id = facts.id ?? String(number);
    this.group = facts.group ?? number;
    this.facts = facts;
    this.signal = this.#abort.signal;
    this.#template = template;
    this.#onFork = onFork;
    this.finished = new Promise((resolve) => (this.#resolve = resolve));
  }

  /** Turns, rows and the reward, if there is one. */
  get state(): { readonly turns: number; readonly rows: number; readonly end: RolloutEnd | undefined } {
    return { turns: this.#turn, rows: this.#rows.length, end: this.#end };
  }

  /** A prompt that came as tokens. @throws HttpError 409 if it continues no row and forks are refused, or it is over */
  promptOfIds(ids: readonly number[]): RolloutPrompt {
    this.#checkOpen();
    const row = this.#longest((row) => isPrefix(row.stream.ids, ids));
    if (row === undefined) this.#checkFork(ids);
    return { stream: row ? this.#rawAnswer(row, ids) : this.#rawPrompt(ids), row };
  }

  /** A prompt that came as messages: what the model has written is not tokenised again. @throws as `promptOfIds` */
  promptOfMessages(
    messages: readonly ChatMessage[],
    format: ChatFormat,
    tools: readonly unknown[] = [],
  ): RolloutPrompt {
    this.#checkOpen();
    const row = this.#longest((row) => row.messages !== undefined && areFirst(row.messages, messages));
    if (row === undefined) {
      const answered = messages.findIndex(({ role }) => role === "assistant");
      const isAnswer = (i: number): boolean => answered >= 0 && i > answered;
      const news = new Set(this.#newOf(messages.map(answerKey)).filter(isAnswer));
      const stream = format.begin(messages, tools.length > 0 ? tools : undefined, this.#turn > 0 ? news : undefined);
      this.#checkFork(stream.ids);
      return { stream, row };
    }
    const said = row.stream;
    const turn = said.turns.at(-1)!;
    const more = format.extend(messages.slice(row.messages!.length), said.ids.at(-1)!, turn);
    return { stream: joined(said, more), row };
  }

  /** Adds what was sampled after a prompt. Nothing happens if the episode has ended meanwhile. */
  record(
    { stream, row }: RolloutPrompt,
    tokens: readonly ServedToken[],
    temperature: number,
    messages?: readonly ChatMessage[],
  ): void {
    if (this.#end || tokens.length === 0) return;
    this.#remember(messages?.map(answerKey) ?? this.#answersIn(stream.ids).map(({ key }) => key));
    const turn = this.#turn++;
    // If another answer has continued the same row meanwhile, this one becomes a row of its own.
    const isNext = row !== undefined && isPrefix(row.stream.ids, stream.ids);
    const own = isNext ? row : { stream: emptyStream(), messages };
    if (isNext) extend(own.stream, stream, own.stream.ids.length);
    else {
      // If another answer has continued the row meanwhile, the environment's answers are targets in that row already.
      extend(own.stream, this.#rows.length === 0 ? stream : asPrompt(stream, turn - 1, row === undefined), 0);
      this.#rows.push(own);
    }
    own.messages = messages;
    const ids = tokens.map(({ id }) => id);
    const how = {
      oldLogProbs: tokens.map(({ logProb }) => logProb),
      temperature: temperature === 0 ? 1 : temperature,
      versions: tokens.map(({ version }) => version),
    };
    if (this.#template) this.#template.appendSampled(own.stream, turn, ids, how);
    else append(own.stream, "action", turn, ids, how);
  }

  /**
   * Ends the episode and makes its trajectories. @throws HttpError 409 if it is over; WorldgradError on a reward that
   * is no number
   */
  end(end: RolloutEnd): readonly Trajectory[] {
    this.#checkOpen();
    const { reward, stepRewards = [], success = reward > 0, masked = false, stopReason, error } = end;
    check(Number.isFinite(reward), () => `reward must be a number, got ${reward}`);
    check(stepRewards.every(Number.isFinite), () => `step_rewards must be numbers, got ${stepRewards.join(", ")}`);
    this.#end = end;
    this.#abort.abort(new Error("the episode is over"));
    const { env = "agent", task = "", seed = 0 } = this.facts;
    const trajectories = this.#rows.map(({ stream }): Trajectory => ({
      stream,
      group: this.group,
      reward,
      stepRewards,
      stopReason: stopReason ?? (masked ? "aborted" : "completed"),
      masked,
      env,
      task,
      seed,
      info: { success, ...(error === undefined ? {} : { error }) },
      ...(this.#rows.length > 1 ? { rollout: this.#number } : {}),
    }));
    this.#resolve(trajectories);
    return trajectories;
  }

  #longest(fits: (row: RolloutRow) => boolean): RolloutRow | undefined {
    return this.#rows
      .filter(fits)
      .reduce<RolloutRow | undefined>((a, b) => (a && a.stream.ids.length >= b.stream.ids.length ? a : b), undefined);
  }

  #checkOpen(): void {
    if (this.#end) throw new HttpError(409, `the rollout ${this.id} is over`, { code: "rollout_is_over" });
  }

  #checkFork(ids: readonly number[]): void {
    const last = this.#rows.at(-1);
    if (last === undefined || this.#onFork === "split") return;
    const at = last.stream.ids.findIndex((id, t) => id !== ids[t]);
    throw new HttpError(
      409,
      `the prompt does not continue the rollout ${this.id}: it differs from what was sampled at token ${at}, and ` +
        "this server refuses forks",
      { code: "prompt_is_no_continuation" },
    );
  }

  /** The positions of answers that the model sees for the first time; an undefined key is no answer. */
  #newOf(keys: readonly (string | undefined)[]): number[] {
    const counts = new Map<string, number>();
    return keys.flatMap((key, i) => {
      if (key === undefined) return [];
      const count = (counts.get(key) ?? 0) + 1;
      counts.set(key, count);
      return count > (this.#seen.get(key) ?? 0) ? [i] : [];
    });
  }

  /** Notes the answers of a conversation. */
  #remember(keys: readonly (string | undefined)[]): void {
    const counts = new Map<string, number>();
    for (const key of keys) if (key !== undefined) counts.set(key, (counts.get(key) ?? 0) + 1);
    for (const [key, count] of counts) this.#seen.set(key, Math.max(count, this.#seen.get(key) ?? 0));
  }

  /** The answers in a prompt of tokens: the tokens after the template's opening of one, up to a special token. */
  #answersIn(ids: readonly number[]): { readonly from: number; readonly to: number; readonly key: string }[] {
    const opening = this.#template?.answerOpening ?? [];
    if (opening.length === 0) return [];
    const special = new Set(Object.values(this.#template!.tokenizer.special));
    return ids.flatMap((_, t) => {
      if (!opening.every((id, k) => ids[t + k] === id)) return [];
      const from = t + opening.length;
      const end = ids.findIndex((id, k) => k >= from && special.has(id));
      const to = end < 0 ? ids.length : end;
      return [{ from, to, key: ids.slice(from, to).join() }];
    });
  }

  /** A prompt that begins a row. After the first row, the answers in it that are new are the environment's. */
  #rawPrompt(ids: readonly number[]): TokenStream {
    const stream = rawPrompt(ids);
    if (this.#turn === 0) return stream;
    const answers = this.#answersIn(ids);
    for (const i of this.#newOf(answers.map(({ key }) => key))) {
      const { from, to } = answers[i]!;
      stream.roles.fill("observation", from, to);
      stream.targets.fill(true, from, to);
    }
    return stream;
  }

  /** The tokens of a prompt beyond a row: answers of the environment, with the template's tags between them. */
  #rawAnswer({ stream }: RolloutRow, ids: readonly number[]): TokenStream {
    const special = new Set(Object.values(this.#template?.tokenizer.special ?? {}));
    const turn = stream.turns.at(-1)!;
    const more = emptyStream();
    for (const id of ids.slice(stream.ids.length))
      append(more, special.has(id) ? "scaffold" : "observation", turn, [id]);
    return joined(stream, more);
  }
}

const isPrefix = (start: readonly number[], all: readonly number[]): boolean =>
  start.length <= all.length && start.every((id, t) => id === all[t]);

const areFirst = (start: readonly ChatMessage[], all: readonly ChatMessage[]): boolean =>
  start.length < all.length && start.every((message, i) => isSame(message, all[i]!));

const isSame = (a: ChatMessage, b: ChatMessage): boolean =>
  a.role === b.role &&
  a.content === b.content &&
  a.tool_call_id === b.tool_call_id &&
  JSON.stringify(plainCalls(a)) === JSON.stringify(plainCalls(b));

/** The calls of a message. Their arguments are in the model's words; a client may write them anew from what it read. */
const plainCalls = ({ tool_calls = [] }: ChatMessage): unknown =>
  tool_calls.map(({ id, function: { name, arguments: json } }) => [id, name, objectIn(json)]);

function rawPrompt(ids: readonly number[]): TokenStream {
  const stream = emptyStream();
  append(stream, "prompt", 0, ids);
  return stream;
}

/** Appends the tokens of `from`, from a position on, with all columns. */
function extend(to: TokenStream, from: TokenStream, start: number): void {
  const pairs = Object.keys(to) as (keyof TokenStream)[];
  for (const name of pairs) (to[name] as unknown[]).push(...(from[name] as unknown[]).slice(start));
}

function joined(...streams: readonly TokenStream[]): TokenStream {
  const all = emptyStream();
  for (const stream of streams) extend(all, stream, 0);
  return all;
}

/** A key that tells answers of the environment apart; undefined for messages of the model and instructions to it. */
const answerKey = ({ role, content }: ChatMessage): string | undefined =>
  role === "user" || role === "tool" ? JSON.stringify([role, content]) : undefined;

/**
 * The tokens of a new row: what another row has sampled becomes prompt, so that it is not trained twice.
 * @param turn of the answer that observations follow @param keepsAnswers whether observations stay targets
 */
function asPrompt({ ids, targets }: TokenStream, turn: number, keepsAnswers: boolean): TokenStream {
  const stream = emptyStream();
  ids.forEach((id, t) => {
    const isAnswer = keepsAnswers && targets[t]!;
    append(stream, isAnswer ? "observation" : "prompt", isAnswer ? turn : 0, [id]);
  });
  return stream;
}
