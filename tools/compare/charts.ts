/** The curves of a comparison: a line for each agent, against its RL steps. Drawn by uPlot. Runs in the browser. */
import uPlot from "uplot";
import { formatAs, type NumberFormat } from "../figures/format.ts";
import { chartCard, lastOf, stepWithKeys } from "../page/charts.ts";
import { element } from "../page/dom.ts";
import { axisSeries, lineColour, lineFrame, lineStyle } from "../page/lines.ts";
import type { ArmOutcome, Outcome } from "./outcome.ts";

interface Chart {
  readonly title: string;
  readonly format: NumberFormat;
  readonly about: string;
  readonly of: (arm: ArmOutcome) => readonly (readonly [step: number, value: number | null])[];
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

const endOf = (chart: Chart, arm: ArmOutcome): number | null =>
  chart.of(arm).findLast(([, value]) => value !== null)?.[1] ?? null;

const show = ({ format }: Chart, value: number | null): string => (value === null ? "–" : formatAs(format, value));

export function mountOutcome(host: HTMLElement, { arms }: Outcome): void {
  const drawn = CHARTS.filter((chart) => arms.some((arm) => endOf(chart, arm) !== null));
  const views = drawn.map((chart) => new View(chart, arms));
  host.append(element("div", { class: "charts wide" }, ...views.map(({ card }) => card)));
  const draw = (): void => views.forEach((view) => view.draw());
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  const observer = new ResizeObserver(() => views.forEach((view) => view.fit()));
  for (const { plotHost } of views) observer.observe(plotHost);
}

class View {
  readonly card: HTMLElement;
  readonly plotHost: HTMLElement;
  private readonly chart: Chart;
  private readonly arms: readonly ArmOutcome[];
  private plot: uPlot | null = null;

  constructor(chart: Chart, arms: readonly ArmOutcome[]) {
    this.chart = chart;
    this.arms = arms;
    const ends = arms.map((arm) => `${arm.label} ${show(chart, endOf(chart, arm))}`);
    this.plotHost = element("div", {
      class: "plot",
      tabindex: 0,
      role: "img",
      "aria-label": `${chart.title}. At the end: ${ends.join("; ")}`,
    });
    stepWithKeys(this.plotHost, () => this.plot);
    this.card = chartCard(chart, this.plotHost);
  }

  fit(): void {
    if (this.plot?.width !== Math.floor(this.plotHost.clientWidth)) this.draw();
  }

  draw(): void {
    const width = Math.floor(this.plotHost.clientWidth);
    this.plot?.destroy();
    this.plot = null;
    if (width >= 50) this.plot = new uPlot(this.options(width), this.columns(), this.plotHost);
  }

  private columns(): uPlot.AlignedData {
    const lines = this.arms.map((arm) => new Map(this.chart.of(arm)));
    const steps = [...new Set(lines.flatMap((line) => [...line.keys()]))].toSorted((a, b) => a - b);
    return [steps, ...lines.map((line) => steps.map((step) => line.get(step) ?? null))];
  }

  private options(width: number): uPlot.Options {
    const { chart, arms } = this;
    const read: uPlot.Series.Value = (plot, _value, series, at) => {
      const values = plot.data[series] ?? [];
      return show(chart, lastOf(values, at ?? values.length - 1));
    };
    return {
      ...lineFrame(chart, width, "steps"),
      series: [axisSeries("RL steps"), ...arms.map(({ label }, i) => ({ ...lineStyle(i), label, value: read }))],
      legend: { live: true, markers: { fill: (_plot, i) => lineColour(i - 1) } },
    };
  }
}
