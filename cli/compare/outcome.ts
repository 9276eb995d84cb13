/** What the agents of a finished comparison came to, read from their folders. */
import { readSummary } from "../arms/job.ts";
import type { Evaluation, MetricsRecord, Summary } from "../report/records.ts";
import { openRun } from "../runFolder.ts";
import { isYardstick } from "../yardsticks.ts";
import type { Comparison } from "./settings.ts";

/** A point of an agent's curve. */
export interface CurvePoint {
  /** RL steps done. */
  readonly step: number;
  /** Held-out tasks. */
  readonly success: number;
  /** −lp per token of what the environment answers in fixed held-out episodes, in nats. */
  readonly worldLoss: number;
  /** The same in the agent's own held-out episodes. */
  readonly worldLossOnPolicy: number;
}

export interface ArmOutcome {
  readonly label: string;
  /** How the method is written on the command line, with its settings. */
  readonly method: string;
  readonly slug: string;
  /** Whether it learns by playing: then it has a curve of training success. */
  readonly plays: boolean;
  readonly after: Evaluation;
  readonly curve: readonly CurvePoint[];
  /** Success of training episodes, a mean over the last tenth of the steps; null if it plays none. */
  readonly trainingSuccess: number | null;
  /** Success of training episodes, step by step. */
  readonly training: readonly (readonly [step: number, success: number])[];
  readonly steps: number;
}

export interface Outcome {
  readonly env: string;
  readonly seed: number;
  /** Episodes of a step of training. */
  readonly episodesPerStep: number;
  readonly warm: Evaluation;
  readonly arms: readonly ArmOutcome[];
}

export function outcomeOf({ warm, arms }: Comparison): Outcome {
  const { env, seed, rl } = warm.preset;
  return {
    env,
    seed,
    episodesPerStep: rl.groups * rl.groupSize,
    warm: readSummary(warm) as unknown as Evaluation,
    arms: arms.map((job): ArmOutcome => {
      const { arm, path, preset } = job;
      const { after } = readSummary(job) as unknown as Summary;
      const metrics = openRun(path).readMetrics();
      const training = trainingOf(metrics, preset.sft.steps);
      const last = training.slice(-Math.max(1, Math.ceil(preset.rl.steps / 10))).map(([, success]) => success);
      return {
        label: arm.label,
        method: arm.method,
        slug: arm.slug,
        plays: !isYardstick(arm.method),
        after,
        curve: metrics.flatMap((line) => (line.phase === "eval" ? [pointOf(line, preset.sft.steps)] : [])),
        trainingSuccess: last.length === 0 ? null : last.reduce((a, b) => a + b, 0) / last.length,
        training,
        steps: preset.rl.steps,
      };
    }),
  };
}

function pointOf(line: MetricsRecord, warmSteps: number): CurvePoint {
  const number = (name: string): number => Number(line[name] ?? NaN);
  return {
    step: line.step - warmSteps,
    success: number("success"),
    worldLoss: number("world_loss"),
    worldLossOnPolicy: number("world_loss/on_policy"),
  };
}

const trainingOf = (metrics: readonly MetricsRecord[], warmSteps: number): (readonly [number, number])[] =>
  metrics.flatMap((line) =>
    line.phase === "rl" && Number.isFinite(line["success"])
      ? [[line.step - warmSteps + 1, Number(line["success"])] as const]
      : [],
  );
