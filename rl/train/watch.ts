/**
 * The watch over a run. If an environment fails, gives no score or gives the members of a group different tasks, the
 * run still looks like training. The first case of each gets a warning; a fault that makes a run pointless ends it.
 */
import { check } from "../../engine/errors.ts";
import type { Tree } from "../../engine/index.ts";
import type { AdamW } from "../../nn/index.ts";
import { hasFailed, type Trajectory } from "../episode/stream.ts";
import { type Objective, worldsOf } from "../objective/objective.ts";

/** Options of the watch over a run. */
export interface WatchOptions {
  /** The receiver of warnings about faults that do not end the run, one for each kind. Default: the console. */
  readonly warn?: (text: string) => void;
  /**
   * Whether the episodes of a group may have different tasks where the advantage compares them. Default false: then it
   * is an error, as an environment that ignores its seed would be trained on nonsense.
   */
  readonly mixedGroups?: boolean;
}

/** The number of steps in a row without a score after which a run ends. */
export const MOST_STEPS_WITHOUT_SCORE = 3;

/** The environment's error if it failed in every one of these episodes. */
export const failureOf = (episodes: readonly Trajectory[]): string | undefined =>
  episodes.length > 0 && episodes.every(hasFailed) ? errorOf(episodes[0]!) : undefined;

const errorOf = ({ info, stopReason }: Trajectory): string => String(info["error"] ?? stopReason);

const isUnscored = ({ masked, reward }: Trajectory): boolean => !masked && Number.isNaN(reward);

/** The beginning of a task, as it stands in a message. */
const beginningOf = ({ task }: Trajectory): string => JSON.stringify(task.length > 60 ? `${task.slice(0, 60)}…` : task);

/** Two members of a group with different tasks. An episode whose environment has given no task is not compared. */
export function mixedMembers(episodes: readonly Trajectory[]): readonly [Trajectory, Trajectory] | undefined {
  const first = new Map<number, Trajectory>();
  for (const episode of episodes) {
    if (episode.task === "") continue;
    const other = first.get(episode.group);
    if (other === undefined) first.set(episode.group, episode);
    else if (other.task !== episode.task) return [other, episode];
  }
  return undefined;
}

/** The watches of runs. A run is known by its optimiser: a caller of `trainStep` may make its options anew. */
const watches = new WeakMap<AdamW<Tree>, RunWatch>();

/** Begins the watch of a new run: faults of an earlier one with the same optimiser do not count. */
export function beginWatch(optimizer: AdamW<Tree>): void {
  watches.set(optimizer, new RunWatch());
}

/** The watch of the run that this optimiser belongs to. */
export function watchOf(optimizer: AdamW<Tree>): RunWatch {
  const watch = watches.get(optimizer) ?? new RunWatch();
  watches.set(optimizer, watch);
  return watch;
}

/** The number of steps in a row without a score, and the kinds of faults that have been warned of. */
export class RunWatch {
  #without = 0;
  readonly #warned = new Set<string>();

  /**
   * Checks the episodes that the policy has played in a step, before it is trained on them.
   * @param learnsMore whether anything but the objective's world models learns from episodes without a score
   * @throws if this was one step too many without a score, or if members of a group that are compared have different
   *   tasks
   */
  see(
    episodes: readonly Trajectory[],
    step: number,
    objective: Objective,
    { warn = defaultWarn, mixedGroups = false }: WatchOptions,
    learnsMore = false,
  ): void {
    const warnOnce = (kind: string, text: () => string): void => {
      if (this.#warned.has(kind)) return;
      this.#warned.add(kind);
      warn(text());
    };
    const where = (episode: Trajectory): string =>
      `${episode.env} in step ${step}${episode.task === "" ? "" : `, task ${beginningOf(episode)}`}`;
    this.#countLost(episodes, worldsOf(objective).length > 0 || learnsMore);
    const failed = episodes.find((episode) => hasFailed(episode) && episode.stopReason !== "aborted");
    if (failed)
      warnOnce(
        "failed",
        () =>
          `trainRl: an episode of ${where(failed)} failed (${failed.stopReason}): ${errorOf(failed)}. Nothing is ` +
          "trained from such episodes; the metric masked counts them",
      );
    const unscored = episodes.find(isUnscored);
    if (unscored)
      warnOnce(
        "unscored",
        () =>
          `trainRl: an episode of ${where(unscored)} has no score: its reward is NaN. The policy does not learn from ` +
          "such episodes; the metric unscored counts them",
      );
    this.#checkTasks(episodes, objective, mixedGroups, (text) => warnOnce("mixed", () => text));
    for (const { name, rewardMax = Infinity } of worldsOf(objective)) {
      const above = episodes.find(({ masked, reward }) => !masked && reward > rewardMax);
      if (above)
        warnOnce(
          `${name} rewardMax`,
          () =>
            `trainRl: an episode of ${where(above)} earned ${above.reward}, more than ${name}.rewardMax ` +
            `${rewardMax}: its group's weight in the world loss is cut off at 0; set rewardMax to the largest ` +
            "possible reward",
        );
    }
  }

  /** @param isLearnt whether anything learns from episodes without a score */
  #countLost(episodes: readonly Trajectory[], isLearnt: boolean): void {
    const isLost = (episode: Trajectory): boolean => hasFailed(episode) || (!isLearnt && isUnscored(episode));
    if (episodes.length === 0) return;
    this.#without = episodes.every(isLost) ? this.#without + 1 : 0;
    check(this.#without < MOST_STEPS_WITHOUT_SCORE, () => {
      const failed = episodes.find(hasFailed);
      const what = !episodes.some(isUnscored) ? "failed" : failed ? "failed or has no score" : "has no score";
      const why = failed
        ? `The first error: ${errorOf(failed)}`
        : `The reward of ${episodes[0]!.env} is NaN, for the task ${beginningOf(episodes[0]!)} and all others`;
      return `trainRl: every episode of ${this.#without} steps in a row ${what}. ${why}`;
    });
  }

  #checkTasks(
    episodes: readonly Trajectory[],
    { advantage }: Objective,
    mixedGroups: boolean,
    say: (text: string) => void,
  ): void {
    if (!advantage.comparesGroup && !advantage.greedyBaseline) return;
    const mixed = mixedMembers(episodes);
    if (mixed === undefined) return;
    const [a, b] = mixed;
    const what =
      `trainRl: two episodes of one group have different tasks, ${beginningOf(a)} and ${beginningOf(b)}, and the ` +
      `advantage ${advantage.name} would compare their rewards. ` +
      (a.seed === b.seed
        ? `${a.env}.reset(${a.seed}) must give the same task each time`
        : `Their seeds are ${a.seed} and ${b.seed}`);
    check(mixedGroups, () => `${what}; if such groups are meant, allow them with mixedGroups (rl.mixedGroups=true)`);
    say(`${what}; mixedGroups allows it`);
  }
}

const defaultWarn = (text: string): void => console.warn(text);
