/**
 * The report.html of `npm start` (run/compare/render.ts) for the agents of the page, at the end of a run or in the
 * middle of it. Loaded when a report is asked for. The report's script and style are two files that the page has loaded
 * already: drawing.js (drawing.ts) and frame.css.
 */
import type { Evaluation, MetricsRecord } from "../run/records.ts";
import { outcomeOf } from "../run/compare/outcome.ts";
import { renderComparison } from "../run/compare/render.ts";
import type { PageAssets } from "../run/page/assets.ts";
import type { KnownAfter } from "./agentProxy.ts";
import type { PageExperiment } from "./experiment.ts";
import type { AgentLog } from "./messages.ts";
import { addressOf } from "./words.ts";

/** The files of a report, which lie beside the page. The third has the hashes of the first two. */
export const REPORT_FILES = { script: "drawing.js", style: "frame.css", hashes: "report.json" } as const;

/** The log of an agent, and what it knew after some steps; in worlds without facts it knew nothing. */
export interface LoggedAgent extends AgentLog {
  readonly knowledge: readonly KnownAfter[];
}

/** @throws if the files of the page are not all there */
export async function reportOf(experiment: PageExperiment, logs: readonly LoggedAgent[]): Promise<string> {
  const { script, style, hashes } = REPORT_FILES;
  const texts = await Promise.all([script, style, hashes].map(textBeside));
  const names = JSON.parse(texts[2]!) as Pick<PageAssets, "scriptHash" | "styleHash">;
  return renderReport(experiment, logs, { script: texts[0]!, style: texts[1]!, ...names });
}

async function textBeside(name: string): Promise<string> {
  const answer = await fetch(new URL(name, import.meta.url));
  if (!answer.ok) throw new Error(`expected ${name} beside the page, got status ${answer.status}`);
  return answer.text();
}

/** The report as HTML. @param logs of the agents, in their order; each has at least the warm start's evaluation */
export function renderReport(experiment: PageExperiment, logs: readonly LoggedAgent[], assets: PageAssets): string {
  const { warm, agents, words } = experiment;
  const { metrics, knowledge } = logs[0]!;
  const first = newestIn(metrics.slice(0, 1 + firstEvaluation(metrics)), "warm start", knowledge[0]);
  const outcome = outcomeOf(
    { preset: warm, evaluation: logs[0]!.summary?.before ?? first },
    agents.map(({ arm, preset }, i) => {
      const { step, metrics, knowledge, summary } = logs[i]!;
      const after = summary?.after ?? newestIn(metrics, "until now", knowledge.at(-1));
      return { arm, preset, after, metrics, steps: step };
    }),
  );
  const ways = agents.map(({ arm }, i) => ({
    label: arm.label,
    transcripts: logs[i]!.transcripts.filter(({ phase }) => phase === "eval"),
  }));
  const address = addressOf(words).toString();
  const compared = { path: `${warm.env}-seed${warm.seed}`, warm: { preset: warm }, arms: agents, options: { address } };
  return renderComparison(compared, outcome, ways, assets, false);
}

const firstEvaluation = (metrics: readonly MetricsRecord[]): number =>
  metrics.findIndex(({ phase }) => phase === "eval");

/** The newest evaluation of these lines. @param known is measured more often than an agent is evaluated */
function newestIn(metrics: readonly MetricsRecord[], label: string, known: KnownAfter | undefined): Evaluation {
  const line = metrics.findLast(({ phase }) => phase === "eval");
  if (line === undefined) throw new Error("expected the warm start's evaluation in the log, got none");
  const number = (name: string): number => Number(line[name]);
  const excess = typeof line["world_loss_excess"] === "number" ? { worldLossExcess: line["world_loss_excess"] } : {};
  return {
    label,
    episodes: number("episodes"),
    ...("not_played" in line ? { notPlayed: number("not_played") } : {}),
    ...("unscored" in line ? { unscored: number("unscored") } : {}),
    successes: "success" in line ? Math.round(number("success") * number("episodes")) : 0,
    ...("reward" in line ? { meanReward: number("reward"), rewardStd: number("reward_std") } : {}),
    meanTurns: number("num_turns/mean"),
    worldLoss: number("world_loss"),
    worldLossRandom: number("world_loss/random"),
    worldLossOnPolicy: number("world_loss/on_policy"),
    ...excess,
    ...(known ? { facts: known.facts } : {}),
  };
}
