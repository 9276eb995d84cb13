/** An ablation as one HTML file that opens from the disk, in the frame of all reports (run/page/frame.ts). */
import type { PageAssets } from "../../run/page/assets.ts";
import { embedJson } from "../../run/page/embedded.ts";
import { CURVES, lessonsHtml, pageHtml, sectionHtml, tableHtml } from "../../run/page/frame.ts";
import { type Lesson, SHARED } from "../../run/page/lessons.ts";
import type { Results } from "./results.ts";
import { cellsTable, type LinkOf, tablesOf, type Times } from "./tables.ts";

export interface AblationPage {
  readonly name: string;
  readonly settings: unknown;
  readonly results: Results;
  /** Number of cells asked for: more than `results` has until the ablation is complete. */
  readonly planned: number;
  readonly linkOf: LinkOf;
  readonly times?: Times;
}

const LESSONS: readonly Lesson[] = [
  SHARED,
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
];

/** The whole page. Pure: the same input gives the same text. */
export function renderAblation(
  { name, settings, results, planned, linkOf, times }: AblationPage,
  assets: PageAssets,
): string {
  const { environments, cells, trainingEpisodes, heldOutEpisodes } = results;
  const missing = `<p>Not finished: ${cells.length} of ${planned} cells. Curves and tables are of those.</p>`;
  const main = [
    sectionHtml("curves", "Curves", `${planned > cells.length ? missing : ""}\n${CURVES}`),
    sectionHtml("lessons", "How to read this page", lessonsHtml("Three things to know first", LESSONS)),
    sectionHtml("result", "What came out", tablesOf(results, times).map(tableHtml).join("\n")),
    sectionHtml("cells", "Every cell", environments.map((of) => tableHtml(cellsTable(of, results, linkOf))).join("\n")),
  ].join("\n");
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
  const parts = { name, brand: "worldgrad ablation", facts, config: settings, main, data: embedJson(results) };
  return pageHtml(parts, assets);
}
