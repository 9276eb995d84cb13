/**
 * Rewards before the end of an episode: for subgoals when they are reached for the first time, and for progress. Unlike
 * the outcome they say which step helped; estimators that look at steps use them (`stepRewards`).
 */
import { check } from "../../engine/errors.ts";
import type { Turn } from "./turns.ts";

/**
 * A goal on the way to the outcome, for `subgoalRewards`: it pays once, after the turn at which it is first reached.
 */
export interface Subgoal {
  readonly name: string;
  readonly reward: number;
  /** Whether the subgoal is reached after the last of these turns. */
  readonly reached: (turns: readonly Turn[]) => boolean;
}

/**
 * The reward of each turn: the sum over all subgoals that are reached for the first time after it.
 * @param ordered whether a subgoal counts only once all subgoals before it in the list are reached. Default false
 */
export function subgoalRewards(turns: readonly Turn[], subgoals: readonly Subgoal[], ordered = false): number[] {
  const open = [...subgoals];
  return turns.map((_, at) => {
    const soFar = turns.slice(0, at + 1);
    let reward = 0;
    for (let i = 0; i < open.length;) {
      if (open[i]!.reached(soFar)) reward += open.splice(i, 1)[0]!.reward;
      else if (ordered) break;
      else i++;
    }
    return reward;
  });
}

/**
 * Potential-based shaping (Ng, Harada and Russell 1999): γ·Φ(s′) − Φ(s) for each step. No other shaping leaves the
 * optimal policies of every environment unchanged. With γ = 1 it sums to Φ(end) − Φ(start).
 * @param potentials Φ of the states before the first step, between steps and after the last step, so one more than
 *   there are steps. If the episode ended, the last should be 0
 */
export function potentialRewards(potentials: readonly number[], gamma = 1): number[] {
  check(potentials.length > 0, () => "potentialRewards: expected the potential of at least one state, got none");
  check(gamma >= 0 && gamma <= 1, () => `potentialRewards: gamma must be in [0, 1], got ${gamma}`);
  return potentials.slice(1).map((after, i) => gamma * after - potentials[i]!);
}
