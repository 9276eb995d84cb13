/**
 * A run as one HTML file that opens from the disk: no network, no other file. Head and tables are plain HTML made here; curves and
 * trajectories are drawn by the page's script (page.ts) from the JSON embedded at the end.
 *
 * A transcript may hold any text whatever, so three things stand between it and the page: all HTML here is escaped, the JSON holds
 * no `<`, and the page's own content policy allows no script and no style but these two, by their hashes, and no request at all.
 */
import { createHash } from "node:crypto";
import { comparisonTable, familyTable, type Table } from "../display/table.ts";
import type { PageAssets } from "./assets.ts";
import { encodeReportData } from "./embedded.ts";
import { type Lesson, LESSONS } from "./lessons.ts";
import type { MetricsRecord, Summary, Transcript } from "./records.ts";

export interface ReportInput {
  /** Title of the page: the name of the run. */
  readonly name: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly metrics: readonly MetricsRecord[];
  readonly transcripts: readonly Transcript[];
  /** Absent while a run has not ended. */
  readonly summary?: Summary;
}

/** More would make the page slow to open; of a longer run every n-th is embedded, the newest always. */
const MAX_TRANSCRIPTS = 600;

/** The whole page. Pure: the same input gives the same text. */
export function renderReport(input: ReportInput, assets: PageAssets): string {
  const { name, config, metrics, summary } = input;
  const transcripts = thin(input.transcripts, MAX_TRANSCRIPTS);
  const omitted = input.transcripts.length - transcripts.length;
  const main = `<section aria-labelledby="result">
<h2 id="result">What changed</h2>
${summary ? summaryHtml(summary) : "<p>This run has not been evaluated at its end yet.</p>"}
</section>
<section aria-labelledby="lessons">
<h2 id="lessons">How to read this page</h2>
${lessonsHtml("Eight things to know first", LESSONS)}
</section>
<section aria-labelledby="curves">
<h2 id="curves">Curves</h2>
<div id="charts"></div>
</section>
<section aria-labelledby="trajectories">
<h2 id="trajectories">Trajectories</h2>
${omitted > 0 ? `<p class="muted">${transcripts.length} of ${input.transcripts.length}; the others are in transcripts.jsonl.</p>` : ""}
<div id="viewer"></div>
</section>
<noscript><p>Curves and trajectories need JavaScript; the numbers are in metrics.jsonl and transcripts.jsonl.</p></noscript>`;
  const data = encodeReportData(metrics, transcripts);
  return pageHtml({ name, brand: "worldgrad run", facts: facts(input), config, main, data }, assets);
}

export interface PageParts {
  /** Title of the page. */
  readonly name: string;
  /** What kind of page it is, in small letters above the title. */
  readonly brand: string;
  readonly facts: readonly (readonly [name: string, value: string | number])[];
  readonly config: unknown;
  /** HTML. */
  readonly main: string;
  /** JSON without `<` (embedJson), which the page's script reads. */
  readonly data: string;
}

/** The frame of every page: head, content policy, style, script. */
export function pageHtml({ name, brand, facts: entries, config, main, data }: PageParts, assets: PageAssets): string {
  const policy = [
    "default-src 'none'",
    `script-src ${sourceHash(assets.script)}`,
    `style-src ${sourceHash(assets.style)}`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  const factList = entries.map(
    ([key, value]) => `<div><dt>${escapeHtml(key)}</dt><dd>${escapeHtml(String(value))}</dd></div>`,
  );
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(name)} · worldgrad</title>
<style>${assets.style}</style>
</head>
<body>
<header>
<p class="brand">${escapeHtml(brand)}</p>
<h1>${escapeHtml(name)}</h1>
<dl class="facts">${factList.join("")}</dl>
<details><summary>Configuration</summary><pre class="config" tabindex="0">${escapeHtml(JSON.stringify(config, null, 2))}</pre></details>
</header>
<main>
${main}
</main>
<script type="application/json" id="data">${data}</script>
<script>${assets.script}</script>
</body>
</html>
`;
}

/** What to know first, behind a line to open it. */
export function lessonsHtml(title: string, lessons: readonly Lesson[]): string {
  return `<details class="lessons"><summary>${escapeHtml(title)}</summary>
<ol>${lessons.map(({ title: name, text }) => `<li><strong>${escapeHtml(name)}.</strong> ${escapeHtml(text)}</li>`).join("\n")}</ol>
</details>`;
}

/** Text as HTML content or as a quoted attribute. */
export function escapeHtml(text: string): string {
  const entities: Readonly<Record<string, string>> = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "'": "&#39;",
  };
  return text.replace(/[&<>"']/g, (char) => entities[char] ?? "");
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

export function tableHtml({ title, head, rows, note }: Table): string {
  const headCells = head.map((text, c) =>
    c === 0 && text === "" ? "<td></td>" : `<th scope="col">${escapeHtml(text)}</th>`,
  );
  const body = rows.map(([first, ...rest]) => {
    const name = typeof first === "string" ? first : (first?.text ?? "");
    const cells = rest.map((cell) => {
      const { text, tone } = typeof cell === "string" ? { text: cell } : cell;
      return `<td${tone ? ` class="${tone}"` : ""}>${escapeHtml(text)}</td>`;
    });
    return `<tr><th scope="row">${escapeHtml(name)}</th>${cells.join("")}</tr>`;
  });
  return `<div class="scroll" tabindex="0" role="region" aria-label="${escapeHtml(title)}"><table>
<caption>${escapeHtml(title)}</caption>
<thead><tr>${headCells.join("")}</tr></thead>
<tbody>${body.join("\n")}</tbody>
</table></div>${note ? `<p class="muted">${escapeHtml(note)}</p>` : ""}`;
}

function thin<T>(items: readonly T[], limit: number): readonly T[] {
  if (items.length <= limit) return items;
  return items.filter((_, i) => {
    // Item i is taken where the n-th of `limit` evenly spaced places falls on it; the newest always.
    const place = (n: number): number => Math.floor(((n + 1) * limit) / items.length);
    return place(i) > place(i - 1);
  });
}

/** As a content policy names an inline script or style. */
function sourceHash(text: string): string {
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}
