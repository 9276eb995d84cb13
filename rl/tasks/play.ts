/**
 * The episodes that a step of `trainRl` plays. Without plug-ins (plugin.ts) it draws `groups` tasks from the step's
 * random stream and plays each with `groupSize` episodes.
 */
import { check } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import type { Rng } from "../../engine/index.ts";
import type { Model, Schedule } from "../../nn/index.ts";
import type { EnvironmentOptions, EnvironmentSpec } from "../environment.ts";
import type { Metrics } from "../episode/metrics.ts";
import type { AdvantageEstimator } from "../objective/estimator.ts";
import { type EpisodeRequest, ROLLOUT, rollout, type RolloutOptions } from "../play/rollout.ts";
import { groupBy } from "../episode/groups.ts";
import { successRate } from "../episode/outcomes.ts";
import type { Trajectory } from "../episode/stream.ts";
import type { Template } from "../episode/template.ts";
import {
  type EpisodePlugin,
  isHelped,
  type PlayedGroups,
  type PlayGroups,
  type TaskChoice,
  type TaskOutcome,
} from "./plugin.ts";
import { checkRewards, rewarded, rewardMetrics, type RewardOptions } from "./scoring.ts";
import { TRUNCATED, type TruncatedReward, withTruncatedReward } from "./truncated.ts";

/** Options that change the data of a step. They can be combined, and all are off by default. */
export interface DataOptions extends RewardOptions {
  /**
   * The return of an episode that ran out of tokens, or in which a strict template found no action; default `worst`:
   * twice the lowest return of its group, or 0 if none is negative. A `reward` function gets the episode with this
   * return.
   */
  readonly truncatedReward?: TruncatedReward;
  /** The sampling temperature at each step, in place of `rollout.temperature`. */
  readonly temperature?: Schedule;
  /** Plug-ins that change which episodes a step has. Some have a state: save `state()` with the run. */
  readonly plugins?: readonly EpisodePlugin[];
}
/** All keys of `DataOptions`. */
export const DATA_KEYS = ["truncatedReward", "reward", "rewardLimits", "temperature", "plugins"] as const;

/** Options of a step's episodes: `groups` tasks of an environment with `groupSize` episodes each, and `DataOptions`. */
export interface PlayOptions<Own extends EnvironmentOptions = EnvironmentOptions> extends DataOptions {
  /** The policy. */
  readonly model: Model;
  /** The chat template, which turns an episode into tokens. */
  readonly template: Template;
  /** The world: a spec, whose `make` begins an episode. */
  readonly env: EnvironmentSpec<Own>;
  /** The options of `env.make`, its own among them; {} for the world's defaults. */
  readonly envOptions: NoInfer<Own>;
  /** Tasks per step. */
  readonly groups: number;
  /** Episodes per task, which are compared with each other; 2 or more for a group baseline. TRL's `num_generations`. */
  readonly groupSize: number;
  /** Limits of an episode, and how tokens are drawn; {} for their defaults. */
  readonly rollout: RolloutOptions;
  /** All randomness of step n comes from `rng.split(n)`. */
  readonly rng: Rng;
  /** The method, of which only this is read: whether it reads components of a reward. */
  readonly objective?: { readonly advantage: Pick<AdvantageEstimator, "readsParts"> };
}

/** Throws if the options do not fit together. */
export function checkPlay(options: Pick<PlayOptions, "groups" | "groupSize" | "rollout"> & DataOptions): void {
  const { groups, groupSize, rollout: sampling, temperature } = options;
  const areCounts = [groups, groupSize].every((n) => Number.isInteger(n) && n >= 1);
  check(
    areCounts,
    () => `trainRl: groups and groupSize must be integers ≥ 1, got ${showValue(groups)} and ${showValue(groupSize)}`,
  );
  check(
    sampling !== undefined,
    () => "trainRl: rollout must be options of `rollout`, {} for its defaults, got missing",
  );
  ROLLOUT.read(sampling);
  const isSchedule = temperature === undefined || typeof temperature === "function";
  check(
    isSchedule,
    () =>
      "trainRl: temperature must be a function of the step; a number is rollout.temperature, got " +
      showValue(temperature),
  );
  check(
    temperature === undefined || sampling.temperature === undefined,
    () => "trainRl: a temperature schedule and rollout.temperature; give one of them",
  );
  TRUNCATED.read({ truncatedReward: options.truncatedReward });
  checkRewards(options);
}

/** The episodes of a step. */
export interface PlayedStep extends PlayedGroups {
  readonly metrics: Metrics;
}

/** Plays episodes, in the order of the requests: `rollout` with the learner's model, or rollout workers. */
export type PlayEpisodes = (
  requests: readonly EpisodeRequest[],
  options: RolloutOptions,
) => Promise<readonly Trajectory[]>;

/** Some groups of a step that is not trained yet. */
export interface PlayedPart extends PlayedStep {
  readonly step: number;
  /** The tasks that a plug-in chose, by group. */
  readonly choices: ReadonlyMap<number, TaskChoice>;
}

/** The choice of groups to play of a step; by default all. */
export interface PartOptions {
  readonly first: number;
  readonly count: number;
  /** An earlier part, whose tasks are played again. */
  readonly again?: PlayedPart | undefined;
}

/** Plays groups of a step. All tasks of a round are drawn before anything is awaited. */
export async function playPart(
  options: PlayOptions,
  step: number,
  { first, count, again }: PartOptions = { first: 0, count: options.groups },
  playEpisodes: PlayEpisodes = (asked, how) => rollout(options.model, options.template, asked, how),
): Promise<PlayedPart> {
  const { plugins = [], rng, truncatedReward, objective } = options;
  const sampling = samplingOf(options, step);
  const changed = (request: EpisodeRequest): EpisodeRequest =>
    plugins.reduce((asked, plugin) => plugin.request?.(asked, step) ?? asked, request);
  const play = async (asked: readonly EpisodeRequest[]): Promise<readonly Trajectory[]> => {
    const played = await playEpisodes(asked.map(changed), sampling);
    return rewarded(options, withTruncatedReward(played, truncatedReward), sampling.signal);
  };

  const choices = new Map<number, TaskChoice>(again?.choices);
  const metrics: Metrics = {};
  const playGroups: PlayGroups = async (from, groups) => {
    const requests = again?.requests ?? episodeRequests(options, rng.split(step), from, groups, choices);
    return { requests, trajectories: await play(requests) };
  };
  const tools = {
    play,
    isStopped: () => sampling.signal?.aborted ?? false,
    report: (numbers: Metrics) => void Object.assign(metrics, numbers),
    byPart: objective?.advantage.readsParts,
  };
  const wrapped = plugins.reduceRight((next, plugin) => plugin.play?.(next, tools) ?? next, playGroups);
  return { step, ...(await wrapped(first, count)), metrics, choices };
}

/** Joins the parts of a step and tells the plug-ins their outcomes. */
export function finishStep(options: PlayOptions, step: number, parts: readonly PlayedPart[]): PlayedStep {
  const { plugins = [], temperature, truncatedReward } = options;
  const { requests, trajectories: played, choices, metrics } = parts.length === 1 ? parts[0]! : joined(step, parts);
  // Parts were scored one by one: a group in which no episode came to an end is compared with the whole step only here.
  // The returns of a `reward` function stay.
  const trajectories = options.reward ? played : withTruncatedReward(played, truncatedReward);
  const sampling = samplingOf(options, step);
  // A step that was stopped is not trained, so no plug-in may remember its outcomes.
  if (!sampling.signal?.aborted) chooserOf(plugins)?.observe?.(outcomesOf(trajectories, choices));
  const unaided = trajectories.filter((t) => !isHelped(t));
  return {
    requests,
    trajectories,
    metrics: {
      ...(temperature ? { temperature: sampling.temperature! } : {}),
      ...(Object.assign({}, ...plugins.map((plugin) => plugin.metrics?.(unaided))) as Metrics),
      ...rewardMetrics(options, trajectories),
      ...metrics,
    },
  };
}

/** The sampling options of a step. */
const samplingOf = ({ temperature, rollout: sampling }: PlayOptions, step: number): RolloutOptions => ({
  ...sampling,
  ...(temperature ? { temperature: temperature(step) } : {}),
  version: step,
});

/** The plug-in that chooses tasks. */
const chooserOf = (plugins: readonly EpisodePlugin[]): EpisodePlugin | undefined =>
  plugins.find((plugin) => plugin.task !== undefined);

/** Joins parts that have one group each and may come from different steps, so the groups get new numbers. */
function joined(step: number, parts: readonly PlayedPart[]): PlayedPart {
  const choices = new Map(parts.flatMap((part, group) => [...part.choices.values()].map((choice) => [group, choice])));
  return {
    step,
    requests: parts.flatMap((part, group) => part.requests.map((request) => ({ ...request, group }))),
    trajectories: parts.flatMap((part, group) => part.trajectories.map((t) => ({ ...t, group }))),
    metrics: {},
    choices,
  };
}

const MAX_SEED = 2 ** 31;

/** The seed of a group's task if no plug-in chooses it. `draw` is the random stream of the step. */
export const taskSeed = (draw: Rng, group: number): number => draw.split("task").split(group).int(MAX_SEED);

/**
 * The requests of `count` groups from number `first` on: each task `groupSize` times, with a random stream for each
 * episode.
 */
function episodeRequests(
  { env, envOptions, groupSize, plugins = [] }: PlayOptions,
  draw: Rng,
  first: number,
  count: number,
  choices: Map<number, TaskChoice>,
): EpisodeRequest[] {
  const chooser = chooserOf(plugins);
  const tasks = Array.from({ length: count }, (_, i) => {
    const group = first + i;
    const drawn = taskSeed(draw, group);
    const choice = chooser?.task!(draw.split(chooser.name).split(group));
    if (choice) choices.set(group, choice);
    const options = choice?.options ? { ...envOptions, ...choice.options } : envOptions;
    return { group, seed: choice?.seed ?? drawn, options };
  });
  return tasks.flatMap(({ group, seed, options }) =>
    Array.from({ length: groupSize }, (_, member) => {
      const rng = draw.split("episode").split(group * groupSize + member);
      return { spec: env, options, seed, group, rng };
    }),
  );
}

/** The outcome of each chosen task, played without help. Groups whose environments all failed have none. */
function outcomesOf(trajectories: readonly Trajectory[], choices: ReadonlyMap<number, TaskChoice>): TaskOutcome[] {
  return groupBy(trajectories, ({ group }) => group).flatMap((rows) => {
    const choice = choices.get(rows[0]!.group);
    const success = successRate(rows);
    return choice === undefined || success === undefined ? [] : [{ choice, seed: rows[0]!.seed, success }];
  });
}
