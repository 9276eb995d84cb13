/**
 * Hindsight (HER, Andrychowicz et al. 2017, arXiv 1707.01495): an episode that failed its task has solved the task that
 * its end describes. It gets that task as its prompt and ends where the task is solved.
 *
 * A relabelled episode is *imitated*: −log p of its own tokens, beside the step's policy loss. HER replays transitions
 * to an off-policy learner (DQN, DDPG), which bootstraps values for any goal. A policy gradient is on-policy: under the
 * new prompt the policy would have drawn these tokens with another probability, so A would need the weight p(tokens |
 * new task) / p(tokens | old task), a product over the episode that is far from 1, and its group would have to have
 * played the new task too. Imitation needs neither, nor recorded log-probabilities, so it goes with every loss and with
 * episodes of older policies (goal-conditioned supervised learning: Ghosh et al. 2019, arXiv 1912.06088). As there,
 * lucky actions on the way are imitated too.
 *
 * The control (`tasks: "shuffled"`) gives each of these episodes the task that another one has achieved: as many
 * tokens, as many tasks, and no relation between them. If it helps as much, the right tasks did not.
 */
import { beginTurns } from "./history.ts";
import { inCode, number, oneOf, options, type OptionsOf, REQUIRED } from "../engine/optionTable.ts";
import type { Rng } from "../engine/index.ts";
import { longestText } from "../nn/index.ts";
import type { Achievement, EnvironmentSpec } from "../rl/environment.ts";
import type { Metrics } from "../rl/episode/metrics.ts";
import { succeeded } from "../rl/episode/outcomes.ts";
import { append, emptyStream, isAgentToken, longestRead, type Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import { turnsOf } from "../rl/episode/turns.ts";
import type { EpisodePlugin } from "../rl/tasks/plugin.ts";
import { pluginEntry } from "./entry.ts";

type Describe = NonNullable<EnvironmentSpec["achieved"]>;

export const HINDSIGHT = options("hindsight", {
  perStep: number(8, "largest number of failed episodes that get the task they have achieved and are imitated", {
    integer: true,
    min: 1,
  }),
  weight: number(0.1, "weight of imitating them, a mean over their tokens, beside the policy loss", { above: 0 }),
  tasks: oneOf(
    ["achieved", "shuffled"],
    "achieved",
    "the task of each: what it has achieved, or as a control what another one has (`shuffled`)",
  ),
  achieved: inCode<Describe>(
    "which task an episode has achieved: the environment's `achieved`",
    "a function of the task and the turns",
    (value) => typeof value === "function",
    REQUIRED,
  ),
});
/**
 * Hindsight relabelling (HER, arXiv 1707.01495), for `hindsight`: the number of episodes of a step that are imitated as
 * solutions of the tasks they have achieved, their weight (docs/methods.md, `hindsight.…`), and the environment's
 * `achieved`.
 */
export type HindsightOptions = OptionsOf<typeof HINDSIGHT>;

/** Imitates failed episodes as solutions of the tasks that they have achieved. */
export function hindsight(given: HindsightOptions): EpisodePlugin {
  const settled = HINDSIGHT.read(given);
  return {
    name: "hindsight",
    async extend({ own, template, model, rng }) {
      const longest = longestText(model.config);
      const { trajectories, metrics } = await relabelFailed(template, own, settled, rng.split("hindsight"), longest);
      return { imitated: { episodes: trajectories, weight: settled.weight }, metrics };
    },
  };
}

const { achieved: _, ...AS_TEXT } = HINDSIGHT.fields;
export const hindsightEntry = pluginEntry({
  name: "hindsight",
  flag: {
    name: "hindsight",
    kind: "count",
    option: "perStep",
    about: "imitates N failed episodes as solutions of what they have achieved, in every step",
  },
  options: AS_TEXT,
  needs: { has: ({ achieved }) => achieved !== undefined, lack: "does not say what was achieved" },
  make: (settings, { env }) => hindsight({ ...settings, achieved: env.achieved! }),
});

export interface Relabelled {
  /** The episodes with their new tasks. They keep only their tokens and their starting states. */
  readonly trajectories: readonly Trajectory[];
  readonly metrics: Metrics;
}

/**
 * Failed episodes of a step with the tasks that they have achieved. Episodes that are masked, whose history was
 * rewritten, or in which actions were given, are left out, because their turns are not all the agent's.
 * @param rng draws the episodes, and the order of the control
 * @param longest the tokens that the model can read: an episode that its new task makes longer is left out
 */
export async function relabelFailed(
  template: Template,
  episodes: readonly Trajectory[],
  given: HindsightOptions,
  rng: Rng,
  longest = Infinity,
): Promise<Relabelled> {
  const { perStep, tasks, achieved } = HINDSIGHT.read(given);
  const found: { trajectory: Trajectory; achievement: Achievement }[] = [];
  for (const trajectory of episodes) {
    if (trajectory.masked || trajectory.rollout !== undefined || succeeded(trajectory)) continue;
    if (hasGiven(trajectory, template)) continue;
    const achievement = await achieved(trajectory.task, turnsOf(trajectory, template));
    if (achievement !== undefined && achievement.task !== trajectory.task) found.push({ trajectory, achievement });
  }
  const drawn = rng.shuffle(found).slice(0, perStep);
  const achievements = drawn.map(({ achievement }) => achievement);
  const trajectories = drawn.flatMap(({ trajectory, achievement }, i) => {
    const task = tasks === "achieved" ? achievement.task : otherTask(achievements, i);
    if (task === undefined) return [];
    const again = withTask(trajectory, template, { task, turns: achievement.turns });
    return longestRead(again.stream) > longest ? [] : [again];
  });
  return {
    trajectories,
    metrics: { "hindsight/achieved": found.length, "hindsight/episodes": trajectories.length },
  };
}

/** The task of a control: the next one that differs from the i-th; undefined if all are the same. */
export function otherTask(of: readonly { readonly task: string }[], i: number): string | undefined {
  const after = [...of.slice(i + 1), ...of];
  return after.find(({ task }) => task !== of[i]!.task)?.task;
}

/** Whether an action after the task was given. */
const hasGiven = ({ task, stream }: Trajectory, template: Template): boolean =>
  stream.roles.includes("prompt", headLength(template, task));

/** The number of tokens of a task and of the tag behind it. */
function headLength(template: Template, task: string): number {
  const head = emptyStream();
  template.appendTask(head, task);
  return head.ids.length;
}

/** The episode up to the agent's last token in so many turns, with another task as its prompt, which it has solved. */
export function withTask(trajectory: Trajectory, template: Template, { task, turns }: Achievement): Trajectory {
  const { stream: old, group, env, seed, info } = trajectory;
  const stream = emptyStream();
  template.appendTask(stream, task);
  const end = old.roles.findLastIndex((role, t) => isAgentToken(role) && old.turns[t]! < turns);
  for (let t = headLength(template, trajectory.task); t <= end; t++)
    append(stream, old.roles[t]!, old.turns[t]!, [old.ids[t]!], {
      oldLogProbs: [old.oldLogProbs[t]!],
      temperature: old.temperatures[t]!,
      versions: [old.versions[t]!],
      target: old.targets[t]!,
    });
  beginTurns(template, stream);
  const stepRewards = Array.from({ length: turns }, (_, i) => (i === turns - 1 ? 1 : 0));
  return { stream, group, reward: 1, stepRewards, stopReason: "completed", masked: false, env, task, seed, info };
}
