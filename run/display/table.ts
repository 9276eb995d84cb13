/**
 * Tables in the terminal, and the table at the end of a run: the changes on held-out tasks, with intervals that show
 * how much may be chance.
 */
import { formatNumber, formatPercent, formatSigned } from "../figures/format.ts";
import { visibleLine } from "../visible.ts";
import { isKnown } from "../knownFacts.ts";
import type { Evaluation, Score, Summary } from "../records.ts";
import { rateDifference, wilson } from "../figures/statistics.ts";
import type { Style } from "./style.ts";
import { fit, textWidth, truncate } from "./width.ts";

/** The cells between two columns. */
const GAP = 2;

export interface TableCell {
  readonly text: string;
  readonly tone?: "good" | "bad" | "dim";
  /** Where a click on a page leads. */
  readonly href?: string;
}

export interface Table {
  readonly title: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly (string | TableCell)[])[];
  /** Text under the table. */
  readonly note?: string;
}

/** A column of a table: its head, and what it has for a row. */
export type Column<Row> = readonly [head: string, cell: (row: Row) => string | TableCell];

/** A table of which each row is one thing seen through all columns. */
export const tableOf = <Row>(
  title: string,
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  note: string = "",
): Table => ({
  title,
  head: columns.map(([head]) => head),
  rows: rows.map((row) => columns.map(([, cell]) => cell(row))),
  note,
});

/**
 * Lines of at most `width` cells. The first column is left-aligned, the others right. A table that is too wide is
 * stacked. Names of families and metrics may be an environment's: they are shown on one line, with nothing hidden.
 */
export function tableLines(given: Table, style: Style, width: number): string[] {
  const table = { ...given, title: visibleLine(given.title), head: given.head.map(visibleLine) };
  const rows = table.rows.map((row) =>
    row.map((cell): TableCell => {
      const { text, ...rest } = typeof cell === "string" ? { text: cell } : cell;
      return { ...rest, text: visibleLine(text) };
    }),
  );
  const sizes = table.head.map((head, c) =>
    Math.max(...[head, ...rows.map((row) => row[c]?.text ?? "")].map(textWidth)),
  );
  const total = sizes.reduce((sum, size) => sum + size + GAP, -GAP);
  const paint = (cell: TableCell, text: string): string => (cell.tone ? style[cell.tone](text) : text);
  const body = total <= width ? grid() : stacked();
  return [
    style.bold(truncate(table.title, width)),
    ...body,
    ...(table.note ? wrapWords(table.note, width).map(style.dim) : []),
  ];

  function grid(): string[] {
    const line = (cells: readonly TableCell[]): string =>
      cells
        .map((cell, c) => paint(cell, fit(cell.text, sizes[c] ?? 0, c === 0 ? "left" : "right")))
        .join(" ".repeat(GAP))
        .trimEnd();
    const head = table.head.map((text): TableCell => ({ text, tone: "dim" }));
    return [line(head), style.dim("─".repeat(total)), ...rows.map(line)];
  }

  /** One block per row, one line per column: for a narrow window. */
  function stacked(): string[] {
    const labelSize = Math.min(Math.max(...table.head.map(textWidth)), Math.floor(width / 2));
    return rows.flatMap(([name, ...cells]) => [
      truncate(name?.text ?? "", width),
      ...cells.map((cell, c) => {
        const label = style.dim(fit(table.head[c + 1] ?? "", labelSize));
        return truncate(`  ${label}  ${paint(cell, cell.text)}`, width);
      }),
    ]);
  }
}

/** "62.5 % [52.4, 71.6]": a rate with its 95 % Wilson interval. */
export function formatRate(score: Score): string {
  if (score.episodes === 0) return "–";
  const { value, low, high } = wilson(score.successes, score.episodes);
  return `${formatPercent(value)} [${(100 * low).toFixed(0)}, ${(100 * high).toFixed(0)}]`;
}

/** "0.42 ± 0.06": the mean reward with half of its 95 % interval, by the normal distribution; "–" if there is none. */
export function formatReward({ meanReward, rewardStd = 0, episodes }: Score): string {
  if (meanReward === undefined) return "–";
  return `${formatNumber(meanReward)} ± ${formatNumber((1.96 * rewardStd) / Math.sqrt(episodes))}`;
}

/** Whether the mean reward says more than the success, which it equals where a success earns 1 and all else nothing. */
export const isGraded = ({ meanReward, successes, episodes }: Score): boolean =>
  meanReward !== undefined && Math.abs(meanReward - successes / episodes) > 1e-9;

/** The numbers of episodes that a score counts and does not count. */
type Counts = Pick<Score, "episodes" | "notPlayed" | "unscored">;

/** The number of episodes of an evaluation, with those that do not count. */
export const askedOf = ({ episodes, notPlayed = 0, unscored = 0 }: Counts): number => episodes + notPlayed + unscored;

/** " (20 of 200 not played)", " (20 of 200 not played, 3 without a score)", or nothing if all count. */
export function missingNote(counts: Counts): string {
  const { notPlayed = 0, unscored = 0 } = counts;
  const missing = [...(notPlayed === 0 ? [] : ["not played"]), ...(unscored === 0 ? [] : ["without a score"])];
  const numbers = [notPlayed, unscored].filter((n) => n > 0);
  const notes = missing.map((what, i) => `${numbers[i]}${i === 0 ? ` of ${askedOf(counts)}` : ""} ${what}`);
  return notes.length === 0 ? "" : ` (${notes.join(", ")})`;
}

/** "9 of 50": the facts of its world that a model knows; "–" if it was not asked. */
export const formatFacts = ({ facts }: Pick<Score, "facts">): string =>
  facts === undefined ? "–" : `${facts.filter(isKnown).length} of ${facts.length}`;

/** The result of an evaluation in one line. */
export function scoreLine(score: Score): string {
  const { successes, episodes, meanReward, worldLoss } = score;
  const percent = episodes === 0 ? "–" : `${((100 * successes) / episodes).toFixed(1)} %`;
  const reward = isGraded(score) ? `, mean reward ${formatNumber(meanReward!)}` : "";
  const solved = `held-out tasks: ${percent} of ${episodes} solved${missingNote(score)}${reward}`;
  const facts = score.facts === undefined ? "" : `, facts known: ${formatFacts(score)}`;
  const loss = worldLoss === undefined ? "" : `, world-model loss ${worldLoss.toFixed(3)} nats per token`;
  return solved + facts + loss;
}

/** The main comparison: one row per quantity. Baselines have separate columns before "before". */
export function comparisonTable(summary: Summary): Table {
  const { before, after } = summary;
  const columns: readonly Evaluation[] = [...(summary.baselines ?? []), before, after];
  const optional = (value: number | undefined): string => (value === undefined ? "–" : formatNumber(value));
  const change = (key: "meanReward" | "meanTurns" | "worldLoss"): TableCell => {
    const [b, a] = [before[key], after[key]];
    if (b === undefined || a === undefined) return { text: "–" };
    return { text: formatSigned(a - b) };
  };
  const turns = columns.some((column) => column.meanTurns !== undefined);
  const world = columns.some((column) => column.worldLoss !== undefined);
  const missing = (name: string, key: "notPlayed" | "unscored"): string[][] =>
    columns.some((column) => column[key] !== undefined)
      ? [[name, ...columns.map((column) => String(column[key] ?? 0)), ""]]
      : [];
  return {
    title: "Held-out tasks, before and after",
    head: ["", ...columns.map((column) => column.label), "change"],
    rows: [
      ["success rate [95 %]", ...columns.map(formatRate), successChange(before, after)],
      ...(columns.some(isGraded) ? [["mean reward ± 95 %", ...columns.map(formatReward), change("meanReward")]] : []),
      ...(turns ? [["mean turns", ...columns.map((c) => optional(c.meanTurns)), change("meanTurns")]] : []),
      ...(world ? [["world loss, nats/token", ...columns.map((c) => optional(c.worldLoss)), change("worldLoss")]] : []),
      ...(columns.some(({ facts }) => facts !== undefined)
        ? [["facts of the world known", ...columns.map(formatFacts), ""]]
        : []),
      ["episodes", ...columns.map((column) => String(column.episodes)), ""],
      ...missing("not played", "notPlayed"),
      ...missing("without a score", "unscored"),
    ],
    note: "Wilson intervals; the change in points with Newcombe's interval, which is coloured when it leaves 0 out.",
  };
}

/** Success per task family; null if neither evaluation has families. */
export function familyTable(summary: Summary): Table | null {
  const { before, after } = summary;
  const names = [...new Set([...Object.keys(before.families ?? {}), ...Object.keys(after.families ?? {})])];
  if (names.length === 0) return null;
  const none: Score = { episodes: 0, successes: 0 };
  return {
    title: "By family of tasks",
    head: ["", before.label, after.label, "change"],
    rows: names.map((name) => {
      const [b, a] = [before, after].map(({ families = {} }) =>
        Object.hasOwn(families, name) ? families[name]! : none,
      ) as [Score, Score];
      return [name, formatRate(b), formatRate(a), successChange(b, a)];
    }),
  };
}

/** "+31.0 [+18, +43]" in percentage points, toned only if the interval excludes 0. */
export function successChange(before: Score, after: Score): TableCell {
  if (before.episodes === 0 || after.episodes === 0) return { text: "–" };
  const { value, low, high } = rateDifference(
    { successes: before.successes, trials: before.episodes },
    { successes: after.successes, trials: after.episodes },
  );
  const points = (x: number, digits: number): string => {
    const rounded = Number((100 * x).toFixed(digits));
    return formatSigned(rounded, (v) => v.toFixed(digits).replace("-", "−"));
  };
  const text = `${points(value, 1)} [${points(low, 0)}, ${points(high, 0)}]`;
  return low > 0 ? { text, tone: "good" } : high < 0 ? { text, tone: "bad" } : { text };
}

function wrapWords(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last !== undefined && textWidth(last) + 1 + textWidth(word) <= width)
      lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(truncate(word, width));
  }
  return lines;
}
