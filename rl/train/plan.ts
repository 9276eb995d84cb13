/**
 * The plan of a step of reinforcement learning: from episodes, and signals of their tokens, to advantages and weights. Everything
 * that depends on the whole step (statistics, denominators, selections) happens here, before the step is split.
 */
import { check } from "../../engine/errors.ts";
import { fracWithoutSpread, rowsWithoutSpread } from "../episode/groups.ts";
import { aggregationWeights } from "../methods/aggregation.ts";
import { rowsFilteredOut } from "../methods/filter.ts";
import { succeeded } from "../episode/outcomes.ts";
import { klEstimate } from "../methods/losses/kl.ts";
import {
  betaOf,
  checkObjective,
  entropyOf,
  type Objective,
  type StepPlan,
  type TokenPlan,
  worldsOf,
} from "../methods/objective.ts";
import { type PerToken, signal, type Signals } from "../methods/tokenStatistics.ts";
import {
  isTruncated,
  policyMask,
  rewardsOfTokens,
  rolloutRows,
  rolloutsOf,
  type Trajectory,
} from "../episode/stream.ts";

/**
 * Advantages and weights of all episodes of one optimiser step.
 * @param step counts from 0, for schedules
 * @param signals those that `signalsOf(objective)` names
 */
export function planStep(
  objective: Objective,
  trajectories: readonly Trajectory[],
  step: number,
  signals: Signals = {},
): StepPlan {
  checkObjective(objective);
  check(trajectories.length > 0, () => "planStep: the list of episodes is empty");
  const {
    advantage,
    aggregation,
    maxLength,
    focus,
    correction,
    critic,
    kl,
    imitation = 0,
    rolloutFilter,
    rewardFrom = 0,
  } = objective;
  const shaped =
    kl?.in === "reward" ? withKlInReward(objective, trajectories, signals) : { trajectories, kl: undefined };
  const { fracRewardZeroStd: ofShaped, ...estimate } = advantage.estimate(shaped.trajectories, signals);
  const isRewarded = step >= rewardFrom;
  const perToken = isRewarded ? estimate.perToken : estimate.perToken.map((row) => new Float64Array(row.length));
  const returns = isRewarded ? estimate.returns : undefined;
  // Groups without spread are those of the outcomes, whatever a penalty makes of them.
  const fracRewardZeroStd = shaped.kl === undefined ? ofShaped : fracWithoutSpread(rolloutsOf(trajectories));

  const dropped = new Set([
    ...(objective.dropConstantGroups ? rowsWithoutSpread(trajectories) : []),
    ...(rolloutFilter ? rowsFilteredOut(trajectories, rolloutFilter) : []),
    ...(objective.maskTruncated ? truncatedRows(trajectories) : []),
  ]);
  const masks = trajectories.map((t, row) => (dropped.has(row) ? policyMask(t).fill(false) : policyMask(t)));
  const sequences = rolloutRows(trajectories);
  const groups = sequences.map((rows) => trajectories[rows[0]!]!.group);
  const options = { sequences, groups, ...(maxLength === undefined ? {} : { maxLength }) };
  const plain = aggregationWeights(masks, aggregation, options);
  const importance = focus?.weights(trajectories, signals);
  const focused = importance
    ? focus!.normalized
      ? aggregationWeights(masks, aggregation, { ...options, importance })
      : times(plain, importance)
    : plain;
  const wPolicy = correction ? times(focused, correction.weights(trajectories, signals, perToken)) : focused;
  const { exact, clipped } = worldWeights(objective, trajectories, step, signals);
  if (imitation > 0 && isRewarded) addImitation(exact, trajectories, imitation);
  const entropy = entropyOf(objective);
  const wValue = critic && returns ? valueWeights(returns, critic.coefficient ?? 0.1, sequences) : undefined;
  const beta = kl?.in === "reward" ? 0 : betaOf(objective);
  const segmentOf = new Map(sequences.flatMap((rows, i) => rows.map((row) => [row, i])));
  return {
    fracRewardZeroStd,
    ...(shaped.kl === undefined ? {} : { kl: shaped.kl }),
    episodes: trajectories.map((trajectory, i): TokenPlan => ({
      trajectory,
      advantages: perToken[i]!,
      wPolicy: wPolicy[i]!,
      wWorld: exact[i]!,
      wKl: scaled(plain[i]!, beta),
      mask: masks[i]!,
      segment: segmentOf.get(i)!,
      ...(clipped ? { wClipped: clipped[i]! } : {}),
      ...(entropy > 0 ? { wEntropy: scaled(plain[i]!, entropy) } : {}),
      ...(wValue ? { wValue: wValue[i]!, returns: returns![i]! } : {}),
    })),
  };
}

/** The rows of rollouts that ran out of tokens. */
const truncatedRows = (trajectories: readonly Trajectory[]): number[] =>
  rolloutRows(trajectories).flatMap((rows) => (rows.some((row) => isTruncated(trajectories[row]!)) ? rows : []));

// Loops over tokens, and no functions made for a step: an engine would compile those in every step anew (docs/log.md).
function scaled(row: Float64Array, factor: number): Float64Array {
  const result = new Float64Array(row.length);
  for (let t = 0; t < row.length; t++) result[t] = row[t]! * factor;
  return result;
}

const times = (a: readonly Float64Array[], b: readonly Float64Array[]): Float64Array[] =>
  a.map((row, i) => {
    const result = new Float64Array(row.length); // 0 stays 0, whatever it is multiplied by
    for (let t = 0; t < row.length; t++) if (row[t] !== 0) result[t] = row[t]! * b[i]![t]!;
    return result;
  });

/** Weights of −lp, and of the clipped error if some world objective has it; those of one form add up. */
export function worldWeights(
  objective: Pick<Objective, "world">,
  trajectories: readonly Trajectory[],
  step: number,
  signals: Signals,
): { exact: Float64Array[]; clipped: Float64Array[] | undefined } {
  const empty = (): Float64Array[] => trajectories.map(({ stream }) => new Float64Array(stream.ids.length));
  const exact = empty();
  let clipped: Float64Array[] | undefined;
  for (const world of worldsOf(objective)) {
    const into = world.clip === undefined ? exact : (clipped ??= empty());
    for (const [i, row] of world.weights(trajectories, step, signals).entries()) {
      for (let t = 0; t < row.length; t++) into[i]![t]! += row[t]!;
    }
  }
  return { exact, clipped };
}

/** Adds the weights of −lp on the tokens of successful rollouts, which sum to `weight`; nothing if none succeeded. */
function addImitation(into: readonly Float64Array[], trajectories: readonly Trajectory[], weight: number): void {
  const successes = rolloutsOf(trajectories).filter(({ scorable, first }) => scorable && succeeded(first));
  const tokens = successes.flatMap((rollout) => rollout.tokens);
  for (const { row, t } of tokens) into[row]![t]! += weight / tokens.length;
}

/** The value loss is a mean over all tokens that have a target. */
function valueWeights(
  returns: PerToken,
  coefficient: number,
  sequences: readonly (readonly number[])[],
): Float64Array[] {
  const masks = returns.map((row) => Array.from(row, (R) => !Number.isNaN(R)));
  return aggregationWeights(masks, "token-mean", { sequences }).map((row) => scaled(row, coefficient));
}

/** r̃_t = r_t − β·kl_t on the agent's tokens, from the log-probabilities that were recorded when they were sampled. */
function withKlInReward(
  objective: Objective,
  trajectories: readonly Trajectory[],
  signals: Signals,
): { trajectories: Trajectory[]; kl: number } {
  const ref = signal(signals, "refLogProbs", "kl in reward");
  const beta = betaOf(objective);
  const tokenRewards = trajectories.map(({ stream }) => new Float64Array(stream.ids.length));
  const rewards = new Map<number, number>();
  let [total, count] = [0, 0];
  for (const rollout of rolloutsOf(trajectories)) {
    const own = rewardsOfTokens(rollout, trajectories);
    let penalty = 0;
    rollout.tokens.forEach(({ row, t }, k) => {
      const kl = klEstimate(objective.kl!.estimator, trajectories[row]!.stream.oldLogProbs[t]!, ref[row]![t]!);
      tokenRewards[row]![t] = own[k]! - beta * kl;
      penalty += kl;
    });
    for (const row of rollout.rows) rewards.set(row, rollout.reward - beta * penalty);
    total += penalty;
    count += rollout.tokens.length;
  }
  return {
    trajectories: trajectories.map((t, row) => ({ ...t, reward: rewards.get(row)!, tokenRewards: tokenRewards[row]! })),
    kl: count > 0 ? total / count : 0,
  };
}
