/**
 * A run as one HTML file. This file makes the head and the tables as plain HTML; the page's script (page.ts) draws
 * curves and trajectories from the JSON embedded at the end.
 */
import { comparisonTable, familyTable } from "../display/table.ts";
import type { PageAssets } from "../page/assets.ts";
import { encodeReportData } from "../page/embedded.ts";
import type { Knower } from "../page/factMap.ts";
import { FACT_MAP, lessonsHtml, pageHtml, type PageParts, sectionHtml, tableHtml } from "../page/frame.ts";
import { LESSONS } from "../page/lessons.ts";
import type { MetricsRecord, Summary, Transcript } from "../records.ts";

export interface ReportInput {
  /** The title of the page: the name of the run. */
  readonly name: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly metrics: readonly MetricsRecord[];
  readonly transcripts: readonly Transcript[];
  /** The summary of a finished run. */
  readonly summary?: Summary;
}

const NO_SCRIPT = "Curves and trajectories need JavaScript; the numbers are in metrics.jsonl and transcripts.jsonl.";

/**
 * The largest number of embedded transcripts: more would make the page slow to open. A longer run has every n-th and
 * the newest.
 */
const MAX_TRANSCRIPTS = 600;

/** The whole page. Pure: the same input gives the same text. */
export function renderReport(input: ReportInput, assets: PageAssets): string {
  const { name, config, metrics, summary } = input;
  const transcripts = thin(input.transcripts, MAX_TRANSCRIPTS);
  const omitted = input.transcripts.length - transcripts.length;
  const left = `${transcripts.length} of ${input.transcripts.length}; the others are in transcripts.jsonl.`;
  const main = [
    sectionHtml(
      "result",
      "What changed",
      summary ? summaryHtml(summary) : "<p>This run has not been evaluated at its end yet.</p>",
    ),
    ...(summary?.after.facts === undefined
      ? []
      : [sectionHtml("known", "What the model knows of its world", FACT_MAP)]),
    sectionHtml("lessons", "How to read this page", lessonsHtml("Eight things to know first", LESSONS)),
    sectionHtml("curves", "Curves", `<div id="charts"></div>`),
    sectionHtml(
      "trajectories",
      "Trajectories",
      `${omitted > 0 ? `<p class="muted">${left}</p>` : ""}\n<div id="viewer"></div>`,
    ),
    `<noscript><p>${NO_SCRIPT}</p></noscript>`,
  ].join("\n");
  const data = encodeReportData(metrics, transcripts, knowersOf(summary));
  return pageHtml({ name, brand: "worldgrad run", facts: facts(input), config, main, data }, assets);
}

/** The model at the end and at the beginning of RL. */
function knowersOf(summary: Summary | undefined): readonly Knower[] {
  const columns = summary === undefined ? [] : [summary.after, summary.before];
  return columns.flatMap(({ label, facts }) => (facts === undefined ? [] : [{ label, facts }]));
}

function facts({ metrics, transcripts, summary }: ReportInput): PageParts["facts"] {
  const training = metrics.filter((line) => line.phase !== "eval");
  const steps = (phase: string): number => training.filter((line) => line.phase === phase).length;
  return [
    ["steps", `${steps("sft")} SFT + ${steps("rl")} RL`],
    ...Object.entries(summary?.facts ?? {}),
    ["transcripts", transcripts.length],
  ];
}

function summaryHtml(summary: Summary): string {
  const families = familyTable(summary);
  return [comparisonTable(summary), ...(families ? [families] : [])].map(tableHtml).join("\n");
}

function thin<T>(items: readonly T[], limit: number): readonly T[] {
  if (items.length <= limit) return items;
  return items.filter((_, i) => {
    // Takes item i if the n-th of `limit` evenly spaced places is in it, and the newest.
    const place = (n: number): number => Math.floor(((n + 1) * limit) / items.length);
    return place(i) > place(i - 1);
  });
}
