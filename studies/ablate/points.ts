/**
 * The curve of a cell, from its metric lines, and what is read off a curve: success after a number of environment
 * steps, the area under it, and when it reaches a given height. Times are not part of it: the same settings give the
 * same curve.
 */
import { check } from "../../engine/errors.ts";
import { statisticsOf } from "../../rl/objective/objective.ts";
import { isOfReference } from "../../rl/objective/tokenStatistics.ts";
import { objectiveFor } from "../../run/methods.ts";
import type { Preset } from "../../run/preset.ts";
import { longestCompletion } from "../../run/template.ts";
import type { MetricsRecord } from "../../run/records.ts";
import { isBaseline } from "../../run/baselines.ts";
import { mean } from "../../run/figures/statistics.ts";

/** The evaluation of a cell's warm start, and the cell's curve. */
export interface CellCurve {
  readonly warm: Point;
  readonly points: readonly Point[];
}

/** What a curve needs beside settings and log: the number of the model's parameters, and names of further metrics. */
export interface CurveOptions {
  readonly parameters: number;
  readonly show: readonly string[];
}

/** The curve of a finished cell. @throws if its log is incomplete, as a copy that was cut short is */
export function curveOfCell(
  path: string,
  metrics: readonly MetricsRecord[],
  preset: Preset,
  options: CurveOptions,
): CellCurve {
  const points = pointsOf(metrics, preset, options);
  const [first, last] = [points[0], points.at(-1)];
  check(
    first?.step === 0 && last?.step === preset.rl.steps,
    () =>
      `${path}: its log has evaluations from RL step ${first?.step ?? "–"} to ${last?.step ?? "–"}, expected 0 ` +
      `to ${preset.rl.steps}; remove the folder and run the same command again`,
  );
  // The random player never changes; the evaluation at 0 is the warm start's.
  return { warm: first, points: preset.rl.method === "random" ? [{ ...last, step: 0 }, last] : points };
}

/** A point for every evaluation in the metric lines of a cell. */
export function pointsOf(
  metrics: readonly MetricsRecord[],
  preset: Preset,
  { parameters, show }: CurveOptions,
): Point[] {
  const { sft, rl } = preset;
  const flopsOfToken = flopsPerToken(preset) * parameters;
  const points: Point[] = [];
  let [envSteps, flops] = [0, 0];
  let training: MetricsRecord[] = [];
  for (const line of metrics) {
    if (line.phase === "rl") {
      const episodes = rl.groups * rl.groupSize - (numberIn(line, "masked") || 0);
      envSteps += Math.round((numberIn(line, "tools/call_frequency") || 0) * episodes);
      flops += flopsOfToken * (numberIn(line, "step_tokens") || 0);
      training.push(line);
    } else if (line.phase === "eval") {
      points.push(pointOf(line, training, show, { step: line.step - sft.steps, envSteps, flops }));
      training = [];
    }
  }
  return points;
}

const numberIn = (line: MetricsRecord, name: string): number => Number(line[name] ?? NaN);

/** A cell at one of its evaluations. */
export type Point = Readonly<ReturnType<typeof pointOf>>;
function pointOf(
  line: MetricsRecord,
  training: readonly MetricsRecord[],
  show: readonly string[],
  /** The RL steps done, the commands that the environment has answered in them, and an estimate of the operations. */
  spent: { readonly step: number; readonly envSteps: number; readonly flops: number },
) {
  const of = (name: string): number => numberIn(line, name);
  const finite = (values: readonly number[]): number | null =>
    values.some(Number.isFinite) ? mean(values.filter(Number.isFinite)) : null;
  const meanOf = (name: string): number | null => finite(training.map((one) => numberIn(one, name)));
  const shown = show.map((name) => [name, name.startsWith("eval/") ? finite([of(name.slice(5))]) : meanOf(name)]);
  const tries = Object.keys(line).filter((name) => name.startsWith("pass@"));
  return {
    ...spent,
    /** Success on held-out tasks, and turns per episode. */
    success: of("success"),
    turns: of("num_turns/mean"),
    /** −log p per token of what the environment answers, in nats: in fixed held-out episodes, the same for all; */
    worldLoss: of("world_loss"),
    /** in the random play among these; and in the episodes that the cell itself played. */
    worldLossRandom: of("world_loss/random"),
    worldLossOnPolicy: of("world_loss/on_policy"),
    /** `worldLossOnPolicy` minus the entropy of the answers themselves, where the environment knows it. */
    worldLossExcess: line["world_loss_excess"] === undefined ? undefined : of("world_loss_excess"),
    /** The mean reward of the training episodes since the last evaluation; null at the start. */
    reward: meanOf("reward"),
    /** Further metrics: means over the steps since the last evaluation; `eval/…` are those of the evaluation. */
    shown: Object.fromEntries(shown) as Readonly<Record<string, number | null>>,
    /** pass@k by k, where held-out tasks were tried more than once. */
    passAt:
      tries.length === 0
        ? undefined
        : (Object.fromEntries(tries.map((name) => [name.slice(5), of(name)])) as Readonly<Record<string, number>>),
  };
}

/**
 * Floating-point operations for each parameter and each token of a training episode, by the usual count (Kaplan et al.
 * 2020, arXiv 2001.08361): 2 forward, 4 backward. So playing costs 2, each pass that learns 6, and each pass that only
 * scores 2 (by a frozen reference, or by the policy before the first update). The count leaves out the part of
 * attention that grows with the length, the evaluations, and the warm start, which all arms have in common.
 */
export function flopsPerToken(preset: Preset): number {
  const { rl } = preset;
  if (isBaseline(rl.method)) return 6;
  const signals = statisticsOf(objectiveFor(rl, longestCompletion(preset)));
  const passes = Number(signals.some(isOfReference)) + Number(signals.some((name) => !isOfReference(name)));
  return 2 + 6 * (rl.iterations ?? 1) + 2 * passes;
}

/** The axis of a curve: environment steps, or optimiser steps for what plays nothing. */
export type Axis = "envSteps" | "step";

/** Success at `x`, by default so many environment steps: linear between evaluations, constant after the last one. */
export function successAt(points: readonly Point[], x: number, axis: Axis = "envSteps"): number {
  const next = points.findIndex((point) => point[axis] >= x);
  if (next < 0) return points.at(-1)!.success;
  const [a, b] = [points[next - 1], points[next]!];
  if (a === undefined || b[axis] === a[axis]) return b.success;
  return a.success + ((x - a[axis]) / (b[axis] - a[axis])) * (b.success - a.success);
}

/** Mean held-out success from 0 to `budget`: the area under the curve, linear between evaluations, over its width. */
export function areaUnder(points: readonly Point[], budget: number, axis: Axis = "envSteps"): number {
  if (!(budget > 0)) return NaN;
  const places = [...points.map((point) => point[axis]).filter((x) => x < budget), budget];
  let area = 0;
  for (let i = 1; i < places.length; i++) {
    const [a, b] = [places[i - 1]!, places[i]!];
    area += ((b - a) * (successAt(points, a, axis) + successAt(points, b, axis))) / 2;
  }
  return area / budget;
}

/** Number of evaluations in the moving mean. */
export const SMOOTHING = 3;

/** Success with each evaluation averaged with its two neighbours; the first and the last have one. */
export function smoothed(points: readonly Pick<Point, "success">[]): number[] {
  const reach = (SMOOTHING - 1) / 2;
  return points.map((_, i) => mean(points.slice(Math.max(0, i - reach), i + reach + 1).map(({ success }) => success)));
}

/** The highest smoothed success after the start. */
export const bestSmoothed = (points: readonly Point[]): number => Math.max(...smoothed(points).slice(1));

/**
 * Environment steps until smoothed success is `target`, linear between evaluations; null if it never is. The first
 * point does not count, as it belongs to the warm start.
 */
export function envStepsTo(points: readonly Point[], target: number): number | null {
  const values = smoothed(points);
  const at = values.findIndex((value, i) => i > 0 && value >= target);
  if (at < 0) return null;
  const [before, here] = [values[at - 1]!, values[at]!];
  const [from, to] = [points[at - 1]!.envSteps, points[at]!.envSteps];
  if (before >= target || here === before) return to;
  return from + ((target - before) / (here - before)) * (to - from);
}
