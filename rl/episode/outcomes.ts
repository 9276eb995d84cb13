/** What curricula, retries and filters ask about finished episodes: did this one succeed, how often did that group? */
import { outcomeOf, rolloutsOf, type Trajectory } from "./stream.ts";

/** Whether an episode counts as solved. */
export type Success = (trajectory: Trajectory) => boolean;

/** What the environment says (`info.success`); if it says nothing, a positive outcome. */
export const succeeded: Success = (trajectory) => {
  const { success } = trajectory.info;
  return typeof success === "boolean" ? success : outcomeOf(trajectory) > 0;
};

/** Share of successes among the rollouts that count; undefined if the environment failed in all of them. */
export function successRate(trajectories: readonly Trajectory[], success: Success = succeeded): number | undefined {
  const scorable = rolloutsOf(trajectories).filter((rollout) => rollout.scorable);
  if (scorable.length === 0) return undefined;
  return scorable.filter(({ first }) => success(first)).length / scorable.length;
}
