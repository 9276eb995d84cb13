/**
 * What an advantage estimator is, and what is common to all of them: grouping, unscorable (NaN) rewards, groups without spread, and
 * the way from a number per rollout or per trained token to columns. Statistics are per rollout, not per row or token.
 */
import { groupsOf, isWithoutSpread, fracWithoutSpread, moments } from "../../episode/groups.ts";
import { rolloutsOf, type Rollout, type Trajectory } from "../../episode/stream.ts";
import type { PerToken, Signal, Signals } from "../tokenStatistics.ts";

export interface Advantages {
  /** Per row, per token; 0 where nothing is trained. */
  readonly perToken: readonly Float64Array[];
  /** Share of groups whose rewards are all equal (or alone): they teach the policy nothing. */
  readonly fracRewardZeroStd: number;
  /** What a critic should have predicted, per row and token; NaN where it is not asked. Of estimators with values. */
  readonly returns?: PerToken;
}

/** A named estimator. */
export interface AdvantageEstimator {
  readonly name: string;
  /** Signals that `estimate` reads. */
  readonly needs?: readonly Signal[];
  /** True: each task is also played greedily, and `greedyReward` is the return of that (ReMax). */
  readonly greedyBaseline?: boolean;
  /** True: it weighs by π/μ itself, so that the loss and a correction must not do so again (V-trace). */
  readonly offPolicy?: boolean;
  /** `false`: it does not look at the return, so that a penalty taken off it (a KL in the reward) would change nothing. Default true. */
  readonly readsReturn?: false;
  /** Asks nothing of earlier steps but what `observe` was told, and changes nothing. */
  estimate(trajectories: readonly Trajectory[], signals?: Signals): Advantages;
  /** Of estimators that remember: after every step, with the episodes that the policy played in it, without help. */
  observe?(trajectories: readonly Trajectory[]): void;
  /** What it remembers, as plain JSON: part of a run's state. `restore` takes it back. */
  state?(): unknown;
  restore?(state: unknown): void;
}

/** Columns that are `fill` everywhere but on the tokens that `valuesOf` gives a number for. */
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
 * An estimator that turns the rewards of one group into one advantage per rollout. NaN rewards are not scorable: advantage 0,
 * excluded from the statistics. A group whose largest and smallest reward are equal, or with one member, gets exactly 0.
 * @param ofGroup advantages of the scorable members; asked of a single one only with `singles`
 */
export function groupEstimator(
  name: string,
  ofGroup: (rewards: readonly number[], rollouts: readonly Rollout[]) => readonly number[],
  { singles = false }: { readonly singles?: boolean } = {},
): AdvantageEstimator {
  return {
    name,
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
 * An estimator that gives every trained token of a rollout its own advantage, and no group is compared.
 * @param ofRollout advantages of the rollout's tokens, and the targets of a critic if there is one; only asked of scorable ones
 * @param whiten whether the advantages of the whole batch are brought to mean 0 and deviation 1
 */
export function tokenEstimator(
  name: string,
  needs: readonly Signal[],
  ofRollout: (
    rollout: Rollout,
    trajectories: readonly Trajectory[],
    signals: Signals,
  ) => { readonly advantages: readonly number[]; readonly returns?: readonly number[] },
  whiten: boolean,
): AdvantageEstimator {
  return {
    name,
    needs,
    estimate(trajectories, signals = {}) {
      const rollouts = rolloutsOf(trajectories);
      const results = rollouts.map((r) => (r.scorable ? ofRollout(r, trajectories, signals) : null));
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
