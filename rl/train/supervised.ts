/** Learning without rewards: rows of supervised fine-tuning, and rows of preference pairs with their metrics. */
import { check } from "../../engine/errors.ts";
import { inCode, number, oneOf, options, type OptionsOf } from "../../engine/optionTable.ts";
import { mean } from "../episode/groups.ts";
import type { Metrics } from "../episode/metrics.ts";
import { isAgentToken, policyMask, type Trajectory } from "../episode/stream.ts";
import { aggregationWeights } from "../methods/aggregation.ts";
import { rowOf, type TokenRow } from "../methods/columns.ts";
import type { PerToken } from "../methods/tokenStatistics.ts";
import { observationTokens } from "../methods/world/echo.ts";

export const SFT_ROWS = options("sftRows", {
  /**
   * A model that has read no text before does not know what a terminal prints; with a weight above 0 the warm start
   * also learns the answers in the demonstrations.
   */
  observationWeight: number(0, "weight of predicting the environment's answers", { min: 0 }),
  /** `dft`: the agent's tokens go to the policy loss, with which `dft()` weighs them by their probability. */
  loss: oneOf(["sft", "dft"], "sft", "the loss of a token: −log p (`sft`) or −p·log p (`dft`)"),
  /** A demonstration with a mistake and its correction leaves the mistake out and keeps the rest. */
  imitate: inCode<(trajectory: Trajectory, token: number) => boolean>(
    "which of the agent's tokens are imitated; by default all",
    "a function of the trajectory and the token",
    (value) => typeof value === "function",
  ),
});
/**
 * What `sftRows` and `trainSft` imitate in a demonstration: which of the agent's tokens, with which loss, and whether
 * the environment's answers, too.
 */
export type SftRowOptions = OptionsOf<typeof SFT_ROWS>;

/**
 * The rows of supervised fine-tuning: cross-entropy on the agent's tokens, averaged over all of them (`token-mean`).
 */
export function sftRows(trajectories: readonly Trajectory[], given?: SftRowOptions): TokenRow[] {
  const { observationWeight, loss, imitate } = SFT_ROWS.read(given);
  check(trajectories.length > 0, () => "sftRows: the list of episodes is empty");
  const masks = trajectories.map((t) => policyMask(t).map((own, k) => own && (imitate?.(t, k) ?? true)));
  const weights = aggregationWeights(masks, "token-mean");
  const count = (of: readonly boolean[][]): number => of.reduce((n, mask) => n + mask.filter(Boolean).length, 0);
  // A batch of which nothing is imitated is still read, beside the tokens that the agent wrote.
  const agentTokens = count(masks) || count(trajectories.map(policyMask));
  return trajectories.map((trajectory, i) => {
    const { targets } = observationTokens(trajectory);
    const own = weights[i]!;
    const wWorld = own.map((w, t) => (targets[t] ? observationWeight / agentTokens : loss === "sft" ? w : 0));
    return rowOf(
      trajectory,
      loss === "sft" ? { wWorld } : { wWorld, wPolicy: own, mask: own.map((w) => Number(w !== 0)) },
    );
  });
}

/** Episodes, and how much their mean counts in the loss. */
export interface MixturePart {
  readonly episodes: readonly Trajectory[];
  readonly weight: number;
}

/**
 * The rows of a mixture: Σ weight · CE, each the mean over the part's own tokens. With the agent's part at η and
 * general texts at 1 − η it is AgentTuning's loss (Zeng et al. 2023, arXiv 2310.12823, eq. 1).
 */
export const mixedRows = (parts: readonly MixturePart[], given?: SftRowOptions): TokenRow[] =>
  parts.flatMap(({ episodes, weight }) =>
    sftRows(episodes, given).map((row) => ({
      ...row,
      wWorld: row.wWorld.map((w) => weight * w),
      wPolicy: row.wPolicy.map((w) => weight * w),
    })),
  );

/** The mean of −lp over the tokens that these rows imitate, in nats, whatever their weights are. */
export const imitationLoss = (rows: readonly TokenRow[], logProbs: PerToken): number =>
  mean(rows.flatMap((row, i) => [...logProbs[i]!].flatMap((lp, t) => (isImitated(row, t) ? [-lp] : []))));

const isImitated = ({ trajectory, wWorld, wPolicy }: TokenRow, t: number): boolean =>
  isAgentToken(trajectory.stream.roles[t]!) && (wWorld[t] !== 0 || wPolicy[t] !== 0);

/** Two answers to the same task, the first of which was preferred. */
export interface PreferencePair {
  readonly chosen: Trajectory;
  readonly rejected: Trajectory;
}

export const PREFERENCE_ROWS = options("preferenceRows", {
  /**
   * A mean over the tokens and over the pairs. A preference loss also falls when both answers become improbable, as
   * long as the rejected one does so more; this weight holds the chosen answer up (RPO, Pang et al. 2024, arXiv
   * 2404.19733; TRL's `rpo_alpha`).
   */
  imitation: number(0, "weight of −lp of the chosen answer beside the preference loss", { min: 0 }),
});
/** What `preferenceRows` and `trainPreference` learn beside the preference loss. */
export type PreferenceRowOptions = OptionsOf<typeof PREFERENCE_ROWS>;

/**
 * The rows of a preference loss: the advantage column holds the side (+1 chosen, −1 rejected), the two rows of a pair
 * are one segment, and the weights of a pair's tokens sum to 1/pairs, because the loss gives each of them the whole
 * loss of the pair.
 */
export function preferenceRows(pairs: readonly PreferencePair[], given?: PreferenceRowOptions): TokenRow[] {
  const { imitation } = PREFERENCE_ROWS.read(given);
  check(pairs.length > 0, () => "preferenceRows: the list of pairs is empty");
  return pairs.flatMap(({ chosen, rejected }, segment) => {
    const masks = [chosen, rejected].map(policyMask);
    const [n, m] = masks.map((mask) => mask.filter(Boolean).length) as [number, number];
    check(n > 0 && m > 0, () => `preferenceRows: pair ${segment} has ${n} chosen and ${m} rejected tokens to train`);
    return [chosen, rejected].map((trajectory, side) => {
      const mask = Float64Array.from(masks[side]!, Number);
      const columns = {
        mask,
        advantages: mask.map((own) => (own ? 1 - 2 * side : 0)),
        wPolicy: mask.map((own) => (own ? 1 / (pairs.length * (n + m)) : 0)),
        wWorld: mask.map((own) => (own && side === 0 ? imitation / (pairs.length * n) : 0)),
      };
      return rowOf(trajectory, columns, segment);
    });
  });
}

/**
 * What an update on preference pairs did, chosen and rejected rows alternating as `preferenceRows` lays them out. The
 * reward of an answer is β(lp − ref) summed over its tokens, whatever the loss makes of it.
 */
export function preferenceMetrics(rows: readonly TokenRow[], logProbs: PerToken, beta: number): Metrics {
  const sums = rows.map(({ mask, refLogProbs }, i) => {
    const tokens = [...mask].flatMap((own, t) => (own ? [t] : []));
    return {
      logp: tokens.reduce((sum, t) => sum + logProbs[i]![t]!, 0),
      reward: beta * tokens.reduce((sum, t) => sum + logProbs[i]![t]! - refLogProbs[t]!, 0),
    };
  });
  const [chosen, rejected] = [sums.filter((_, i) => i % 2 === 0), sums.filter((_, i) => i % 2 === 1)];
  const margins = chosen.map(({ reward }, k) => reward - rejected[k]!.reward);
  return {
    "rewards/chosen": mean(chosen.map(({ reward }) => reward)),
    "rewards/rejected": mean(rejected.map(({ reward }) => reward)),
    "rewards/margins": mean(margins),
    "rewards/accuracies": mean(margins.map((margin) => Number(margin > 0))),
    "logps/chosen": mean(chosen.map(({ logp }) => logp)),
    "logps/rejected": mean(rejected.map(({ logp }) => logp)),
  };
}
