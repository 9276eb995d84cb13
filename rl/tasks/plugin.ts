/**
 * A plug-in changes which episodes a step of `trainRl` learns from: `plugins: [new Learnability({ arms }), …]`. A
 * plug-in is an object with a name and those of the hooks below that it needs; no other code knows it by name. A step
 * calls them in this order, and each hook in the order of the list:
 *
 *     task → request → play → observe → metrics → extend
 *
 * Curricula choose the task of a group, exploration changes requests, refills and an expert's prefix play more groups,
 * replay and predictions add episodes that are trained, hindsight and an expert such as are imitated.
 */
import { check } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import type { Rng } from "../../engine/index.ts";
import type { EnvironmentOptions } from "../environment.ts";
import type { Model } from "../../nn/index.ts";
import type { Metrics } from "../episode/metrics.ts";
import type { Trajectory } from "../episode/stream.ts";
import type { Template } from "../episode/template.ts";
import type { Objective } from "../objective/objective.ts";
import type { EpisodeRequest } from "../play/episode.ts";

/** The task that a group plays. */
export interface TaskChoice {
  /** The kind of task, for statistics and metrics. */
  readonly name: string;
  /** Environment options that replace those of the run. */
  readonly options?: EnvironmentOptions;
  /** The seed of a particular task of that kind; default: a new task. */
  readonly seed?: number;
  /** True: the task was played before, and is played again because it failed. */
  readonly again?: boolean;
}

/** The outcome of a group. */
export interface TaskOutcome {
  readonly choice: TaskChoice;
  /** The seed of the task that was played. */
  readonly seed: number;
  /** The share of the group's episodes that succeeded. */
  readonly success: number;
}

/** Groups that were played, with their requests in the same order, as they were before any `request`. */
export interface PlayedGroups {
  readonly requests: readonly EpisodeRequest[];
  readonly trajectories: readonly Trajectory[];
}

/** Plays `count` new groups, the first of which has the number `first`. */
export type PlayGroups = (first: number, count: number) => Promise<PlayedGroups>;

/** Tools of `play` while groups of a step are played. */
export interface PlayTools {
  /** Plays further episodes, in the order of the requests. */
  readonly play: (requests: readonly EpisodeRequest[]) => Promise<readonly Trajectory[]>;
  /** Whether the run has been stopped. */
  readonly isStopped: () => boolean;
  /** Adds numbers to the step's report. Those of the same names are replaced. */
  readonly report: (metrics: Metrics) => void;
  /** Whether the advantage compares components of a reward: then spread in one of them is enough (GDPO). */
  readonly byPart: boolean | undefined;
}

/** A step whose episodes have been played. */
export interface StepSoFar {
  readonly step: number;
  /** All episodes that were played in this step. */
  readonly fresh: readonly Trajectory[];
  /** The episodes of `fresh` that the policy has played from their start. */
  readonly own: readonly Trajectory[];
  /** The episodes that are trained so far: `fresh`, and those that plug-ins before this one have added. */
  readonly trained: readonly Trajectory[];
  readonly objective: Objective;
  readonly model: Model;
  readonly template: Template;
  /** The random stream of the step. Each plug-in splits it by a word of its own. */
  readonly rng: Rng;
  /** The log-probabilities of the agent's tokens under the policy as it is now; NaN for other tokens. */
  readonly logProbs: (rows: readonly Trajectory[]) => Promise<readonly ArrayLike<number>[]>;
}

/** The episodes that a plug-in adds to a step. */
export interface Extension {
  /** Episodes that are trained behind those that were played. Their groups have numbers that no others have. */
  readonly trained?: readonly Trajectory[];
  /** Whether an older policy wrote some of these. */
  readonly isOffPolicy?: boolean;
  /** Episodes imitated beside the policy loss, and their weight. They have no reward, advantage or old policy. */
  readonly imitated?: { readonly episodes: readonly Trajectory[]; readonly weight: number };
  readonly metrics: Metrics;
}

/** Changes which episodes a step has. */
export interface EpisodePlugin {
  /** The name under which a state is saved, and from which `task` has its random stream. */
  readonly name: string;
  /** @throws in one line if it does not go with the objective or the size of groups */
  check?(run: { readonly objective: Objective; readonly groupSize?: number }): void;
  /** The objective of a step, in place of the run's. */
  objective?(objective: Objective): Objective;
  /** The task of a new group. One plug-in of a run may choose tasks. */
  task?(rng: Rng): TaskChoice;
  /** Gets, once per step, the outcomes of the tasks that it has chosen, in the order of their groups. */
  observe?(outcomes: readonly TaskOutcome[]): void;
  /** The request that is played in place of this one. */
  request?(request: EpisodeRequest, step: number): EpisodeRequest;
  /** Plays groups by means of `next`, which plug-ins behind this one may have wrapped before. */
  play?(next: PlayGroups, tools: PlayTools): PlayGroups;
  /** Numbers for the step's report. @param own episodes that the policy has played from their start */
  metrics?(own: readonly Trajectory[]): Metrics;
  /** Adds episodes to a step. */
  extend?(step: StepSoFar): Extension | Promise<Extension>;
  /** The memory of earlier steps as plain JSON; `restore` takes it back. */
  state?(): unknown;
  /** @throws if the state is not that of a plug-in with these options */
  restore?(state: unknown): void;
}

/**
 * Whether an episode belongs to a group that was helped, as by an expert's first actions: the number of such a group is
 * negative. It is trained, but is not counted as an outcome of the policy.
 */
export const isHelped = ({ group }: Trajectory): boolean => group < 0;

const HOOKS = ["check", "objective", "task", "request", "play", "observe", "metrics", "extend"] as const;
const isPlugin = (value: EpisodePlugin | undefined): boolean =>
  typeof value === "object" && typeof value?.name === "string" && HOOKS.some((hook) => value[hook] !== undefined);

/** @throws in one line if one is no plug-in, two do the same, or one does not go with the run */
export function checkPlugins(
  plugins: readonly EpisodePlugin[],
  run: { readonly objective: Objective; readonly groupSize?: number },
): void {
  const isList: boolean = Array.isArray(plugins);
  check(isList, () => `trainRl: plugins must be a list of plug-ins, got ${showValue(plugins)}`);
  const other = plugins.findIndex((plugin) => !isPlugin(plugin));
  check(
    other < 0,
    () => `trainRl: plugins[${other}] must be a plug-in, such as new ReplayBuffer(), got ${showValue(plugins[other])}`,
  );
  const names = plugins.map(({ name }) => name);
  const twice = names.find((name, i) => names.indexOf(name) < i);
  check(twice === undefined, () => `trainRl: two plugins have the name ${twice!}, under which one would be saved`);
  const choosers = plugins.filter((plugin) => plugin.task !== undefined).map(({ name }) => name);
  check(
    choosers.length < 2,
    () => `trainRl: the plugins ${choosers.join(" and ")} choose tasks; leave one of them out`,
  );
  for (const plugin of plugins) plugin.check?.(run);
}
