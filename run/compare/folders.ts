/** A finished comparison, read from its folders: the results of the agents, and their held-out episodes. */
import { readSummary } from "../arms/job.ts";
import type { Evaluation, Transcript } from "../records.ts";
import { openRun } from "../node/runFolder.ts";
import { type Outcome, outcomeOf } from "./outcome.ts";
import type { Comparison } from "./settings.ts";

export function outcomeIn({ warm, arms }: Comparison): Outcome {
  return outcomeOf(
    { preset: warm.preset, evaluation: evaluationIn(readSummary(warm)) },
    arms.map((job) => {
      const { arm, path, preset } = job;
      return { arm, preset, after: evaluationIn(readSummary(job)["after"]), metrics: openRun(path).readMetrics() };
    }),
  );
}

/** The held-out episodes of each agent. All curves begin with the warm start's evaluation. */
export function waysIn({ warm, arms }: Comparison): { label: string; transcripts: Transcript[] }[] {
  const heldOut = (path: string): Transcript[] =>
    openRun(path)
      .readTranscripts()
      .filter(({ phase }) => phase === "eval");
  const first = heldOut(warm.path);
  return arms.map(({ arm, path }) => ({ label: arm.label, transcripts: [...first, ...heldOut(path)] }));
}

/**
 * An evaluation of a summary. JSON has null for NaN: then there is no such loss, for nothing was answered or the model
 * broke.
 */
const evaluationIn = (summary: unknown): Evaluation =>
  Object.fromEntries(
    Object.entries(summary as Evaluation).filter(([, value]) => value !== null),
  ) as unknown as Evaluation;
