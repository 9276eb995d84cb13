/** An ablation as one HTML file that opens from the disk, in the frame of a run's report (tools/report/render.ts). */
import type { PageAssets } from "../page/assets.ts";
import { embedJson } from "../page/embedded.ts";
import { formatPercent } from "../figures/format.ts";
import type { Lesson } from "../page/lessons.ts";
import { escapeHtml, lessonsHtml, pageHtml, tableHtml } from "../page/frame.ts";
import type { EnvironmentResult, Results } from "./results.ts";
import { tablesOf, type Times } from "./tables.ts";

export interface AblationPage {
  readonly name: string;
  readonly settings: unknown;
  readonly results: Results;
  /** Cells that were asked for; more than there are results while it goes on. */
  readonly planned: number;
  /** Where a cell's own report lies, from the page. */
  readonly linkOf: (env: string, arm: string, seed: number) => string;
  readonly times?: Times;
}

const LESSONS: readonly Lesson[] = [
  {
    title: "What is the same for all arms",
    text: "Of a seed: the warm start's weights, the training tasks and their order, the number of episodes in every step, the held-out tasks and the random numbers that they are played with. Arms differ in what they learn from the episodes, and from there on in what they play; who imitates plays nothing and learns from as many episodes in a step.",
  },
  {
    title: "What the intervals mean",
    text: "They say how the mean over seeds might have come out with other seeds: seeds are drawn anew with replacement ten thousand times, the middle 95 % are shown. With five seeds that is too narrow: for normal values it holds the truth in about 85 of 100 cases, with ten seeds in 91.",
  },
  {
    title: "Compare differences, not bands",
    text: "Two bands may overlap although one arm is better with every seed, because seeds differ in their warm starts. The column “against” takes the difference seed by seed. Five seeds out of five in one direction happen by chance in one of 16 comparisons of equal arms (both directions counted); and there are many comparisons on this page.",
  },
  {
    title: "How much sooner",
    text: "The first table is the one that was decided on beforehand: the environment steps until an arm's smoothed success is as high as the first arm ever got with the same seed, as a ratio. 0.5 is twice as fast. Where a seed never gets there the ratio is a lower bound and says so.",
  },
  {
    title: "Steps to a threshold",
    text: "The first evaluation that reaches it. Evaluations have noise, so this comes early rather than late. A seed that never gets there is not left out: it makes the median later, and counts as the whole length in the mean.",
  },
  {
    title: "Equal episodes, unequal commands",
    text: "A policy that solves a task in two commands takes fewer environment steps than one that runs to the limit. Switch the curves to environment steps, or read the column that compares all arms after equally many.",
  },
];

/** The whole page. Pure: the same input gives the same text. */
export function renderAblation(
  { name, settings, results, planned, linkOf, times }: AblationPage,
  assets: PageAssets,
): string {
  const { environments, cells, trainingEpisodes, heldOutEpisodes } = results;
  const missing = planned - cells.length;
  const main = `<section aria-labelledby="curves">
<h2 id="curves">Curves</h2>
${missing > 0 ? `<p>Not finished: ${cells.length} of ${planned} cells. Curves and tables are of those.</p>` : ""}
<div id="charts"></div>
<noscript><p>Curves need JavaScript; the numbers are in results.json.</p></noscript>
</section>
<section aria-labelledby="lessons">
<h2 id="lessons">How to read this page</h2>
${lessonsHtml("Six things to know first", LESSONS)}
</section>
<section aria-labelledby="result">
<h2 id="result">What came out</h2>
${tablesOf(results, times).map(tableHtml).join("\n")}
</section>
<section aria-labelledby="cells">
<h2 id="cells">Every cell</h2>
${environments.map((of) => cellsHtml(of, results, linkOf)).join("\n")}
</section>`;
  const arms = environments.flatMap((env) => env.arms);
  const facts = [
    ["environments", environments.map(({ env }) => env).join(", ")],
    ["arms", new Set(arms.map(({ arm }) => arm)).size],
    ["seeds", new Set(cells.map(({ seed }) => seed)).size],
    ["RL steps", [...new Set(arms.map(({ steps }) => steps))].join(", ")],
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
function cellsHtml({ env, arms }: EnvironmentResult, { cells }: Results, linkOf: AblationPage["linkOf"]): string {
  const own = cells.filter((cell) => cell.env === env);
  const seeds = [...new Set(own.map(({ seed }) => seed))].toSorted((a, b) => a - b);
  const cellOf = (arm: string, seed: number): string => {
    const last = own.find((cell) => cell.arm === arm && cell.seed === seed)?.points.at(-1);
    if (last === undefined) return "<td>–</td>";
    return `<td><a href="${escapeHtml(linkOf(env, arm, seed))}">${escapeHtml(formatPercent(last.success))}</a></td>`;
  };
  const title = `${env}: success of every cell; each opens the report of its run`;
  return `<div class="scroll" tabindex="0" role="region" aria-label="${escapeHtml(title)}"><table>
<caption>${escapeHtml(title)}</caption>
<thead><tr><td></td>${seeds.map((seed) => `<th scope="col">seed ${seed}</th>`).join("")}</tr></thead>
<tbody>${arms.map(({ arm }) => `<tr><th scope="row">${escapeHtml(arm)}</th>${seeds.map((seed) => cellOf(arm, seed)).join("")}</tr>`).join("\n")}</tbody>
</table></div>`;
}
