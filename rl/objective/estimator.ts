/**
 * The interface of an advantage estimator, and the code that all estimators share: grouping, unscorable (NaN) rewards,
 * groups without spread, and turning one number per rollout or per trained token into columns. Statistics count
 * rollouts, not rows or tokens.
 */
import { groupsOf, isWithoutSpread, fracWithoutSpread, moments } from "../episode/groups.ts";
import { rolloutsOf, type Rollout, type Trajectory } from "../episode/stream.ts";
import { type PerToken, statistic, type TokenStatistic, type TokenStatistics } from "./tokenStatistics.ts";

/** Advantages and what was measured on the way. */
export interface Advantages {
  /** The advantage of each token, per row; 0 where nothing is trained. */
  readonly perToken: readonly Float64Array[];
  /**
   * The share of groups whose rewards are all equal, or that have only one member. The policy learns nothing from them,
   * unless the estimator compares steps (`gigpo`, `milestone`), which may differ where returns are equal.
   */
  readonly fracRewardZeroStd: number;
  /** The critic's targets, per row and token, from estimators that read values; NaN where there is no target. */
  readonly returns?: PerToken;
}

/** A named estimator. */
export interface AdvantageEstimator {
  readonly name: string;
  /** Statistics that `estimate` reads. */
  readonly needs?: readonly TokenStatistic[];
  /** True: each task must also be played greedily once, and `greedyReward` is the return of that rollout (ReMax). */
  readonly greedyBaseline?: boolean;
  /** True: the episodes of a group are compared with each other, as if their tasks were the same. */
  readonly comparesGroup?: boolean;
  /** True: although groups are compared, an episode that is alone in its group has an advantage. */
  readonly singles?: boolean;
  /** True: the estimator weighs by π/μ itself, so the loss and a correction must not do so again (V-trace). */
  readonly offPolicy?: boolean;
  /**
   * `false`: the estimator does not read the return, so a penalty subtracted from the return (a KL in the reward) would
   * have no effect. Default true.
   */
  readonly readsReturn?: false;
  /**
   * True: the estimator compares the components of the reward one by one, so it learns from a group whose outcomes are
   * all equal if one component has spread (GDPO).
   */
  readonly readsParts?: true;
  /** The advantages of a step. It stores nothing itself, and knows earlier steps only through `observe`. */
  estimate(trajectories: readonly Trajectory[], statistics?: TokenStatistics): Advantages;
  /**
   * For estimators with a memory: called after every step with the episodes that the policy played in it without help.
   */
  observe?(trajectories: readonly Trajectory[]): void;
  /** The memory as plain JSON, which is saved with a run; `restore` takes it back. */
  state?(): unknown;
  restore?(state: unknown): void;
}

/**
 * The return of a rollout whose own return is only a bound from above (`Trajectory.rewardIsBound`), for an estimator
 * that remembers or predicts returns: twice the return `known` to it, if that is negative. The lowest return of an end
 * is no higher, so this is a bound, too. It is computed from the memory, which must not learn it again.
 * @returns undefined where the return stays as it is, null where rewards per token leave no place for another
 */
export function boundBeside({ first, reward }: Rollout, known: number): number | null | undefined {
  const bound = 2 * Math.min(0, known);
  if (first.rewardIsBound !== true || !(bound < reward)) return undefined;
  return first.tokenRewards ? null : bound;
}

/** Columns that hold the numbers from `valuesOf` on a rollout's tokens and `fill` everywhere else. */
export function toColumns(
  trajectories: readonly Trajectory[],
  rollouts: readonly Rollout[],
  valuesOf: (rollout: Rollout, index: number) => ArrayLike<number> | null,
  fill = 0,
): Float64Array[] {
  const columns = trajectories.map(({ stream }) => new Float64Array(stream.ids.length).fill(fill));
  for (const [index, rollout] of rollouts.entries()) {
    const values = valuesOf(rollout, index);
    if (values === null) continue;
    for (const [k, { row, t }] of rollout.tokens.entries()) columns[row]![t] = values[k]!;
  }
  return columns;
}

/**
 * An estimator that turns the rewards of one group into one advantage per rollout. A rollout whose reward is NaN gets
 * advantage 0 and is left out of the statistics. A group whose rewards are all equal, or that has one member, gets
 * exactly 0.
 * @param ofGroup gives the advantages of the scorable members; it is called for a group of one member only if `singles`
 *   is true
 */
export function groupEstimator(
  name: string,
  ofGroup: (rewards: readonly number[], rollouts: readonly Rollout[]) => readonly number[],
  { singles = false }: { readonly singles?: boolean } = {},
): AdvantageEstimator {
  return {
    name,
    comparesGroup: true,
    singles,
    estimate(trajectories) {
      const rollouts = rolloutsOf(trajectories);
      const advantages = new Map<Rollout, number>();
      for (const members of groupsOf(rollouts)) {
        const scorable = members.filter((r) => r.scorable);
        const rewards = scorable.map((r) => r.reward);
        if (isWithoutSpread(rewards) && !(singles && rewards.length === 1)) continue;
        ofGroup(rewards, scorable).forEach((a, k) => advantages.set(scorable[k]!, a));
      }
      return {
        perToken: toColumns(trajectories, rollouts, (rollout) =>
          new Float64Array(rollout.tokens.length).fill(advantages.get(rollout) ?? 0),
        ),
        fracRewardZeroStd: fracWithoutSpread(rollouts),
      };
    },
  };
}

/**
 * An estimator that gives every trained token of a rollout its own advantage, without comparing rollouts of a group.
 * @param ofRollout gives the advantages of a scorable rollout's tokens, and the critic's targets if there is a critic
 * @param whiten whether the advantages of the whole batch are scaled to mean 0 and deviation 1
 */
export function tokenEstimator(
  name: string,
  needs: readonly TokenStatistic[],
  ofRollout: (
    rollout: Rollout,
    trajectories: readonly Trajectory[],
    statistics: TokenStatistics,
  ) => { readonly advantages: readonly number[]; readonly returns?: readonly number[] },
  whiten: boolean,
): AdvantageEstimator {
  return {
    name,
    needs,
    estimate(trajectories, statistics = {}) {
      const rollouts = rolloutsOf(trajectories);
      const values = needs.includes("values") ? statistic(statistics, "values", name) : undefined;
      const results = rollouts.map((r) => {
        if (!r.scorable) return null;
        const [start] = r.tokens;
        const bound = values && start && boundBeside(r, values[start.row]![start.t]!);
        if (bound === undefined) return ofRollout(r, trajectories, statistics);
        if (bound === null) return null;
        const { advantages } = ofRollout({ ...r, reward: bound }, trajectories, statistics);
        return { advantages, returns: advantages.map(() => NaN) };
      });
      const all = results.flatMap((r) => r?.advantages ?? []);
      const scale = whiten ? whitening(all) : (x: number): number => x;
      const hasReturns = results.some((r) => r?.returns);
      return {
        perToken: toColumns(trajectories, rollouts, (_, i) => results[i]?.advantages.map(scale) ?? null),
        fracRewardZeroStd: fracWithoutSpread(rollouts),
        ...(hasReturns
          ? { returns: toColumns(trajectories, rollouts, (_, i) => results[i]?.returns ?? null, NaN) }
          : {}),
      };
    },
  };
}

/** x ↦ (x − mean)/√(variance + 1e-8), ddof 1 (verl); values without spread become exactly 0. */
export function whitening(values: readonly number[]): (x: number) => number {
  if (isWithoutSpread(values)) return () => 0;
  const { mean, std } = moments(values, 1);
  const scale = 1 / Math.sqrt(std * std + 1e-8);
  return (x) => (x - mean) * scale;
}
