/**
 * Where an episode stands in a search, as a value: the tokens so far and an environment that has seen them. Playing an action gives a
 * new position and leaves the old one as it was, because the environment is cloned first. The stream, the stop reasons and the rewards
 * are exactly those of a rollout (rl/play/episode.ts).
 */
import { check, fail } from "../../../engine/errors.ts";
import type { Rng } from "../../../engine/index.ts";
import { answerWithin } from "../../play/deadline.ts";
import type { Environment, EnvironmentOptions, EnvironmentSpec } from "../../../environments/index.ts";
import { appendAnswer } from "../../play/episode.ts";
import {
  append,
  emptyStream,
  hasFailed,
  isTruncated,
  type StopReason,
  type TokenStream,
  type Trajectory,
} from "../../episode/stream.ts";
import type { Template } from "../../episode/template.ts";

/** An action as the policy drew it. */
export interface DrawnAction {
  /** The end-of-turn token included, if it was drawn. */
  readonly ids: readonly number[];
  /** At the sampling temperature, over the whole vocabulary. */
  readonly logProbs: readonly number[];
  /** It ended by itself, not for want of tokens. */
  readonly complete: boolean;
}

export interface Position {
  /** The tag that asks for the next action comes last, unless the episode is over. */
  readonly stream: TokenStream;
  /** Undefined once the episode is over. */
  readonly env: Environment | undefined;
  /** Actions so far. */
  readonly turns: number;
  /** Of those actions that the search has played. */
  readonly stepRewards: readonly number[];
  readonly info: Trajectory["info"];
  /** Undefined while the episode goes on. */
  readonly stop: StopReason | undefined;
}

/** Where a search begins: a live episode. It is cloned at once and never touched. */
export interface SearchStart {
  readonly env: Environment;
  /** What has happened so far, the tag that asks for the next action last. */
  readonly stream: TokenStream;
  /** Actions so far; default 0. */
  readonly turns?: number;
  readonly task: string;
  readonly seed: number;
  /** Numbers the task, as in a rollout. */
  readonly group: number;
}

export interface StartOptions {
  /** Numbers the task, as in a rollout; default 0. */
  readonly group?: number;
  /** Milliseconds that the environment may take to begin; default 10,000. */
  readonly timeout?: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * A fresh episode, reset, with its task in the stream. Whoever asked for it closes its environment.
 * @throws if the environment cannot begin, throws, or takes too long; it is closed then
 */
export async function startEpisode(
  spec: EnvironmentSpec,
  envOptions: EnvironmentOptions,
  seed: number,
  template: Template,
  { group = 0, timeout = 10_000, signal }: StartOptions = {},
): Promise<SearchStart> {
  const env = spec.make(envOptions);
  const answer = await answerWithin((aborted) => env.reset(seed, { signal: aborted }), { timeout, signal, who: env.name }); // prettier-ignore
  if ("stop" in answer) {
    env.close?.();
    return fail(`search: ${env.name} did not begin an episode with seed ${seed} (${answer.stop}): ${answer.error}`);
  }
  const stream = emptyStream();
  template.appendTask(stream, answer.result);
  return { env, stream, task: answer.result, seed, group };
}

export interface PositionLimits {
  readonly template: Template;
  readonly maxTurns: number;
  readonly maxTokens: number;
  readonly maxObservationTokens: number;
  readonly timeout: number;
  readonly signal: AbortSignal | undefined;
  /** Recorded with the action's tokens. */
  readonly temperature: number;
}

/** A copy of the environment that draws its chance from `rng`; without it, the chance of the original. @throws if it has no `clone` */
export function cloneOf(env: Environment, rng?: Rng): Environment {
  const copy = env.clone?.(rng?.int(2 ** 31));
  check(copy !== undefined, () => `search: the environment "${env.name}" cannot be cloned; a search tries several actions from one state`); // prettier-ignore
  return copy;
}

/** The history with an action appended; what was there is shared with nobody. */
export function withAction(stream: TokenStream, turn: number, action: DrawnAction, temperature: number): TokenStream {
  const longer = structuredClone(stream);
  append(longer, "action", turn, action.ids, { oldLogProbs: action.logProbs, temperature });
  return longer;
}

/** The action played in `env`, a clone that stands at `from` and belongs to the new position. */
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
  const answer = await answerWithin((aborted) => env.step(text, { signal: aborted }), { timeout, signal, who: env.name }); // prettier-ignore
  if ("stop" in answer) return over(answer.stop, { info: { ...from.info, error: answer.error } });
  const told = { stepRewards: [...from.stepRewards, answer.result.reward], info: answer.result.info };
  const stop = appendAnswer(stream, from.turns, answer.result, limits);
  return stop === null ? { stream, env, turns, stop: undefined, ...told } : over(stop, told);
}

/** The environment failed there: neither its answer nor a return means anything. */
export const isFailure = ({ stop }: Position): boolean => stop !== undefined && hasFailed({ stopReason: stop });

/** Return of an episode that is over, from the root of the search on; 0 if it ran out of tokens. */
export const returnOf = ({ stop, stepRewards }: Position): number =>
  stop !== undefined && isTruncated({ stopReason: stop }) ? 0 : stepRewards.reduce((a, b) => a + b, 0);

/** An episode that is over, as a rollout would tell it. */
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
