/**
 * The display of a file or a pipe: lines that are only ever appended, no escape codes, no redrawing. A step is one line; at most
 * one line per `lineMs`, except that the first and the last step of a phase are always there.
 */
import { metricInfo } from "../report/catalogue.ts";
import { formatAs, formatDuration, visible } from "../report/format.ts";
import type { Score, Transcript } from "../report/records.ts";
import type { Display, ResolvedOptions } from "./contract.ts";
import { Progress } from "./progress.ts";
import { scoreLine, tableLines, type Table } from "./table.ts";
import { transcriptLines } from "./transcript.ts";

const WIDTH = 120;
/** Metrics on a line; all of them are in metrics.jsonl. */
const MAX_METRICS = 10;

export function createPlain({ stream, now, show, lineMs, style }: ResolvedOptions): Display {
  let progress: Progress | null = null;
  let lastLine = -Infinity;
  /** The newest step that has no line yet. */
  let pending = false;
  let closed = false;

  const print = (lines: readonly string[]): void => {
    if (!closed) stream.write(lines.map((line) => `${line.trimEnd()}\n`).join(""));
  };
  const printStep = (): void => {
    if (progress === null) return;
    const time = now();
    const { name, done, total, history } = progress;
    const metrics = progress.shown(show, MAX_METRICS).map((metric) => {
      const { label, format } = metricInfo(metric);
      return `${label} ${formatAs(format, history.get(metric)?.at(-1) ?? NaN)}`;
    });
    const clock = `${formatDuration(progress.elapsedSeconds(time))} elapsed, ${formatDuration(progress.remainingSeconds(time))} left`;
    print([`${name} ${done}/${total} | ${clock}${metrics.length > 0 ? ` | ${metrics.join(" | ")}` : ""}`]);
    lastLine = time;
    pending = false;
  };
  const flush = (): void => {
    if (pending) printStep();
  };

  return {
    phase(name: string, total: number, done: number = 0): void {
      flush();
      progress = new Progress(visible(name), total, done, now());
      lastLine = -Infinity;
      print([`== ${progress.name}: ${total - done} steps ==`]);
    },
    update(step: number, metrics: Readonly<Record<string, number>>): void {
      if (progress === null || closed) return;
      progress.update(step, metrics, now());
      pending = true;
      if (now() - lastLine >= lineMs || step >= progress.total) printStep();
    },
    evaluation(_step: number, score: Score): void {
      print([scoreLine(score)]);
    },
    transcript(record: Transcript): void {
      print(transcriptLines(record, style, WIDTH));
    },
    table(table: Table): void {
      print(["", ...tableLines(table, style, WIDTH)]);
    },
    note(text: string): void {
      print(visible(text).split("\n"));
    },
    close(): void {
      flush();
      closed = true;
    },
  };
}
