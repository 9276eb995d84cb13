/**
 * The return of an episode that the agent's text cut short (`isCutShort`): it ran out of tokens, in an action or
 * because an answer did not fit, or a strict template found no action. The environment has not judged it. (If it has
 * scored it in `Environment.end`, that score counts, and nothing here applies.)
 *
 * Σ is the sum of its step rewards. Where turns cost, Σ is *less* of a cost than playing on: an agent that babbles in
 * its first turn has paid nothing. So neither 0 (`zero`, right for rewards of 0 or 1, arXiv 2605.24517) nor Σ (`keep`)
 * is safe: policies learn to babble.
 */
import { options, wordOrNumber } from "../../engine/optionTable.ts";
import { groupsOf } from "../episode/groups.ts";
import { isCutShort, paid, returnOf, type Rollout, rolloutsOf, type Trajectory } from "../episode/stream.ts";

/** The words of `TruncatedReward`. */
export const TRUNCATED_REWARDS = ["worst", "keep", "zero", "soft"] as const;

/**
 * The return of an episode that was cut short: `worst`, the default (see `withTruncatedReward`); `keep`, Σ; `zero`;
 * `soft`, Σ − 1, which is DAPO's punishment of a text that reaches its limit (arXiv 2503.14476, eq. 13; the three words
 * as in Tencent-Hunyuan/UniRL#19); or a number (thinking-machines-lab/tinker-cookbook#506).
 */
export type TruncatedReward = (typeof TRUNCATED_REWARDS)[number] | number;

export const TRUNCATED = options("trainRl", {
  truncatedReward: wordOrNumber(
    TRUNCATED_REWARDS,
    "worst",
    "return of an episode that ran out of tokens, or in which a strict template found no action: twice the lowest " +
      "return of its group, or 0 if none is negative; what its steps paid (Σ); 0 (the paper of ECHO); Σ − 1 (DAPO); " +
      "or this number. An environment that scores such ends itself (`end`) has the last word",
  ),
});

/**
 * The episodes with the returns of those that were cut short. By default, `worst`, these have
 *
 *     min(0, 2·L)      L: the lowest return in the group
 *
 * where all scorable episodes of the group count; those that were cut short count with the sum of their step rewards.
 * If none of the group came to its own end, L is the lowest return of all `trajectories`. The reasons:
 *
 * - No other option of an episode is worse: not an end of its own, and not being cut short later, having paid more. All
 *   of a group that were cut short have the same return, so the one that babbled first is not the best of them.
 * - Estimators that compare a group (GRPO, RLOO, Dr. GRPO, OPO, MaxRL, pass@k) subtract a mean, or the second best
 *   value, that is no lower, so the advantage of such an episode is at most 0.
 * - Against another baseline (REINFORCE++'s mean of the batch, a critic, ReMax's greedy rollout) the expected gradient
 *   compares the returns of one task, of which it has the lowest. L alone would do by that argument, and does not:
 *   where all ends earn −0.6, REINFORCE++ and PPO learn to babble at a return of −0.6 (docs/log.md), because a batch's
 *   mean has the episode's own tokens in it and λ < 1 lets a late punishment fade over a long action. The margin is
 *   L itself, since rewards have no other scale that is never 0 where turns cost.
 * - Token by token, what is left of the return after the steps is below 0: no refund praises the tokens that ran out.
 * - In a group of one, or where all of a group were cut short, there is no end to compare with, and the batch stands
 *   in, with which a mean over the batch or a critic compares anyway.
 * - If no episode in the batch came to an end, all are equal, and a comparison does not punish babbling. But RAE, a
 *   critic and a greedy rollout remember ends that earned less. So the return is marked as a bound from above
 *   (`rewardIsBound`). Beside such a memory it is at most twice what the memory knows, which does not learn it
 *   (`boundBeside`). In such a step the metric `completions/clipped_ratio` is 1.
 * - Not covered: whitening praises some tokens of a batch whatever it earned, so PPO with one episode a step can learn
 *   to babble at any return. And VAPO's λ is 0 for short episodes: until its critic knows what an unfinished action is
 *   worth, only the token that ends a turn is told what it costs.
 * - Where no return is negative it is 0, as in arXiv 2605.24517.
 *
 * A group of an asynchronous run is scored when it arrives, and `finishStep` again with the others of its step: for a
 * group with an end of its own nothing changes. A replayed group keeps the returns that it had.
 *
 * @param trajectories of whole groups, as they were played
 */
export function withTruncatedReward(
  trajectories: readonly Trajectory[],
  rule: TruncatedReward = "worst",
): readonly Trajectory[] {
  if (!trajectories.some(isOpen)) return trajectories;
  const worst = rule === "worst" ? worstOf(trajectories) : undefined;
  const isAlone = worst !== undefined && !rolloutsOf(trajectories).some((r) => r.scorable && !isOpen(r.first));
  return trajectories.map((t) => {
    if (!isOpen(t)) return t;
    if (typeof rule === "number") return { ...t, reward: rule };
    const earned = { worst: worst?.get(t.group) ?? NaN, keep: paid(t), zero: 0, soft: paid(t) - 1 };
    const { rewardIsBound: _, ...judged } = { ...t, reward: earned[rule] };
    return isAlone ? { ...judged, rewardIsBound: true } : judged;
  });
}

/** Whether the option gives the return of an episode. One that cannot be scored stays so. */
const isOpen = (t: Trajectory): boolean => isCutShort(t) && !t.masked && !t.scoredAtEnd && !Number.isNaN(t.reward);

/**
 * The return of an episode cut short, beside episodes with these returns: twice the lowest, or 0 if none is negative.
 */
export const worstBeside = (returns: readonly number[]): number =>
  2 * returns.reduce((low, value) => Math.min(low, value), 0);

/** The return of an episode that was cut short, by group. */
function worstOf(trajectories: readonly Trajectory[]): ReadonlyMap<number, number> {
  const returnAsPlayed = (t: Trajectory): number => (isOpen(t) ? returnOf(t) : t.reward);
  const worst = (rollouts: readonly Rollout[]): number =>
    worstBeside(rollouts.flatMap(({ scorable, first }) => (scorable ? [returnAsPlayed(first)] : [])));
  const all = rolloutsOf(trajectories);
  const ofAll = worst(all);
  return new Map(
    groupsOf(all).map((group) => {
      const hasEnd = group.some(({ scorable, first }) => scorable && !isOpen(first));
      return [group[0]!.group, hasEnd ? worst(group) : ofAll];
    }),
  );
}
