/**
 * The objective: one loss of three components over one forward pass,
 *
 *     L = Σ wPolicy·ℓ_policy + Σ wWorld·(−lp) + Σ wKl·k
 *
 * An `Objective` says which functions fill in the columns; `planStep` turns the episodes of one optimiser step into those columns,
 * with every denominator already folded into the weights, so the step may be split into micro-batches in any way.
 * Supervised fine-tuning is the same thing with all weight on −lp of the agent's tokens.
 */
import { check } from "../engine/errors.ts";
import { checkKeys } from "../engine/options.ts";
import type { AdvantageEstimator } from "./advantages.ts";
import { type Aggregation, aggregationWeights } from "./aggregation.ts";
import { observationTokens, type WorldObjective } from "./echo.ts";
import type { KlEstimator, PolicyLoss } from "./losses.ts";
import { policyMask, type Trajectory } from "./stream.ts";

export interface KlOptions {
  /** β, the coefficient of the penalty in the loss. */
  readonly beta: number;
  readonly estimator: KlEstimator;
}

export interface Objective {
  readonly advantage: AdvantageEstimator;
  readonly policyLoss: PolicyLoss;
  readonly aggregation: Aggregation;
  /** L_max of `seq-mean-token-sum-norm`. */
  readonly maxLength?: number;
  /** A loss on what the environment wrote; none: plain RL. */
  readonly world?: WorldObjective;
  /** A penalty that keeps the policy near a reference; none: no reference model is needed. */
  readonly kl?: KlOptions;
}

/** What is trained of one episode: one entry per token. */
export interface TokenPlan {
  readonly trajectory: Trajectory;
  readonly advantages: Float64Array;
  readonly wPolicy: Float64Array;
  readonly wWorld: Float64Array;
  readonly wKl: Float64Array;
}

export interface StepPlan {
  readonly episodes: readonly TokenPlan[];
  readonly fracRewardZeroStd: number;
}

/** Advantages and weights of all episodes of one optimiser step. @param step counts from 0, for schedules */
export function planStep(objective: Objective, trajectories: readonly Trajectory[], step: number): StepPlan {
  checkKeys("planStep", objective, ["advantage", "policyLoss", "aggregation", "maxLength", "world", "kl"]);
  check(trajectories.length > 0, () => "planStep: the list of episodes is empty");
  const { perToken, fracRewardZeroStd } = objective.advantage.estimate(trajectories);
  const masks = trajectories.map(policyMask);
  const wPolicy = aggregationWeights(masks, objective.aggregation, objective.maxLength);
  const wWorld = objective.world?.weights(trajectories, step);
  const beta = objective.kl?.beta ?? 0;
  check(Number.isFinite(beta) && beta >= 0, () => `planStep: kl.beta must be ≥ 0, got ${beta}`);
  return {
    fracRewardZeroStd,
    episodes: trajectories.map((trajectory, i) => ({
      trajectory,
      advantages: perToken[i]!,
      wPolicy: wPolicy[i]!,
      wWorld: wWorld?.[i] ?? new Float64Array(masks[i]!.length),
      wKl: wPolicy[i]!.map((w) => w * beta),
    })),
  };
}

export interface SftPlanOptions {
  /**
   * Weight of an observation target beside an agent's token, default 0. A model that has read no text before knows nothing of
   * what a terminal prints; above 0 the warm start also reads the answers in the demonstrations.
   */
  readonly observationWeight?: number;
}

/** The plan of supervised fine-tuning: cross-entropy on the agent's tokens, averaged over all of them (`token-mean`). */
export function planSft(trajectories: readonly Trajectory[], options: SftPlanOptions = {}): StepPlan {
  const { observationWeight = 0 } = options;
  check(trajectories.length > 0, () => "planSft: the list of episodes is empty");
  check(observationWeight >= 0, () => `planSft: observationWeight must be ≥ 0, got ${observationWeight}`);
  const weights = aggregationWeights(trajectories.map(policyMask), "token-mean");
  const agentTokens = trajectories.reduce((n, t) => n + policyMask(t).filter(Boolean).length, 0);
  const nothing = (i: number): Float64Array => new Float64Array(weights[i]!.length);
  return {
    fracRewardZeroStd: 0,
    episodes: trajectories.map((trajectory, i) => {
      const { targets } = observationTokens(trajectory);
      return {
        trajectory,
        advantages: nothing(i),
        wPolicy: nothing(i),
        wWorld: weights[i]!.map((w, t) => (targets[t] ? observationWeight / agentTokens : w)),
        wKl: nothing(i),
      };
    }),
  };
}
