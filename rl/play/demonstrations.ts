/**
 * Episodes that no model plays: the scripted expert's, for warm starts, and any other scripted policy's (the random baseline), as
 * the same token streams that rollouts give.
 */
import { fail } from "../../engine/errors.ts";
import type { Environment, EnvironmentOptions, EnvironmentSpec } from "../../environments/index.ts";
import { emptyStream, type Trajectory } from "../episode/stream.ts";
import type { Template } from "../episode/template.ts";

export interface DemonstrationOptions {
  /** Default 16. */
  readonly maxTurns?: number;
  readonly maxObservationTokens?: number;
  /** What is thought before an action, in the live episode that it is for; the template needs tags. Default: nothing. */
  readonly think?: (env: Environment, turn: number) => string;
}

/** One episode of a scripted policy, which sees the live episode; it ends after `maxTurns` actions if not before. */
export async function playScripted(
  spec: EnvironmentSpec,
  options: EnvironmentOptions,
  seed: number,
  template: Template,
  policy: (env: Environment, turn: number, task: string) => string,
  { maxTurns = 16, maxObservationTokens = 96, think }: DemonstrationOptions = {},
): Promise<Trajectory> {
  const env = spec.make(options);
  const stream = emptyStream();
  const stepRewards: number[] = [];
  let task = "";
  let info: Trajectory["info"] = {};
  let done = false;
  try {
    task = await env.reset(seed);
    template.appendTask(stream, task);
    for (let turn = 0; turn < maxTurns && !done; turn++) {
      const action = policy(env, turn, task);
      template.appendAction(stream, turn, action, think?.(env, turn));
      const result = await env.step(action);
      ({ done, info } = result);
      stepRewards.push(result.reward);
      const ids = template.encodeObservation(result.observation, maxObservationTokens);
      template.appendObservation(stream, turn, ids, "", done || turn + 1 === maxTurns);
    }
  } finally {
    env.close?.();
  }
  const reward = stepRewards.reduce((a, b) => a + b, 0);
  const stopReason = done ? "completed" : "max_turns";
  return { stream, group: seed, reward, stepRewards, stopReason, masked: false, env: spec.name, task, seed, info };
}

/**
 * One episode of the expert, from the task made by `seed`.
 * @throws if the expert does not finish within `maxTurns`: then it or its environment is wrong
 */
export async function demonstrate(
  spec: EnvironmentSpec,
  options: EnvironmentOptions,
  seed: number,
  template: Template,
  limits: DemonstrationOptions = {},
): Promise<Trajectory> {
  const episode = await playScripted(spec, options, seed, template, (env) => spec.expert(env), limits);
  if (episode.stopReason === "completed") return episode;
  return fail(
    `demonstrate: the expert of ${spec.name} did not finish seed ${seed} within ${limits.maxTurns ?? 16} turns`,
  );
}
