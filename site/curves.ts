/** The live curves: one line for each agent, drawn again when a number arrives. */
import uPlot from "uplot";
import { formatAs, type NumberFormat } from "../tools/figures/format.ts";
import { chartCard, lastOf, stepWithKeys } from "../tools/page/charts.ts";
import { element } from "../tools/page/dom.ts";
import { axisSeries, lineColour, lineFrame, lineStyle } from "../tools/page/lines.ts";
import type { MetricsRecord } from "../job/records.ts";

/** A chart: which lines of metrics it draws, and what of them. */
export interface ChartChoice {
  readonly title: string;
  readonly about: string;
  readonly format: NumberFormat;
  readonly phase: "rl" | "eval";
  readonly metric: string;
  /** The number of values over which the mean is drawn; default 1. */
  readonly window?: number;
}

export class LiveChart {
  readonly card: HTMLElement;
  readonly #chart: ChartChoice;
  readonly #names: readonly string[];
  readonly #host: HTMLElement;
  /** For each agent its values by RL step. */
  #lines: (readonly (readonly [step: number, value: number])[])[];
  #plot: uPlot | null = null;

  /** @param names of the agents, in the order of their colours */
  constructor(chart: ChartChoice, names: readonly string[]) {
    this.#chart = chart;
    this.#names = names;
    this.#lines = names.map(() => []);
    this.#host = element("div", { class: "plot", tabindex: 0, role: "img", "aria-label": chart.title });
    stepWithKeys(this.#host, () => this.#plot);
    this.card = chartCard(chart, this.#host);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    new ResizeObserver(() => {
      if (this.#plot?.width !== this.#width()) this.draw();
    }).observe(this.#host);
  }

  /** @param warmSteps steps before RL, which the axis does not count */
  show(agent: number, metrics: readonly MetricsRecord[], warmSteps: number): void {
    const { phase, metric, window = 1 } = this.#chart;
    const points = metrics.flatMap((line): (readonly [number, number])[] => {
      const value = line[metric];
      // A line of RL has the number of its step, an evaluation that of the steps before it.
      const step = line.step - warmSteps + (phase === "rl" ? 1 : 0);
      return line.phase === phase && typeof value === "number" && Number.isFinite(value) ? [[step, value]] : [];
    });
    this.#lines[agent] = points.map(([step], i) => {
      const seen = points.slice(Math.max(0, i + 1 - window), i + 1);
      return [step, seen.reduce((sum, [, value]) => sum + value, 0) / seen.length];
    });
    if (this.#plot === null) this.draw();
    else this.#plot.setData(this.#columns());
    this.#host.setAttribute("aria-label", this.#summary());
  }

  /** Draws in the present colours and width. */
  draw(): void {
    const width = this.#width();
    this.#plot?.destroy();
    this.#plot = width < 50 ? null : new uPlot(this.#options(width), this.#columns(), this.#host);
  }

  #width(): number {
    return Math.floor(this.#host.clientWidth);
  }

  #columns(): uPlot.AlignedData {
    const lines = this.#lines.map((line) => new Map(line));
    const steps = [...new Set(lines.flatMap((line) => [...line.keys()]))].toSorted((a, b) => a - b);
    return [steps, ...lines.map((line) => steps.map((step) => line.get(step) ?? null))];
  }

  #options(width: number): uPlot.Options {
    const read: uPlot.Series.Value = (plot, _value, series, at) => {
      const values = plot.data[series] ?? [];
      const value = lastOf(values, at ?? values.length - 1);
      return value === null ? "–" : formatAs(this.#chart.format, value);
    };
    return {
      ...lineFrame(this.#chart, width, "live"),
      series: [axisSeries("RL steps"), ...this.#names.map((label, i) => ({ ...lineStyle(i), label, value: read }))],
      legend: { live: true, markers: { fill: (_plot, i) => lineColour(i - 1) } },
    };
  }

  /** The newest values in words, for those who cannot see the drawing. */
  #summary(): string {
    const { title, format } = this.#chart;
    const newest = this.#lines.flatMap((line, i) => {
      const last = line.at(-1);
      return last ? [`${this.#names[i]} ${formatAs(format, last[1])} at step ${last[0]}`] : [];
    });
    return `${title}: ${newest.join("; ") || "nothing yet"}`;
  }
}
