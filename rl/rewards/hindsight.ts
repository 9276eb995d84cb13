/**
 * Hindsight relabelling (Andrychowicz et al. 2017): an episode that failed at its task is a success at the task that its end state
 * describes. Only where an end state can be put as a task: the caller says how, and says so by returning undefined where not.
 */
import { emptyStream, type Trajectory } from "../episode/stream.ts";
import type { Template } from "../episode/template.ts";
import { append } from "../episode/stream.ts";

/** A task in words that this episode has solved, and the return under it (default 1). */
export interface Hindsight {
  readonly task: string;
  readonly reward?: number;
}

/**
 * The unmasked episodes for which `describe` finds a task, with that task in place of theirs; the others are left out. Their
 * `info` gets `relabelled: true`. What was sampled keeps its tokens and its log-probabilities, which are those under the old
 * task: a ratio to them is an importance weight between tasks, far from 1, so these episodes are for supervised losses, replay with
 * correction, and world models, not for a plain policy gradient.
 */
export function relabel(
  trajectories: readonly Trajectory[],
  template: Template,
  describe: (trajectory: Trajectory) => Hindsight | undefined,
): Trajectory[] {
  return trajectories.flatMap((trajectory) => {
    const found = trajectory.masked ? undefined : describe(trajectory);
    if (found === undefined) return [];
    // What belongs to the old task's rows and tokens does not carry over.
    const { rollout: _row, tokenRewards: _tokens, greedyReward: _greedy, ...kept } = trajectory;
    const reward = found.reward ?? 1;
    const stepRewards = trajectory.stepRewards.map((_, i, all) => (i === all.length - 1 ? reward : 0));
    const stream = withTask(trajectory, template, found.task);
    const info = { ...trajectory.info, relabelled: true };
    return [{ ...kept, stream, reward, stepRewards, task: found.task, info }];
  });
}

/** The same tokens after another prompt. The prompt is its tokens and the tag after it, which `appendTask` writes. */
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
