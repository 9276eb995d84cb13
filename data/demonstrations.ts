/**
 * Episodes of a scripted policy: the expert for warm starts, or a random baseline. They are token streams like those of
 * rollouts.
 */
import { beginTurns } from "./history.ts";
import { check, fail } from "../engine/errors.ts";
import { checkKeys, checkMethods, showValue } from "../engine/options.ts";
import type { CallLimits, CallOptions, Environment, EnvironmentOptions, EnvironmentSpec } from "../rl/environment.ts";
import { emptyStream, returnOf, type StopReason, type Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import { checkAnswer, checkEnd, checkEnvironment, checkTask, mostLetters } from "../rl/play/answers.ts";
import { answerWithin } from "../rl/play/deadline.ts";
import { addEnd } from "../rl/play/episode.ts";

/** Limits of a scripted episode (`playScripted`, `demonstrate`), and the thoughts to write before its actions. */
export interface DemonstrationOptions {
  /** The largest number of actions in an episode; default 16. */
  readonly maxTurns?: number;
  /** The largest number of tokens in one answer; longer answers are cut in the middle. Default 96. */
  readonly maxObservationTokens?: number;
  /**
   * The tokens of the context. A task with more letters than can fit is cut, and nothing is played: `context_overflow`.
   * Default: no limit.
   */
  readonly maxTokens?: number;
  /** The thought before an action, made in the live episode; the template needs tags for it. Default: no thoughts. */
  readonly think?: (env: Environment, turn: number) => string;
  /** Milliseconds that the environment may take for a call, where it sets no limit itself; default 10,000. */
  readonly timeout?: number;
  /** Ends the episode: it rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

/** Calls an environment within its time limit. @throws the error of a call that failed or took too long */
export type TimedCall = <R>(kind: keyof CallLimits, call: (options: CallOptions) => Promise<R>) => Promise<R>;

/** The calls of a scripted episode, with the limits of a rollout. */
export function timedCalls(
  spec: EnvironmentSpec,
  options: EnvironmentOptions,
  { timeout = 10_000, signal: outer }: Pick<DemonstrationOptions, "timeout" | "signal"> = {},
): TimedCall {
  const limits = spec.limits?.(options) ?? {};
  return async (kind, call) => {
    const bounds = { timeout: limits[kind] ?? timeout, signal: outer, who: `${spec.name}: ${kind}` };
    const answer = await answerWithin((signal) => call({ signal }), bounds);
    if ("result" in answer) return answer.result;
    throw answer.cause;
  };
}

/** The number of scripted episodes that are played at a time, if the environment can have so many. */
const AT_ONCE = 16;

/**
 * Plays scripted episodes side by side, as many as the environment can have at a time: one that runs on a machine of
 * its own answers the others meanwhile.
 * @returns the results in order
 * @throws the first error, after the episodes that had begun have ended
 */
export async function playAll<R>(
  spec: EnvironmentSpec,
  options: EnvironmentOptions,
  count: number,
  play: (i: number) => Promise<R>,
  signal?: AbortSignal,
): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  let failure: { readonly error: unknown } | undefined;
  const player = async (): Promise<void> => {
    while (failure === undefined && next < count) {
      const i = next++;
      try {
        signal?.throwIfAborted();
        results[i] = await play(i);
      } catch (error) {
        failure ??= { error };
      }
    }
  };
  const most = Math.min(count, AT_ONCE, spec.atOnce?.(options) ?? Infinity);
  await Promise.all(Array.from({ length: most }, player));
  if (failure !== undefined) throw failure.error;
  return results;
}

/**
 * Plays one episode with a scripted policy, which sees the live environment. The episode ends after `maxTurns` actions
 * at the latest.
 * @throws WorldgradError if the environment's task or answer, or the policy's action, breaks the contract
 */
export async function playScripted<Own extends EnvironmentOptions>(
  spec: EnvironmentSpec<Own>,
  options: NoInfer<Own>,
  seed: number,
  template: Template,
  policy: (env: Environment, turn: number, task: string) => string,
  given: DemonstrationOptions = {},
): Promise<Trajectory> {
  checkKeys("demonstrate", given, ["maxTurns", "maxObservationTokens", "maxTokens", "think", "timeout", "signal"]);
  const { maxTurns = 16, maxObservationTokens = 96, maxTokens = Infinity, think } = given;
  checkMethods("demonstrate", "template", template, "new Template(tokenizer)", ["appendTask", "appendAction"]);
  const timed = timedCalls(spec, options, given);
  const env = spec.make(options);
  checkEnvironment(spec.name, env);
  const stream = emptyStream();
  const stepRewards: number[] = [];
  let task = "";
  let info: Trajectory["info"] = {};
  let [done, isTooLong] = [false, false];
  let end: Pick<Trajectory, "scoredAtEnd"> = {};
  try {
    task = checkTask(spec.name, await timed("reset", (call) => env.reset(seed, call)));
    const most = mostLetters(maxTokens);
    isTooLong = task.length > most;
    template.appendTask(stream, isTooLong ? task.slice(0, most) : task);
    const turns = isTooLong ? 0 : maxTurns;
    for (let turn = 0; turn < turns && !done; turn++) {
      const action = policy(env, turn, task);
      check(
        typeof action === "string",
        () => `playScripted: expected an action for ${spec.name} as a string, got ${showValue(action)}`,
      );
      template.appendAction(stream, turn, action, think?.(env, turn));
      const result = checkAnswer(spec.name, await timed("step", (call) => env.step(action, call)));
      ({ done, info } = result);
      stepRewards.push(result.reward);
      const answer = template.encodeObservation(result.observation, maxObservationTokens);
      template.appendObservation(stream, turn, answer, "", done || turn + 1 === maxTurns);
    }
    if (!done && !isTooLong && env.end) {
      const ended = checkEnd(spec.name, await timed("end", (call) => env.end!("max_turns", call)));
      ({ info, ...end } = addEnd(ended, stream, stepRewards, info));
    }
  } finally {
    env.close?.();
  }
  beginTurns(template, stream);
  const stopReason: StopReason = done ? "completed" : isTooLong ? "context_overflow" : "max_turns";
  const reward = returnOf({ stepRewards, stopReason, ...end });
  return {
    stream,
    group: seed,
    reward,
    stepRewards,
    stopReason,
    masked: false,
    ...end,
    env: spec.name,
    task,
    seed,
    info,
  };
}

/** The expert of an environment. @throws WorldgradError if it has none */
export function expertOf(spec: EnvironmentSpec): (env: Environment) => string {
  check(spec.expert !== undefined, () => `${spec.name} has no expert, and so no demonstrations`);
  return (env) => spec.expert!(env);
}

/**
 * Plays one episode with the environment's expert, on the task made from `seed`. A task that is too long comes back
 * without actions (`DemonstrationOptions.maxTokens`).
 * @throws if the expert does not finish within `maxTurns`, because then it or its environment has a bug
 */
export async function demonstrate<Own extends EnvironmentOptions>(
  spec: EnvironmentSpec<Own>,
  options: NoInfer<Own>,
  seed: number,
  template: Template,
  limits: DemonstrationOptions = {},
): Promise<Trajectory> {
  const episode = await playScripted(spec, options, seed, template, expertOf(spec), limits);
  if (episode.stopReason !== "max_turns") return episode;
  return fail(
    `demonstrate: the expert of ${spec.name} did not finish seed ${seed} within ${limits.maxTurns ?? 16} turns`,
  );
}
