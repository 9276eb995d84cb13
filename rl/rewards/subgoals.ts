/**
 * Rewards on the way: for subgoals when they are reached for the first time, and for progress. They say which step helped, which
 * the outcome does not; an estimator that looks at steps uses them (`stepRewards`).
 */
import { check } from "../../engine/errors.ts";
import type { Turn } from "./turns.ts";

export interface Subgoal {
  readonly name: string;
  readonly reward: number;
  /** Is it reached after the last of these turns? */
  readonly reached: (turns: readonly Turn[]) => boolean;
}

/**
 * Reward of each turn: that of all subgoals which hold after it and held after none before. Each is paid once.
 * @param ordered a subgoal counts only after those before it in the list (at the same turn at the earliest). Default false
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
 * Potential-based shaping (Ng, Harada and Russell 1999): γ·Φ(s′) − Φ(s) for each step, the only shaping that changes no best policy.
 * With γ = 1 it sums to Φ(end) − Φ(start).
 *
 * @param potentials of the states before the first step, between steps, and after the last: one more than there are steps. If the
 *   episode ended, the last should be 0
 */
export function potentialRewards(potentials: readonly number[], gamma = 1): number[] {
  check(potentials.length > 0, () => "potentialRewards: expected the potential of at least one state, got none");
  check(gamma >= 0 && gamma <= 1, () => `potentialRewards: gamma must be in [0, 1], got ${gamma}`);
  return potentials.slice(1).map((after, i) => gamma * after - potentials[i]!);
}
