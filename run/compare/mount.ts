/**
 * The moving parts of a comparison's report.html, from the data in it: the curves, a line for each agent, and the
 * agents' ways through a task (ways.ts). Runs in the browser.
 */
import { mean } from "../figures/statistics.ts";
import { element } from "../page/dom.ts";
import { decodeReportData } from "../page/embedded.ts";
import { FactMap } from "../page/factMap.ts";
import { type Line, LineChart, type LineChartInfo } from "../page/lineChart.ts";
import type { ArmOutcome, Outcome } from "./outcome.ts";
import { mountWays } from "./ways.ts";

interface Embedded {
  readonly outcome: Outcome;
  readonly warmSteps: number;
  readonly ways: readonly { readonly label: string; readonly data: string }[];
}

/** @param data the data that render.ts has embedded, as JSON */
export function mountComparison(data: string): void {
  const { outcome, warmSteps, ways } = JSON.parse(data) as Embedded;
  const byId = (id: string): HTMLElement => document.getElementById(id) ?? document.body;
  mountCurves(byId("charts"), outcome);
  mountFacts(byId("facts"), outcome);
  mountWays(
    byId("viewer"),
    ways.map(({ label, data }) => ({ label, transcripts: decodeReportData(data).transcripts })),
    warmSteps,
  );
}

/** What the agents know at the end, and what they knew when all began. */
function mountFacts(host: HTMLElement, { warm, arms }: Outcome): void {
  if (warm.facts === undefined) return;
  const map = new FactMap();
  const agents = arms.flatMap(({ label, after: { facts } }) => (facts === undefined ? [] : [{ label, facts }]));
  map.show([...agents, { label: "the warm start", facts: warm.facts }]);
  host.append(map.view);
}

/** The number of steps over which training success is averaged: single steps differ by tens of points. */
const WINDOW = 10;

const CHARTS: readonly (LineChartInfo & { readonly of: (arm: ArmOutcome) => Line })[] = [
  {
    title: "Success on held-out tasks",
    format: "percent",
    about:
      "Success on the same tasks at every point, none of which occurs in training. All agents begin with the " +
      "same weights, so all lines begin at one point.",
    of: ({ curve }) => curve.map(({ step, success }) => [step, success]),
  },
  {
    title: "Success in training",
    format: "percent",
    about:
      `Success in the episodes that an agent plays to learn from, as the mean over the last ${WINDOW} steps. An ` +
      "agent that imitates plays none.",
    of: ({ training }) =>
      training.map(([step], i) => {
        const last = training.slice(Math.max(0, i + 1 - WINDOW), i + 1);
        return [step, mean(last.map(([, success]) => success))];
      }),
  },
  {
    title: "World-model loss",
    format: "number",
    about:
      "Nats per token of what the world answers, in the same episodes at every point: half are the expert's, " +
      "half are random play. Lower is better.",
    of: ({ curve }) => curve.map(({ step, worldLoss }) => [step, worldLoss]),
  },
];

function mountCurves(host: HTMLElement, { arms }: Outcome): void {
  const names = arms.map(({ label }) => label);
  const cards = CHARTS.flatMap((chart) => {
    const lines = arms.map((arm) => chart.of(arm));
    if (!lines.flat().some(([, value]) => value !== null)) return [];
    const view = new LineChart(chart, names);
    view.show(lines);
    return [view.card];
  });
  host.append(element("div", { class: "charts wide" }, ...cards));
}
