/**
 * The display for a file or a pipe: lines are only appended, without escape codes. A step is one line. There is at most
 * one line per `lineMs`, but the first and the last step of a phase always have one.
 */
import { metricInfo } from "../figures/catalogue.ts";
import { formatAs, formatDuration } from "../figures/format.ts";
import { visible } from "../visible.ts";
import type { Score, Transcript } from "../records.ts";
import type { Display, NamedTranscript, ResolvedOptions } from "./contract.ts";
import type { Lane } from "./lanes.ts";
import { Progress } from "./progress.ts";
import { scoreLine, tableLines, type Table } from "./table.ts";
import { sideBySideLines, transcriptLines } from "./transcript.ts";

const WIDTH = 120;
/** The largest number of metrics in a line; metrics.jsonl has all. */
const MAX_METRICS = 10;

export function createPlain({ stream, now, show, lineMs, style }: ResolvedOptions): Display {
  let title = "";
  let lanes: readonly Lane[] = [];
  let lastLine = -Infinity;
  /** Runs whose newest step has not been printed yet. */
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
        const elapsed = formatDuration(progress.elapsedSeconds(time));
        const left = formatDuration(progress.remainingSeconds(time));
        const head = `${name === "" ? title : name} ${done}/${total}`;
        return [head, `${elapsed} elapsed, ${left} left`, ...metrics].join(" | ");
      }),
    );
    lastLine = time;
    pending.clear();
  };

  return {
    phase(name: string, total: number, done: number = 0, names: readonly string[] = [""]): void {
      printSteps();
      title = visible(name);
      lanes = names.map((laneName) => ({ name: visible(laneName), progress: new Progress(title, total, done, now()) }));
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
