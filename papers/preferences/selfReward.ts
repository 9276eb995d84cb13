/**
 * Iterative self-rewarding preference optimisation, after Yuan et al. 2024 (arXiv 2401.10020): in each iteration the
 * current policy plays several episodes of each task, judges score them, the best and the worst episode become a pair
 * unless their scores are equal, and a preference loss learns from the pairs with the policy that played as the
 * reference. One of the judges may be the policy itself.
 *
 * Judges can be wrong about an environment's outcome. Every report therefore says how often they agree with the truth,
 * if it is known. After learning, the new policy is compared with the old one on some tasks, by the judges and by the
 * truth. The first win rate minus the second, `hacking/gap`, measures how much the policy learnt to please the judges
 * instead of solving the task.
 *
 * Differs from the paper: the default is IPO with imitation instead of plain DPO, which lowers both answers of a pair
 * until a weak policy has forgotten both (loop.ts explains why; for the paper's loss set `policyLoss: dpo(), imitation:
 * 0`). No prompts are invented, no judgements are trained on, and an ensemble of judges replaces the mean of three
 * sampled judgements.
 */
import { check } from "../../engine/errors.ts";
import { checkKeys } from "../../engine/options.ts";
import { number, oneOf, options, type OptionsOf, REQUIRED } from "../../engine/optionTable.ts";
import type { Rng } from "../../engine/index.ts";
import { groupBy } from "../../rl/episode/groups.ts";
import type { EnvironmentOptions, EnvironmentSpec } from "../../rl/environment.ts";
import type { EpisodeRequest } from "../../rl/play/episode.ts";
import { ENSEMBLE, type EpisodeJudge, judgeEpisodes, judgeMetrics } from "./judges.ts";
import { type Metrics, rolloutMetrics } from "../../rl/episode/metrics.ts";
import type { PreferencePair } from "../../methods/preference.ts";
import {
  iteratePreferences,
  type IterationReport,
  LOOP_KEYS,
  pairUp,
  PAIRINGS,
  type PreferenceLoopOptions,
} from "./loop.ts";
import { COUNT, rollout, type RolloutOptions } from "../../rl/play/rollout.ts";
import { policyMask, type Trajectory } from "../../rl/episode/stream.ts";
import { withTruncatedReward } from "../../rl/tasks/truncated.ts";

const JUDGED_PAIRS = options("judgedPairs", {
  margin: number(0, "difference of scores that a pair must exceed", { min: 0 }),
  pairing: oneOf(PAIRINGS, "best-worst", "whether all pairs count, or only the best with the worst"),
});
const SELF_REWARD = options("trainSelfRewarding", {
  groups: number(REQUIRED, "tasks in an iteration", COUNT),
  groupSize: number(REQUIRED, "episodes of each task", { integer: true, min: 2 }),
  comparisons: number(16, "tasks that compare the new policy with the old one; 0: none", {
    integer: true,
    min: 0,
  }),
  ...ENSEMBLE.fields,
  ...JUDGED_PAIRS.fields,
});

/**
 * Options of `trainSelfRewarding`: the tasks that each iteration plays, the judges and how their scores make pairs, and
 * the training on the pairs (`PreferenceLoopOptions`).
 */
export interface SelfRewardOptions extends PreferenceLoopOptions, OptionsOf<typeof SELF_REWARD> {
  readonly env: EnvironmentSpec;
  readonly envOptions: EnvironmentOptions;
  readonly rollout: RolloutOptions;
  readonly judges: readonly EpisodeJudge[];
  /** The true value of an episode, for metrics only; NaN if it is not known. Default: the environment's return. */
  readonly truth?: (episode: Trajectory) => number;
}
const MAX_SEED = 2 ** 31;
const SELF_REWARD_KEYS = [
  ...LOOP_KEYS,
  "env",
  "envOptions",
  "groups",
  "groupSize",
  "rollout",
  "judges",
  "ensemble",
  "quorum",
  "margin",
  "pairing",
  "truth",
  "comparisons",
] as const;

/**
 * Report of `trainSelfRewarding` after an iteration: its pairs, its metrics and all episodes that were judged for
 * pairs.
 */
export interface SelfRewardReport extends IterationReport {
  readonly episodes: readonly Trajectory[];
}

/** Trains with one report per iteration. @throws on invalid options */
export async function* trainSelfRewarding(options: SelfRewardOptions): AsyncGenerator<SelfRewardReport, void, void> {
  const { groups, groupSize, comparisons, ensemble, quorum, margin, pairing } = settle(options);
  const { model, template, judges, truth = ({ reward }: Trajectory): number => reward, rollout: sampling } = options;
  const choice = { ensemble, quorum };
  const { signal } = sampling;
  let episodes: readonly Trajectory[] = [];
  const loop = iteratePreferences("trainSelfRewarding", options, {
    async gather(_, rng) {
      const played = await rollout(model, template, requestsOf(options, rng, groups, groupSize), sampling);
      episodes = withTruncatedReward(played); // a judge that reads returns must not prefer what was cut off
      if (signal?.aborted) return { pairs: [], metrics: {}, aborted: true };
      const judgement = await judgeEpisodes(judges, episodes, { model, template, signal }, choice);
      const values = episodes.map((episode) => (episode.masked ? NaN : truth(episode)));
      const found = judgedPairs(episodes, judgement.scores, { margin, pairing });
      const right = found.filter(({ chosen, rejected }) => truth(chosen) > truth(rejected)).length;
      const wrong = found.filter(({ chosen, rejected }) => truth(chosen) < truth(rejected)).length;
      const metrics = {
        ...rolloutMetrics(episodes),
        ...judgeMetrics(judges, episodes, judgement, values),
        ...(right + wrong > 0 ? { "pairs/accuracy": right / (right + wrong) } : {}),
        "pairs/frac_groups_without": 1 - new Set(found.map(({ chosen }) => chosen.group)).size / groups,
      };
      return { pairs: found, metrics };
    },
    async compare(previous, rng) {
      if (comparisons === 0 || signal?.aborted) return {};
      // Both policies play the same tasks with the same random numbers. The judges use the old policy, as for the
      // pairs.
      const requests = requestsOf(options, rng, comparisons, 1);
      const now = await rollout(model, template, requests, sampling);
      const before = await rollout(previous, template, requests, sampling);
      if (signal?.aborted) return {};
      const both = withTruncatedReward([...now, ...before]);
      const { scores } = await judgeEpisodes(judges, both, { model: previous, template, signal }, choice);
      const truths = both.map((episode) => (episode.masked ? NaN : truth(episode)));
      return gapMetrics(scores, truths);
    },
  });
  for await (const report of loop) yield { ...report, episodes };
}

/** Fills in the defaults. @throws on invalid options */
function settle(options: SelfRewardOptions): ReturnType<typeof SELF_REWARD.read> {
  checkKeys("trainSelfRewarding", options, SELF_REWARD_KEYS);
  const { judges, groups, groupSize, comparisons, ensemble, quorum, margin, pairing } = options;
  const settled = SELF_REWARD.read({ groups, groupSize, comparisons, ensemble, quorum, margin, pairing });
  check(judges.length > 0, () => "trainSelfRewarding: expected at least one judge, got none");
  const names = judges.map(({ name }) => name);
  check(
    new Set(names).size === names.length,
    () => `trainSelfRewarding: judges need different names, got ${names.join(", ")}`,
  );
  check(
    quorum === undefined || quorum <= judges.length,
    () => `trainSelfRewarding: quorum must be an integer in [1, ${judges.length}], the number of judges, got ${quorum}`,
  );
  return settled;
}

/** The requests for `groups` tasks drawn from `rng`, each `size` times. */
function requestsOf({ env, envOptions }: SelfRewardOptions, rng: Rng, groups: number, size: number): EpisodeRequest[] {
  return Array.from({ length: groups }, (_, group) => {
    const seed = rng.split("task").split(group).int(MAX_SEED);
    return Array.from({ length: size }, (_member, k) => {
      return { spec: env, options: envOptions, seed, group, rng: rng.split("episode").split(group * size + k) };
    });
  }).flat();
}

/**
 * The pairs of each group. Two episodes in which the agent wrote the same tokens make no pair, and neither do episodes
 * without a score.
 */
export function judgedPairs(
  episodes: readonly Trajectory[],
  scores: readonly number[],
  given?: OptionsOf<typeof JUDGED_PAIRS>,
): PreferencePair[] {
  const { margin, pairing } = JUDGED_PAIRS.read(given);
  const scored = episodes.flatMap((episode, i) => {
    const isUsable = !episode.masked && !Number.isNaN(scores[i]) && ownTokens(episode) !== "";
    return isUsable ? [{ episode, score: scores[i]! }] : [];
  });
  return groupBy(scored, ({ episode }) => episode.group).flatMap((members) => {
    const ranked = members.toSorted((a, b) => b.score - a.score);
    return pairUp(ranked, pairing)
      .filter(([a, b]) => a.score - b.score > margin && ownTokens(a.episode) !== ownTokens(b.episode))
      .map(([a, b]) => ({ chosen: a.episode, rejected: b.episode }));
  });
}

/** A key for the tokens that the agent wrote. */
function ownTokens(episode: Trajectory): string {
  const mask = policyMask(episode);
  return episode.stream.ids.filter((_, t) => mask[t]).join();
}

/**
 * The win rates of the first half of the episodes against the second half, by the judges and by the truth, and their
 * difference; a tie counts one half.
 */
function gapMetrics(scores: readonly number[], truth: readonly number[]): Metrics {
  const byJudges = winRate(scores);
  const inTruth = winRate(truth);
  return {
    ...(byJudges === undefined ? {} : { "win_rate/judges": byJudges }),
    ...(inTruth === undefined ? {} : { "win_rate/truth": inTruth }),
    ...(byJudges === undefined || inTruth === undefined ? {} : { "hacking/gap": byJudges - inTruth }),
  };
}

/** The win rate of the first half of the values against the second half; undefined if no two can be compared. */
function winRate(values: readonly number[]): number | undefined {
  const half = values.length / 2;
  const outcomes = values.slice(0, half).flatMap((value, i) => {
    const other = values[half + i]!;
    return Number.isNaN(value) || Number.isNaN(other) ? [] : [(Math.sign(value - other) + 1) / 2];
  });
  return outcomes.length === 0 ? undefined : outcomes.reduce((a, b) => a + b, 0) / outcomes.length;
}
