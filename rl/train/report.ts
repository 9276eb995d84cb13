/**
 * The report of a step, under TRL's names. A metric that does not exist (no penalty, nothing sampled) is left out
 * rather than 0.
 */
import type { Tensor } from "../../engine/index.ts";
import { mean, moments } from "../episode/groups.ts";
import { type Metrics, rolloutMetrics } from "../episode/metrics.ts";
import { isAgentToken, type Trajectory } from "../episode/stream.ts";
import type { TokenRow } from "../objective/columns.ts";
import { betaOf, type Objective, worldsOf } from "../objective/objective.ts";
import type { PerToken, TokenStatistics } from "../objective/tokenStatistics.ts";
import type { StepAdvantages } from "./advantages.ts";
import type { BatchLoss } from "./loss.ts";
import { type Ratios, scatter, type Scores, unscored } from "./score.ts";
import type { Part } from "./update.ts";

/** One finished step. `metrics` are complete; the rest is for transcripts and studies. */
export interface StepReport {
  readonly step: number;
  readonly metrics: Metrics;
  /** The episodes, with the columns that the loss read. */
  readonly rows: readonly TokenRow[];
  readonly scores: Scores;
  /** The log-probabilities that ratios refer to, and the token statistics from before the update; only of RL steps. */
  readonly ratios?: Ratios;
  readonly statistics?: TokenStatistics;
}

/** The result of one pass over the rows, and the scores of its forward pass. */
export interface PassResult extends Scores {
  /** The terms of the loss by name, summed over the micro-batches: `policy`, `world`, and any others. */
  readonly terms: Readonly<Record<string, number>>;
  /** The norm of the gradient before clipping. NaN or infinite: the step was skipped, parameters are as they were. */
  readonly gradNorm: number;
}

/** The facts of a step of reinforcement learning, from which it is reported. */
export interface StepFacts {
  readonly objective: Objective;
  readonly trajectories: readonly Trajectory[];
  /** The episodes whose outcomes are reported. */
  readonly own: readonly Trajectory[];
  /** The metrics of playing. */
  readonly metrics: Metrics;
  readonly statistics: TokenStatistics;
  readonly advantages: StepAdvantages;
  /** The rows of the trajectories, and behind them those of imitated episodes. */
  readonly rows: readonly TokenRow[];
  readonly ratios: Ratios;
  readonly measured: Metrics;
  /** The passes; none if there was nothing to train. */
  readonly passes: readonly PassResult[];
  readonly learningRate: number;
}

export function reportOf(step: number, facts: StepFacts): StepReport {
  const { objective, trajectories, own, statistics, advantages, ratios, passes } = facts;
  const rows = facts.rows.slice(0, trajectories.length);
  const trained = (): Metrics => ({
    ...updateMetrics(facts.rows, objective, passes, advantages, ratios),
    ...objective.importanceCorrection?.metrics?.(trajectories, statistics),
    ...(statistics.values ? criticMetrics(rows, statistics.values) : {}),
    ...facts.measured,
    learning_rate: facts.learningRate,
    ...(typeof objective.entropy === "object" ? { entropy_coef: objective.entropy.coefficient } : {}),
  });
  const metrics: Metrics = {
    ...rolloutMetrics(trajectories),
    ...(passes.length > 0 ? trained() : { frac_reward_zero_std: advantages.fracRewardZeroStd }),
    ...(own.length < trajectories.length ? rolloutMetrics(own) : {}),
    ...facts.metrics,
  };
  const scores = passes[0] ?? { logProbs: unscored(rows), entropy: unscored(rows) };
  return { step, metrics, rows, scores, ratios, statistics };
}

/** The loss: the sum of its terms. */
export const lossIn = ({ terms }: PassResult): number => Object.values(terms).reduce((sum, term) => sum + term, 0);

/** Reads the results of a pass's micro-batches, and frees them. @param norm of the gradient */
export async function readPass(
  rows: readonly TokenRow[],
  parts: readonly Part<BatchLoss>[],
  norm: Tensor,
): Promise<PassResult> {
  const [logProbs, entropy] = [unscored(rows), unscored(rows)];
  const terms: Record<string, number> = { policy: 0, world: 0 };
  const predictions: Record<string, Float64Array[]> = {};
  for (const { batch, result } of parts) {
    await scatter(batch, result.logProbs, logProbs);
    await scatter(batch, result.entropy, entropy);
    for (const [name, values] of Object.entries(result.predictions))
      await scatter(batch, values, (predictions[name] ??= unscored(rows)));
    for (const [name, term] of Object.entries(result.terms)) {
      terms[name] = (terms[name] ?? 0) + (await term.item());
      term.dispose();
    }
  }
  const gradNorm = await norm.item();
  norm.dispose();
  return { terms, gradNorm, logProbs, entropy, predictions };
}

/**
 * Metrics of an update: losses, entropy of the agent's tokens, clipping, and the distance from the sampler to the
 * trainer.
 * @param passes one result per pass over the episodes. Clipping is the mean over them; the rest is from the first, in
 *   which the policy is still the one that played.
 */
export function updateMetrics(
  rows: readonly TokenRow[],
  objective: Objective,
  passes: readonly PassResult[],
  { fracRewardZeroStd, kl }: Pick<StepAdvantages, "fracRewardZeroStd" | "kl">,
  ratios: Ratios,
): Metrics {
  const first = passes[0]!;
  // World models have metrics of their own, and the penalty is reported as a KL.
  const worlds = ["world", ...worldsOf(objective).flatMap(({ name, tokenLoss }) => (tokenLoss ? [name] : []))];
  const named = Object.entries(first.terms).filter(([name]) => ![...worlds, "policy", "kl"].includes(name));
  const trained = rows.flatMap(({ trajectory, mask, advantages }, i) => {
    const { roles, oldLogProbs: sampled } = trajectory.stream;
    return roles.flatMap((role, t): TrainedToken[] =>
      mask[t] && isAgentToken(role) ? [{ i, t, sampled: sampled[t]!, advantage: advantages[t]! }] : [],
    );
  });
  const differences = trained.map(({ i, t, sampled }) => first.logProbs[i]![t]! - sampled);
  const moved = differences.map(Math.exp);
  const absolute = differences.map(Math.abs);
  return {
    policy_loss: first.terms["policy"]!,
    ...worldMetrics(rows, worlds, first),
    loss: lossIn(first),
    ...Object.fromEntries(named.map(([name, loss]) => [`${name}_loss`, loss])),
    grad_norm: first.gradNorm,
    frac_reward_zero_std: fracRewardZeroStd,
    ...klMetrics(objective, kl, first),
    ...(trained.length > 0
      ? {
          entropy: mean(trained.map(({ i, t }) => first.entropy[i]![t]!)),
          "sampling/sampling_logp_difference/mean": mean(absolute),
          "sampling/sampling_logp_difference/max": absolute.reduce((a, b) => Math.max(a, b)),
          "sampling/importance_sampling_ratio/min": moved.reduce((a, b) => Math.min(a, b)),
          "sampling/importance_sampling_ratio/mean": mean(moved),
          "sampling/importance_sampling_ratio/max": moved.reduce((a, b) => Math.max(a, b)),
          ...driftMetrics(trained, passes),
          ...clipMetrics(rows, trained, objective, passes, ratios),
        }
      : {}),
  };
}

/** A token of the policy term: its row and place, the sampler's log-probability, its advantage. */
interface TrainedToken {
  readonly i: number;
  readonly t: number;
  readonly sampled: number;
  readonly advantage: number;
}

/** `kl`: the penalty before its coefficient, in the loss as it is aggregated there, in the reward per token. */
function klMetrics(objective: Objective, inReward: number | undefined, { terms }: PassResult): Metrics {
  if (!objective.kl) return {};
  const beta = betaOf(objective);
  const kl = inReward ?? (beta > 0 ? (terms["kl"] ?? 0) / beta : 0);
  return { kl, ...(typeof objective.kl.beta === "number" ? {} : { kl_beta: beta }) };
}

/**
 * `world_loss`: mean of −lp over the targets of the world objective, in nats per token, whatever λ is;
 * `world_loss_weighted`: its share of the loss. `imitation_loss`: mean of −lp over the agent's tokens in successful
 * rollouts, and in those that were relabelled, whatever its weight is. A loss without tokens is left out.
 */
function worldMetrics(rows: readonly TokenRow[], worlds: readonly string[], { logProbs, terms }: PassResult): Metrics {
  const [world, imitated]: [number[], number[]] = [[], []];
  const total = worlds.reduce((sum, name) => sum + (terms[name] ?? 0), 0);
  let weighted = 0; // the share of the imitated tokens in the loss
  rows.forEach(({ trajectory, wWorld, weights }, i) => {
    const { roles } = trajectory.stream;
    for (let t = 0; t < roles.length; t++) {
      const w = wWorld[t]!;
      if (w === 0 && !worlds.some((name) => (weights[name]?.[t] ?? 0) !== 0)) continue;
      const loss = -logProbs[i]![t]!;
      if (!isAgentToken(roles[t]!)) world.push(loss);
      else if (w !== 0) {
        imitated.push(loss);
        weighted += w * loss;
      }
    }
  });
  return {
    ...(world.length === 0 ? {} : { world_loss: mean(world), world_loss_weighted: total - weighted }),
    ...(imitated.length === 0 ? {} : { imitation_loss: mean(imitated) }),
  };
}

/**
 * `critic/vf_explained_var` (verl's name): 1 − Var(R − V)/Var(R) over the tokens with a target, V from before the
 * update. 1 is a perfect critic, 0 one that knows no more than the mean, below 0 a harmful one. Left out where all
 * targets are equal but for rounding: R is a sum of numbers as large as V.
 */
export function criticMetrics(rows: readonly TokenRow[], values: PerToken): Metrics {
  const targets = rows.flatMap(({ returns }, i) =>
    [...returns].flatMap((R, t) => (Number.isNaN(R) ? [] : [{ R, error: R - values[i]![t]! }])),
  );
  const largest = targets.reduce((most, { R, error }) => Math.max(most, Math.abs(R), Math.abs(R - error)), 0);
  const { std } = moments(
    targets.map(({ R }) => R),
    0,
  );
  const { std: left } = moments(
    targets.map(({ error }) => error),
    0,
  );
  return std > 1e-9 * largest ? { "critic/vf_explained_var": 1 - (left / std) ** 2 } : {};
}

/**
 * `ppo_kl/last`: mean over the trained tokens of log p before the update minus log p in the last pass: how far, in
 * nats, the policy has left the samples that the pass learns from. PPO's early stopping looks at it (target_kl 0.01 to
 * 0.05 in Spinning Up and CleanRL). Left out with one pass, where it is 0.
 */
function driftMetrics(trained: readonly TrainedToken[], passes: readonly PassResult[]): Metrics {
  const [first, last] = [passes[0]!, passes.at(-1)!];
  if (passes.length === 1) return {};
  return { "ppo_kl/last": mean(trained.map(({ i, t }) => first.logProbs[i]![t]! - last.logProbs[i]![t]!)) };
}

/**
 * Shares of trained tokens whose ratio the clip cut off: `low` below 1 − εl with A < 0, `high` above 1 + εh with A > 0.
 * If the loss reads a sequence's ratio, shares of sequences.
 */
function clipMetrics(
  rows: readonly TokenRow[],
  trained: readonly TrainedToken[],
  { policyLoss: { clip } }: Objective,
  passes: readonly PassResult[],
  ratios: Ratios,
): Metrics {
  if (clip === null) return {};
  const bySegment = (): (typeof trained)[] => {
    const segments = trained.map(({ i }) => rows[i]!.segment ?? i);
    return [...new Set(segments)].map((segment) => trained.filter((_, k) => segments[k] === segment));
  };
  const units = clip.level ? bySegment() : trained.map((token) => [token]);
  let [low, high] = [0, 0];
  for (const { logProbs } of passes) {
    for (const unit of units) {
      const moved = unit.map(({ i, t }) => (ratios === "exact" ? 0 : logProbs[i]![t]! - rows[i]!.oldLogProbs[t]!));
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
