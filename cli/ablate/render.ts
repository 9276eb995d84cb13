/** An ablation as one HTML file that opens from the disk, in the frame of a run's report (cli/report/render.ts). */
import type { PageAssets } from "../report/assets.ts";
import { embedJson } from "../report/embedded.ts";
import { formatPercent } from "../report/format.ts";
import type { Lesson } from "../report/lessons.ts";
import { escapeHtml, lessonsHtml, pageHtml, tableHtml } from "../report/render.ts";
import type { EnvironmentResult, Results } from "./results.ts";
import { tablesOf } from "./tables.ts";

export interface AblationPage {
  readonly name: string;
  readonly settings: unknown;
  readonly results: Results;
  /** Cells that were asked for; more than there are results while it goes on. */
  readonly planned: number;
  /** Where a cell's own report lies, from the page. */
  readonly linkOf: (env: string, method: string, seed: number) => string;
}

const LESSONS: readonly Lesson[] = [
  {
    title: "What is the same for all methods",
    text: "Of a seed: the warm start's weights, the training tasks and their order, the number of episodes in every step, the held-out tasks and the random numbers that they are played with. Methods differ in what they learn from the episodes, and from there on in what they play.",
  },
  {
    title: "What the intervals mean",
    text: "They say how the mean over seeds might have come out with other seeds: seeds are drawn anew with replacement ten thousand times, the middle 95 % are shown. With five seeds that is too narrow: for normal values it holds the truth in about 85 of 100 cases, with ten seeds in 91.",
  },
  {
    title: "Compare differences, not bands",
    text: "Two bands may overlap although one method is better with every seed, because seeds differ in their warm starts. The column “against” takes the difference seed by seed. Five seeds out of five in one direction happen by chance in one of 16 comparisons of equal methods (both directions counted); and there are many comparisons on this page.",
  },
  {
    title: "Steps to a threshold",
    text: "The first evaluation that reaches it. Evaluations have noise, so this comes early rather than late. A seed that never gets there is not left out: it makes the median later, and counts as the whole length in the mean.",
  },
  {
    title: "Equal episodes, unequal commands",
    text: "A policy that solves a task in two commands takes fewer environment steps than one that runs to the limit. Switch the curves to environment steps, or read the column that compares all methods after equally many.",
  },
];

/** The whole page. Pure: the same input gives the same text. */
export function renderAblation({ name, settings, results, planned, linkOf }: AblationPage, assets: PageAssets): string {
  const { environments, cells, steps, trainingEpisodes, heldOutEpisodes } = results;
  const missing = planned - cells.length;
  const main = `<section aria-labelledby="curves">
<h2 id="curves">Curves</h2>
${missing > 0 ? `<p>Not finished: ${cells.length} of ${planned} cells. Curves and tables are of those.</p>` : ""}
<div id="charts"></div>
<noscript><p>Curves need JavaScript; the numbers are in results.json.</p></noscript>
</section>
<section aria-labelledby="lessons">
<h2 id="lessons">How to read this page</h2>
${lessonsHtml("Five things to know first", LESSONS)}
</section>
<section aria-labelledby="result">
<h2 id="result">What came out</h2>
${tablesOf(results).map(tableHtml).join("\n")}
</section>
<section aria-labelledby="cells">
<h2 id="cells">Every cell</h2>
${environments.map((of) => cellsHtml(of, results, linkOf)).join("\n")}
</section>`;
  const methods = new Set(cells.map(({ method }) => method)).size;
  const facts = [
    ["environments", environments.map(({ env }) => env).join(", ")],
    ["methods", methods],
    ["seeds", new Set(cells.map(({ seed }) => seed)).size],
    ["RL steps", steps],
    ["episodes in a step", trainingEpisodes],
    ["held-out episodes", heldOutEpisodes],
    ["cells", cells.length],
  ] as const;
  return pageHtml(
    { name, brand: "worldgrad ablation", facts, config: settings, main, data: embedJson(results) },
    assets,
  );
}

/** Final success of every cell; each is a link to the report of its run. */
function cellsHtml({ env, methods }: EnvironmentResult, { cells }: Results, linkOf: AblationPage["linkOf"]): string {
  const own = cells.filter((cell) => cell.env === env);
  const seeds = [...new Set(own.map(({ seed }) => seed))].toSorted((a, b) => a - b);
  const cellOf = (method: string, seed: number): string => {
    const last = own.find((cell) => cell.method === method && cell.seed === seed)?.points.at(-1);
    if (last === undefined) return "<td>–</td>";
    return `<td><a href="${escapeHtml(linkOf(env, method, seed))}">${escapeHtml(formatPercent(last.success))}</a></td>`;
  };
  const title = `${env}: success of every cell; each opens the report of its run`;
  return `<div class="scroll" tabindex="0" role="region" aria-label="${escapeHtml(title)}"><table>
<caption>${escapeHtml(title)}</caption>
<thead><tr><td></td>${seeds.map((seed) => `<th scope="col">seed ${seed}</th>`).join("")}</tr></thead>
<tbody>${methods.map(({ method }) => `<tr><th scope="row">${escapeHtml(method)}</th>${seeds.map((seed) => cellOf(method, seed)).join("")}</tr>`).join("\n")}</tbody>
</table></div>`;
}
