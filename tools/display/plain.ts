/**
 * The display of a file or a pipe: lines that are only ever appended, no escape codes, no redrawing. A step is one line; at most
 * one line per `lineMs`, except that the first and the last step of a phase are always there.
 */
import { metricInfo } from "../figures/catalogue.ts";
import { formatAs, formatDuration, visible } from "../figures/format.ts";
import type { Score, Transcript } from "../../node/records.ts";
import type { Display, NamedTranscript, ResolvedOptions } from "./contract.ts";
import type { Lane } from "./lanes.ts";
import { Progress } from "./progress.ts";
import { scoreLine, tableLines, type Table } from "./table.ts";
import { sideBySideLines, transcriptLines } from "./transcript.ts";

const WIDTH = 120;
/** Metrics on a line; all of them are in metrics.jsonl. */
const MAX_METRICS = 10;

export function createPlain({ stream, now, show, lineMs, style }: ResolvedOptions): Display {
  let title = "";
  let lanes: readonly Lane[] = [];
  let lastLine = -Infinity;
  /** Runs whose newest step has no line yet. */
  const pending = new Set<Lane>();
  let closed = false;

  const print = (lines: readonly string[]): void => {
    if (!closed) stream.write(lines.map((line) => `${line.trimEnd()}\n`).join(""));
  };
  const printSteps = (): void => {
    const time = now();
    print(
      [...pending].map(({ name, progress }) => {
        const { done, total, history } = progress;
        const metrics = progress.shown(show, MAX_METRICS).map((metric) => {
          const { label, format } = metricInfo(metric);
          return `${label} ${formatAs(format, history.get(metric)?.at(-1) ?? NaN)}`;
        });
        const clock = `${formatDuration(progress.elapsedSeconds(time))} elapsed, ${formatDuration(progress.remainingSeconds(time))} left`;
        return `${name === "" ? title : name} ${done}/${total} | ${clock}${metrics.length > 0 ? ` | ${metrics.join(" | ")}` : ""}`;
      }),
    );
    lastLine = time;
    pending.clear();
  };

  return {
    phase(name: string, total: number, done: number = 0, names: readonly string[] = [""]): void {
      printSteps();
      title = visible(name);
      lanes = names.map((own) => ({ name: visible(own), progress: new Progress(title, total, done, now()) }));
      lastLine = -Infinity;
      print([`== ${title}: ${total - done} steps ==`]);
    },
    update(step: number, metrics: Readonly<Record<string, number>>, lane: number = 0): void {
      const of = lanes[lane];
      if (of === undefined || closed) return;
      of.progress.update(step, metrics, now());
      pending.add(of);
      if (now() - lastLine >= lineMs || step >= of.progress.total) printSteps();
    },
    evaluation(_step: number, score: Score, lane: number = 0): void {
      const name = lanes[lane]?.name ?? "";
      print([`${name === "" ? "" : `${name}: `}${scoreLine(score)}`]);
    },
    sideBySide(records: readonly NamedTranscript[]): void {
      print(sideBySideLines(records, style, WIDTH));
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
      printSteps();
      closed = true;
    },
  };
}
