/** What a step learns from: the episodes that were just played, guesses at their answers, and replayed episodes. */
import { type Metrics, rolloutMetrics } from "../episode/metrics.ts";
import type { Trajectory } from "../episode/stream.ts";
import { isGuided } from "../tasks/expertPrefix.ts";
import type { DataOptions } from "../tasks/play.ts";
import type { Predictions } from "../tasks/predictions.ts";
import { withReplayed } from "../tasks/replay.ts";
import type { LearnOptions, StepReport } from "./step.ts";

/** What is learnt from, and how. */
export interface Batch {
  readonly learn: LearnOptions;
  readonly trajectories: readonly Trajectory[];
  /** Those that were played in this step, and without help. */
  readonly own: readonly Trajectory[];
  readonly metrics: Metrics;
}

/** New episodes, guesses at their answers, and replayed episodes; the buffer takes the new ones in, without the guesses. */
export function batchOf(
  options: LearnOptions & DataOptions,
  fresh: readonly Trajectory[],
  step: number,
  guessed: Predictions = { trajectories: [], metrics: {} },
): Batch {
  const { replay, dynamicSampling, objective } = options;
  const learn = dynamicSampling ? { ...options, objective: { ...objective, dropConstantGroups: true } } : options;
  const own = fresh.filter((t) => !isGuided(t));
  const all = [...fresh, ...guessed.trajectories];
  if (!replay) return { learn, trajectories: all, own, metrics: guessed.metrics };
  const drawn = replay.draw(step);
  replay.add(fresh, step);
  const replayed = withReplayed(all, drawn, step);
  const { trajectories } = replayed;
  const metrics = { ...replayed.metrics, ...guessed.metrics };
  // Ratios of replayed tokens refer to what was recorded; those of new ones as well, which is the same up to rounding.
  const isOffPolicy = drawn.length > 0;
  return { learn: isOffPolicy ? { ...learn, offPolicy: true } : learn, trajectories, own, metrics };
}

/** The step's report, its outcomes those of the policy's own episodes. */
export function reportOf(report: StepReport, played: Metrics, { own, trajectories, metrics }: Batch): StepReport {
  const outcomes = own.length < trajectories.length ? rolloutMetrics(own) : {};
  return { ...report, metrics: { ...report.metrics, ...outcomes, ...played, ...metrics } };
}
