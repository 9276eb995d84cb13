/** Rows of imitation: cross-entropy on the agent's tokens of whole episodes. */
import { check } from "../../engine/errors.ts";
import { policyMask, type Trajectory } from "../episode/stream.ts";
import { aggregationWeights } from "../objective/aggregation.ts";
import { rowOf, type TokenRow } from "../objective/columns.ts";
import { observationTokens } from "../objective/echo.ts";

/** Episodes, and the weight of their mean in the loss. */
export interface MixturePart {
  readonly episodes: readonly Trajectory[];
  readonly weight: number;
}

/** The choice of tokens to imitate. */
export interface Imitation {
  /** Weight of predicting the environment's answers. Default 0. */
  readonly observationWeight?: number;
  /** Whether one of the agent's tokens is imitated. Default: all are. */
  readonly imitate?: (trajectory: Trajectory, token: number) => boolean;
}

/**
 * Rows of −lp on the agent's tokens, averaged over all of them (`token-mean`). The weights are those of the world term,
 * which has the same loss.
 */
export function imitationRows(
  trajectories: readonly Trajectory[],
  { observationWeight = 0, imitate }: Imitation = {},
): TokenRow[] {
  check(trajectories.length > 0, () => "imitationRows: the list of episodes is empty");
  const masks = trajectories.map((t) => policyMask(t).map((isAgents, k) => isAgents && (imitate?.(t, k) ?? true)));
  const weights = aggregationWeights(masks, "token-mean");
  const count = (of: readonly boolean[][]): number => of.reduce((n, mask) => n + mask.filter(Boolean).length, 0);
  // A batch without imitated tokens still has rows; its denominator is then the number of the agent's tokens.
  const agentTokens = count(masks) || count(trajectories.map(policyMask));
  return trajectories.map((trajectory, i) => {
    const { targets } = observationTokens(trajectory);
    return rowOf(trajectory, {
      wWorld: weights[i]!.map((w, t) => (targets[t] ? observationWeight / agentTokens : w)),
    });
  });
}

/** The rows of a mixture: Σ weight · CE, each the mean over the part's own tokens. */
export const mixedRows = (
  parts: readonly MixturePart[],
  rowsOf: (episodes: readonly Trajectory[]) => TokenRow[] = imitationRows,
): TokenRow[] =>
  parts.flatMap(({ episodes, weight }) =>
    rowsOf(episodes).map((row) => ({
      ...row,
      wWorld: row.wWorld.map((w) => weight * w),
      wPolicy: row.wPolicy.map((w) => weight * w),
    })),
  );
