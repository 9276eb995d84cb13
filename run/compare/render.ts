/**
 * A comparison as one HTML file that opens from the disk, in the frame of all reports (run/page/frame.ts). It needs
 * no Node: the live page makes such a file, too.
 */
import type { PageAssets } from "../page/assets.ts";
import { embedJson, encodeReportData } from "../page/embedded.ts";
import type { Preset } from "../preset.ts";
import { type Lesson, SHARED } from "../page/lessons.ts";
import type { Transcript } from "../records.ts";
import { CURVES, escapeHtml, FACT_MAP, lessonsHtml, pageHtml, sectionHtml, tableHtml } from "../page/frame.ts";
import type { Outcome } from "./outcome.ts";
import { outcomeTables, verdictOf } from "./tables.ts";

/** The lessons of the page. The unknown facts and the held-out tasks depend on the world. */
function lessonsFor({ env, demoTasks }: Preset): readonly Lesson[] {
  const unknown = {
    title: "What nobody showed them",
    text:
      "The demonstrations of the warm start come from other worlds with the same names, each from a different " +
      "one. They show how to ask and how to copy. No demonstration says what is where in this world, or what " +
      "opens what: an agent learns it from answers that say it was wrong.",
  };
  // In worlds whose facts are only in answers, demonstrations come from other worlds.
  const isUnknown = demoTasks?.[env] === -1;
  const heldOut = {
    title: "What is held out",
    text: isUnknown
      ? "Half of all pairs of a subject (a file, a room, a chest) and a kind of question never occur in training, " +
        "and only those are tested: an agent must use a fact that it learnt through one question to answer another."
      : "Success is measured on tasks that the environment keeps apart from those of training.",
  };
  const expected = {
    title: "Expected and came",
    text:
      "After each command the agent's model predicts the answer: its most probable tokens, as many as the real " +
      "answer has. The prediction is green where it is right. Surprise is −log p of the whole answer, in nats.",
  };
  const chance = {
    title: "One seed is one seed",
    text:
      "The intervals show the effect of chance in the held-out episodes, not of another world or another warm " +
      "start. npm run ablate repeats the comparison over seeds.",
  };
  return [SHARED, ...(isUnknown ? [unknown] : []), heldOut, expected, chance];
}

/** The content of a page that compares agents. */
export interface Compared {
  /** Its folder; the last part is its name. */
  readonly path: string;
  readonly warm: { readonly preset: Preset };
  readonly arms: readonly { readonly arm: { readonly label: string }; readonly preset: Preset }[];
  /** The options of the command line. */
  readonly options: unknown;
}

/**
 * The whole page. Pure: the same input gives the same text.
 * @param hasReports whether each agent has its own report in a folder beside this one
 */
export function renderComparison(
  { path, warm, arms, options }: Compared,
  outcome: Outcome,
  ways: readonly { readonly label: string; readonly transcripts: readonly Transcript[] }[],
  assets: PageAssets,
  hasReports = true,
): string {
  const links = outcome.arms.map(
    ({ label, slug }) => `<li><a href="${escapeHtml(slug)}/report.html">${escapeHtml(label)}</a></li>`,
  );
  const main = [
    sectionHtml(
      "result",
      "What came out",
      `<p>${escapeHtml(verdictOf(outcome))}</p>\n${outcomeTables(outcome).map(tableHtml).join("\n")}`,
    ),
    ...(outcome.warm.facts === undefined ? [] : [sectionHtml("known", "What each agent knows of its world", FACT_MAP)]),
    sectionHtml("curves", "Curves", CURVES),
    sectionHtml("ways", "The same task, each agent's way", `<div id="viewer"></div>`),
    sectionHtml("lessons", "How to read this page", lessonsHtml("What to know first", lessonsFor(warm.preset))),
    ...(hasReports ? [sectionHtml("single", "Each agent's own report", `<ul>${links.join("\n")}</ul>`)] : []),
  ].join("\n");
  const { env, seed, sft, rl } = warm.preset;
  const done = outcome.arms.map(({ steps }, i) => {
    const all = arms[i]!.preset.rl.steps;
    return steps === all ? String(steps) : `${steps} of ${all}`;
  });
  const facts = [
    ["environment", env],
    ["seed", seed],
    ["agents", outcome.arms.length],
    ["steps", `${sft.steps} of the warm start + ${[...new Set(done)].join(" or ")}`],
    ["episodes in a step", rl.groups * rl.groupSize],
  ] as const;
  const packed = ways.map(({ label, transcripts }) => ({ label, data: encodeReportData([], transcripts) }));
  const data = embedJson({ outcome, warmSteps: sft.steps, ways: packed });
  const config = { options, arms: Object.fromEntries(arms.map(({ arm, preset }) => [arm.label, preset])) };
  const name = `${outcome.arms.length} agents in ${env}: ${path.split("/").at(-1)!}`;
  return pageHtml({ name, brand: "worldgrad comparison", facts, config, main, data }, assets);
}
