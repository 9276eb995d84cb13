/** Success of finished episodes and of groups, as curricula, retries and filters need it. */
import { outcomeOf, rolloutsOf, type Trajectory } from "./stream.ts";

/** Whether an episode counts as solved. */
export type Success = (trajectory: Trajectory) => boolean;

/** Whether the environment reports success (`info.success`); if it reports nothing, whether the outcome is positive. */
export const succeeded: Success = (trajectory) => {
  const { success } = trajectory.info;
  return typeof success === "boolean" ? success : outcomeOf(trajectory) > 0;
};

/** The share of successes among the scorable rollouts; undefined if there are none. */
export function successRate(trajectories: readonly Trajectory[], success: Success = succeeded): number | undefined {
  const scorable = rolloutsOf(trajectories).filter((rollout) => rollout.scorable);
  if (scorable.length === 0) return undefined;
  return scorable.filter(({ first }) => success(first)).length / scorable.length;
}
