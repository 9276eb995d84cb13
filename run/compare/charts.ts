/** The curves of a comparison: a line for each agent, against its RL steps. Drawn by uPlot. Runs in the browser. */
import { element } from "../page/dom.ts";
import { type Line, LineChart, type LineChartInfo } from "../page/lineChart.ts";
import type { ArmOutcome, Outcome } from "./outcome.ts";

interface Chart extends LineChartInfo {
  readonly of: (arm: ArmOutcome) => Line;
}

/** The number of steps over which training success is averaged: single steps differ by tens of points. */
const WINDOW = 10;

const CHARTS: readonly Chart[] = [
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
      training.map(([step], i) => [step, meanOf(training.slice(Math.max(0, i + 1 - WINDOW), i + 1))]),
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

const meanOf = (points: readonly (readonly [number, number])[]): number =>
  points.reduce((sum, [, value]) => sum + value, 0) / points.length;

/** @param arms a line for each */
export function mountOutcome(host: HTMLElement, { arms }: Outcome): void {
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
