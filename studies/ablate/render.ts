/** An ablation as one HTML file that opens from the disk, in the frame of all reports (run/page/frame.ts). */
import type { PageAssets } from "../../run/page/assets.ts";
import { embedJson } from "../../run/page/embedded.ts";
import { formatPercent } from "../../run/figures/format.ts";
import type { Lesson } from "../../run/page/lessons.ts";
import { escapeHtml, lessonsHtml, pageHtml, tableHtml } from "../../run/page/frame.ts";
import type { ArmResult, EnvironmentResult, Results } from "./results.ts";
import { tablesOf, type Times } from "./tables.ts";

export interface AblationPage {
  readonly name: string;
  readonly settings: unknown;
  readonly results: Results;
  /** Number of cells asked for: more than `results` has until the ablation is complete. */
  readonly planned: number;
  /** The link from the page to a cell's own report. */
  readonly linkOf: (env: string, arm: string, seed: number) => string;
  readonly times?: Times;
}

const LESSONS: readonly Lesson[] = [
  {
    title: "What is the same for all arms",
    text:
      "All arms of a seed have the same weights after the warm start, the same training tasks in the same order, " +
      "the same number of episodes in every step, and the same held-out tasks with the same random numbers. They " +
      "differ in what they learn from the episodes, and therefore in what they play later. An arm that imitates " +
      "plays nothing and learns from as many demonstrations in a step.",
  },
  {
    title: "What the intervals mean",
    text:
      "They show how the mean might differ with other seeds: the seeds are resampled with replacement ten " +
      "thousand times, and the interval holds the middle 95 % of the means. With few seeds it is too narrow: for " +
      "normal values it contains the true mean in about 85 of 100 cases with five seeds, and in 91 with ten.",
  },
  {
    title: "Compare differences, not bands",
    text:
      "Two bands may overlap although one arm is better with every seed, because seeds differ in their warm " +
      "starts. The column “against” takes the difference seed by seed. Five differences out of five in one " +
      "direction happen by chance in one of 16 comparisons of equal arms (both directions counted), and this page " +
      "has many comparisons.",
  },
  {
    title: "How much sooner",
    text:
      "The first table was chosen beforehand. It counts the environment steps until an arm's smoothed success is " +
      "as high as the first arm's best with the same seed, and gives the ratio to the first arm's own steps: 0.5 " +
      "is twice as fast. If a seed never gets there, the ratio is a lower bound and is marked “≥”.",
  },
  {
    title: "Steps to a threshold",
    text:
      "This is the first evaluation that reaches the threshold. Evaluations are noisy, so it comes early rather " +
      "than late. A seed that never gets there is not left out: it counts as later than all others in the median, " +
      "and as the whole length in the mean.",
  },
  {
    title: "Equal episodes, unequal commands",
    text:
      "A policy that solves a task in two commands takes fewer environment steps than one that runs to the limit. " +
      "Switch the curves to environment steps, or read the column that compares all arms after equally many.",
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

/** A table of the final success of every cell, with links to the reports of the runs. */
function cellsHtml({ env, arms }: EnvironmentResult, { cells }: Results, linkOf: AblationPage["linkOf"]): string {
  const own = cells.filter((cell) => cell.env === env);
  const seeds = [...new Set(own.map(({ seed }) => seed))].toSorted((a, b) => a - b);
  const cellOf = (arm: string, seed: number): string => {
    const last = own.find((cell) => cell.arm === arm && cell.seed === seed)?.points.at(-1);
    if (last === undefined) return "<td>–</td>";
    return `<td><a href="${escapeHtml(linkOf(env, arm, seed))}">${escapeHtml(formatPercent(last.success))}</a></td>`;
  };
  const rowOf = ({ arm }: ArmResult): string =>
    `<tr><th scope="row">${escapeHtml(arm)}</th>${seeds.map((seed) => cellOf(arm, seed)).join("")}</tr>`;
  const title = `${env}: success of every cell; each opens the report of its run`;
  return `<div class="scroll" tabindex="0" role="region" aria-label="${escapeHtml(title)}"><table>
<caption>${escapeHtml(title)}</caption>
<thead><tr><td></td>${seeds.map((seed) => `<th scope="col">seed ${seed}</th>`).join("")}</tr></thead>
<tbody>${arms.map(rowOf).join("\n")}</tbody>
</table></div>`;
}
