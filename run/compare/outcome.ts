/** The results of the agents of a comparison, from their settings, metrics and evaluations. */
import type { Arm } from "../arms.ts";
import type { Preset } from "../preset.ts";
import type { Evaluation, MetricsRecord } from "../records.ts";
import { isBaseline } from "../baselines.ts";
import { mean } from "../figures/statistics.ts";

/** A point of an agent's curve. */
export interface CurvePoint {
  /** RL steps done. */
  readonly step: number;
  /** Success on held-out tasks. */
  readonly success: number;
  /** World-model loss: −log p per token of the answers in fixed held-out episodes, in nats; null if not finite. */
  readonly worldLoss: number | null;
  /** World-model loss in the agent's own held-out episodes; null also if no answer came in them. */
  readonly worldLossOnPolicy: number | null;
  /** `worldLossOnPolicy` minus the entropy of the answers; null where the environment does not know it. */
  readonly worldLossExcess: number | null;
}

export interface ArmOutcome {
  readonly label: string;
  /** The method with its settings, as on the command line. */
  readonly method: string;
  readonly slug: string;
  /** Whether it learns from episodes that it plays: then it has a curve of training success. */
  readonly plays: boolean;
  readonly after: Evaluation;
  readonly curve: readonly CurvePoint[];
  /** Success of training episodes in the last tenth of the steps; null if it plays none. */
  readonly trainingSuccess: number | null;
  /** Success of training episodes, step by step. */
  readonly training: readonly (readonly [step: number, success: number])[];
  /** RL steps done. */
  readonly steps: number;
}

export interface Outcome {
  readonly env: string;
  readonly seed: number;
  /** Episodes in a training step. */
  readonly episodesPerStep: number;
  readonly warm: Evaluation;
  readonly arms: readonly ArmOutcome[];
}

/** An agent that was trained, or is being trained. */
export interface TrainedArm {
  readonly arm: Arm;
  readonly preset: Preset;
  /** The evaluation at the end, or the newest. */
  readonly after: Evaluation;
  readonly metrics: readonly MetricsRecord[];
  /** The number of finished RL steps; default: all of its settings. */
  readonly steps?: number;
}

/** @param warm the settings of the warm start, and its evaluation */
export function outcomeOf(
  { preset, evaluation }: { readonly preset: Preset; readonly evaluation: Evaluation },
  arms: readonly TrainedArm[],
): Outcome {
  const { env, seed, rl } = preset;
  return {
    env,
    seed,
    episodesPerStep: rl.groups * rl.groupSize,
    warm: evaluation,
    arms: arms.map(({ arm, preset, after, metrics, steps = preset.rl.steps }): ArmOutcome => {
      const warmSteps = preset.sft.steps;
      const training = metrics.flatMap((line): (readonly [number, number])[] =>
        line.phase === "rl" && Number.isFinite(line["success"])
          ? [[line.step - warmSteps + 1, Number(line["success"])]]
          : [],
      );
      const last = training.slice(-Math.max(1, Math.ceil(steps / 10))).map(([, success]) => success);
      return {
        label: arm.label,
        method: arm.method,
        slug: arm.slug,
        plays: !isBaseline(arm.method),
        after,
        curve: metrics.flatMap((line) => (line.phase === "eval" ? [pointOf(line, warmSteps)] : [])),
        trainingSuccess: last.length === 0 ? null : mean(last),
        training,
        steps,
      };
    }),
  };
}

function pointOf(line: MetricsRecord, warmSteps: number): CurvePoint {
  const loss = (name: string): number | null => (Number.isFinite(line[name]) ? Number(line[name]) : null);
  return {
    step: line.step - warmSteps,
    success: Number(line["success"]),
    worldLoss: loss("world_loss"),
    worldLossOnPolicy: loss("world_loss/on_policy"),
    worldLossExcess: loss("world_loss_excess"),
  };
}
