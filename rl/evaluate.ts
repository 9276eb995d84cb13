/** Evaluation: success on tasks that training never saw, and how well the model predicts the environment's answers. */
import { check } from "../engine/errors.ts";
import { checkKeys, showValue } from "../engine/options.ts";
import type { Model } from "../nn/index.ts";
import { observationTokens } from "./objective/echo.ts";
import type { RlOptions } from "./train/loop.ts";
import { score } from "./train/score.ts";
import { checkEnv, checkPlayer } from "./train/trainerChecks.ts";
import { errorOf } from "./train/watch.ts";
import { rowOf } from "./objective/columns.ts";
import type { EnvironmentOptions } from "./environment.ts";
import { rollout } from "./play/rollout.ts";
import { familiesOf, mean, moments } from "./episode/groups.ts";
import { succeeded } from "./episode/outcomes.ts";
import { hasFailed, isCutShort, type Trajectory, turnCount } from "./episode/stream.ts";
import type { Template } from "./episode/template.ts";
import { withTruncatedReward } from "./tasks/truncated.ts";

/** The results of evaluation episodes. */
export interface Evaluation {
  /** The number of episodes that were played and have a score (`wasScored`): success is `successes / episodes`. */
  readonly episodes: number;
  /** The number that were not played, because their environment failed before the agent did anything. */
  readonly notPlayed: number;
  /** The number that were played and have the reward NaN: neither a success nor a failure. */
  readonly unscored: number;
  /** The number of the `episodes` whose environment failed after the agent had acted: no successes. */
  readonly failed: number;
  /** The number of the `episodes` that succeeded (`succeeded`). */
  readonly successes: number;
  /** The mean of the `evaluatedReturns`; NaN if there are none, as where every episode was cut off. */
  readonly meanReward: number;
  /** The standard deviation of these returns (n − 1); 0 of a single one. */
  readonly rewardStd: number;
  /** The mean number of turns of all that were played. */
  readonly meanTurns: number;
  /**
   * Successes and episodes per task family (`familiesOf`). The name is `all` if the environment has no families, and
   * `unknown` for tasks whose family it has not told.
   */
  readonly families: Readonly<Record<string, { readonly successes: number; readonly episodes: number }>>;
  /** All episodes as they were played, in the order of the seeds. */
  readonly trajectories: readonly Trajectory[];
}

/**
 * Whether the agent did anything before its environment failed, if that failed. Otherwise the episode says nothing
 * about the agent and does not count. An environment that fails later may have been broken by the agent's actions, so
 * that counts as a failure: else an agent would gain by breaking its environment.
 */
export const wasPlayed = (episode: Trajectory): boolean => !hasFailed(episode) || turnCount(episode) > 0;

const KEYS = ["model", "template", "env", "envOptions", "rollout", "rng", "warn"] as const;
/** What `trainRl` takes by these names, and the seeds of the tasks. */
export interface EvaluateOptions<Own extends EnvironmentOptions = EnvironmentOptions> extends Pick<
  RlOptions<Own>,
  (typeof KEYS)[number]
> {
  readonly seeds: readonly number[];
}

/** Plays one episode for each seed. Give `split: "heldout"` in `envOptions` for unseen tasks. */
export async function evaluate<Own extends EnvironmentOptions>(settings: EvaluateOptions<Own>): Promise<Evaluation> {
  checkKeys("evaluate", settings, [...KEYS, "seeds"]);
  const { model, template, env: spec, envOptions: options, seeds, rng } = settings;
  checkPlayer("evaluate", settings);
  checkEnv("evaluate", spec);
  const isSeed = (n: unknown): boolean => Number.isSafeInteger(n) && (n as number) >= 0;
  const areSeeds: boolean = Array.isArray(seeds) && seeds.length > 0 && seeds.every(isSeed);
  check(
    areSeeds,
    () => `evaluate: seeds must be a list of integers ≥ 0, one for each episode, got ${showValue(seeds)}`,
  );
  const requests = seeds.map((seed, i) => ({ spec, options, seed, group: i, rng: rng.split(i) }));
  const played = await rollout(model, template, requests, settings.rollout);
  const broken = played.filter((episode) => hasFailed(episode) || !wasScored(episode));
  const { warn = console.warn } = settings;
  if (broken.length > 0)
    warn(
      `evaluate: ${broken.length} of ${played.length} episodes of ${spec.name} failed or have no score, the first by ` +
        `${hasFailed(broken[0]!) ? errorOf(broken[0]!) : "a reward of NaN"}; ` +
        "notPlayed, failed and unscored count them",
    );
  return evaluationOf(played);
}

/**
 * The returns by which an evaluation's episodes are judged: those of the environment. Episodes that were cut short
 * before it could judge them get the return that training gives them by default (`withTruncatedReward`), whatever
 * option a run trains with, so that runs can be compared. The sum of their step rewards would be a refund where turns
 * cost: an agent that babbles at once has paid nothing. If no episode came to an end, no return is known, and the list
 * is empty.
 * @param episodes those that have a score
 */
function evaluatedReturns(episodes: readonly Trajectory[]): readonly number[] {
  const isEnd = (t: Trajectory): boolean => !t.masked && (!isCutShort(t) || t.scoredAtEnd === true);
  if (!episodes.some(isEnd)) return episodes.some((t) => isCutShort(t)) ? [] : episodes.map(({ reward }) => reward);
  return withTruncatedReward(episodes).map(({ reward }) => reward);
}

/**
 * Whether an episode counts in an evaluation: it was played and scored, or broke its environment, which is a failure
 * whatever its rewards. A reward of NaN says neither that it succeeded nor that it failed.
 */
export const wasScored = (episode: Trajectory): boolean =>
  wasPlayed(episode) && (hasFailed(episode) || !Number.isNaN(episode.reward));

/** The results of these episodes. */
export function evaluationOf(trajectories: readonly Trajectory[]): Evaluation {
  const families = new Map<string, { successes: number; episodes: number }>(); // the names are the environment's
  const played = trajectories.filter(wasPlayed);
  const scored = trajectories.filter(wasScored);
  const names = familiesOf(trajectories);
  const rest = names.some((name) => name !== undefined) ? "unknown" : "all";
  for (const [i, episode] of trajectories.entries()) {
    if (!wasScored(episode)) continue;
    const name = names[i] ?? rest;
    const family = families.get(name) ?? { successes: 0, episodes: 0 };
    families.set(name, family);
    family.episodes++;
    if (succeeded(episode)) family.successes++;
  }
  const reward = moments(evaluatedReturns(scored.filter(({ reward }) => !Number.isNaN(reward))), 1);
  return {
    episodes: scored.length,
    notPlayed: trajectories.length - played.length,
    unscored: played.length - scored.length,
    failed: scored.filter(hasFailed).length,
    successes: scored.filter(succeeded).length,
    meanReward: reward.mean,
    rewardStd: reward.std,
    meanTurns: mean(played.map(turnCount)),
    families: Object.fromEntries(families),
    trajectories,
  };
}

/** The world-model loss of an episode: the sum of −lp over the environment's tokens, in nats, and their number. */
export interface WorldLoss {
  readonly nats: number;
  readonly tokens: number;
}

/** Mean of −lp over the world-model targets of episodes, in nats per token; NaN if there are none. */
export const meanWorldLoss = (losses: readonly WorldLoss[]): number =>
  losses.reduce((sum, { nats }) => sum + nats, 0) / losses.reduce((sum, { tokens }) => sum + tokens, 0);

/** Options of `worldModelLosses`. */
export interface WorldLossOptions {
  /** When it is aborted, the promise rejects. */
  readonly signal?: AbortSignal | undefined;
  /** The largest number of tokens in a micro-batch, padding included; default 8192. */
  readonly maxTokens?: number;
}

/** The world-model loss of the model on each of the given episodes. */
export async function worldModelLosses(
  model: Model,
  template: Template,
  trajectories: readonly Trajectory[],
  options: WorldLossOptions = {},
): Promise<WorldLoss[]> {
  const targets = trajectories.map((t) => observationTokens(t).targets);
  const rows = trajectories.map((trajectory) => rowOf(trajectory));
  const targetsOf = new Map(rows.map((row, i) => [row, targets[i]!]));
  const { logProbs } = await score(model, rows, {
    padId: template.padId,
    scored: (row, t) => targetsOf.get(row)![t]!,
    ...options,
  });
  return targets.map((row, i) => {
    const scored = row.flatMap((isTarget, t) => (isTarget ? [-logProbs[i]![t]!] : []));
    return { nats: scored.reduce((sum, nll) => sum + nll, 0), tokens: scored.length };
  });
}

/** Mean of −lp over the world-model targets of the given episodes, in nats per token. */
export const worldModelLoss = async (
  model: Model,
  template: Template,
  trajectories: readonly Trajectory[],
): Promise<number> => meanWorldLoss(await worldModelLosses(model, template, trajectories));
