/**
 * Interfaces of the factors on the weights of the policy term, and of the choice of its rows. Papers implement them;
 * `weigh` calls them (rl/train/weights.ts).
 */
import type { Trajectory } from "../episode/stream.ts";
import type { PerToken, TokenStatistic, TokenStatistics } from "./tokenStatistics.ts";

/** A weighting of the agent's tokens. */
export interface TokenWeighting {
  readonly name: string;
  readonly needs: readonly TokenStatistic[];
  /** True: the denominators count each token by its weight (Σw). False: the weights change the numerators only. */
  readonly normalized: boolean;
  /** Weights ≥ 0 per row and token. Only those of trained tokens are read. */
  weights(trajectories: readonly Trajectory[], statistics: TokenStatistics): Float64Array[];
}

/** A correction for a sampler that is not the learner. */
export interface ImportanceCorrection {
  readonly name: string;
  readonly needs: readonly TokenStatistic[];
  /** A factor on each trained token's weight. */
  weights(trajectories: readonly Trajectory[], statistics: TokenStatistics, advantages: PerToken): Float64Array[];
  /** Numbers for the step's report. */
  metrics?(trajectories: readonly Trajectory[], statistics: TokenStatistics): Readonly<Record<string, number>>;
}

/** A choice of the groups that are learnt from. */
export interface RolloutFilter {
  readonly name: string;
  /** The rows that the policy term and its denominators leave out. */
  rowsLeftOut(trajectories: readonly Trajectory[]): ReadonlySet<number>;
}
