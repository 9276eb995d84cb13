/**
 * Weights of a step: how much each token counts in each term of the loss. Everything that depends on the whole step
 * (denominators, selections, a policy loss's `prepare` over all tokens) is settled here, before the step is split into
 * micro-batches.
 */
import { rowsWithoutSpread } from "../episode/groups.ts";
import { succeeded } from "../episode/outcomes.ts";
import { isAgentToken, policyMask, rolloutRows, rolloutsOf, type Trajectory } from "../episode/stream.ts";
import { aggregationWeights } from "../objective/aggregation.ts";
import { type Columns, rowOf, type TermColumnsByName, type TokenRow, withColumns } from "../objective/columns.ts";
import type { PolicyLoss } from "../objective/policyLoss.ts";
import { betaOf, CRITIC, entropyOf, extraTermsOf, type Objective, worldsOf } from "../objective/objective.ts";
import type { WeighedStep } from "../objective/terms.ts";
import type { PerToken, TokenStatistics } from "../objective/tokenStatistics.ts";
import { judged, type StepAdvantages } from "./advantages.ts";
import type { Ratios } from "./score.ts";

/**
 * The rows of one optimiser step, with all columns that the loss reads.
 * @param step the number of the step, from 0, for schedules
 * @param statistics the statistics that `statisticsOf(objective)` names
 */
export function weigh(
  objective: Objective,
  trajectories: readonly Trajectory[],
  advantages: StepAdvantages,
  step: number,
  statistics: TokenStatistics = {},
  ratios: Ratios = "recorded",
): TokenRow[] {
  const { aggregation, maxLength, critic, imitation = 0, rewardFrom = 0 } = objective;
  const { tokenWeights, importanceCorrection } = objective;
  const leftOut = rowsLeftOut(objective, trajectories);
  const maskOf = objective.trainObservations ? maskWithObservations : policyMask;
  const masks = trajectories.map((t, row) => (leftOut.has(row) ? maskOf(t).fill(false) : maskOf(t)));
  const sequences = rolloutRows(trajectories);
  const groups = sequences.map((rows) => trajectories[rows[0]!]!.group);
  const counted = { sequences, groups, ...(maxLength === undefined ? {} : { maxLength }) };
  const plain = aggregationWeights(masks, aggregation, counted);

  const importance = tokenWeights?.weights(trajectories, statistics);
  const weighted = importance
    ? tokenWeights!.normalized
      ? aggregationWeights(masks, aggregation, { ...counted, importance })
      : times(plain, importance)
    : plain;
  const wPolicy = importanceCorrection
    ? times(weighted, importanceCorrection.weights(trajectories, statistics, advantages.perToken))
    : weighted;
  const wWorld = worldWeights(objective, trajectories, step, statistics);
  if (imitation > 0 && step >= rewardFrom) addImitation(wWorld, trajectories, imitation);
  const further = termColumns(objective, { trajectories, step, statistics, masks, aggregated: plain });
  const { returns } = advantages;
  const wValue = critic && returns ? valueWeights(returns, CRITIC.read(critic).coefficient, sequences) : undefined;
  const beta = objective.kl?.in === "reward" ? 0 : betaOf(objective);
  const entropy = entropyOf(objective);

  const { logProbs, refLogProbs, values } = statistics;
  const segmentOf = new Map(sequences.flatMap((rows, i) => rows.map((row) => [row, i])));
  const rows = trajectories.map((trajectory, i) => {
    const columns: Partial<Columns & TermColumnsByName> = {
      advantages: objective.trainObservations
        ? carriedOn(advantages.perToken[i]!, trajectory)
        : advantages.perToken[i]!,
      mask: onesWhere(masks[i]!),
      wPolicy: wPolicy[i]!,
      wWorld: wWorld[i]!,
      wKl: scaled(plain[i]!, beta),
      wEntropy: scaled(plain[i]!, entropy),
      ...(wValue ? { wValue: wValue[i]!, returns: returns![i]! } : {}),
      ...(logProbs && ratios !== "recorded" ? { oldLogProbs: logProbs[i]! } : {}),
      ...(refLogProbs ? { refLogProbs: refLogProbs[i]! } : {}),
      ...(values ? { oldValues: values[i]! } : {}),
      ...further[i]!,
    };
    return rowOf(trajectory, columns, segmentOf.get(i));
  });
  return withPrepared(objective.policyLoss, rows, step, logProbs);
}

/** The rows with the policy loss's own column, if it has one. @param logProbs of the current policy */
export function withPrepared(
  policyLoss: PolicyLoss,
  rows: readonly TokenRow[],
  step: number,
  logProbs: PerToken | undefined,
): TokenRow[] {
  if (!policyLoss.prepare) return [...rows];
  const prepared = policyLoss.prepare({
    logProbs: logProbs!,
    oldLogProbs: rows.map((row) => row.oldLogProbs),
    advantages: rows.map((row) => row.advantages),
    masks: rows.map(({ mask }) => Array.from(mask, Boolean)),
    step,
  });
  return withColumns(rows, { prepared });
}

/**
 * The mask of a mistake: everything after the prompt, which is right if only the agent writes there, and wrong in an
 * episode with answers (`Objective.trainObservations`).
 */
const maskWithObservations = (trajectory: Trajectory): boolean[] =>
  trajectory.stream.roles.map(
    (role, t) => t > 0 && !trajectory.masked && (isAgentToken(role) || role === "observation"),
  );

/** Advantages in which each answer has the advantage of the action before it. */
function carriedOn(advantages: Float64Array, { stream: { roles } }: Trajectory): Float64Array {
  const result = Float64Array.from(advantages);
  for (let t = 1; t < result.length; t++) if (!isAgentToken(roles[t]!)) result[t] = result[t - 1]!;
  return result;
}

/** Rows that the policy term and its denominators leave out. */
function rowsLeftOut(objective: Objective, trajectories: readonly Trajectory[]): ReadonlySet<number> {
  const { dropConstantGroups, rolloutFilter } = objective;
  const scored = judged(objective, trajectories);
  return new Set([
    ...(dropConstantGroups ? rowsWithoutSpread(scored, objective.advantage.readsParts) : []),
    ...(rolloutFilter?.rowsLeftOut(scored) ?? []),
    ...trajectories.flatMap((trajectory, row) => (scored[row] === trajectory ? [] : [row])),
  ]);
}

// Loops over tokens and not `map` with a closure: a JavaScript engine would compile the closures anew in every step
// (docs/log.md).
function onesWhere(mask: readonly boolean[]): Float64Array {
  const result = new Float64Array(mask.length);
  for (let t = 0; t < mask.length; t++) if (mask[t]) result[t] = 1;
  return result;
}

function scaled(row: Float64Array, factor: number): Float64Array {
  const result = new Float64Array(row.length);
  for (let t = 0; t < row.length; t++) result[t] = row[t]! * factor;
  return result;
}

const times = (a: readonly Float64Array[], b: readonly Float64Array[]): Float64Array[] =>
  a.map((row, i) => {
    const result = new Float64Array(row.length); // a weight of 0 stays 0 whatever it is multiplied by, also by NaN
    for (let t = 0; t < row.length; t++) if (row[t] !== 0) result[t] = row[t]! * b[i]![t]!;
    return result;
  });

/** Weights of −lp: the sum over the world objectives without a `tokenLoss`. */
function worldWeights(
  objective: Pick<Objective, "world">,
  trajectories: readonly Trajectory[],
  step: number,
  statistics: TokenStatistics,
): Float64Array[] {
  const weights = trajectories.map(({ stream }) => new Float64Array(stream.ids.length));
  for (const world of worldsOf(objective)) {
    if (world.tokenLoss) continue;
    for (const [i, row] of world.weights(trajectories, step, statistics).entries()) {
      for (let t = 0; t < row.length; t++) weights[i]![t]! += row[t]!;
    }
  }
  return weights;
}

/** The columns of an objective's further terms, row by row. */
function termColumns(objective: Pick<Objective, "world" | "terms">, step: WeighedStep): TermColumnsByName[] {
  const terms = extraTermsOf(objective).map((term) => ({ name: term.name, ...term.weigh(step) }));
  return step.trajectories.map((_, i) => ({
    weights: Object.fromEntries(terms.map(({ name, weight }) => [name, weight[i]!])),
    more: Object.fromEntries(
      terms.flatMap(({ name, columns = {} }) => Object.entries(columns).map(([key, of]) => [`${name}.${key}`, of[i]!])),
    ),
  }));
}

/** Adds the weights of −lp on the tokens of successful rollouts, which sum to `weight`; nothing if none succeeded. */
function addImitation(into: readonly Float64Array[], trajectories: readonly Trajectory[], weight: number): void {
  const successes = rolloutsOf(trajectories).filter(({ scorable, first }) => scorable && succeeded(first));
  const tokens = successes.flatMap((rollout) => rollout.tokens);
  for (const { row, t } of tokens) into[row]![t]! += weight / tokens.length;
}

/** Weights of the value loss, a mean over all tokens that have a target. */
function valueWeights(
  returns: PerToken,
  coefficient: number,
  sequences: readonly (readonly number[])[],
): Float64Array[] {
  const masks = returns.map((row) => Array.from(row, (R) => !Number.isNaN(R)));
  return aggregationWeights(masks, "token-mean", { sequences }).map((row) => scaled(row, coefficient));
}
