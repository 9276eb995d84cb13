/** Detectors of wrong updates: episodes of a policy that is too old, and advantages that are not centred. */
import { formatNumber } from "../../run/figures/format.ts";
import { describe, type Finding, mean, type RunLog, series } from "./run.ts";

const DRIFT = "rollout_corr/k3_kl";
/**
 * KL(sampler ‖ learner) in nats per token. Runs that a clip or a correction keeps in check stay below 0.3 but for a few
 * steps, and near 0.05 on average; without either they reach several nats.
 */
const DRIFT_LIMIT = 0.3;
const MIN_DRIFT_STEPS = 4;

/**
 * The policy that learns has left the older one that played. Then the ratios of whole episodes vary so much that most
 * episodes weigh nearly nothing, or, without such weights, the gradient is another policy's.
 */
export function staleSampler(run: RunLog): Finding | null {
  const points = series(run, DRIFT);
  const far = points.filter(({ value }) => value > DRIFT_LIMIT);
  if (points.length < MIN_DRIFT_STEPS || far.length < points.length / 2) return null;
  const age = series(run, "async/staleness_max").map(({ value }) => value);
  const spread = series(run, "rollout_corr/chi2_seq").map(({ value }) => value);
  // E[ρ²] is at least 1; its estimate from a few episodes may fall below.
  const worth = spread.length > 0 ? 100 / Math.max(1, 1 + mean(spread)) : NaN;
  return {
    kind: "problem",
    step: far[0]!.step,
    evidence: [
      `KL of the policy that played to the one that learns ${formatNumber(mean(points.map(({ value }) => value)))} ` +
        `nats per token on average, above ${DRIFT_LIMIT} on ${far.length} of ${points.length} steps` +
        (age.length > 0 ? `; tokens are up to ${age.reduce((a, b) => Math.max(a, b))} steps old` : ""),
      ...(Number.isNaN(worth) ? [] : [`weighed by their ratios, 100 episodes are worth ${formatNumber(worth)}`]),
    ],
    change: [
      "a clip of the ratio (PPO), or truncated importance weights (--importance-correction tis)",
      "a smaller bound on the age of episodes (--max-staleness)",
      "a lower learning rate: the policy moves by as much between two steps",
    ],
  };
}

/** Least number of failed episodes in the transcripts to report. */
const MIN_FAILURES = 8;
const NEARLY_ALL = 0.9;

/**
 * Failures have a positive advantage, so whatever is sampled becomes likelier. Imitation of successes gives failures 0,
 * and a baseline makes them negative but where the rest of their group is even worse.
 */
export function uncentredAdvantages(run: RunLog): Finding | null {
  const failures = run.transcripts.flatMap((episode) => {
    const trained = episode.tokens.filter(({ wPolicy = 0 }) => wPolicy !== 0);
    if (episode.phase !== "rl" || episode.success || trained.length === 0) return [];
    return [{ episode, advantage: mean(trained.map(({ advantage = 0 }) => advantage)) }];
  });
  const praised = failures.filter(({ advantage }) => advantage > 0);
  if (failures.length < MIN_FAILURES || praised.length < NEARLY_ALL * failures.length) return null;
  const last = praised.at(-1)!;
  return {
    kind: "problem",
    step: praised[0]!.episode.step,
    evidence: [
      `${praised.length} of ${failures.length} failed episodes in the transcripts have a positive advantage, ` +
        `${formatNumber(mean(praised.map(({ advantage }) => advantage)))} on average: failures become likelier, too`,
      `advantage ${formatNumber(last.advantage)}: ${describe(last.episode)}`,
    ],
    change: [
      "subtract the mean reward of the group, or another baseline that no action changes (grpo, centred, rloo)",
      "a reward for each try, whatever it did, is a baseline in reverse: take it out, or subtract it",
    ],
  };
}
