/**
 * The episodes that a step of `trainRl` learns from. A curriculum may choose the tasks; episodes may be explored,
 * groups refilled or played again with a prefix of the expert's, and earlier groups replayed. Each of these is an
 * option. Without them a step draws `groups` tasks from the step's random stream and plays each with `groupSize`
 * episodes.
 */
import { check } from "../../engine/errors.ts";
import { checkMethods, showValue } from "../../engine/options.ts";
import type { Rng } from "../../engine/index.ts";
import type { Model, Schedule } from "../../nn/index.ts";
import type { EnvironmentOptions, EnvironmentSpec } from "../../environments/index.ts";
import type { Metrics } from "../episode/metrics.ts";
import type { AdvantageEstimator } from "../methods/advantages/estimator.ts";
import { HINDSIGHT, type HindsightOptions } from "./hindsight.ts";
import { IMITATE_EXPERT, type ImitateExpertOptions } from "./imitateExpert.ts";
import type { PredictionOptions } from "./predictions.ts";
import { type EpisodeRequest, ROLLOUT, rollout, type RolloutOptions } from "../play/rollout.ts";
import type { Trajectory } from "../episode/stream.ts";
import type { Template } from "../episode/template.ts";
import type { Curriculum, TaskChoice, TaskOutcome } from "./curriculum.ts";
import { DYNAMIC_SAMPLING, drawInformative, type DynamicSamplingOptions, rowsByGroup } from "./dynamic.ts";
import { EXPERT_PREFIX, retryWithPrefix, type ExpertPrefixOptions, isPrefixed } from "./expertPrefix.ts";
import { successRate } from "../episode/outcomes.ts";
import type { ReplayBuffer } from "./replay.ts";
import { type Exploration, forcedShare } from "./exploration.ts";
import { checkRewards, rewarded, rewardMetrics, type RewardOptions } from "./scoring.ts";
import { TRUNCATED, type TruncatedReward, withTruncatedReward } from "./truncated.ts";

/** Options that change the data of a step. They can be combined, and all are off by default. */
export interface DataOptions extends RewardOptions {
  /**
   * What an episode earns that ran out of tokens, or in which a strict template found no action; default `worst`, twice
   * the lowest return of its group, or 0 if none is negative. A `reward` function gets the episode with this return.
   */
  readonly truncatedReward?: TruncatedReward;
  /** The sampling temperature at each step, in place of `rollout.temperature`. */
  readonly temperature?: Schedule;
  /** ε-tool exploration. */
  readonly exploration?: Exploration;
  /** Which tasks are played. A curriculum has a state of its own: save `state()` with the run. */
  readonly curriculum?: Curriculum;
  /** Plays further groups in place of those without spread, which the policy term leaves out. */
  readonly dynamicSampling?: DynamicSamplingOptions;
  /** Plays groups without a success a second time, with some actions given. */
  readonly expertPrefix?: ExpertPrefixOptions;
  /**
   * Adds earlier groups to the new ones. These are off-policy, so the loss needs a ratio, or the objective a correction
   * or V-trace. A buffer has a state of its own: save `state()` with the run.
   */
  readonly replay?: ReplayBuffer;
  /** Adds rewarded predictions of the environment's answers in the step's episodes. */
  readonly predictions?: PredictionOptions;
  /** Imitates failed episodes as solutions of the tasks that they have achieved. */
  readonly hindsight?: HindsightOptions;
  /** Imitates the environment's expert on tasks of the step. */
  readonly imitateExpert?: ImitateExpertOptions;
}
/** All keys of `DataOptions`. */
export const DATA_KEYS = [
  "truncatedReward",
  "reward",
  "rewardLimits",
  "temperature",
  "exploration",
  "curriculum",
  "dynamicSampling",
  "expertPrefix",
  "replay",
  "predictions",
  "hindsight",
  "imitateExpert",
] as const;

/**
 * What a step of `trainRl` plays: `groups` tasks of an environment with `groupSize` episodes each, and `DataOptions`.
 */
export interface PlayOptions extends DataOptions {
  /** The policy. */
  readonly model: Model;
  /** How an episode becomes tokens. */
  readonly template: Template;
  /** The world: a spec, whose `make` begins an episode. */
  readonly env: EnvironmentSpec;
  /** What `env.make` is given; {} for the world's defaults. */
  readonly envOptions: EnvironmentOptions;
  /** Tasks per step. */
  readonly groups: number;
  /**
   * Episodes per task, which are compared with each other; at least 2 for a group baseline. TRL's `num_generations`.
   */
  readonly groupSize: number;
  /** Limits of an episode, and how tokens are drawn; {} for their defaults. */
  readonly rollout: RolloutOptions;
  /** All randomness of step n comes from `rng.split(n)`. */
  readonly rng: Rng;
  /** Of the method it is only asked whether it reads components of a reward, for `dynamicSampling`. */
  readonly objective?: { readonly advantage: Pick<AdvantageEstimator, "readsParts"> };
}

/** Throws if the options do not fit together. */
export function checkPlay(options: Pick<PlayOptions, "groups" | "groupSize" | "rollout"> & DataOptions): void {
  const { groups, groupSize, rollout: sampling, temperature } = options;
  const { dynamicSampling, expertPrefix, hindsight, imitateExpert } = options;
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
  const { exploration, curriculum, replay } = options;
  if (exploration !== undefined)
    checkMethods("trainRl", "exploration", exploration, "new Exploration({ epsilon })", ["apply"]);
  if (curriculum !== undefined)
    checkMethods("trainRl", "curriculum", curriculum, "a curriculum, such as new Learnability(…)", ["draw", "observe"]);
  if (replay !== undefined) checkMethods("trainRl", "replay", replay, "new ReplayBuffer()", ["add", "draw"]);
  if (dynamicSampling) DYNAMIC_SAMPLING.read(dynamicSampling);
  check(
    dynamicSampling === undefined || groupSize >= 2,
    () => `trainRl: dynamicSampling needs groups of at least 2, got groupSize ${groupSize}`,
  );
  if (expertPrefix) EXPERT_PREFIX.read(expertPrefix);
  if (hindsight) HINDSIGHT.read(hindsight);
  if (imitateExpert) IMITATE_EXPERT.read(imitateExpert);
  TRUNCATED.read({ truncatedReward: options.truncatedReward });
  checkRewards(options);
}

/** The episodes of a step. */
export interface PlayedStep {
  /** The requests of all trajectories, in their order, without exploration. */
  readonly requests: readonly EpisodeRequest[];
  readonly trajectories: readonly Trajectory[];
  readonly metrics: Metrics;
}

/** Plays episodes, in the order of the requests: `rollout` with the learner's model, or rollout workers. */
export type PlayEpisodes = (
  requests: readonly EpisodeRequest[],
  options: RolloutOptions,
) => Promise<readonly Trajectory[]>;

/** Some groups of a step that has not been learnt from yet. */
export interface PlayedPart extends PlayedStep {
  readonly step: number;
  /** The tasks that the curriculum chose, by group. */
  readonly choices: ReadonlyMap<number, TaskChoice>;
  readonly prefixed: readonly Metrics[];
}

/** Which groups of a step to play; by default all. */
export interface PartOptions {
  readonly first: number;
  readonly count: number;
  /** An earlier part whose tasks are played again. */
  readonly again?: PlayedPart | undefined;
}

/** Plays groups of a step. All tasks of a round are drawn before anything is awaited. */
export async function playPart(
  options: PlayOptions,
  step: number,
  { first, count, again }: PartOptions = { first: 0, count: options.groups },
  playEpisodes: PlayEpisodes = (asked, how) => rollout(options.model, options.template, asked, how),
): Promise<PlayedPart> {
  const { exploration, dynamicSampling, expertPrefix, rng, truncatedReward, objective } = options;
  const sampling = samplingOf(options, step);
  const isStopped = (): boolean => sampling.signal?.aborted ?? false;
  const play = async (asked: readonly EpisodeRequest[]): Promise<readonly Trajectory[]> => {
    const played = await playEpisodes(exploration ? asked.map((r) => exploration.apply(r, step)) : asked, sampling);
    return rewarded(options, withTruncatedReward(played, truncatedReward), sampling.signal);
  };

  const requests: EpisodeRequest[] = [];
  const choices = new Map<number, TaskChoice>(again?.choices);
  const prefixed: Metrics[] = [];
  const playGroups = async (from: number, groups: number): Promise<readonly Trajectory[]> => {
    const asked = again?.requests ?? episodeRequests(options, rng.split(step), from, groups, choices);
    const played = await play(asked);
    requests.push(...asked);
    if (!expertPrefix || isStopped()) return played;
    const helped = await retryWithPrefix(asked, played, expertPrefix, play);
    requests.push(...helped.requests);
    prefixed.push(helped.metrics);
    return [...played, ...helped.trajectories];
  };
  const { trajectories, metrics } = dynamicSampling
    ? await drawInformative(count, dynamicSampling, playGroups, isStopped, objective?.advantage.readsParts)
    : { trajectories: await playGroups(first, count), metrics: {} };
  return { step, requests, trajectories, metrics, choices, prefixed };
}

/** Joins the parts of a step and tells the curriculum their outcomes. */
export function finishStep(options: PlayOptions, step: number, parts: readonly PlayedPart[]): PlayedStep {
  const { exploration, temperature, curriculum, truncatedReward } = options;
  const {
    requests,
    trajectories: played,
    choices,
    prefixed,
    metrics,
  } = parts.length === 1 ? parts[0]! : joined(step, parts);
  // Parts were scored one by one: a group without an end of its own is compared with the whole step only here. A
  // `reward` function has had the last word.
  const trajectories = options.reward ? played : withTruncatedReward(played, truncatedReward);
  const sampling = samplingOf(options, step);
  // A step that was stopped is not learnt from, so the curriculum must not remember it.
  if (curriculum && !sampling.signal?.aborted) curriculum.observe(outcomesOf(trajectories, choices));
  return {
    requests,
    trajectories,
    metrics: {
      ...(temperature ? { temperature: sampling.temperature! } : {}),
      ...(exploration ? { "exploration/forced_share": forcedShare(trajectories.filter((t) => !isPrefixed(t))) } : {}),
      ...curriculum?.metrics(),
      ...rewardMetrics(options, trajectories),
      ...metrics,
      ...added(prefixed),
    },
  };
}

/** The sampling options of a step. */
const samplingOf = ({ temperature, rollout: sampling }: PlayOptions, step: number): RolloutOptions => ({
  ...sampling,
  ...(temperature ? { temperature: temperature(step) } : {}),
  version: step,
});

/** Joins parts that have one group each and may come from different steps, so the groups get new numbers. */
function joined(step: number, parts: readonly PlayedPart[]): PlayedPart {
  const choices = new Map(parts.flatMap((part, group) => [...part.choices.values()].map((choice) => [group, choice])));
  return {
    step,
    requests: parts.flatMap((part, group) => part.requests.map((request) => ({ ...request, group }))),
    trajectories: parts.flatMap((part, group) => part.trajectories.map((t) => ({ ...t, group }))),
    metrics: {},
    choices,
    prefixed: [],
  };
}

const MAX_SEED = 2 ** 31;

/** The seed of a group's task if no curriculum chooses it. `draw` is the random stream of the step. */
export const taskSeed = (draw: Rng, group: number): number => draw.split("task").split(group).int(MAX_SEED);

/**
 * The requests of `count` groups from number `first` on: each task `groupSize` times, with a random stream for each
 * episode.
 */
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
  return rowsByGroup(trajectories).flatMap((rows) => {
    const choice = choices.get(rows[0]!.group);
    const success = successRate(rows);
    return choice === undefined || success === undefined ? [] : [{ choice, seed: rows[0]!.seed, success }];
  });
}

/**
 * The metrics of several rounds: counts are added, and the mean length of a prefix is over all prefixes that helped.
 */
function added(rounds: readonly Metrics[]): Metrics {
  const sum: Metrics = {};
  let actions = 0;
  for (const round of rounds) {
    for (const [name, value] of Object.entries(round)) sum[name] = (sum[name] ?? 0) + value;
    actions += (round["expert_prefix/prefix_mean"] ?? 0) * (round["expert_prefix/helped_groups"] ?? 0);
  }
  return actions > 0 ? { ...sum, "expert_prefix/prefix_mean": actions / sum["expert_prefix/helped_groups"]! } : sum;
}
