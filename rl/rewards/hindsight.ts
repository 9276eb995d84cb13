/**
 * Hindsight relabelling (Andrychowicz et al. 2017): an episode that failed at its task is a success at the task that
 * its end state describes. The caller provides the function that describes an end state as a task.
 */
import { emptyStream, type Trajectory } from "../episode/stream.ts";
import type { Template } from "../episode/template.ts";
import { append } from "../episode/stream.ts";

/** A task, in words, that an episode has solved, and its return under that task (default 1). */
export interface Hindsight {
  readonly task: string;
  readonly reward?: number;
}

/**
 * The unmasked episodes for which `describe` returns a task, with that task in place of their own; the others are left
 * out. Their `info` gets `relabelled: true`. Sampled tokens keep the log-probabilities that they had under the old
 * task. A ratio to these is an importance weight between two tasks, far from 1, so the episodes are for supervised
 * losses, replay with a correction and world models, not for a plain policy gradient.
 */
export function relabel(
  trajectories: readonly Trajectory[],
  template: Template,
  describe: (trajectory: Trajectory) => Hindsight | undefined,
): Trajectory[] {
  return trajectories.flatMap((trajectory) => {
    const found = trajectory.masked ? undefined : describe(trajectory);
    if (found === undefined) return [];
    // The rollout number, the token rewards and the greedy return belong to the old task.
    const { rollout: _row, tokenRewards: _tokens, greedyReward: _greedy, ...kept } = trajectory;
    const reward = found.reward ?? 1;
    const stepRewards = trajectory.stepRewards.map((_, i, all) => (i === all.length - 1 ? reward : 0));
    const stream = withTask(trajectory, template, found.task);
    const info = { ...trajectory.info, relabelled: true };
    return [{ ...kept, stream, reward, stepRewards, task: found.task, info }];
  });
}

/** The same tokens after another prompt. `appendTask` writes the prompt's tokens and the tag after them. */
function withTask({ stream }: Trajectory, template: Template, task: string): Trajectory["stream"] {
  const result = emptyStream();
  template.appendTask(result, task);
  const start = stream.roles.findIndex((role) => role !== "prompt") + 1;
  for (let t = start; t < stream.ids.length; t++)
    append(result, stream.roles[t]!, stream.turns[t]!, [stream.ids[t]!], {
      oldLogProbs: [stream.oldLogProbs[t]!],
      temperature: stream.temperatures[t]!,
      target: stream.targets[t]!,
    });
  return result;
}
