/**
 * Several runs of one phase beside each other on a terminal: a column for each, with its bar and the same metrics in
 * the same order. The curves of a metric have one scale, so that heights compare across columns. Pure functions from
 * progress to lines.
 */
import { metricInfo } from "../figures/catalogue.ts";
import { formatAs, formatDuration } from "../figures/format.ts";
import { visible } from "../visible.ts";
import { Progress } from "./progress.ts";
import { bar, sparkline } from "./spark.ts";
import type { Style } from "./style.ts";
import { fit, truncate } from "./width.ts";

/** The metrics to compare runs by, if they are there. */
export const LANE_METRICS: readonly string[] = [
  "eval/success",
  "success",
  "eval/world_loss",
  "world_loss",
  "entropy",
  "frac_reward_zero_std",
  "tokens_per_second",
];

/** The width of a column with label, value and a curve that is long enough to read. */
const MIN_COLUMN = 36;
const LABEL_WIDTH = 12;
const VALUE_WIDTH = 8;

export interface Lane {
  readonly name: string;
  readonly progress: Progress;
}

/** @param cells the width of the window */
export function laneLines(title: string, lanes: readonly Lane[], style: Style, cells: number, now: number): string[] {
  const columns = Math.max(1, Math.min(lanes.length, Math.floor(cells / MIN_COLUMN)));
  const width = Math.floor(cells / columns);
  const lines = [style.bold(style.accent(truncate(`▸ ${title}`, cells)))];
  for (let first = 0; first < lanes.length; first += columns) {
    const row = lanes.slice(first, first + columns).map((lane) => column(lane, lanes, style, width - 2, now));
    const height = Math.max(...row.map(({ length }) => length));
    for (let i = 0; i < height; i++)
      lines.push(
        row
          .map((columnLines) => fit(`  ${columnLines[i] ?? ""}`, width))
          .join("")
          .trimEnd(),
      );
  }
  return lines.map((line) => truncate(line, cells));
}

function column({ name, progress }: Lane, lanes: readonly Lane[], style: Style, cells: number, now: number): string[] {
  const left = formatDuration(progress.remainingSeconds(now));
  const times = ` ${String(Math.floor(progress.fraction * 100)).padStart(3)} %  ${left} left`;
  const { filled, rest } = bar(progress.fraction, Math.max(4, cells - times.length - 1));
  const shown = LANE_METRICS.filter((metric) => lanes.some((lane) => lane.progress.history.has(metric)));
  return [
    style.bold(fit(visible(name), cells)),
    `${style.good(filled)}${style.dim(rest)}${times}`,
    ...shown.map((metric) => cell(metric, progress, lanes, style, cells)),
  ];
}

function cell(metric: string, { history }: Progress, lanes: readonly Lane[], style: Style, cells: number): string {
  const { label, format } = metricInfo(metric);
  const values = history.get(metric) ?? [];
  const all = lanes.flatMap((lane) => lane.progress.history.get(metric) ?? []).filter(Number.isFinite);
  const curve = sparkline(values, Math.max(0, cells - LABEL_WIDTH - VALUE_WIDTH - 3), {
    low: Math.min(...all),
    high: Math.max(...all),
  });
  const value = values.length === 0 ? "–" : formatAs(format, values.at(-1)!);
  return `${style.dim(fit(label, LABEL_WIDTH))}${style.bold(fit(value, VALUE_WIDTH, "right"))}  ${style.accent(curve)}`;
}
