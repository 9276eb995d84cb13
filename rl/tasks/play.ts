/**
 * What a step of `trainRl` learns from: tasks (from a curriculum), groups of episodes (explored, refilled, guided), and what is
 * replayed. Each of these is an option of its own; without any, a step is `groups` tasks drawn from the step's stream, each
 * played by `groupSize` episodes.
 */
import { check } from "../../engine/errors.ts";
import type { Rng } from "../../engine/index.ts";
import type { Model, Schedule } from "../../nn/index.ts";
import type { EnvironmentOptions, EnvironmentSpec } from "../../environments/index.ts";
import type { Metrics } from "../episode/metrics.ts";
import type { PredictionOptions } from "./predictions.ts";
import type { CompositeReward } from "../rewards/composite.ts";
import { type EpisodeRequest, rollout, type RolloutOptions } from "../play/rollout.ts";
import type { Trajectory } from "../episode/stream.ts";
import type { Template } from "../episode/template.ts";
import type { Curriculum, TaskChoice, TaskOutcome } from "./curriculum.ts";
import { DYNAMIC_SAMPLING, drawInformative, type DynamicSamplingOptions, rowsByGroup } from "./dynamic.ts";
import { EXPERT_PREFIX, guideFailed, type GuideOptions, isGuided } from "./expertPrefix.ts";
import { successRate } from "../episode/outcomes.ts";
import type { ReplayBuffer } from "./replay.ts";
import { type Exploration, forcedShare } from "./exploration.ts";

/** What may happen to the data of a step, each by itself or together; all are off by default. */
export interface DataOptions {
  /** What an episode is worth, with the parts of it, in the place of its environment's own return. */
  readonly reward?: (
    trajectory: Trajectory,
  ) => Pick<CompositeReward, "reward" | "parts"> & Partial<Pick<CompositeReward, "outcome">>;
  /** The sampling temperature at each step, in the place of `rollout.temperature`. */
  readonly temperature?: Schedule;
  /** ε-tool exploration. */
  readonly exploration?: Exploration;
  /** Which tasks are played. It keeps a state of its own: save `state()` with the run. */
  readonly curriculum?: Curriculum;
  /** Further groups for those without spread, which the policy term then leaves out. */
  readonly dynamicSampling?: DynamicSamplingOptions;
  /** A second try with some actions given, for groups without a success. */
  readonly guide?: GuideOptions;
  /**
   * Earlier groups beside the new ones, off-policy: the loss needs a ratio, or the objective a correction or V-trace. It keeps a
   * state of its own: save `state()` with the run.
   */
  readonly replay?: ReplayBuffer;
  /** Guesses at what the step's episodes were answered, beside them, each guess with a reward. */
  readonly predictions?: PredictionOptions;
}
export const DATA_KEYS: readonly string[] = ["reward", "temperature", "exploration", "curriculum", "dynamicSampling", "guide", "replay", "predictions"]; // prettier-ignore

export interface PlayOptions extends DataOptions {
  readonly model: Model;
  readonly template: Template;
  readonly env: EnvironmentSpec;
  readonly envOptions: EnvironmentOptions;
  /** Tasks per step. */
  readonly groups: number;
  /** Episodes per task, compared with each other; at least 2 for a group baseline. */
  readonly groupSize: number;
  readonly rollout: RolloutOptions;
  readonly rng: Rng;
}

/** Throws one clear line if the options do not fit together. */
export function checkPlay({
  groups,
  groupSize,
  rollout: sampling,
  temperature,
  dynamicSampling,
  guide,
}: Pick<PlayOptions, "groups" | "groupSize" | "rollout" | "temperature" | "dynamicSampling" | "guide">): void {
  check(groupSize >= 1 && groups >= 1, () => `trainRl: groups and groupSize must be ≥ 1, got ${groups} and ${groupSize}`); // prettier-ignore
  check(temperature === undefined || sampling.temperature === undefined, () => "trainRl: a temperature schedule and rollout.temperature; give one of them"); // prettier-ignore
  if (dynamicSampling) DYNAMIC_SAMPLING.read(dynamicSampling);
  check(dynamicSampling === undefined || groupSize >= 2, () => `trainRl: dynamicSampling needs groups of at least 2, got groupSize ${groupSize}`); // prettier-ignore
  if (guide) EXPERT_PREFIX.read(guide);
}

/** What was played in a step. */
export interface PlayedStep {
  /** The requests of all trajectories, in their order, without exploration. */
  readonly requests: readonly EpisodeRequest[];
  readonly trajectories: readonly Trajectory[];
  readonly metrics: Metrics;
}

/** Plays episodes: `rollout` with the model that learns, unless others do it. The result is in the order of the requests. */
export type PlayEpisodes = (
  requests: readonly EpisodeRequest[],
  options: RolloutOptions,
) => Promise<readonly Trajectory[]>;

/** Some groups of a step, before anybody has learnt from them. */
export interface PlayedPart extends PlayedStep {
  readonly step: number;
  /** The curriculum's, by group. */
  readonly choices: ReadonlyMap<number, TaskChoice>;
  readonly guided: readonly Metrics[];
}

/** Which groups of a step: the whole of it, unless given. */
export interface PartOptions {
  readonly first: number;
  readonly count: number;
  /** The tasks of an earlier part, to be played again. */
  readonly again?: PlayedPart | undefined;
}

/** Plays groups of a step. Tasks are drawn at once, before anything is awaited. */
export async function playPart(
  options: PlayOptions,
  step: number,
  { first, count, again }: PartOptions = { first: 0, count: options.groups },
  playEpisodes: PlayEpisodes = (asked, how) => rollout(options.model, options.template, asked, how),
): Promise<PlayedPart> {
  const { exploration, dynamicSampling, guide, rng } = options;
  const sampling = samplingOf(options, step);
  const isStopped = (): boolean => sampling.signal?.aborted ?? false;
  const play = async (asked: readonly EpisodeRequest[]): Promise<readonly Trajectory[]> =>
    rewarded(options, await playEpisodes(exploration ? asked.map((r) => exploration.apply(r, step)) : asked, sampling));

  const requests: EpisodeRequest[] = [];
  const choices = new Map<number, TaskChoice>(again?.choices);
  const guided: Metrics[] = [];
  const playGroups = async (from: number, groups: number): Promise<readonly Trajectory[]> => {
    const asked = again?.requests ?? episodeRequests(options, rng.split(step), from, groups, choices);
    const played = await play(asked);
    requests.push(...asked);
    if (!guide || isStopped()) return played;
    const helped = await guideFailed(asked, played, guide, play);
    requests.push(...helped.requests);
    guided.push(helped.metrics);
    return [...played, ...helped.trajectories];
  };
  const { trajectories, metrics } = dynamicSampling
    ? await drawInformative(count, dynamicSampling, playGroups, isStopped)
    : { trajectories: await playGroups(first, count), metrics: {} };
  return { step, requests, trajectories, metrics, choices, guided };
}

/**
 * With the returns that the options give them. The steps keep the rewards that their environment gave: what the return has beside them
 * is about the whole episode, and `rewardsOfTokens` puts it behind the last token that the policy wrote, in a cut-off action, too.
 */
export function rewarded({ reward }: DataOptions, trajectories: readonly Trajectory[]): readonly Trajectory[] {
  if (!reward) return trajectories;
  return trajectories.map((t) => {
    if (t.masked) return t;
    const { reward: worth, parts, outcome } = reward(t);
    return { ...t, reward: worth, rewardParts: parts, ...(outcome === undefined ? {} : { outcome }) };
  });
}

/** The parts that a step learns from, as one; and the curriculum is told how they went. */
export function finishStep(options: PlayOptions, step: number, parts: readonly PlayedPart[]): PlayedStep {
  const { exploration, temperature, curriculum } = options;
  const { requests, trajectories, choices, guided, metrics } = parts.length === 1 ? parts[0]! : joined(step, parts);
  const sampling = samplingOf(options, step);
  // A stopped step is not learnt from, and not remembered.
  if (curriculum && !sampling.signal?.aborted) curriculum.observe(outcomesOf(trajectories, choices));
  return {
    requests,
    trajectories,
    metrics: {
      ...(temperature ? { temperature: sampling.temperature! } : {}),
      ...(exploration ? { "exploration/forced_share": forcedShare(trajectories.filter((t) => !isGuided(t))) } : {}),
      ...curriculum?.metrics(),
      ...metrics,
      ...added(guided),
    },
  };
}

/** How the tokens of a step are drawn. */
const samplingOf = ({ temperature, rollout: sampling }: PlayOptions, step: number): RolloutOptions => ({
  ...sampling,
  ...(temperature ? { temperature: temperature(step) } : {}),
  version: step,
});

/** Parts of one group each, perhaps of different steps, numbered anew. */
function joined(step: number, parts: readonly PlayedPart[]): PlayedPart {
  const choices = new Map(parts.flatMap((part, group) => [...part.choices.values()].map((choice) => [group, choice])));
  return {
    step,
    requests: parts.flatMap((part, group) => part.requests.map((request) => ({ ...request, group }))),
    trajectories: parts.flatMap((part, group) => part.trajectories.map((t) => ({ ...t, group }))),
    metrics: {},
    choices,
    guided: [],
  };
}

/** Seed of a group's task in the step whose stream is `draw`, where no curriculum chooses. */
export const taskSeed = (draw: Rng, group: number): number =>
  draw
    .split("task")
    .split(group)
    .int(2 ** 31);

/** Groups `first` to `first + count` of the step whose stream is `draw`, each `groupSize` times with streams of their own. */
function episodeRequests(
  { env, envOptions, groupSize, curriculum }: PlayOptions,
  draw: Rng,
  first: number,
  count: number,
  choices: Map<number, TaskChoice>,
): EpisodeRequest[] {
  const tasks = Array.from({ length: count }, (_, i) => {
    const group = first + i;
    const drawn = taskSeed(draw, group);
    const choice = curriculum?.draw(draw.split("curriculum").split(group));
    if (choice) choices.set(group, choice);
    return { group, seed: choice?.seed ?? drawn, options: choice?.options ? { ...envOptions, ...choice.options } : envOptions }; // prettier-ignore
  });
  return tasks.flatMap(({ group, seed, options }) =>
    Array.from({ length: groupSize }, (_, member) => {
      const rng = draw.split("episode").split(group * groupSize + member);
      return { spec: env, options, seed, group, rng };
    }),
  );
}

/** How each chosen task went without help; environments that failed say nothing. */
function outcomesOf(trajectories: readonly Trajectory[], choices: ReadonlyMap<number, TaskChoice>): TaskOutcome[] {
  return rowsByGroup(trajectories).flatMap((rows) => {
    const choice = choices.get(rows[0]!.group);
    const success = successRate(rows);
    return choice === undefined || success === undefined ? [] : [{ choice, seed: rows[0]!.seed, success }];
  });
}

/** Metrics of several rounds: counts add up, and the mean length of a prefix is over all that helped. */
function added(rounds: readonly Metrics[]): Metrics {
  const sum: Metrics = {};
  let actions = 0;
  for (const round of rounds) {
    for (const [name, value] of Object.entries(round)) sum[name] = (sum[name] ?? 0) + value;
    actions += (round["guide/prefix_mean"] ?? 0) * (round["guide/helped_groups"] ?? 0);
  }
  return actions > 0 ? { ...sum, "guide/prefix_mean": actions / sum["guide/helped_groups"]! } : sum;
}
