/**
 * Value pre-training (VAPO, Yue et al. 2025, arXiv 2504.05118, §4.1): a new value head knows nothing, and advantages
 * from it are noise. So in the first steps the policy plays and stays as it is, and the head learns from whole returns:
 * with λ = γ = 1 every token's target is the sum of the rewards after it.
 *
 * VAPO's critic is a model of its own; here it is a head on the policy's transformer, and only that head learns in
 * these steps.
 */
import { rewardsOfTokens, rolloutsOf, type Trajectory } from "../episode/stream.ts";
import { toColumns } from "../objective/estimator.ts";
import { NO_POLICY } from "../objective/policyLoss.ts";
import { CRITIC, type Objective } from "../objective/objective.ts";
import type { PerToken } from "../objective/tokenStatistics.ts";

/** Whether only the value head learns in this step. */
export const isValuePretraining = ({ critic }: Objective, step: number): boolean => step < CRITIC.read(critic).pretrain;

/** The objective of a step in which only the value head learns; no part of it concerns the policy. */
export const headObjective = ({ advantage, aggregation, maxLength, critic }: Objective): Objective => ({
  advantage,
  aggregation,
  ...(maxLength === undefined ? {} : { maxLength }),
  policyLoss: NO_POLICY,
  critic: { ...critic, trunk: false },
});

/** The Monte-Carlo target of each token: the sum of the rewards from it on; NaN where nothing can be scored. */
export function monteCarloReturns(trajectories: readonly Trajectory[]): PerToken {
  const rollouts = rolloutsOf(trajectories);
  const ofRollout = (rollout: (typeof rollouts)[number]): number[] | null => {
    if (!rollout.scorable) return null;
    const sums = rewardsOfTokens(rollout, trajectories);
    for (let k = sums.length - 2; k >= 0; k--) sums[k]! += sums[k + 1]!;
    return sums;
  };
  return toColumns(trajectories, rollouts, ofRollout, NaN);
}
