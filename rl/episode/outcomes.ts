/**
 * Success of episodes and of groups, for all of the library: metrics, evaluations, transcripts, curricula, filters,
 * imitation, hindsight.
 */
import { hasFailed, outcomeOf, rolloutsOf, type Trajectory } from "./stream.ts";

/** Whether an episode counts as solved. */
export type Success = (trajectory: Trajectory) => boolean;

/**
 * Whether the environment reports success (`info.success`). If it reports nothing, an episode is a success if its
 * outcome is positive and its environment has not failed. This rule fails in a world with costs, whose best outcome is
 * below 0, and with graded rewards, which are all positive: such an environment has to report success, or the mean
 * reward is the number to look at.
 */
export const succeeded: Success = (trajectory) => {
  const { success } = trajectory.info;
  return typeof success === "boolean" ? success : !hasFailed(trajectory) && outcomeOf(trajectory) > 0;
};

/** The share of successes among the scorable rollouts; undefined if there are none. */
export function successRate(trajectories: readonly Trajectory[], success: Success = succeeded): number | undefined {
  const scorable = rolloutsOf(trajectories).filter((rollout) => rollout.scorable);
  if (scorable.length === 0) return undefined;
  return scorable.filter(({ first }) => success(first)).length / scorable.length;
}
