/**
 * Estimators from returns per token, without a critic. They run over the agent's tokens only: the environment's tokens
 * in between are skipped, so a return crosses them without being discounted.
 */
import { check } from "../../engine/errors.ts";
import { noOptions, number, options, type OptionsOf } from "../../engine/optionTable.ts";
import type { Table } from "../../rl/objective/names.ts";
import { statistic } from "../../rl/objective/tokenStatistics.ts";
import { rewardsOfTokens, type Rollout, rolloutsOf, type Trajectory } from "../../rl/episode/stream.ts";
import { fracWithoutSpread, groupsOf, isWithoutSpread } from "../../rl/episode/groups.ts";
import {
  type AdvantageEstimator,
  boundBeside,
  toColumns,
  tokenEstimator,
  whitening,
} from "../../rl/objective/estimator.ts";

/** Returns-to-go G_t = r_t + γG_{t+1}. */
export function returnsToGo(rewards: readonly number[], gamma: number): number[] {
  const returns = [...rewards];
  for (let k = returns.length - 2; k >= 0; k--) returns[k]! += gamma * returns[k + 1]!;
  return returns;
}

export const REINFORCE_PLUS_PLUS = options("reinforcePlusPlus", {
  gamma: number(1, "γ, the discount per agent token", { min: 0, max: 1 }),
});
export type ReinforcePlusPlusOptions = OptionsOf<typeof REINFORCE_PLUS_PLUS>;

const REINFORCE_PLUS_PLUS_BASELINE = noOptions("reinforcePlusPlusBaseline");
const REMAX = noOptions("remax");
const OPTIMAL_TOKEN_BASELINE = noOptions("optimalTokenBaseline");

/** Discounted return-to-go, whitened over the batch (REINFORCE++, Hu 2025, arXiv 2501.03262). */
export function reinforcePlusPlus(given?: ReinforcePlusPlusOptions): AdvantageEstimator {
  const { gamma } = REINFORCE_PLUS_PLUS.read(given);
  const ofRollout = (rollout: Rollout, trajectories: readonly Trajectory[]): { advantages: number[] } => ({
    advantages: returnsToGo(rewardsOfTokens(rollout, trajectories), gamma),
  });
  return tokenEstimator("reinforce++", [], ofRollout, true);
}

/**
 * R − mean of the group, then whitened over the tokens of the batch. Groups without spread get 0 and are left out of
 * the whitening.
 */
export function reinforcePlusPlusBaseline(given?: object): AdvantageEstimator {
  REINFORCE_PLUS_PLUS_BASELINE.read(given);
  return {
    name: "reinforce++-baseline",
    comparesGroup: true,
    estimate(trajectories) {
      const rollouts = rolloutsOf(trajectories);
      const centred = new Map<Rollout, number>();
      for (const group of groupsOf(rollouts)) {
        const members = group.filter((r) => r.scorable);
        const rewards = members.map((r) => r.reward);
        if (isWithoutSpread(rewards)) continue;
        const mean = rewards.reduce((a, b) => a + b, 0) / rewards.length;
        members.forEach((r) => centred.set(r, r.reward - mean));
      }
      const all = [...centred].flatMap(([rollout, a]) => rollout.tokens.map(() => a));
      const whiten = whitening(all);
      return {
        perToken: toColumns(trajectories, rollouts, (rollout) => {
          const advantage = centred.get(rollout);
          return advantage === undefined ? null : rollout.tokens.map(() => whiten(advantage));
        }),
        fracRewardZeroStd: fracWithoutSpread(rollouts),
      };
    },
  };
}

/**
 * Return-to-go − R_greedy of the same task (ReMax, Li et al. 2024, arXiv 2310.10505). The advantage is 0 where R_greedy
 * is NaN (the greedy rollout failed or could not be scored), because there is nothing to compare with.
 */
export function remax(given?: object): AdvantageEstimator {
  REMAX.read(given);
  const ofRollout = (rollout: Rollout, trajectories: readonly Trajectory[]): { advantages: number[] } => {
    const { greedyReward } = rollout.first;
    check(greedyReward !== undefined, () => "remax: needs the return of a greedy rollout of each task, found none");
    const bound = boundBeside(rollout, greedyReward);
    if (Number.isNaN(greedyReward) || bound === null) return { advantages: rollout.tokens.map(() => 0) };
    const judged = bound === undefined ? rollout : { ...rollout, reward: bound };
    const returns = returnsToGo(rewardsOfTokens(judged, trajectories), 1);
    return { advantages: returns.map((G) => G - greedyReward) };
  };
  return { ...tokenEstimator("remax", [], ofRollout, false), greedyBaseline: true };
}

/**
 * G_t − b_t, where b_t = Σ w·G / Σ w over the group's rollouts, each at its own t-th token, and w is the energy of the
 * score function so far, Σ_{s≤t} (1 − 2π_s + Σ_v π_v²). Long and unlikely rollouts weigh more. Where only the longest
 * rollout still has a token, b = 0 (optimal token baseline, arXiv 2602.07078; verl's `tir_optimal_token_baseline`).
 */
export function optimalTokenBaseline(given?: object): AdvantageEstimator {
  OPTIMAL_TOKEN_BASELINE.read(given);
  return {
    name: "optimal_token_baseline",
    comparesGroup: true,
    needs: ["logProbs", "collision"],
    estimate(trajectories, statistics = {}) {
      const logProbs = statistic(statistics, "logProbs", "optimal_token_baseline");
      const collision = statistic(statistics, "collision", "optimal_token_baseline");
      const rollouts = rolloutsOf(trajectories);
      const advantages = new Map<Rollout, number[]>();
      for (const group of groupsOf(rollouts)) {
        const members = group.filter((r) => r.scorable);
        if (isWithoutSpread(members.map((r) => r.reward))) continue;
        const curves = members.map((rollout) => {
          let energy = 0;
          const weights = rollout.tokens.map(
            ({ row, t }) => (energy += 1 - 2 * Math.exp(logProbs[row]![t]!) + collision[row]![t]!),
          );
          return { rollout, weights, returns: returnsToGo(rewardsOfTokens(rollout, trajectories), 1) };
        });
        for (const { rollout, returns } of curves) {
          advantages.set(
            rollout,
            returns.map((G, k) => {
              const others = curves.filter(({ weights }) => weights.length > k);
              if (others.length < 2) return G;
              const total = others.reduce((sum, { weights }) => sum + weights[k]!, 0);
              const weighted = others.reduce((sum, { weights, returns: R }) => sum + weights[k]! * R[k]!, 0);
              return G - weighted / (total + 1e-8);
            }),
          );
        }
      }
      return {
        perToken: toColumns(trajectories, rollouts, (rollout) => advantages.get(rollout) ?? null),
        fracRewardZeroStd: fracWithoutSpread(rollouts),
      };
    },
  };
}

export const RETURNS: Table<AdvantageEstimator> = {
  "reinforce++": {
    options: REINFORCE_PLUS_PLUS,
    make: reinforcePlusPlus,
    formula: "discounted return-to-go across observation gaps, whitened over the batch",
    source: "REINFORCE++, arXiv 2501.03262",
  },
  "reinforce++-baseline": {
    options: REINFORCE_PLUS_PLUS_BASELINE,
    make: reinforcePlusPlusBaseline,
    formula: "R − group mean, whitened over the batch",
    source: "REINFORCE++, arXiv 2501.03262",
  },
  remax: { options: REMAX, make: remax, formula: "return-to-go − R_greedy", source: "ReMax, arXiv 2310.10505" },
  optimal_token_baseline: {
    options: OPTIMAL_TOKEN_BASELINE,
    make: optimalTokenBaseline,
    formula: "G_t − Σw·G/Σw over the group at the same own token, w = Σ(1 − 2π + Σπ²)",
    source: "optimal token baseline, arXiv 2602.07078",
  },
};
