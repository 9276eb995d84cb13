/**
 * The metrics of a batch of episodes, under TRL's names, so that existing dashboards work. A metric that is undefined
 * for a batch (because nothing was called or sampled) is left out; it is not 0.
 */
import { mean, moments } from "./groups.ts";
import { succeeded } from "./outcomes.ts";
import { isAgentToken, isTruncated, rolloutRows, sampledCount, type Trajectory, turnCount } from "./stream.ts";

/** Metrics by name. */
export type Metrics = Record<string, number>;

/**
 * The outcomes of a batch of episodes. Rollouts are counted, not rows: a rollout whose history was rewritten has
 * several rows and counts once. `masked` and `unscored` (their reward is NaN) count the rollouts that `reward`,
 * `reward_std` and `success` leave out; lengths, turns and calls leave out those that are masked. `reward` is the mean
 * of the returns that are trained on: after `truncatedReward` has replaced those of episodes that were cut short, and a
 * `reward` function those of all.
 */
export function rolloutMetrics(trajectories: readonly Trajectory[]): Metrics {
  const rollouts = rolloutRows(trajectories).map((rows) => rows.map((row) => trajectories[row]!));
  const kept = rollouts.filter((rows) => !rows.some((t) => t.masked));
  const counted = kept.map((rows) => rows[0]!);
  const scored = counted.filter((t) => !Number.isNaN(t.reward));
  const rewards = scored.map((t) => t.reward);
  const lengths = kept.map((rows) => rows.reduce((n, t) => n + sampledCount(t), 0));
  const thoughts = kept.map((rows) => rows.flatMap((t) => t.stream.roles.filter((role) => role === "thought")).length);
  const tokens = trajectories.map((t) => t.stream.ids.length);
  const calls = counted.reduce((n, t) => n + t.stepRewards.length, 0);
  const average = rewards.length > 0 ? mean(rewards) : NaN;
  // Environments that count their failed calls say so in `toolErrors`.
  const failures = counted.map((t) => (t.stepRewards.length > 0 ? Number(t.info["toolErrors"]) : 0));
  const environments = [...new Set(counted.map((t) => t.env))].map((name): [string, number] => {
    const ofEnv = counted.filter((t) => t.env === name && !Number.isNaN(t.reward)).map((t) => t.reward);
    return [`rewards/${name}/mean`, mean(ofEnv)];
  });
  const compared = counted.filter((t) => t.greedyReward !== undefined);
  const withoutBaseline = compared.filter((t) => Number.isNaN(t.greedyReward));
  const names = [...new Set(counted.flatMap((t) => Object.keys(t.rewardParts ?? {})))];
  const parts = names.map((name): [string, number] => {
    const scores = counted.map((t) => t.rewardParts?.[name] ?? NaN).filter((r) => !Number.isNaN(r));
    return [`rewards/${name}/mean`, mean(scores)];
  });
  const metrics: Metrics = {
    reward: average,
    reward_std: rewards.length > 0 ? moments(rewards, 1).std : NaN,
    success: mean(scored.map((t) => Number(succeeded(t)))),
    "completions/mean_length": mean(lengths),
    ...(thoughts.some((n) => n > 0) ? { "completions/mean_thought_length": mean(thoughts) } : {}),
    "completions/min_length": Math.min(...lengths),
    "completions/max_length": Math.max(...lengths),
    "completions/clipped_ratio": mean(kept.map((rows) => Number(rows.some(isCutOff)))),
    "num_turns/clipped_ratio": mean(counted.map((t) => Number(t.stopReason === "max_turns"))),
    "context/clipped_ratio": mean(counted.map((t) => Number(t.stopReason === "context_overflow"))),
    ...Object.fromEntries([...environments, ...parts]),
    "tools/call_frequency": calls / counted.length,
    "tools/failure_frequency": failures.reduce((a, b) => a + b, 0) / calls,
    ...falseCalls(counted),
    "num_turns/mean": mean(kept.map((rows) => rows.reduce((n, t) => n + turnCount(t), 0))),
    masked: rollouts.length - kept.length,
    unscored: counted.length - scored.length,
    // The number of groups without a ReMax baseline, because their greedy rollout failed.
    ...(compared.length > 0 ? { "remax/failed_baselines": new Set(withoutBaseline.map((t) => t.group)).size } : {}),
    step_tokens: tokens.reduce((a, b) => a + b, 0),
  };
  return Object.fromEntries(Object.entries(metrics).filter(([, value]) => Number.isFinite(value)));
}

/**
 * Whether the last action has no end token: it ran out of tokens before the environment saw it (TRL's
 * `completions/clipped_ratio`). An episode that ends because an answer does not fit, or no turn is left, has ended its
 * last action.
 */
function isCutOff(episode: Trajectory): boolean {
  const { roles, turns } = episode.stream;
  const last = roles.findLastIndex(isAgentToken);
  return isTruncated(episode) && last >= 0 && turns[last]! >= episode.stepRewards.length;
}

/**
 * `tools/false_call_frequency`: among the episodes that wanted a plain answer, and say so in `falseCalls`, the share
 * with a call; left out where there are none (Agent-FLAN's hallucinated calls, arXiv 2403.12881).
 */
export function falseCalls(trajectories: readonly Trajectory[]): Metrics {
  const counts = trajectories.map(({ info }) => info["falseCalls"]).filter((n) => typeof n === "number");
  return counts.length === 0 ? {} : { "tools/false_call_frequency": mean(counts.map((n) => Number(n > 0))) };
}
