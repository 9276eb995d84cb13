/**
 * The watch over a run. If an environment or a reward fails, gives no score or gives the members of a group different
 * tasks, the run still looks like training. The first case of each gets a warning; a fault that makes a run pointless
 * ends it.
 */
import { check, WorldgradError } from "../../engine/errors.ts";
import type { Tree } from "../../engine/index.ts";
import type { AdamW } from "../../nn/index.ts";
import { causeOf, hasFailed, isTruncated, type Trajectory } from "../episode/stream.ts";
import { type Objective, worldsOf } from "../objective/objective.ts";
import { REWARD_LIMITS, rewardErrorOf, type RewardOptions } from "../tasks/scoring.ts";

/** Options of the watch over a run. */
export interface WatchOptions extends Pick<RewardOptions, "rewardLimits"> {
  /** The receiver of warnings about faults that do not end the run, one for each kind. Default: the console. */
  readonly warn?: (text: string, cause?: unknown) => void;
  /**
   * Whether the episodes of a group may have different tasks where the advantage compares them. Default false: then it
   * is an error, as an environment that ignores its seed would be trained on nonsense.
   */
  readonly mixedGroups?: boolean;
}

/** The number of steps in a row without a score after which a run ends. */
export const MOST_STEPS_WITHOUT_SCORE = 3;
/** The number of steps in a row without a gradient that gets a warning. */
const STEPS_WITHOUT_GRADIENT = 10;

/** The environment's error if it failed in every one of these episodes. */
export const failureOf = (episodes: readonly Trajectory[]): string | undefined =>
  episodes.length > 0 && episodes.every(hasFailed) ? errorOf(episodes[0]!) : undefined;

/** What made an episode fail, in words. */
export const errorOf = ({ info, stopReason }: Trajectory): string => String(info["error"] ?? stopReason);

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

/** The numbers of steps in a row without a score, a reward or a gradient, and what has been warned of. */
export class RunWatch {
  #without = 0;
  #unpaid = 0;
  #idle = 0;
  readonly #warned = new Set<string>();

  /**
   * Checks the episodes that the policy has played in a step, before it is trained on them.
   * @param learnsMore whether anything but the objective's world models learns from episodes without a score
   * @throws if this was one step too many without a score or a reward, or if members of a group that are
   *   compared have different tasks
   */
  see(
    episodes: readonly Trajectory[],
    step: number,
    objective: Objective,
    { warn = defaultWarn, mixedGroups = false, rewardLimits }: WatchOptions,
    learnsMore = false,
  ): void {
    const warnOnce = (kind: string, text: () => string, cause?: unknown): void => {
      if (this.#warned.has(kind)) return;
      this.#warned.add(kind);
      if (cause === undefined) warn(text());
      else warn(text(), cause);
    };
    const where = (episode: Trajectory): string =>
      `${episode.env} in step ${step}${episode.task === "" ? "" : `, task ${beginningOf(episode)}`}`;
    this.#countUnpaid(episodes, step, REWARD_LIMITS.read(rewardLimits).patience);
    this.#countLost(episodes, worldsOf(objective).length > 0 || learnsMore);
    const unpaid = episodes.find((episode) => rewardErrorOf(episode) !== undefined);
    if (unpaid)
      warnOnce(
        "reward",
        () =>
          `trainRl: the reward of an episode of ${where(unpaid)} failed: ${rewardErrorOf(unpaid)!}. Nothing is ` +
          "trained from such episodes; the metric rewards/failed counts them",
        causeOf(unpaid.stream),
      );
    const failed = episodes.find((episode) => hasFailed(episode) && episode.stopReason !== "aborted");
    if (failed)
      warnOnce(
        "failed",
        () =>
          `trainRl: an episode of ${where(failed)} failed (${failed.stopReason}): ${errorOf(failed)}. Nothing is ` +
          "trained from such episodes; the metric masked counts them",
        causeOf(failed.stream),
      );
    const unscored = episodes.find(isUnscored);
    if (unscored)
      warnOnce(
        "unscored",
        () =>
          `trainRl: an episode of ${where(unscored)} has no score: its reward is NaN. The policy does not learn from ` +
          "such episodes; the metric unscored counts them",
      );
    const tooLong = episodes.filter(({ stopReason }) => stopReason === "context_overflow");
    if (tooLong.length > 0.1 * episodes.length)
      warnOnce(
        "overflow",
        () =>
          `trainRl: ${tooLong.length} of ${episodes.length} episodes of ${where(tooLong[0]!)} ended because the next ` +
          "answer or action did not fit into the model's positions, or rollout.maxTokens (context_overflow): give " +
          "the model more maxPositions, or episodes fewer and shorter turns",
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

  /** Counts steps in which every reward failed; episodes whose environment failed had nothing to be asked for. */
  #countUnpaid(episodes: readonly Trajectory[], step: number, patience: number): void {
    const asked = episodes.filter((t) => rewardErrorOf(t) !== undefined || !(t.masked && hasFailed(t)));
    const errors = asked.flatMap((t) => rewardErrorOf(t) ?? []);
    if (asked.length === 0) return;
    this.#unpaid = errors.length === asked.length ? this.#unpaid + 1 : 0;
    check(
      this.#unpaid < patience,
      () =>
        `trainRl: every reward has failed since step ${step + 1 - this.#unpaid}; ` +
        `of ${asked.length} episodes of step ${step} the first: ${errors[0]!}`,
    );
  }

  /** @param isLearnt whether anything learns from episodes without a score */
  #countLost(episodes: readonly Trajectory[], isLearnt: boolean): void {
    const isLost = (episode: Trajectory): boolean => hasFailed(episode) || (!isLearnt && isUnscored(episode));
    if (episodes.length === 0) return;
    this.#without = episodes.every(isLost) ? this.#without + 1 : 0;
    if (this.#without < MOST_STEPS_WITHOUT_SCORE) return;
    const failed = episodes.find(hasFailed);
    const what = !episodes.some(isUnscored) ? "failed" : failed ? "failed or has no score" : "has no score";
    const why = failed
      ? `The first error: ${errorOf(failed)}`
      : `The reward is NaN in ${episodes[0]!.env}, for the task ${beginningOf(episodes[0]!)} and all others`;
    throw new WorldgradError(`trainRl: every episode of ${this.#without} steps in a row ${what}. ${why}`, {
      cause: failed && causeOf(failed.stream),
    });
  }

  /**
   * Counts steps in a row in which nothing was learnt, such as those in which all rewards of a group are equal.
   * @param norms of the gradients of the step
   */
  trained(
    norms: readonly number[],
    step: number,
    episodes: readonly Trajectory[],
    { warn = defaultWarn }: WatchOptions,
  ): void {
    const wrong = norms.find((norm) => !Number.isFinite(norm));
    if (wrong !== undefined && !this.#warned.has("gradient")) {
      this.#warned.add("gradient");
      warn(
        `trainRl: the gradient of step ${step} is ${wrong}, and nothing was learnt from it: an advantage or a loss ` +
          "is no number; the metric grad_norm has all such steps",
      );
    }
    this.#idle = norms.some((norm) => norm !== 0) ? 0 : this.#idle + 1;
    if (this.#idle < STEPS_WITHOUT_GRADIENT || this.#warned.has("idle")) return;
    this.#warned.add("idle");
    const cut = episodes.filter(isTruncated).length;
    warn(
      `trainRl: in ${this.#idle} steps in a row nothing was learnt: every gradient was 0, as where all episodes of a ` +
        "group earn the same. Demonstrations (trainSft), easier tasks or larger groups make rewards differ" +
        (cut === 0 ? "" : `. Of the last ${episodes.length} episodes ${cut} ran out of tokens (maxActionTokens)`),
    );
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

const defaultWarn = (...message: unknown[]): void => console.warn(...message);
