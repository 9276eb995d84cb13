/**
 * The position of an episode in a search: the tokens so far and an environment in the matching state. Playing an action
 * gives a new position and does not change the old one, because the environment is cloned first. Stream, stop reasons
 * and rewards are exactly those of a rollout (rl/play/episode.ts).
 */
import { check, fail } from "../../../engine/errors.ts";
import type { Rng } from "../../../engine/index.ts";
import { checkAnswer, checkTask } from "../../../rl/play/answers.ts";
import { answerWithin } from "../../../rl/play/deadline.ts";
import type { Environment, EnvironmentOptions, EnvironmentSpec, StepResult } from "../../../rl/environment.ts";
import { appendAnswer } from "../../../rl/play/episode.ts";
import {
  append,
  emptyStream,
  hasFailed,
  paid,
  returnOf as returnAtEnd,
  type StopReason,
  type TokenStream,
  type Trajectory,
} from "../../../rl/episode/stream.ts";
import type { Template } from "../../../rl/episode/template.ts";

/** An action as the policy drew it. */
export interface DrawnAction {
  /** The tokens, including the end-of-turn token if it was drawn. */
  readonly ids: readonly number[];
  /** Log-probabilities at the sampling temperature, over the whole vocabulary. */
  readonly logProbs: readonly number[];
  /** Whether the action ended with the end token; false if it ran out of tokens. */
  readonly complete: boolean;
}

/** A position of an episode. */
export interface Position {
  /** All tokens so far; the last is the tag that asks for the next action, unless the episode is over. */
  readonly stream: TokenStream;
  /** The environment in this state; undefined once the episode is over. */
  readonly env: Environment | undefined;
  /** The number of actions so far. */
  readonly turns: number;
  /** The rewards of the actions that the search has played. */
  readonly stepRewards: readonly number[];
  readonly info: Trajectory["info"];
  /** The reason that the episode is over; undefined while it goes on. */
  readonly stop: StopReason | undefined;
}

/** The start of a search: a live episode, whose environment is cloned at once and never changed. */
export interface SearchStart {
  readonly env: Environment;
  /** All tokens so far; the last is the tag that asks for the next action. */
  readonly stream: TokenStream;
  /** The number of actions so far; default 0. */
  readonly turns?: number;
  readonly task: string;
  readonly seed: number;
  /** The number of the task, as in a rollout. */
  readonly group: number;
}

export interface StartOptions {
  /** The number of the task, as in a rollout; default 0. */
  readonly group?: number;
  /** Milliseconds that the environment may take to begin; default 10,000. */
  readonly timeout?: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * A new episode with its task in the stream. The caller closes the environment.
 * @throws if the environment throws or takes too long; then it is closed
 */
export async function startEpisode(
  spec: EnvironmentSpec,
  envOptions: EnvironmentOptions,
  seed: number,
  template: Template,
  { group = 0, timeout = 10_000, signal }: StartOptions = {},
): Promise<SearchStart> {
  const env = spec.make(envOptions);
  const reset = async (aborted: AbortSignal): Promise<string> =>
    checkTask(env.name, await env.reset(seed, { signal: aborted }));
  const answer = await answerWithin(reset, { timeout, signal, who: `${env.name}: reset` });
  if ("stop" in answer) {
    env.close?.();
    return fail(`search: ${env.name} did not begin an episode with seed ${seed} (${answer.stop}): ${answer.error}`);
  }
  const stream = emptyStream();
  template.appendTask(stream, answer.result);
  return { env, stream, task: answer.result, seed, group };
}

/** The limits of an episode in a search. */
export interface PositionLimits {
  readonly template: Template;
  readonly maxTurns: number;
  readonly maxTokens: number;
  readonly maxObservationTokens: number;
  readonly timeout: number;
  readonly signal: AbortSignal | undefined;
  /** The temperature that is recorded with an action's tokens. */
  readonly temperature: number;
}

/**
 * A copy of the environment whose chance comes from `rng`, or repeats that of the original if there is no `rng`.
 * @throws if the environment cannot be cloned
 */
export function cloneOf(env: Environment, rng?: Rng): Environment {
  const copy = env.clone?.(rng?.int(2 ** 31));
  check(
    copy !== undefined,
    () => `search: the environment "${env.name}" cannot be cloned; a search tries several actions from one state`,
  );
  return copy;
}

/** A copy of the history with an action appended. */
export function withAction(stream: TokenStream, turn: number, action: DrawnAction, temperature: number): TokenStream {
  const longer = structuredClone(stream);
  append(longer, "action", turn, action.ids, { oldLogProbs: action.logProbs, temperature });
  return longer;
}

/** Plays an action in `env`, a clone in the state of `from`, which then belongs to the new position. */
export async function playAction(
  from: Position,
  env: Environment,
  action: DrawnAction,
  limits: PositionLimits,
): Promise<Position> {
  const { template, maxTokens, timeout, signal, temperature } = limits;
  const stream = withAction(from.stream, from.turns, action, temperature);
  const turns = from.turns + 1;
  const over = (stop: StopReason, more: Partial<Position> = {}): Position => {
    env.close?.();
    return { ...from, stream, turns, env: undefined, stop, ...more };
  };
  if (!action.complete) return over(stream.ids.length >= maxTokens ? "context_overflow" : "max_tokens");
  const text = template.parseAction(action.ids);
  if (text === undefined) return over("parse_error");
  const step = async (aborted: AbortSignal): Promise<StepResult> =>
    checkAnswer(env.name, await env.step(text, { signal: aborted }));
  const answer = await answerWithin(step, { timeout, signal, who: `${env.name}: step` });
  if ("stop" in answer) return over(answer.stop, { info: { ...from.info, error: answer.error } });
  const told = { stepRewards: [...from.stepRewards, answer.result.reward], info: answer.result.info };
  const stop = appendAnswer(stream, from.turns, answer.result, limits);
  return stop === null ? { stream, env, turns, stop: undefined, ...told } : over(stop, told);
}

/** Whether the environment failed, so that neither its answer nor the return means anything. */
export const isFailure = ({ stop }: Position): boolean => stop !== undefined && hasFailed({ stopReason: stop });

/** The return of an episode from the root of the search on; once the episode is over, as in a rollout. */
export const returnOf = ({ stop, stepRewards }: Position): number =>
  stop === undefined ? paid({ stepRewards }) : returnAtEnd({ stepRewards, stopReason: stop });

/** An episode that is over, as a rollout would return it. */
export const episodeOf = (position: Position, { env, task, seed, group }: SearchStart): Trajectory => ({
  stream: position.stream,
  group,
  reward: returnOf(position),
  stepRewards: position.stepRewards,
  stopReason: position.stop!,
  masked: isFailure(position),
  env: env.name,
  task,
  seed,
  info: position.info,
});
