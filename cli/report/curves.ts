/** From metric lines to the columns that a chart draws. Pure functions; the drawing is in pageCharts.ts. */
import type { ChartInfo } from "./catalogue.ts";
import { CHARTS } from "./catalogue.ts";
import type { MetricsRecord } from "./records.ts";
import { wilson } from "./statistics.ts";

/** One number per step of the chart, null where there is none. */
export type Curve = readonly (number | null)[];

export interface ChartData {
  readonly steps: readonly number[];
  /** In the order of the chart's series. */
  readonly curves: readonly Curve[];
  readonly band?: { readonly low: Curve; readonly high: Curve };
}

/** Names that are not drawn by themselves: they are part of another curve, or no curve at all. */
const NOT_DRAWN: ReadonlySet<string> = new Set(["step", "phase", "episodes", "reward_std", "num_tokens"]);

/** The charts of the catalogue for which there is data, then one for every other metric. */
export function chartsOf(metrics: readonly MetricsRecord[]): readonly ChartInfo[] {
  const present = new Set<string>();
  for (const line of metrics) {
    for (const [name, value] of Object.entries(line)) if (Number.isFinite(value)) present.add(name);
  }
  const known = new Set(CHARTS.flatMap((chart) => chart.series.map((series) => series.name)));
  const others = [...present].filter((name) => !known.has(name) && !NOT_DRAWN.has(name)).toSorted();
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

/** The columns of one chart. All charts have the same axis, every step of the run, so that they can be read side by side. */
export function chartData(chart: ChartInfo, metrics: readonly MetricsRecord[]): ChartData {
  const columns = chart.series.map((series) => {
    const lines = metrics.filter((line) => (line.phase === "eval") === (series.heldOut ?? false));
    return new Map(lines.flatMap((line) => (finite(line[series.name]) === null ? [] : [[line.step, line] as const])));
  });
  const steps = [...new Set(metrics.map((line) => line.step))].toSorted((a, b) => a - b);
  const curves = chart.series.map(({ name }, i) => steps.map((step) => finite(columns[i]?.get(step)?.[name])));
  const { band } = chart;
  const first = chart.series[0];
  if (band === undefined || first === undefined) return { steps, curves };
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
  return { steps, curves, band: { low: limits.map(([low]) => low), high: limits.map(([, high]) => high) } };
}

/**
 * Exponential moving average that starts unbiased (divided by the weight collected so far, as Adam does). `amount` 0 changes
 * nothing. Gaps stay gaps. It starts anew at index `restart`: what a phase measures has nothing to do with the phase before.
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
