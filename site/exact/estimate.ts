/**
 * The gradient that a step of the library follows, from episodes that were played: advantages, weights and losses are
 * the library's own (`advantagesOf`, `weigh`, `tokenLoss`). Only the last factor of the chain rule, a token's score
 * ∇ log π, is not computed anew for each step: space.ts has it.
 */
import { add, type Device, grad, mul, neg, scope, sum, tensor, type Tensor, type Rng } from "../../engine/index.ts";
import type { Columns, TokenRow } from "../../rl/objective/columns.ts";
import type { TokenColumns } from "../../rl/objective/policyLoss.ts";
import { type Objective, statisticsOf } from "../../rl/objective/objective.ts";
import type { TokenStatistics } from "../../rl/objective/tokenStatistics.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { advantagesOf } from "../../rl/train/advantages.ts";
import { type Ratios, ratiosOf } from "../../rl/train/score.ts";
import { weigh } from "../../rl/train/weights.ts";
import { EPISODES, PREDICTIONS } from "./policy.ts";
import { probabilitiesOf, type Space } from "./space.ts";
import { TASKS } from "./task.ts";

/** The play of the episodes, by the policy itself or by an older one. */
export interface Play {
  readonly space: Space;
  /** The probability of each episode; they sum to 1. */
  readonly probabilities: Float64Array;
  /** Each episode as the library keeps it, with the log-probabilities that were recorded when it was played. */
  readonly trajectories: readonly Trajectory[];
  readonly isOffPolicy: boolean;
}

/** @param older the older policy's log-probabilities; without them the policy itself plays */
export function playOf(space: Space, older?: Float64Array): Play {
  const logProbs = older ?? space.logProbs;
  return {
    space,
    probabilities: older ? probabilitiesOf(older) : space.probabilities,
    trajectories: EPISODES.map(({ trajectory }, e) => ({
      ...trajectory,
      stream: { ...trajectory.stream, oldLogProbs: [0, ...PREDICTIONS[e]!.map((p) => logProbs[p]!)] },
    })),
    isOffPolicy: older !== undefined,
  };
}

const ratiosFor = (objective: Objective, { isOffPolicy: offPolicy }: Play): Ratios =>
  ratiosOf(objective, { offPolicy });

/** The statistics of the learning policy that the objective reads. */
function statisticsFor(objective: Objective, episodes: readonly number[], { space }: Play): TokenStatistics {
  if (!statisticsOf(objective).includes("logProbs")) return {};
  return { logProbs: episodes.map((e) => Float64Array.from([0, ...PREDICTIONS[e]!.map((p) => space.logProbs[p]!)])) };
}

/** The rows of a step that consists of these episodes. @param given advantages to take in place of the estimator's */
export function rowsOf(
  objective: Objective,
  episodes: readonly number[],
  play: Play,
  given?: readonly Float64Array[],
): TokenRow[] {
  const trajectories = episodes.map((e) => play.trajectories[e]!);
  const statistics = statisticsFor(objective, episodes, play);
  const advantages = given
    ? { perToken: given, fracRewardZeroStd: 0 }
    : advantagesOf(objective, trajectories, 0, statistics);
  return weigh(objective, trajectories, advantages, 0, statistics, ratiosFor(objective, play));
}

/** −d loss / d log π of each token of the rows but the first, which nothing predicts. */
export function tokenGradients(
  objective: Objective,
  episodes: readonly number[],
  rows: readonly TokenRow[],
  play: Play,
): Float64Array[] {
  const { device } = play.space.model.params.embedding;
  const column = (values: readonly number[]): Tensor => tensor(Float64Array.from(values), { device, dtype: "f64" });
  const now = episodes.flatMap((e) => PREDICTIONS[e]!.map((p) => play.space.logProbs[p]!));
  const isExact = ratiosFor(objective, play) === "exact";
  const derivative = scope(() => {
    const columns = columnsOf(rows, device);
    const current = column(now);
    const loss = (logProbs: Tensor): Tensor => {
      const oldLogProbs = isExact ? current : columns.oldLogProbs;
      const policy = mul(columns.wPolicy, objective.policyLoss.tokenLoss({ ...columns, logProbs, oldLogProbs }));
      return add(sum(policy), neg(sum(mul(columns.wWorld, logProbs))));
    };
    return grad(loss)(current);
  });
  const read = derivative.readSync();
  derivative.dispose();
  let at = 0;
  return episodes.map((e) => Float64Array.from(PREDICTIONS[e]!, () => -read[at++]!));
}

/** The columns that losses read, of all tokens but each row's first; a row is a sequence of its own. */
function columnsOf(rows: readonly TokenRow[], device: Device): ColumnTensors {
  const made = (name: keyof Omit<ColumnTensors, "segments">): Tensor =>
    tensor(Float64Array.from(rows.flatMap((row) => Array.from(row[name].subarray(1)))), { device, dtype: "f64" });
  const ids = Int32Array.from(rows.flatMap((row, i) => Array.from({ length: row.mask.length - 1 }, () => i)));
  return {
    advantages: made("advantages"),
    mask: made("mask"),
    oldLogProbs: made("oldLogProbs"),
    wPolicy: made("wPolicy"),
    wWorld: made("wWorld"),
    segments: { ids: tensor(ids, { device }), count: rows.length },
  };
}
type ColumnTensors = Omit<TokenColumns, "logProbs" | "prepared" | "refLogProbs"> &
  Pick<Columns<Tensor>, "wPolicy" | "wWorld">;

/** The gradient of a step that consists of these episodes: the direction in which its loss falls, [P]. */
export function stepGradient(objective: Objective, episodes: readonly number[], play: Play): Float64Array {
  const rows = rowsOf(objective, episodes, play);
  return addScores(tokenGradients(objective, episodes, rows, play), episodes, play);
}

/** Σ over episodes and tokens of a factor times the token's score. */
export function addScores(
  factors: readonly Float64Array[],
  episodes: readonly number[],
  { space }: Play,
): Float64Array {
  const total = new Float64Array(space.size);
  episodes.forEach((e, i) => {
    PREDICTIONS[e]!.forEach((p, t) => {
      const factor = factors[i]![t]!;
      if (factor === 0) return;
      const score = space.scores[p]!;
      for (let k = 0; k < total.length; k++) total[k]! += factor * score[k]!;
    });
  });
  return total;
}

/** The episodes of a step: one group of each task, drawn at random. */
export function playStep({ probabilities }: Play, groupSize: number, rng: Rng): number[] {
  return TASKS.flatMap((_, task) => {
    const own = [...EPISODES.keys()].filter((e) => EPISODES[e]!.task === task);
    return Array.from({ length: groupSize }, () => draw(own, probabilities, rng));
  });
}

/** Draws one of a task's episodes, whose probabilities sum to 1 / tasks. */
function draw(own: readonly number[], probabilities: Float64Array, rng: Rng): number {
  let rest = rng.uniform() / TASKS.length;
  return own.find((e) => (rest -= probabilities[e]!) < 0) ?? own.at(-1)!;
}
