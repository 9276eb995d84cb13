/**
 * The display on a terminal: a phase line, a progress bar and a grid of metrics with their curves, redrawn in place.
 * Notes, tables and transcripts are printed once above it and scroll away as usual.
 *
 * To redraw, the cursor goes up to the first live line, each line is written over the old one and cleared to its end,
 * and the rest below is cleared. All of it is one write, so that nothing flickers. Lines stay one cell short of the
 * width, because some terminals wrap a full last column. If the window has become narrower, the terminal has wrapped
 * the old lines, so they are counted anew.
 */
import { metricInfo } from "../figures/catalogue.ts";
import { formatAs, formatDuration } from "../figures/format.ts";
import { visible, visibleLine } from "../visible.ts";
import type { Score, Transcript } from "../records.ts";
import type { Display, NamedTranscript, ResolvedOptions } from "./contract.ts";
import { type Lane, laneLines } from "./lanes.ts";
import { Progress } from "./progress.ts";
import { bar, sparkline } from "./spark.ts";
import { scoreLine, tableLines, type Table } from "./table.ts";
import { sideBySideLines, transcriptLines } from "./transcript.ts";
import { fit, textWidth, truncate, wrapWords } from "./width.ts";

const HIDE_CURSOR = "\u001b[?25l";
const SHOW_CURSOR = "\u001b[?25h";
const CLEAR_LINE_END = "\u001b[K";
const CLEAR_BELOW = "\u001b[J";
/** The width of a column with label, value and a curve that is long enough to read. */
const MIN_COLUMN = 34;
/** The largest number of metrics that are shown, so that one glance takes them in; metrics.jsonl has all. */
const MAX_METRICS = 12;
const LABEL_WIDTH = 12;
const VALUE_WIDTH = 8;
/** The time between two updates of the clock on the screen while a step is running. */
const CLOCK_MS = 500;

export function createLive(options: ResolvedOptions): Display {
  const { stream, now, show, redrawMs, style } = options;
  let title = "";
  /** The runs of the phase; empty between phases. */
  let lanes: readonly Lane[] = [];
  /** The number of cells of each line that is now on the screen. */
  let drawn: number[] = [];
  let drawnColumns = 0;
  let lastDraw = -Infinity;
  let hidden = false;
  let closed = false;

  // At least 20 cells, and at most 200: wider lines are hard to read.
  const width = (): number => Math.min(200, Math.max(20, stream.columns ?? 80)) - 1;

  const goToTop = (): string => {
    const columns = Math.max(1, stream.columns ?? 80);
    const rows = drawn.reduce((sum, cells) => sum + Math.max(1, Math.ceil(cells / columns)), 0);
    // After a change of width the old rows are cleared at once, as only the terminal knows which of them it has
    // wrapped.
    const clear = columns === drawnColumns ? "" : CLEAR_BELOW;
    drawnColumns = columns;
    return rows > 0 ? `\u001b[${rows}A\r${clear}` : "";
  };

  /** Prints `above` so that it stays, and redraws the live lines under it. */
  const draw = (above: readonly string[] = []): void => {
    const [first, ...more] = lanes;
    const live =
      first === undefined
        ? []
        : more.length === 0
          ? frame(first.progress, options, width(), now())
          : laneLines(title, lanes, style, width(), now());
    // A frame that is taller than the window could not be overwritten.
    const fitting = live.slice(0, Math.max(1, (stream.rows ?? 24) - 1));
    const text = [...above, ...fitting].map((line) => `${line}${CLEAR_LINE_END}\n`).join("");
    stream.write(`${hidden ? "" : HIDE_CURSOR}${goToTop()}${text}${CLEAR_BELOW}`);
    hidden = true;
    drawn = fitting.map(textWidth);
    lastDraw = now();
  };
  /** Leaves the last state of a finished phase on the screen. */
  const settle = (): void => {
    if (lanes.length > 0) draw();
    lanes = [];
    drawn = [];
  };
  const drawIfDue = (): void => {
    if (now() - lastDraw >= redrawMs) draw();
  };

  const note = (text: string): void => {
    if (closed) return;
    const lines = visible(text)
      .split("\n")
      .flatMap((line) => wrapWords(line, width() - 2));
    draw(lines.map((line, i) => `${i === 0 ? style.accent("•") : " "} ${line}`));
  };

  const restoreCursor = (): void => {
    if (hidden) stream.write(SHOW_CURSOR);
    hidden = false;
  };
  const onResize = (): void => {
    if (lanes.length > 0) draw();
  };
  const clock = setInterval(() => {
    if (lanes.length > 0) drawIfDue();
  }, CLOCK_MS);
  clock.unref?.();
  stream.on?.("resize", onResize);
  // The process may end without close(), which must not leave the terminal without a cursor.
  process.on("exit", restoreCursor);

  return {
    phase(name: string, total: number, done: number = 0, names: readonly string[] = [""]): void {
      if (closed) return;
      settle();
      title = visible(name);
      lanes = names.map((laneName) => ({
        name: visibleLine(laneName),
        progress: new Progress(title, total, done, now()),
      }));
      draw();
    },
    update(step: number, metrics: Readonly<Record<string, number>>, lane: number = 0): void {
      if (closed || lanes[lane] === undefined) return;
      lanes[lane].progress.update(step, metrics, now());
      drawIfDue();
    },
    evaluation(_step: number, score: Score, lane: number = 0): void {
      // Side by side the curves show evaluations; a single run prints a line for each.
      if (lanes.length < 2) return note(scoreLine(score));
      const { progress } = lanes[lane]!;
      const { successes, episodes, worldLoss } = score;
      const metrics: Record<string, number> = { "eval/success": successes / episodes };
      if (worldLoss !== undefined) metrics["eval/world_loss"] = worldLoss;
      progress.update(progress.done, metrics, now());
      drawIfDue();
    },
    sideBySide(records: readonly NamedTranscript[]): void {
      if (!closed) draw(sideBySideLines(records, style, width()));
    },
    transcript(record: Transcript): void {
      if (!closed) draw(transcriptLines(record, style, width()));
    },
    table(table: Table): void {
      if (closed) return;
      // A table that summarises a finished phase belongs under its last state.
      if (lanes.length > 0 && lanes.every(({ progress }) => progress.done >= progress.total)) settle();
      draw(["", ...tableLines(table, style, width())]);
    },
    note,
    close(): void {
      if (closed) return;
      if (lanes.length > 0) draw();
      closed = true;
      clearInterval(clock);
      stream.off?.("resize", onResize);
      process.off("exit", restoreCursor);
      restoreCursor();
    },
  };

  function frame(state: Progress, { style: paint }: ResolvedOptions, cells: number, time: number): string[] {
    const count = `${state.done}/${state.total}`;
    const name = truncate(`▸ ${state.name}`, cells - count.length - 1);
    const title = `${paint.bold(paint.accent(name))} ${paint.dim(count)}`;

    const percent = `${Math.floor(state.fraction * 100)} %`.padStart(5);
    const elapsed = formatDuration(state.elapsedSeconds(time));
    const left = formatDuration(state.remainingSeconds(time));
    const times = cells >= 56 ? `${percent}  ${elapsed} elapsed · ${left} left` : `${percent} ${left} left`;
    const { filled, rest } = bar(state.fraction, Math.max(4, Math.min(60, cells - times.length - 3)));
    const lines = [title, `  ${paint.good(filled)}${paint.dim(rest)} ${times}`];

    const names = state.shown(show, MAX_METRICS);
    const columns = Math.max(1, Math.min(4, Math.floor(cells / MIN_COLUMN)));
    const columnWidth = Math.floor(cells / columns);
    for (let i = 0; i < names.length; i += columns) {
      const row = names.slice(i, i + columns).map((metric) => fit(metricCell(state, metric, columnWidth), columnWidth));
      lines.push(row.join("").trimEnd());
    }
    return lines.map((line) => truncate(line, cells));
  }

  function metricCell(state: Progress, metric: string, cells: number): string {
    const { label, format } = metricInfo(metric);
    const values = state.history.get(metric) ?? [];
    const value = formatAs(format, values.at(-1) ?? NaN);
    const sparkWidth = Math.max(0, Math.min(40, cells - LABEL_WIDTH - VALUE_WIDTH - 6));
    const curve = style.accent(sparkline(values, sparkWidth));
    return `  ${style.dim(fit(label, LABEL_WIDTH))}${style.bold(fit(value, VALUE_WIDTH, "right"))}  ${curve}`;
  }
}
