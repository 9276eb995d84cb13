/**
 * Episodes of a scripted policy: the expert for warm starts, or a random baseline. They are token streams like those of
 * rollouts.
 */
import { check, fail } from "../engine/errors.ts";
import { showValue } from "../engine/options.ts";
import type { Environment, EnvironmentOptions, EnvironmentSpec } from "../rl/environment.ts";
import { emptyStream, returnOf, type StopReason, type Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import { checkAnswer, checkEnd, checkTask, mostLetters } from "../rl/play/answers.ts";
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
}

/**
 * Plays one episode with a scripted policy, which sees the live environment. The episode ends after `maxTurns` actions
 * at the latest.
 * @throws WorldgradError if the environment's task or answer, or the policy's action, breaks the contract
 */
export async function playScripted(
  spec: EnvironmentSpec,
  options: EnvironmentOptions,
  seed: number,
  template: Template,
  policy: (env: Environment, turn: number, task: string) => string,
  { maxTurns = 16, maxObservationTokens = 96, maxTokens = Infinity, think }: DemonstrationOptions = {},
): Promise<Trajectory> {
  const env = spec.make(options);
  const stream = emptyStream();
  const stepRewards: number[] = [];
  let task = "";
  let info: Trajectory["info"] = {};
  let [done, isTooLong] = [false, false];
  let end: Pick<Trajectory, "scoredAtEnd"> = {};
  try {
    task = checkTask(spec.name, await env.reset(seed));
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
      const result = checkAnswer(spec.name, await env.step(action));
      ({ done, info } = result);
      stepRewards.push(result.reward);
      const answer = template.encodeObservation(result.observation, maxObservationTokens);
      template.appendObservation(stream, turn, answer, "", done || turn + 1 === maxTurns);
    }
    if (!done && !isTooLong && env.end) {
      ({ info, ...end } = addEnd(checkEnd(spec.name, await env.end("max_turns")), stream, stepRewards, info));
    }
  } finally {
    env.close?.();
  }
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

/**
 * Plays one episode with the environment's expert, on the task made from `seed`. A task that is too long comes back
 * without actions (`DemonstrationOptions.maxTokens`).
 * @throws if the expert does not finish within `maxTurns`, because then it or its environment has a bug
 */
export async function demonstrate(
  spec: EnvironmentSpec,
  options: EnvironmentOptions,
  seed: number,
  template: Template,
  limits: DemonstrationOptions = {},
): Promise<Trajectory> {
  const episode = await playScripted(spec, options, seed, template, (env) => spec.expert(env), limits);
  if (episode.stopReason !== "max_turns") return episode;
  return fail(
    `demonstrate: the expert of ${spec.name} did not finish seed ${seed} within ${limits.maxTurns ?? 16} turns`,
  );
}
