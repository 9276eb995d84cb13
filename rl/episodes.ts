/**
 * One episode of a rollout, seen from its environment: reset, an action given, the answer appended to the stream, why it ended. What
 * decides which tokens the model reads and draws when is `rollout.ts`.
 */
import { check } from "../engine/errors.ts";
import type { Rng } from "../engine/random.ts";
import type { SampledToken } from "../nn/sampler.ts";
import type { Environment, EnvironmentOptions, EnvironmentSpec, StepResult } from "./environments/environment.ts";
import { append, emptyStream, type StopReason, type TokenStream, type Trajectory } from "./stream.ts";
import type { Template } from "./template.ts";

/**
 * What to play: `group` numbers the task, `seed` makes it. The token at position p of the episode is drawn with the p-th random number
 * of the stream `rng`, which is not used up; two episodes with the same stream draw the same numbers.
 */
export interface EpisodeRequest {
  readonly spec: EnvironmentSpec;
  readonly options: EnvironmentOptions;
  readonly seed: number;
  readonly group: number;
  readonly rng: Rng;
  /**
   * Actions that are not the model's, asked before each turn: the text of the action, or undefined to let the model act. Their tokens
   * have the role `prompt`: the policy is not trained on them. Default: the model always acts.
   */
  readonly forced?: (turn: number, task: string, env: Environment) => string | undefined;
}

/** What all episodes of a rollout share. */
export interface EpisodeLimits {
  readonly template: Template;
  readonly maxTurns: number;
  readonly maxActionTokens: number;
  readonly maxObservationTokens: number;
  readonly maxTokens: number;
  readonly timeout: number;
  readonly signal: AbortSignal | undefined;
  /** Recorded with what is sampled; 1 for greedy play. */
  readonly temperature: number;
}

const MASKED: ReadonlySet<StopReason> = new Set(["tool_error", "timeout", "aborted"]);
/** Cut short for want of tokens: the reward is 0, whatever was earned before, and the episode is trained on (arXiv 2605.24517). */
const TRUNCATED: ReadonlySet<StopReason> = new Set(["max_tokens", "context_overflow"]);

export class Episode {
  readonly request: EpisodeRequest;
  readonly stream: TokenStream = emptyStream();
  /** The tokens of the task, which the stream begins with; empty until it is known. */
  task: readonly number[] = [];
  /** Tokens that the model has not read yet. */
  pending: number[] = [];
  stop: StopReason | null = null;
  readonly #limits: EpisodeLimits;
  readonly #env: Environment;
  readonly #rewards: number[] = [];
  #taskText = "";
  #turn = 0;
  #info: Trajectory["info"] = {};
  #action: number[] = [];
  #logProbs: number[] = [];

  constructor(request: EpisodeRequest, limits: EpisodeLimits) {
    this.request = request;
    this.#limits = limits;
    this.#env = request.spec.make(request.options);
  }

  /** Lets the environment set the task, which is then to be read. */
  async begin(): Promise<void> {
    const { template, maxTokens } = this.#limits;
    const task = await this.#guarded((signal) => this.#env.reset(this.request.seed, { signal }));
    if (task === null) return;
    this.#taskText = task;
    template.appendTask(this.stream, task);
    const { length } = this.stream.ids;
    check(
      length < maxTokens,
      () => `rollout: the task of ${this.#env.name} takes ${length} tokens, only ${maxTokens} fit`,
    );
    await this.#force();
    this.task = [...this.stream.ids];
    this.pending = [...this.task];
  }

  /**
   * Adds drawn tokens to the action, up to the one that ends it: the end token, or the last that there is room for.
   * @returns true if the action is complete and the environment is to answer
   */
  takeTokens(tokens: readonly SampledToken[]): boolean {
    const { template, maxTokens, maxActionTokens, signal, temperature } = this.#limits;
    for (const { id, logProb } of tokens) {
      this.#action.push(id);
      this.#logProbs.push(logProb);
      const isComplete = id === template.endId;
      if (isComplete)
        this.pending = []; // the environment has the turn
      else if (signal?.aborted) this.stop = "aborted";
      else if (this.stream.ids.length + this.#action.length >= maxTokens) this.stop = "context_overflow";
      else if (this.#action.length >= maxActionTokens) this.stop = "max_tokens";
      if (!isComplete && this.stop === null) continue;
      append(this.stream, "action", this.#turn, this.#action, { oldLogProbs: this.#logProbs, temperature });
      return isComplete;
    }
    this.pending = [this.#action.at(-1)!];
    return false;
  }

  /** Gives the action to the environment and its answer to the stream, to be read next. */
  async answer(): Promise<void> {
    const action = this.#action;
    [this.#action, this.#logProbs] = [[], []];
    const before = this.stream.ids.length;
    await this.#step(action);
    await this.#force();
    // The model has drawn the action's last token but not read it yet.
    this.pending = [action.at(-1)!, ...this.stream.ids.slice(before)];
  }

  /** Plays the actions that are not the model's, until the model is to act or the episode is over. */
  async #force(): Promise<void> {
    const { template, maxTokens } = this.#limits;
    while (this.stop === null) {
      const text = this.request.forced?.(this.#turn, this.#taskText, this.#env);
      if (text === undefined) return;
      const action = [...template.tokenizer.encode(text), template.endId];
      if (this.stream.ids.length + action.length >= maxTokens) {
        this.stop = "context_overflow";
        return;
      }
      append(this.stream, "prompt", this.#turn, action);
      await this.#step(action);
    }
  }

  /** One action in the environment, and the answer in the stream. */
  async #step(action: readonly number[]): Promise<void> {
    const { template, maxTurns, maxObservationTokens, maxTokens } = this.#limits;
    const text = template.actionText(action);
    const result = await this.#guarded((signal) => this.#env.step(text, { signal }));
    if (result === null) return;
    this.#rewards.push(result.reward);
    this.#info = result.info;
    const isLast = result.done || this.#turn + 1 >= maxTurns;
    const ids = template.encodeObservation(result.observation, maxObservationTokens);
    // <|obs|> and <|end|>; unless the episode is over also <|act|> and at least one token of the next action.
    const needed = ids.length + (isLast ? 2 : 4);
    if (this.stream.ids.length + needed > maxTokens) {
      this.stop = result.done ? "completed" : "context_overflow";
      return;
    }
    template.appendObservation(this.stream, this.#turn, ids, "", isLast);
    this.#turn++;
    if (isLast) this.stop = result.done ? "completed" : "max_turns";
  }

  /** A call of the environment within its time; `null` if it failed, with the stop reason set. */
  async #guarded<R extends string | StepResult>(call: (signal: AbortSignal) => Promise<R>): Promise<R | null> {
    const { timeout, signal: outer } = this.#limits;
    const clock = new AbortController();
    const late = (): Error => new Error(`${this.#env.name}: no answer within ${timeout} ms`);
    const timer = setTimeout(() => clock.abort(late()), timeout);
    const signal = outer ? AbortSignal.any([clock.signal, outer]) : clock.signal;
    let onAbort = (): void => {};
    const aborted = new Promise<never>((_, reject) => {
      onAbort = (): void => reject(signal.reason as Error);
      signal.addEventListener("abort", onAbort, { once: true });
    });
    aborted.catch(() => undefined);
    try {
      signal.throwIfAborted();
      return await Promise.race([call(signal), aborted]);
    } catch (error) {
      this.stop = outer?.aborted ? "aborted" : clock.signal.aborted ? "timeout" : "tool_error";
      this.#info = { ...this.#info, error: error instanceof Error ? error.message : String(error) };
      return null;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", onAbort); // else the combined signal lives as long as the outer one
    }
  }

  /** It is over, or nobody will finish it. */
  close(): void {
    this.#env.close?.();
  }

  /** The episode as it ended. */
  trajectory(): Trajectory {
    const stop = this.stop!;
    return {
      stream: this.stream,
      group: this.request.group,
      reward: TRUNCATED.has(stop) ? 0 : this.#rewards.reduce((a, b) => a + b, 0),
      stepRewards: this.#rewards,
      stopReason: stop,
      masked: MASKED.has(stop),
      env: this.request.spec.name,
      task: this.#taskText,
      seed: this.request.seed,
      info: this.#info,
    };
  }
}
