/**
 * What is reported of a training step, under TRL's names, so that dashboards and habits carry over. A metric that does not exist
 * (no failed call, nothing sampled) is left out rather than 0.
 */
import type { PerToken, UpdateResult } from "./learner.ts";
import { betaOf, type Objective, type StepPlan } from "./objective.ts";
import { isAgentToken, rolloutRows, sampledCount, type Trajectory, turnCount } from "./stream.ts";

export type Metrics = Record<string, number>;

const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;

/** Outcomes of a batch of episodes, counted per rollout: a rewritten history does not make two of one. */
export function rolloutMetrics(trajectories: readonly Trajectory[]): Metrics {
  const rollouts = rolloutRows(trajectories).map((rows) => rows.map((row) => trajectories[row]!));
  const kept = rollouts.filter((rows) => !rows.some((t) => t.masked));
  const counted = kept.map((rows) => rows[0]!);
  const rewards = counted.map((t) => t.reward).filter((r) => !Number.isNaN(r));
  const lengths = kept.map((rows) => rows.reduce((n, t) => n + sampledCount(t), 0));
  const tokens = trajectories.map((t) => t.stream.ids.length);
  const calls = counted.reduce((n, t) => n + t.stepRewards.length, 0);
  const average = rewards.length > 0 ? mean(rewards) : NaN;
  // Environments that count their failed calls say so in `toolErrors`.
  const failures = counted.map((t) => (t.stepRewards.length > 0 ? Number(t.info["toolErrors"]) : 0));
  const environments = [...new Set(counted.map((t) => t.env))].map((name): [string, number] => {
    const ofEnv = counted.filter((t) => t.env === name && !Number.isNaN(t.reward)).map((t) => t.reward);
    return [`rewards/${name}/mean`, mean(ofEnv)];
  });
  const metrics: Metrics = {
    reward: average,
    reward_std: Math.sqrt(mean(rewards.map((r) => (r - average) ** 2))),
    success: mean(counted.map((t) => Number(t.info["success"] === true))),
    "completions/mean_length": mean(lengths),
    "completions/min_length": Math.min(...lengths),
    "completions/max_length": Math.max(...lengths),
    "completions/clipped_ratio": mean(counted.map((t) => Number(t.stopReason !== "completed"))),
    ...Object.fromEntries(environments),
    "tools/call_frequency": calls / counted.length,
    "tools/failure_frequency": failures.reduce((a, b) => a + b, 0) / calls,
    "num_turns/mean": mean(kept.map((rows) => rows.reduce((n, t) => n + turnCount(t), 0))),
    masked: rollouts.length - kept.length,
    num_tokens: tokens.reduce((a, b) => a + b, 0),
  };
  return Object.fromEntries(Object.entries(metrics).filter(([, value]) => Number.isFinite(value)));
}

/**
 * What an update did: losses, entropy of the agent's tokens, clipping, and how far the sampler was from the trainer.
 * @param passes one result per pass over the episodes. Clipping is the mean over them; the rest is of the first, in which the
 *   policy is still the one that played.
 * @param oldLogProbs what the ratios referred to; without it every pass was exactly on-policy, with ratios of 1
 */
export function updateMetrics(
  plan: StepPlan,
  objective: Objective,
  passes: readonly UpdateResult[],
  oldLogProbs?: PerToken,
): Metrics {
  const first = passes[0]!;
  const trained = plan.episodes.flatMap(({ trajectory, wPolicy, mask, advantages }, i) => {
    const { roles, oldLogProbs: sampled } = trajectory.stream;
    return roles.flatMap((role, t) =>
      (mask?.[t] ?? wPolicy[t] !== 0) && isAgentToken(role)
        ? [{ i, t, sampled: sampled[t]!, advantage: advantages[t]! }]
        : [],
    );
  });
  const differences = trained.map(({ i, t, sampled }) => first.logProbs[i]![t]! - sampled);
  const ratios = differences.map(Math.exp);
  const absolute = differences.map(Math.abs);
  return {
    policy_loss: first.policyLoss,
    ...worldMetrics(plan, first),
    loss: first.policyLoss + first.worldLoss + first.klLoss + (first.entropyLoss ?? 0) + (first.valueLoss ?? 0),
    ...(first.entropyLoss === undefined ? {} : { entropy_loss: first.entropyLoss }),
    ...(first.valueLoss === undefined ? {} : { value_loss: first.valueLoss }),
    grad_norm: first.gradNorm,
    frac_reward_zero_std: plan.fracRewardZeroStd,
    ...klMetrics(plan, objective, first),
    ...(trained.length > 0
      ? {
          entropy: mean(trained.map(({ i, t }) => first.entropy[i]![t]!)),
          "sampling/sampling_logp_difference/mean": mean(absolute),
          "sampling/sampling_logp_difference/max": absolute.reduce((a, b) => Math.max(a, b)),
          "sampling/importance_sampling_ratio/min": ratios.reduce((a, b) => Math.min(a, b)),
          "sampling/importance_sampling_ratio/mean": mean(ratios),
          "sampling/importance_sampling_ratio/max": ratios.reduce((a, b) => Math.max(a, b)),
          ...clipMetrics(trained, objective, passes, oldLogProbs),
        }
      : {}),
  };
}

/** `kl`: the penalty before its coefficient, in the loss as it is aggregated there, in the reward per token. */
function klMetrics(plan: StepPlan, objective: Objective, { klLoss }: UpdateResult): Metrics {
  if (!objective.kl) return {};
  const beta = betaOf(objective);
  const kl = plan.kl ?? (beta > 0 ? klLoss / beta : 0);
  return { kl, ...(typeof objective.kl.beta === "number" ? {} : { kl_beta: beta }) };
}

/**
 * `world_loss`: mean of −lp over the targets of the world objective, in nats per token, whatever λ is; `world_loss_weighted`: its
 * share of the loss. Both are left out if nothing was a target.
 */
function worldMetrics(plan: StepPlan, { logProbs, worldLoss }: UpdateResult): Metrics {
  const losses = plan.episodes.flatMap(({ wWorld, wClipped }, i) =>
    [...wWorld].flatMap((w, t) => (w === 0 && (wClipped?.[t] ?? 0) === 0 ? [] : [-logProbs[i]![t]!])),
  );
  return losses.length === 0 ? {} : { world_loss: mean(losses), world_loss_weighted: worldLoss };
}

/** Shares of trained tokens whose ratio the clip cut off: `low` below 1 − εl with A < 0, `high` above 1 + εh with A > 0. */
function clipMetrics(
  trained: readonly { readonly i: number; readonly t: number; readonly advantage: number }[],
  { policyLoss: { clip } }: Objective,
  passes: readonly UpdateResult[],
  oldLogProbs: PerToken | undefined,
): Metrics {
  if (clip === null) return {};
  let [low, high] = [0, 0];
  for (const { logProbs } of passes) {
    for (const { i, t, advantage } of trained) {
      const ratio = oldLogProbs ? Math.exp(logProbs[i]![t]! - oldLogProbs[i]![t]!) : 1;
      low += Number(ratio < clip.low && advantage < 0);
      high += Number(ratio > clip.high && advantage > 0);
    }
  }
  const n = trained.length * passes.length;
  return {
    "clip_ratio/low_mean": low / n,
    "clip_ratio/high_mean": high / n,
    "clip_ratio/region_mean": (low + high) / n,
  };
}
