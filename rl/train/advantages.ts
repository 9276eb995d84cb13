/** Advantages of a step: from the rewards of the episodes to one number for each of the agent's tokens. */
import { check } from "../../engine/errors.ts";
import { fracWithoutSpread, withoutTruncated } from "../episode/groups.ts";
import { rewardsOfTokens, rolloutsOf, type Trajectory } from "../episode/stream.ts";
import type { Advantages } from "../objective/estimator.ts";
import { klEstimate } from "../objective/kl.ts";
import { betaOf, checkObjective, type Objective } from "../objective/objective.ts";
import { statistic, type TokenStatistics } from "../objective/tokenStatistics.ts";

/**
 * The result of `advantagesOf`: an advantage per row and token, the critic's targets if the estimator has any, the
 * share of groups without spread, and the mean KL if it is subtracted from the reward.
 */
export interface StepAdvantages extends Advantages {
  /** Mean KL per trained token, where the penalty is in the reward. */
  readonly kl?: number;
}

/** The episodes as an objective judges them: those that ran out of tokens may be left without a score. */
export const judged = (objective: Objective, played: readonly Trajectory[]): readonly Trajectory[] =>
  objective.maskTruncated ? withoutTruncated(played) : played;

/**
 * The advantages of the objective's estimator, from rewards from which a KL penalty may have been subtracted.
 * @throws one clear line if the parts of the objective do not fit together
 * @param step from 0: before the objective's `rewardFrom` all advantages are 0, and there are no returns
 */
export function advantagesOf(
  objective: Objective,
  played: readonly Trajectory[],
  step: number,
  statistics: TokenStatistics = {},
): StepAdvantages {
  const { advantage, kl: penalty, rewardFrom = 0 } = objective;
  checkObjective(objective);
  const trajectories = judged(objective, played);
  check(trajectories.length > 0, () => "advantagesOf: the list of episodes is empty");
  const shaped = penalty?.in === "reward" ? withKlInReward(objective, trajectories, statistics) : { trajectories };
  const { perToken, returns, fracRewardZeroStd } = advantage.estimate(shaped.trajectories, statistics);
  const lengths = trajectories.map(({ stream }) => stream.ids.length);
  const isOfTokens = (row: number): boolean => perToken?.[row]?.length === lengths[row];
  const bad = perToken?.length === lengths.length ? lengths.findIndex((_, row) => !isOfTokens(row)) : 0;
  check(
    bad < 0,
    () =>
      `advantagesOf: expected of ${advantage.name} in perToken a row for each of the ${lengths.length} episodes, ` +
      `with a number for each of its tokens (${lengths[bad]} of episode ${bad}), got ${perToken?.length ?? "no"} rows` +
      (perToken?.[bad] ? `, ${perToken[bad].length} numbers of episode ${bad}` : ""),
  );
  const isRewarded = step >= rewardFrom;
  const { kl } = shaped;
  return {
    perToken: isRewarded ? perToken : perToken.map((row) => new Float64Array(row.length)),
    ...(isRewarded && returns ? { returns } : {}),
    // Spread is that of the outcomes, without a penalty.
    fracRewardZeroStd: kl === undefined ? fracRewardZeroStd : fracWithoutSpread(rolloutsOf(trajectories)),
    ...(kl === undefined ? {} : { kl }),
  };
}

/** r̃_t = r_t − β·kl_t on the agent's tokens, from the log-probabilities that were recorded when they were sampled. */
function withKlInReward(
  objective: Objective,
  trajectories: readonly Trajectory[],
  statistics: TokenStatistics,
): { readonly trajectories: readonly Trajectory[]; readonly kl?: number } {
  const ref = statistic(statistics, "refLogProbs", "kl in reward");
  const beta = betaOf(objective);
  const { estimator, clamp } = objective.kl!;
  const tokenRewards = trajectories.map(({ stream }) => new Float64Array(stream.ids.length));
  const rewards = new Map<number, number>();
  let [total, count] = [0, 0];
  for (const rollout of rolloutsOf(trajectories)) {
    const ofTokens = rewardsOfTokens(rollout, trajectories);
    let penalty = 0;
    rollout.tokens.forEach(({ row, t }, k) => {
      const kl = klEstimate(estimator, trajectories[row]!.stream.oldLogProbs[t]!, ref[row]![t]!, clamp);
      tokenRewards[row]![t] = ofTokens[k]! - beta * kl;
      penalty += kl;
    });
    for (const row of rollout.rows) rewards.set(row, rollout.reward - beta * penalty);
    total += penalty;
    count += rollout.tokens.length;
  }
  return {
    trajectories: trajectories.map((t, row) => ({ ...t, reward: rewards.get(row)!, tokenRewards: tokenRewards[row]! })),
    kl: count > 0 ? total / count : 0,
  };
}
