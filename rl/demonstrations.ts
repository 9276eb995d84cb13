/** Demonstrations: episodes played by an environment's scripted expert, as the same token streams that rollouts give. */
import { check } from "../engine/errors.ts";
import type { EnvironmentOptions, EnvironmentSpec } from "./environments/environment.ts";
import { emptyStream, type Trajectory } from "./stream.ts";
import type { Template } from "./template.ts";

export interface DemonstrationOptions {
  readonly maxTurns?: number;
  readonly maxObservationTokens?: number;
}

/**
 * One episode of the expert, from the task made by `seed`.
 * @throws if the expert does not finish within `maxTurns` (default 16): then it or its environment is wrong
 */
export async function demonstrate(
  spec: EnvironmentSpec,
  options: EnvironmentOptions,
  seed: number,
  template: Template,
  { maxTurns = 16, maxObservationTokens = 96 }: DemonstrationOptions = {},
): Promise<Trajectory> {
  const env = spec.make(options);
  const stream = emptyStream();
  const task = await env.reset(seed);
  template.appendTask(stream, task);
  const stepRewards: number[] = [];
  for (let turn = 0; turn < maxTurns; turn++) {
    const action = spec.expert(env);
    template.appendAction(stream, turn, action);
    const { observation, reward, done, info } = await env.step(action);
    stepRewards.push(reward);
    const ids = template.encodeObservation(observation, maxObservationTokens);
    template.appendObservation(stream, turn, ids, "", done);
    if (done) {
      const total = stepRewards.reduce((a, b) => a + b, 0);
      return { stream, group: seed, reward: total, stepRewards, stopReason: "completed", masked: false, env: spec.name, task, seed, info }; // prettier-ignore
    }
  }
  check(false, () => `demonstrate: the expert of ${spec.name} did not finish seed ${seed} within ${maxTurns} turns`);
}
