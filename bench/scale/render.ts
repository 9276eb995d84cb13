/** The results of bench/scale.ts: a page in the frame of all reports (run/page/frame.ts), and tables in Markdown. */
import type { Table } from "../../run/display/table.ts";
import { formatCount, formatNumber, formatPercent } from "../../run/figures/format.ts";
import type { PageAssets } from "../../run/page/assets.ts";
import { embedJson } from "../../run/page/embedded.ts";
import { escapeHtml, pageHtml, tableHtml } from "../../run/page/frame.ts";
import { type CaseResult, type Lever, LEVERS, type Point } from "./cases.ts";
import type { Measured, MeasuredRun } from "./measured.ts";

/** What a page shows. */
export interface ScalePage {
  readonly measured: Measured;
  readonly results: readonly CaseResult[];
  readonly config: unknown;
}

/** What the script of the page draws: a line of each kind for each case, by the number of workers. */
export interface ScaleData {
  readonly cases: readonly {
    readonly name: string;
    readonly points: readonly (Readonly<Record<"workers" | "tokens" | "learner" | "link" | "places", number>> & {
      readonly staleness: number;
      readonly wasted: number;
    })[];
  }[];
}

/** What each lever is, where it limits. */
const LIMITS: Readonly<Record<Lever, string>> = {
  learner: "the learner",
  link: "the server's link",
  workers: "the workers: more of them help",
  admission: "admission: a higher bound on staleness, or larger steps, would let more groups begin",
};

const limitText = (limit: Lever | undefined): string =>
  limit === undefined ? "no one thing: twice of any would give less than a twentieth" : LIMITS[limit];

const rate = (value: number): string => (value >= 100 ? Math.round(value).toLocaleString("en") : formatNumber(value));

const workersText = (count: number): string => `${count.toLocaleString("en")} worker${count === 1 ? "" : "s"}`;

/** One sentence that says where a case saturates. */
export const verdict = ({ most, saturatesAt, limit, points }: CaseResult): string => {
  const last = points.at(-1)!;
  const falls = last.result.tokensPerSecond < 0.9 * most;
  const end = falls ? `; with ${workersText(last.workers)} it falls to ${rate(last.result.tokensPerSecond)}` : "";
  return (
    `At most ${rate(most)} tokens/s; nine tenths of that with ${workersText(saturatesAt)}${end}. ` +
    `What limits in the end: ${limitText(limit)}.`
  );
};

function simulatedTable({ name, points }: CaseResult): Table {
  const gain = (point: Point, lever: Lever): string => `×${point.gains[lever].toFixed(2)}`;
  return {
    title: name,
    head: [
      "workers",
      "tokens/s",
      "staleness",
      "wasted",
      "learner busy",
      "link busy",
      "places taken",
      "learner ×2",
      "link ×2",
      "workers ×2",
      "staleness +1",
    ],
    rows: points.map((point) => {
      const { workers, result } = point;
      const { tokensPerSecond, staleness, wasted, learner, link, workers: places } = result;
      return [
        workers.toLocaleString("en"),
        rate(tokensPerSecond),
        staleness.toFixed(2),
        ...[wasted, learner, link, places].map(formatPercent),
        ...LEVERS.map((lever) => gain(point, lever)),
      ];
    }),
    note: "The last four columns: by what factor tokens/s would grow if that were twice as good, the bound one higher.",
  };
}

/** The measured runs, with what the simulation says of as many workers. */
function measuredTable({ measured, results }: ScalePage): Table {
  const row = (name: string, run: MeasuredRun, said: number | undefined): string[] => [
    `${name}: ${run.workers}`,
    rate(run.tokensPerSecond),
    said === undefined ? "–" : rate(said),
    formatPercent(run.learner),
    formatPercent(run.places),
    run.staleness.toFixed(2),
    run.processors.learner.toFixed(2),
    run.processors.workers.toFixed(2),
    run.processors.others.toFixed(2),
    rate(run.tokensPerSecond / (run.processors.learner + run.processors.workers)),
  ];
  return {
    title: "Processes on one machine",
    head: [
      "processes that play",
      "tokens/s",
      "simulated",
      "learner busy",
      "places taken",
      "staleness",
      "processors: learner",
      "playing",
      "all else",
      "tokens per processor second",
    ],
    rows: measured.settings.flatMap(({ name, runs }, i) =>
      runs.map((run) => {
        const point = results[i]?.points.find(({ workers }) => workers === run.workers);
        return row(name, run, point?.result.tokensPerSecond);
      }),
    ),
    note:
      `${machineText(measured)} The learner, the server and all processes that play share these processors; the ` +
      "simulation gives each worker a machine of its own, as fast as that which one worker had beside the learner.",
  };
}

const machineText = ({ machine, load, server, model, time }: Measured): string =>
  `${machine.cpu}, ${machine.cores} processors, Node ${machine.node}, ${server}, ${time.slice(0, 10)}; ` +
  `${formatCount(model.parameters)} parameters. Before it began ${load} processes for each processor wanted to run.`;

function transferTable({ transfers }: Measured): Table {
  const median = (values: readonly number[]): string => {
    const sorted = values.toSorted((a, b) => a - b);
    return `${formatNumber(1000 * sorted[sorted.length >> 1]!)} ms`;
  };
  return {
    title: "Weights through the server",
    head: ["bytes", "published in", "read and checked in"],
    rows: transfers.map(({ bytes, publish, fetch }) => [formatCount(bytes), median(publish), median(fetch)]),
    note: "Medians, on the loopback of that machine, by the code that learner and workers run.",
  };
}

/** The data of the charts. */
export const chartData = (results: readonly CaseResult[]): ScaleData => ({
  cases: results.map(({ name, points }) => ({
    name,
    points: points.map(({ workers, result }) => ({
      workers,
      tokens: result.tokensPerSecond,
      learner: result.learner,
      link: result.link,
      places: result.workers,
      staleness: result.staleness,
      wasted: result.wasted,
    })),
  })),
});

/** The whole page. Pure: the same input gives the same text. */
export function renderScale(page: ScalePage, assets: PageAssets): string {
  const { measured, results, config } = page;
  const items = (texts: readonly string[]): string => texts.map((text) => `<li>${escapeHtml(text)}</li>`).join("\n");
  const caseHtml = (result: CaseResult, i: number): string => `<h3>${escapeHtml(result.name)}</h3>
<p><strong>${escapeHtml(verdict(result))}</strong></p>
<div class="case" id="case-${i}"></div>
${tableHtml(simulatedTable(result))}
<p>Assumed:</p>
<ul>${items(result.assumptions)}</ul>`;
  const main = `<section aria-labelledby="result">
<h2 id="result">Where it saturates</h2>
<div id="charts"></div>
<noscript><p>Curves need JavaScript; the tables have their numbers.</p></noscript>
<ul>${items(results.map((result) => `${result.name}: ${verdict(result)}`))}</ul>
</section>
<section aria-labelledby="measured">
<h2 id="measured">What was measured</h2>
${tableHtml(measuredTable(page))}
${tableHtml(transferTable(measured))}
</section>
<section aria-labelledby="simulated">
<h2 id="simulated">What was simulated</h2>
<p>Admission and the order of groups are the queue's own code. A worker asks for another group when it has a free place,
reads the newest policy before a group and when one comes while it plays, and stores episodes one by one. All transfers
go through one link of the server, one after another. Nothing fails, and all workers are equally fast.</p>
${results.map(caseHtml).join("\n")}
</section>`;
  const { machine, model, time } = measured;
  const facts = [
    ["measured on", `${machine.cpu}, ${machine.cores} processors`],
    ["at", time.slice(0, 10)],
    ["its model", `${formatCount(model.parameters)} parameters`],
    ["simulated", `up to ${results[0]!.points.at(-1)!.workers.toLocaleString("en")} workers`],
  ] as const;
  const data = embedJson(chartData(results));
  return pageHtml({ name: "Many workers", brand: "worldgrad at scale", facts, config, main, data }, assets);
}

const markdownTable = ({ title, head, rows }: Table): string => {
  const row = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  const text = (cell: string | { readonly text: string }): string => (typeof cell === "string" ? cell : cell.text);
  const rule = head.map((_, i) => (i === 0 ? "---" : "---:"));
  return [`**${title}**`, "", row(head), row(rule), ...rows.map((cells) => row(cells.map(text)))].join("\n");
};

/** The tables for a terminal, and for docs/scale.md. */
export function markdown(page: ScalePage): string {
  const tables = [measuredTable(page), transferTable(page.measured), ...page.results.map(simulatedTable)];
  const said = page.results.map((result) => `- ${result.name}: ${verdict(result)}`);
  return [...tables.map(markdownTable), said.join("\n")].join("\n\n");
}
