/** The columns of a chart, made from metric lines. Pure functions; charts.ts draws. */
import { type ChartInfo, CHARTS } from "../figures/catalogue.ts";
import type { MetricsRecord } from "../records.ts";
import { wilson } from "../figures/statistics.ts";

/** One number per step of the chart, null where there is none. */
export type Curve = readonly (number | null)[];

export interface ChartData {
  readonly steps: readonly number[];
  /** The curves in the order of the chart's series. */
  readonly curves: readonly Curve[];
  readonly band?: { readonly low: Curve; readonly high: Curve };
  /** The first series' value at the end of the warm start, at every later step, for comparison with RL. */
  readonly baseline?: Curve;
}

/** The range of steps that the charts show. */
export type StepRange = "whole" | "sft" | "rl";

/** The last warm-start step of a run that also has RL steps; null if the run has only one phase. */
export function lastWarmStep(metrics: readonly MetricsRecord[]): number | null {
  const last = metrics.findLast((line) => line.phase === "sft")?.step ?? null;
  return metrics.some((line) => line.phase === "rl") ? last : null;
}

/** The lines of one part of the run. The evaluation between the phases is in both. */
export function linesIn(metrics: readonly MetricsRecord[], range: StepRange): readonly MetricsRecord[] {
  const last = lastWarmStep(metrics);
  if (range === "whole" || last === null) return metrics;
  return metrics.filter((line) =>
    line.phase === "eval" ? (range === "sft" ? line.step <= last + 1 : line.step > last) : line.phase === range,
  );
}

/** Metrics without their own chart: they are part of another curve, or are no curve at all. */
const NOT_DRAWN: ReadonlySet<string> = new Set(["step", "phase", "episodes", "reward_std", "step_tokens"]);

/** The charts of the catalogue for which there is data, then one for every other metric. */
export function chartsOf(metrics: readonly MetricsRecord[]): readonly ChartInfo[] {
  const drawable = new Set<string>();
  for (const line of metrics) {
    for (const [name, value] of Object.entries(line)) if (Number.isFinite(value)) drawable.add(name);
  }
  const known = new Set(CHARTS.flatMap((chart) => chart.series.map((series) => series.name)));
  const others = [...drawable].filter((name) => !known.has(name) && !NOT_DRAWN.has(name)).toSorted();
  const bySelf = others.map((name): ChartInfo => {
    const series = [
      { name, label: "training" },
      { name, label: "held-out tasks", heldOut: true },
    ];
    return { title: name, format: "number", about: "", series };
  });
  return [...CHARTS, ...bySelf].flatMap((chart): ChartInfo[] => {
    const series = chart.series.filter(({ name, heldOut }) =>
      metrics.some((line) => (line.phase === "eval") === (heldOut ?? false) && Number.isFinite(line[name])),
    );
    return series.length > 0 ? [{ ...chart, series }] : [];
  });
}

/** Whether values are eight steps or more apart on average: then each is drawn as a point, as one alone is no line. */
export function isSparse(curve: Curve): boolean {
  const places = curve.flatMap((value, i) => (value === null ? [] : [i]));
  return places.length > 0 && 8 * (places.length - 1) <= places.at(-1)! - places[0]!;
}

/** The columns of one chart. All charts have the same axis, every step of `metrics`, so that they compare. */
export function chartData(chart: ChartInfo, metrics: readonly MetricsRecord[]): ChartData {
  const columns = chart.series.map((series) => {
    const lines = metrics.filter((line) => (line.phase === "eval") === (series.heldOut ?? false));
    return new Map(lines.flatMap((line) => (finite(line[series.name]) === null ? [] : [[line.step, line] as const])));
  });
  const steps = [...new Set(metrics.map((line) => line.step))].toSorted((a, b) => a - b);
  const curves = chart.series.map(({ name }, i) => steps.map((step) => finite(columns[i]?.get(step)?.[name])));
  const { band } = chart;
  const first = chart.series[0];
  const baseline = chart.baseline && first ? baselineOf(first.name, metrics, steps) : null;
  const result = { steps, curves, ...(baseline ? { baseline } : {}) };
  if (band === undefined || first === undefined) return result;
  const limits = steps.map((step): readonly [number | null, number | null] => {
    const line = columns[0]?.get(step);
    const value = finite(line?.[first.name]);
    if (line === undefined || value === null) return [null, null];
    if (band !== "wilson") {
      const spread = finite(line[band.plusMinus]);
      return spread === null ? [null, null] : [value - spread, value + spread];
    }
    const episodes = finite(line["episodes"]);
    if (episodes === null || episodes < 1) return [null, null];
    const { low, high } = wilson(Math.min(episodes, Math.max(0, Math.round(value * episodes))), episodes);
    return [low, high];
  });
  return { ...result, band: { low: limits.map(([low]) => low), high: limits.map(([, high]) => high) } };
}

/** The held-out value of the evaluation before the first RL step, from there on; null if there is none. */
function baselineOf(name: string, metrics: readonly MetricsRecord[], steps: readonly number[]): Curve | null {
  const firstRl = metrics.find((line) => line.phase === "rl")?.step;
  if (firstRl === undefined) return null;
  const line = metrics.findLast(({ phase, step }) => phase === "eval" && step <= firstRl);
  const value = finite(line?.[name]);
  return line === undefined || value === null ? null : steps.map((step) => (step >= line.step ? value : null));
}

/**
 * Exponential moving average without the bias of its start (divided by the weight collected so far, as Adam does). With
 * `amount` 0 it changes nothing. Gaps stay gaps. It starts again at index `restart`, as phases measure different
 * things.
 */
export function smooth(curve: Curve, amount: number, restart: number = -1): Curve {
  let sum = 0;
  let weight = 0;
  return curve.map((value, i) => {
    if (i === restart) sum = weight = 0;
    if (value === null) return null;
    sum = amount * sum + (1 - amount) * value;
    weight = amount * weight + (1 - amount);
    return sum / weight;
  });
}

function finite(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}
