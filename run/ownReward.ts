/** Rewards of the user's own, which take the place of the environment's return: `--reward FILE`. */
import { check, fail } from "../engine/errors.ts";
import { showValue } from "../engine/options.ts";
import type { Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import { type Turn, turnsOf } from "../rl/episode/turns.ts";
import type { EpisodeReward, RewardFunction } from "../rl/tasks/scoring.ts";
import type { UserFile } from "./preset.ts";

/**
 * An episode as such a reward sees it. `task` is its text, `turns` are what the agent wrote and what it was answered,
 * `reward` is the environment's own return, `info` has what the environment says of the episode (`info.success`), and
 * `stopReason` says how it ended.
 */
export type ScoredEpisode = Trajectory & { readonly turns: readonly Turn[] };

/**
 * The return of an episode, or the return with its components, at once or as a promise. NaN says that the episode
 * cannot be scored; nothing of it is trained then, and neither is it if the function throws.
 */
export type OwnReward = (
  episode: ScoredEpisode,
  signal: AbortSignal,
) => number | EpisodeReward | Promise<number | EpisodeReward>;

const loaded = new Map<string, OwnReward>();

/** Makes the function of a file known to runs whose settings name it. */
export function addReward(path: string, reward: OwnReward): void {
  loaded.set(path, reward);
}

/** The reward of a run. @throws WorldgradError if its file has not been loaded */
export function ownReward({ path }: UserFile, template: Template): RewardFunction {
  const own = loaded.get(path) ?? fail(`the reward of ${path} has not been loaded`);
  // The metric has the name of the file: what a function is called depends on the compiler.
  return rewardFunction(own, template, {
    name: /([^\\/]*?)(\.[cm]?[jt]s)?$/.exec(path)![1]!,
    where: `--reward: ${path}`,
  });
}

/**
 * A reward as `--reward` takes it, for `reward` of `trainRl`: it gets the turns of an episode as text, and may return a
 * number. That number is the part `name` of the metrics (default `reward`); `where` begins error messages.
 *
 * @example
 * const reward = rewardFunction(({ turns, info }) => (info["success"] ? 1 / turns.length : 0), template);
 * for await (const { metrics } of trainRl({ ...options, reward })) console.log(metrics["reward"]);
 */
export function rewardFunction(
  own: OwnReward,
  template: Template,
  { name = "reward", where = "reward" }: { readonly name?: string; readonly where?: string } = {},
): RewardFunction {
  check(
    typeof (template as Template | undefined)?.actionText === "function",
    () => `rewardFunction: expected the template of the episodes, got ${showValue(template)}`,
  );
  const settle = (answer: unknown): EpisodeReward => {
    if (typeof answer === "number") return { reward: answer, parts: { [name]: answer } };
    const { reward, parts = {} } = (answer ?? {}) as Partial<EpisodeReward>;
    check(
      typeof reward === "number",
      () => `${where} answered ${showValue(answer)}, expected a number or { reward, parts }`,
    );
    return { ...(answer as EpisodeReward), reward, parts };
  };
  return (t, signal) => {
    const answer = own({ ...t, turns: turnsOf(t, template) }, signal);
    const isLater = typeof (answer as Partial<Promise<unknown>> | undefined)?.then === "function";
    return isLater ? Promise.resolve(answer).then(settle) : settle(answer);
  };
}
