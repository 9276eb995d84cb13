/**
 * One episode of a rollout, as its environment sees it: the reset, each action, each answer that is appended to the
 * stream, and the reason for the end. `player.ts` decides when the model reads and draws tokens.
 */
import { reasonOf } from "../../engine/errors.ts";
import type { Rng } from "../../engine/index.ts";
import type { SampledToken } from "../../nn/index.ts";
import { checkAnswer, checkEnd, checkEnvironment, checkTask, mostLetters, TaskTooLong } from "./answers.ts";
import { answerWithin } from "./deadline.ts";
import type {
  CallLimits,
  EndResult,
  Environment,
  EnvironmentOptions,
  EnvironmentSpec,
  OutsideEnd,
  StepResult,
} from "../environment.ts";
import {
  append,
  emptyStream,
  hasFailed,
  keepCause,
  readBefore,
  returnOf,
  type StopReason,
  type TokenStream,
  type Trajectory,
} from "../episode/stream.ts";
import type { Template } from "../episode/template.ts";

/**
 * An episode to play. `group` is the number of the task, and `seed` makes the task. The token at position p of the
 * episode is drawn with the p-th random number of the stream `rng`. Drawing does not advance the stream, so two
 * episodes with the same stream use the same numbers.
 */
export interface EpisodeRequest {
  readonly spec: EnvironmentSpec;
  readonly options: EnvironmentOptions;
  readonly seed: number;
  readonly group: number;
  readonly rng: Rng;
  /**
   * Actions that are given to the agent. Called before each turn, it returns the text of an action, or its tokens if
   * they were drawn before, or undefined to let the model act. The tokens of a given action have the role `prompt`, so
   * the policy is not trained on them. Default: the model always acts.
   */
  readonly forced?: (turn: number, task: string, env: Environment) => string | readonly number[] | undefined;
  /** Given actions as plain data, in order, in the place of `forced`: a function cannot be sent to another thread. */
  readonly given?: readonly GivenActions[];
}

/** Given actions as plain data. The thread that plays the request knows the kinds and the further data of each. */
export interface GivenActions {
  readonly kind: string;
  readonly [option: string]: string | number;
}

/** Limits and settings that all episodes of a rollout share. */
export interface EpisodeLimits {
  readonly template: Template;
  readonly maxTurns: number;
  readonly maxActionTokens: number;
  readonly maxObservationTokens: number;
  readonly maxTokens: number;
  readonly timeout: number;
  readonly signal: AbortSignal | undefined;
  /** The temperature that is recorded with sampled tokens; 1 for greedy play. */
  readonly temperature: number;
}

/**
 * Appends the environment's answer after the action that it answers, if it fits.
 * @param read the number of tokens that the model has read or drawn: all, unless the template leaves some out
 * @returns the reason why the episode is over, or null if it goes on
 */
export function appendAnswer(
  stream: TokenStream,
  turn: number,
  { observation, done }: Pick<StepResult, "observation" | "done">,
  limits: Pick<EpisodeLimits, "template" | "maxTurns" | "maxTokens" | "maxObservationTokens">,
  read = stream.ids.length,
): StopReason | null {
  const { template, maxTurns, maxTokens, maxObservationTokens } = limits;
  const isLast = done || turn + 1 >= maxTurns;
  const answer = template.encodeObservation(observation, maxObservationTokens);
  // If the episode goes on, room is needed for at least one token.
  const needed = answer.ids.length + template.tokensAroundAnswer(isLast) + (isLast ? 0 : 1);
  if (read + needed > maxTokens) return done ? "completed" : "context_overflow";
  template.appendObservation(stream, turn, answer, "", isLast);
  return !isLast ? null : done ? "completed" : "max_turns";
}

/** Whether an environment that has not ended the episode itself has to be told of this end. */
const isOutside = (stop: StopReason | null): stop is OutsideEnd =>
  stop === "max_turns" || stop === "max_tokens" || stop === "context_overflow" || stop === "parse_error";

/**
 * Adds an environment's score of an end from outside to the reward of the last turn that has tokens, and its facts to
 * the info.
 * @param rewards of the steps so far; changed in place
 * @returns the fields of the trajectory that say so
 */
export function addEnd(
  { reward, info }: EndResult,
  { turns }: TokenStream,
  rewards: number[],
  known: Trajectory["info"],
): Pick<Trajectory, "info" | "scoredAtEnd"> {
  const turn = turns.at(-1)!;
  if (reward !== undefined) rewards[turn] = (rewards[turn] ?? 0) + reward;
  return { info: { ...known, ...info }, ...(reward === undefined ? {} : { scoredAtEnd: true }) };
}

/** A live episode: its environment, its tokens so far, and the unfinished action. */
export class Episode {
  readonly request: EpisodeRequest;
  stream: TokenStream = emptyStream();
  /** The tokens that the stream begins with before the model acts; empty until the environment has given the task. */
  task: readonly number[] = [];
  /** Tokens that the model has not read yet. */
  pending: number[] = [];
  stop: StopReason | null = null;
  /** The error of an episode that never began because its task alone fills the context. */
  tooLong: Error | undefined;
  readonly #limits: EpisodeLimits;
  readonly #env: Environment;
  readonly #callLimits: CallLimits;
  readonly #rewards: number[] = [];
  #taskText = "";
  #turn = 0;
  #info: Trajectory["info"] = {};
  #isScoredAtEnd = false;
  /** The unfinished action. */
  #action: number[] = [];
  /** The last action that is complete. */
  #said: readonly number[] = [];
  #logProbs: number[] = [];
  #versions: number[] = [];

  constructor(request: EpisodeRequest, limits: EpisodeLimits) {
    this.request = request;
    this.#limits = limits;
    this.#env = request.spec.make(request.options);
    checkEnvironment(request.spec.name, this.#env);
    this.#callLimits = request.spec.limits?.(request.options) ?? {};
  }

  /** Resets the environment and appends its task to the tokens that the model has to read. */
  async begin(): Promise<void> {
    const { template, maxTokens } = this.#limits;
    const { name } = this.#env;
    const read = emptyStream();
    const task = await this.#guarded("reset", async (signal) => {
      const text = checkTask(name, await this.#env.reset(this.request.seed, { signal }));
      if (text.length > mostLetters(maxTokens)) {
        throw new TaskTooLong(`rollout: the task of ${name} has ${text.length} letters, only ${maxTokens} tokens fit`);
      }
      template.appendTask(read, text);
      const { length } = read.ids;
      if (length >= maxTokens)
        throw new TaskTooLong(
          `rollout: the task of ${name} takes ${length} tokens, only ${maxTokens} fit ` +
            "(the model's maxPositions, or maxTokens)",
        );
      return text;
    });
    if (task === null) return;
    this.stream = read;
    this.#taskText = task;
    this.#info = this.#env.info ?? {};
    await this.#force();
    await this.tell();
    this.task = this.tokens;
    this.pending = [...this.task];
  }

  /** All tokens of the context, those of an unfinished action too: the input of a model that has read nothing yet. */
  get tokens(): number[] {
    return [...readBefore(this.stream), ...this.#action];
  }

  /** The number of `tokens`. */
  get length(): number {
    return this.tokens.length;
  }

  /** The stream of random numbers of the present context; positions begin again in each. */
  get rng(): Rng {
    const { rng } = this.request;
    const { contexts } = this.stream;
    return contexts ? rng.split(contexts.length) : rng;
  }

  /**
   * Adds drawn tokens to the action, up to the end token or the last token that there is room for.
   * @param version the version of the policy that drew them
   * @returns true if the action is complete and the environment has to answer
   */
  takeTokens(tokens: readonly SampledToken[], version: number): boolean {
    const { template, maxTokens, maxActionTokens, signal, temperature } = this.#limits;
    for (const { id, logProb } of tokens) {
      this.#action.push(id);
      this.#logProbs.push(logProb);
      this.#versions.push(version);
      const isComplete = template.isEnd(id);
      if (isComplete)
        this.pending = []; // it is the environment's turn
      else if (signal?.aborted) this.stop = "aborted";
      else if (this.length >= maxTokens) this.stop = "context_overflow";
      else if (this.#action.length >= maxActionTokens) this.stop = "max_tokens";
      if (!isComplete && this.stop === null) continue;
      template.appendSampled(this.stream, this.#turn, this.#action, {
        oldLogProbs: this.#logProbs,
        temperature,
        versions: this.#versions,
      });
      this.#said = this.#action;
      [this.#action, this.#logProbs, this.#versions] = [[], [], []];
      return isComplete;
    }
    this.pending = [this.#action.at(-1)!];
    return false;
  }

  /** Gives the action to the environment and appends the answer, which the model reads next. */
  async answer(): Promise<void> {
    const before = this.tokens;
    const text = this.#limits.template.parseAction(this.#said);
    if (text === undefined) this.stop = "parse_error";
    else await this.#step(text);
    await this.#force();
    await this.tell();
    // The model has drawn the action's last token but not read it yet. A new context is read from where it differs; if
    // it does not (−1), its last token is.
    const now = this.tokens;
    const differs = now.findIndex((id, t) => id !== before[t]);
    this.pending = now.slice(Math.min(before.length - 1, differs));
  }

  /** Plays given actions until it is the model's turn or the episode is over. */
  async #force(): Promise<void> {
    const { template, maxTokens } = this.#limits;
    while (this.stop === null) {
      const given = this.request.forced?.(this.#turn, this.#taskText, this.#env);
      if (given === undefined) return;
      const action = typeof given === "string" ? template.encodeAction(given) : given;
      if (this.length + action.length >= maxTokens) {
        this.stop = "context_overflow";
        return;
      }
      append(this.stream, "prompt", this.#turn, action);
      await this.#step(template.actionText(action));
    }
  }

  /** Plays one action in the environment and appends the answer. */
  async #step(text: string): Promise<void> {
    const result = await this.#guarded("step", async (signal) =>
      checkAnswer(this.#env.name, await this.#env.step(text, { signal })),
    );
    if (result === null) return;
    this.#rewards.push(result.reward);
    this.#info = result.info;
    this.stop = appendAnswer(this.stream, this.#turn, result, this.#limits, this.length);
    if (this.stop === null) this.#limits.template.beginTurn(this.stream);
    this.#turn++;
  }

  /** Whether the environment wants to hear of the end of this episode, which it has not ended itself. */
  get isToBeTold(): boolean {
    return isOutside(this.stop) && this.#env.end !== undefined;
  }

  /** Tells the environment if the episode was ended from outside. If that fails, the episode ends as if a step had. */
  async tell(): Promise<void> {
    const { stop } = this;
    if (!isOutside(stop) || this.#env.end === undefined) return;
    const result = await this.#guarded("end", async (signal) =>
      checkEnd(this.#env.name, await this.#env.end!(stop, { signal })),
    );
    if (result === null) return;
    const { info, scoredAtEnd = false } = addEnd(result, this.stream, this.#rewards, this.#info);
    this.#info = info;
    this.#isScoredAtEnd = scoredAtEnd;
  }

  /** Calls the environment within its time limit. If that fails, the stop reason is set and the result is `null`. */
  async #guarded<R extends string | StepResult | EndResult>(
    kind: keyof CallLimits,
    call: (signal: AbortSignal) => Promise<R>,
  ): Promise<R | null> {
    const { signal } = this.#limits;
    const timeout = this.#callLimits[kind] ?? this.#limits.timeout;
    const answer = await answerWithin(call, { timeout, signal, who: `${this.#env.name}: ${kind}` });
    if ("result" in answer) return answer.result;
    this.stop = answer.stop;
    if (answer.cause instanceof TaskTooLong) this.tooLong = answer.cause;
    this.#info = { ...this.#info, error: answer.error };
    keepCause(this.stream, answer.cause);
    return null;
  }

  /**
   * Closes the environment, whether or not the episode is over. If that throws, the environment has failed, as if
   * `step` had thrown.
   */
  close(): void {
    try {
      const closing: unknown = this.#env.close?.();
      // Nothing awaits it, and a rejection must not end the process.
      if (closing instanceof Promise) closing.catch(() => undefined);
    } catch (error) {
      if (this.stop !== null && hasFailed({ stopReason: this.stop })) return; // the first error is the one to be told
      this.stop = "tool_error";
      this.#info = { ...this.#info, error: `close: ${reasonOf(error)}` };
    }
  }

  /** The episode as it ended. */
  trajectory(): Trajectory {
    const stopReason = this.stop!;
    const stepRewards = this.#rewards;
    const scoredAtEnd = this.#isScoredAtEnd;
    return {
      stream: this.stream,
      group: this.request.group,
      reward: returnOf({ stepRewards, stopReason, scoredAtEnd }),
      stepRewards,
      stopReason,
      masked: hasFailed({ stopReason }),
      ...(scoredAtEnd ? { scoredAtEnd } : {}),
      env: this.request.spec.name,
      task: this.#taskText,
      seed: this.request.seed,
      info: this.#info,
    };
  }
}
