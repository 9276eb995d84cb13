/** The results of the agents of a comparison, from their settings, metrics and evaluations. */
import type { Arm } from "../arms.ts";
import { type Preset, samplingOf } from "../preset.ts";
import type { Evaluation, MetricsRecord } from "../records.ts";
import { isBaseline } from "../baselines.ts";
import { mean } from "../figures/statistics.ts";

export interface Outcome {
  readonly env: string;
  readonly seed: number;
  /** Episodes in a training step. */
  readonly episodesPerStep: number;
  readonly warm: Evaluation;
  /** How the warm start's tokens were drawn. */
  readonly warmSampling: string;
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
  const { env, seed, rl, rollout } = preset;
  return {
    env,
    seed,
    episodesPerStep: rl.groups * rl.groupSize,
    warm: evaluation,
    warmSampling: samplingOf(rollout),
    arms: arms.map(armOutcome),
  };
}

export type ArmOutcome = Readonly<ReturnType<typeof armOutcome>>;
function armOutcome({ arm, preset, after, metrics, steps = preset.rl.steps }: TrainedArm) {
  const warmSteps = preset.sft.steps;
  const training = metrics.flatMap((line): (readonly [step: number, success: number])[] =>
    line.phase === "rl" && Number.isFinite(line["success"])
      ? [[line.step - warmSteps + 1, Number(line["success"])]]
      : [],
  );
  const last = training.slice(-Math.max(1, Math.ceil(steps / 10))).map(([, success]) => success);
  return {
    label: arm.label,
    /** The method with its settings, as on the command line. */
    method: arm.method,
    slug: arm.slug,
    /** How its tokens are drawn, in evaluations too. */
    sampling: samplingOf(preset.rollout),
    /** Whether it learns from episodes that it plays: then it has a curve of training success. */
    plays: !isBaseline(arm.method),
    after,
    curve: metrics.flatMap((line) => (line.phase === "eval" ? [pointOf(line, warmSteps)] : [])),
    /** Success of training episodes in the last tenth of the steps; null if it plays none. */
    trainingSuccess: last.length === 0 ? null : mean(last),
    /** Success of training episodes, step by step. */
    training,
    /** RL steps done. */
    steps,
  };
}

/** A point of an agent's curve. */
function pointOf(line: MetricsRecord, warmSteps: number) {
  /** null if there is none, or if it is not finite. */
  const loss = (name: string): number | null => (Number.isFinite(line[name]) ? Number(line[name]) : null);
  return {
    /** RL steps done. */
    step: line.step - warmSteps,
    /** Success on held-out tasks. */
    success: Number(line["success"]),
    /** −log p per token of the answers in fixed held-out episodes, in nats; and in the agent's own. */
    worldLoss: loss("world_loss"),
    worldLossOnPolicy: loss("world_loss/on_policy"),
    /** `worldLossOnPolicy` minus the entropy of the answers, where the environment knows it. */
    worldLossExcess: loss("world_loss_excess"),
  };
}
