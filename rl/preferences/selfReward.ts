/**
 * Iterative self-rewarding preference optimisation, after Yuan et al. 2024 (arXiv 2401.10020): the current policy plays several episodes of
 * each task, judges score them, the best and the worst become a pair unless they are equal, DPO learns from the pairs against the
 * policy that played, and the next iteration begins. One of the judges may be the policy itself.
 *
 * In a world that has an outcome, a judge can be wrong. Every report therefore says how often the judges agree with the truth, if it is
 * known, and after learning the new policy plays the old one twice over: before the judges and before the truth. What the first
 * win rate has over the second, `hacking/gap`, is what was learnt of the judges and not of the task.
 *
 * Not the paper's: IPO with imitation in the place of plain DPO, which lowers both answers of a pair until a weak policy has
 * forgotten both (why: loop.ts; `policyLoss: dpo(), imitation: 0` is the paper's); no prompts are invented, no judgements are trained on, and the ensemble stands in the place of the mean of three
 * sampled judgements.
 */
import { check } from "../../engine/errors.ts";
import { checkKeys } from "../../engine/options.ts";
import type { Rng } from "../../engine/index.ts";
import { groupBy } from "../episode/groups.ts";
import type { EnvironmentOptions, EnvironmentSpec } from "../../environments/index.ts";
import type { EpisodeRequest } from "../play/episode.ts";
import { ENSEMBLES, type EnsembleChoice, type EpisodeJudge, judgeEpisodes, judgeMetrics } from "./judges.ts";
import { type Metrics, rolloutMetrics } from "../episode/metrics.ts";
import type { PreferencePair } from "../train/supervised.ts";
import { iteratePreferences, type IterationReport, LOOP_KEYS, pairUp, type Pairing, PAIRINGS, type PreferenceLoopOptions } from "./loop.ts"; // prettier-ignore
import { rollout, type RolloutOptions } from "../play/rollout.ts";
import { policyMask, type Trajectory } from "../episode/stream.ts";

export interface SelfRewardOptions extends PreferenceLoopOptions, EnsembleChoice {
  readonly env: EnvironmentSpec;
  readonly envOptions: EnvironmentOptions;
  /** Tasks in an iteration, and episodes of each. */
  readonly groups: number;
  readonly groupSize: number;
  readonly rollout: RolloutOptions;
  readonly judges: readonly EpisodeJudge[];
  /** Least difference of the ensemble's scores in a pair, exclusive; default 0: equal scores make no pair. */
  readonly margin?: number;
  /** The `best-worst` of a group (the paper's), or `all` its pairs; default `best-worst`. */
  readonly pairing?: Pairing;
  /** What an episode is truly worth, for metrics only; NaN if that is not known. Default: the environment's return. */
  readonly truth?: (episode: Trajectory) => number;
  /** Tasks that the new policy and the one before are compared on after each iteration; default 16, 0 for none. */
  readonly comparisons?: number;
}
const SELF_REWARD_KEYS: readonly string[] = [...LOOP_KEYS, "env", "envOptions", "groups", "groupSize", "rollout", "judges", "ensemble", "quorum", "margin", "pairing", "truth", "comparisons"]; // prettier-ignore

export interface SelfRewardReport extends IterationReport {
  readonly episodes: readonly Trajectory[];
}

/** One report an iteration. @throws on options that make no sense */
export async function* trainSelfRewarding(options: SelfRewardOptions): AsyncGenerator<SelfRewardReport, void, void> {
  const { model, template, groups, groupSize, judges, ensemble = "majority", quorum, comparisons = 16 } = options;
  const { truth = ({ reward }: Trajectory): number => reward, rollout: sampling } = options;
  checkOptions(options);
  const choice: EnsembleChoice = { ensemble, ...(quorum === undefined ? {} : { quorum }) };
  const { signal } = sampling;
  let episodes: readonly Trajectory[] = [];
  const loop = iteratePreferences("trainSelfRewarding", options, {
    async gather(_, rng) {
      episodes = await rollout(model, template, requestsOf(options, rng, groups, groupSize), sampling);
      if (signal?.aborted) return { pairs: [], metrics: {}, aborted: true };
      const judgement = await judgeEpisodes(judges, episodes, { model, template, signal }, choice);
      const values = episodes.map((episode) => (episode.masked ? NaN : truth(episode)));
      const found = judgedPairs(episodes, judgement.scores, options);
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
      // The same tasks and the same random numbers for both; the judges are those that made the pairs.
      const requests = requestsOf(options, rng, comparisons, 1);
      const [now, before] = [await rollout(model, template, requests, sampling), await rollout(previous, template, requests, sampling)]; // prettier-ignore
      if (signal?.aborted) return {};
      const both = [...now, ...before];
      const { scores } = await judgeEpisodes(judges, both, { model: previous, template, signal }, choice);
      return gapMetrics(scores, both.map((episode) => (episode.masked ? NaN : truth(episode)))); // prettier-ignore
    },
  });
  for await (const report of loop) yield { ...report, episodes };
}

function checkOptions(options: SelfRewardOptions): void {
  checkKeys("trainSelfRewarding", options, SELF_REWARD_KEYS);
  const { groups, groupSize, judges, ensemble = "majority", quorum, margin = 0, pairing = "best-worst", comparisons = 16 } = options; // prettier-ignore
  check(judges.length > 0, () => "trainSelfRewarding: expected at least one judge, got none");
  const names = judges.map(({ name }) => name);
  check(new Set(names).size === names.length, () => `trainSelfRewarding: judges need different names, got ${names.join(", ")}`); // prettier-ignore
  check(
    Number.isInteger(groups) && groups >= 1,
    () => `trainSelfRewarding: groups must be an integer ≥ 1, got ${groups}`,
  );
  check(Number.isInteger(groupSize) && groupSize >= 2, () => `trainSelfRewarding: a pair needs groups of at least 2, got groupSize ${groupSize}`); // prettier-ignore
  check(ENSEMBLES.includes(ensemble), () => `trainSelfRewarding: ensemble must be one of ${ENSEMBLES.join(", ")}, got "${String(ensemble)}"`); // prettier-ignore
  check(quorum === undefined || (Number.isInteger(quorum) && quorum >= 1 && quorum <= judges.length), () => `trainSelfRewarding: quorum must be an integer in [1, ${judges.length}], the number of judges, got ${quorum}`); // prettier-ignore
  check(margin >= 0, () => `trainSelfRewarding: margin must be ≥ 0, got ${margin}`);
  check(PAIRINGS.includes(pairing), () => `trainSelfRewarding: pairing must be one of ${PAIRINGS.join(", ")}, got "${String(pairing)}"`); // prettier-ignore
  check(Number.isInteger(comparisons) && comparisons >= 0, () => `trainSelfRewarding: comparisons must be an integer ≥ 0, got ${comparisons}`); // prettier-ignore
}

/** Tasks from the stream, each `size` times. */
function requestsOf({ env, envOptions }: SelfRewardOptions, rng: Rng, groups: number, size: number): EpisodeRequest[] {
  return Array.from({ length: groups }, (_, group) => {
    const seed = rng.split("task").split(group).int(2 ** 31); // prettier-ignore
    return Array.from({ length: size }, (_member, k) => {
      return { spec: env, options: envOptions, seed, group, rng: rng.split("episode").split(group * size + k) };
    });
  }).flat();
}

/** The pairs of each group; episodes in which the agent wrote the same are no pair, and what was not scored is in none. */
export function judgedPairs(
  episodes: readonly Trajectory[],
  scores: readonly number[],
  { margin = 0, pairing = "best-worst" }: Pick<SelfRewardOptions, "margin" | "pairing"> = {},
): PreferencePair[] {
  const scored = episodes.flatMap((episode, i) => (episode.masked || Number.isNaN(scores[i]) || ownTokens(episode) === "" ? [] : [{ episode, score: scores[i]! }])); // prettier-ignore
  return groupBy(scored, ({ episode }) => episode.group).flatMap((members) => {
    const ranked = members.toSorted((a, b) => b.score - a.score);
    return pairUp(ranked, pairing)
      .filter(([a, b]) => a.score - b.score > margin && ownTokens(a.episode) !== ownTokens(b.episode))
      .map(([a, b]) => ({ chosen: a.episode, rejected: b.episode }));
  });
}

/** What the agent wrote, as a key. */
function ownTokens(episode: Trajectory): string {
  const mask = policyMask(episode);
  return episode.stream.ids.filter((_, t) => mask[t]).join();
}

/** Win rates of the first half of the episodes against the second, ties half: before the judges, in truth, and the difference. */
function gapMetrics(scores: readonly number[], truth: readonly number[]): Metrics {
  const byJudges = winRate(scores);
  const inTruth = winRate(truth);
  return {
    ...(byJudges === undefined ? {} : { "win_rate/judges": byJudges }),
    ...(inTruth === undefined ? {} : { "win_rate/truth": inTruth }),
    ...(byJudges === undefined || inTruth === undefined ? {} : { "hacking/gap": byJudges - inTruth }),
  };
}

function winRate(values: readonly number[]): number | undefined {
  const half = values.length / 2;
  const outcomes = values.slice(0, half).flatMap((value, i) => {
    const other = values[half + i]!;
    return Number.isNaN(value) || Number.isNaN(other) ? [] : [(Math.sign(value - other) + 1) / 2];
  });
  return outcomes.length === 0 ? undefined : outcomes.reduce((a, b) => a + b, 0) / outcomes.length;
}
