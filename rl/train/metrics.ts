/**
 * What is reported of an update, under TRL's names. A metric that does not exist (no penalty, nothing sampled) is left out rather
 * than 0.
 */
import { mean, moments } from "../episode/groups.ts";
import type { Metrics } from "../episode/metrics.ts";
import { isAgentToken } from "../episode/stream.ts";
import { betaOf, type Objective, type StepPlan } from "../methods/objective.ts";
import type { PerToken } from "../methods/tokenStatistics.ts";
import type { UpdateResult } from "./loss.ts";

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
    ...imitationMetrics(plan, first),
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
          ...clipMetrics(plan, trained, objective, passes, oldLogProbs),
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
  const losses = plan.episodes.flatMap(({ trajectory, wWorld, wClipped }, i) =>
    [...wWorld].flatMap((w, t) => {
      const isTarget = !isAgentToken(trajectory.stream.roles[t]!) && (w !== 0 || (wClipped?.[t] ?? 0) !== 0);
      return isTarget ? [-logProbs[i]![t]!] : [];
    }),
  );
  const { weighted } = imitated(plan, logProbs);
  return losses.length === 0 ? {} : { world_loss: mean(losses), world_loss_weighted: worldLoss - weighted };
}

/** −lp of the agent's own tokens that are imitated, and the sum with their weights. */
function imitated(plan: StepPlan, logProbs: PerToken): { losses: number[]; weighted: number } {
  const terms = plan.episodes.flatMap(
    ({ trajectory, wWorld }, i) =>
    [...wWorld].flatMap((w, t) => (w !== 0 && isAgentToken(trajectory.stream.roles[t]!) ? [{ w, loss: -logProbs[i]![t]! }] : [])), // prettier-ignore
  );
  return { losses: terms.map(({ loss }) => loss), weighted: terms.reduce((sum, { w, loss }) => sum + w * loss, 0) };
}

/** `imitation_loss`: mean of −lp over the tokens of successful rollouts, in nats per token, whatever its weight is. */
function imitationMetrics(plan: StepPlan, { logProbs }: UpdateResult): Metrics {
  const { losses } = imitated(plan, logProbs);
  return losses.length === 0 ? {} : { imitation_loss: mean(losses) };
}

/**
 * `critic/vf_explained_var` (verl's name): 1 − Var(R − V)/Var(R) over the tokens with a target, V from before the update. 1 is a
 * perfect critic, 0 one that knows no more than the mean, below 0 a harmful one. Left out where all targets are equal.
 */
export function criticMetrics({ episodes }: StepPlan, values: PerToken): Metrics {
  const targets = episodes.flatMap(({ returns }, i) =>
    [...(returns ?? [])].flatMap((R, t) => (Number.isNaN(R) ? [] : [{ R, error: R - values[i]![t]! }])),
  );
  const variance = (of: readonly number[]): number => moments(of, 0).std ** 2;
  const total = variance(targets.map(({ R }) => R));
  return total > 0 ? { "critic/vf_explained_var": 1 - variance(targets.map(({ error }) => error)) / total } : {};
}

/**
 * Shares of trained tokens whose ratio the clip cut off: `low` below 1 − εl with A < 0, `high` above 1 + εh with A > 0. Where the
 * loss looks at a sequence's ratio, shares of sequences.
 */
function clipMetrics(
  plan: StepPlan,
  trained: readonly { readonly i: number; readonly t: number; readonly advantage: number }[],
  { policyLoss: { clip } }: Objective,
  passes: readonly UpdateResult[],
  oldLogProbs: PerToken | undefined,
): Metrics {
  if (clip === null) return {};
  const bySegment = (): (typeof trained)[] => {
    const segments = trained.map(({ i }) => plan.episodes[i]!.segment ?? i);
    return [...new Set(segments)].map((segment) => trained.filter((_, k) => segments[k] === segment));
  };
  const units = clip.level ? bySegment() : trained.map((token) => [token]);
  let [low, high] = [0, 0];
  for (const { logProbs } of passes) {
    for (const unit of units) {
      const moved = unit.map(({ i, t }) => (oldLogProbs ? logProbs[i]![t]! - oldLogProbs[i]![t]! : 0));
      const [ratio, { advantage }] = [Math.exp(mean(moved)), unit[0]!];
      low += Number(ratio < clip.low && advantage < 0);
      high += Number(ratio > clip.high && advantage > 0);
    }
  }
  const n = units.length * passes.length;
  return {
    "clip_ratio/low_mean": low / n,
    "clip_ratio/high_mean": high / n,
    "clip_ratio/region_mean": (low + high) / n,
  };
}

/**
 * What an update on preference pairs did, chosen and rejected rows alternating as `planPreference` lays them out. The reward of an
 * answer is β(lp − ref) summed over its tokens, whatever the loss makes of it.
 */
export function preferenceMetrics(plan: StepPlan, logProbs: PerToken, refLogProbs: PerToken, beta: number): Metrics {
  const sums = plan.episodes.map(({ mask }, i) => {
    const tokens = mask!.flatMap((own, t) => (own ? [t] : []));
    return {
      logp: tokens.reduce((sum, t) => sum + logProbs[i]![t]!, 0),
      reward: beta * tokens.reduce((sum, t) => sum + logProbs[i]![t]! - refLogProbs[i]![t]!, 0),
    };
  });
  const [chosen, rejected] = [sums.filter((_, i) => i % 2 === 0), sums.filter((_, i) => i % 2 === 1)];
  const margins = chosen.map(({ reward }, k) => reward - rejected[k]!.reward);
  return {
    "rewards/chosen": mean(chosen.map(({ reward }) => reward)),
    "rewards/rejected": mean(rejected.map(({ reward }) => reward)),
    "rewards/margins": mean(margins),
    "rewards/accuracies": mean(margins.map((margin) => Number(margin > 0))),
    "logps/chosen": mean(chosen.map(({ logp }) => logp)),
    "logps/rejected": mean(rejected.map(({ logp }) => logp)),
  };
}
