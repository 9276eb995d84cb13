/** A chart with a line for each agent, against its RL steps or another axis. Drawn by uPlot. Runs in the browser. */
import uPlot from "uplot";
import { formatAs, type NumberFormat } from "../figures/format.ts";
import { chartCard, lastOf, stepWithKeys } from "./charts.ts";
import { element } from "./dom.ts";
import { axisSeries, countSeries, doublings, lineColour, lineFrame, lineStyle, powers } from "./lines.ts";

export interface LineChartInfo {
  readonly title: string;
  readonly about: string;
  readonly format: NumberFormat;
  /** The quantity of the horizontal axis, in doublings: 2, 4, 8, …; default: RL steps, evenly. */
  readonly doublings?: string;
  /** The height of the drawing in pixels; default 260. */
  readonly height?: number;
  /** Whether the vertical axis is logarithmic. */
  readonly isLogarithmic?: boolean;
}

/** The values of an agent by RL step, or by the axis's quantity; null where there is none. */
export type Line = readonly (readonly [step: number, value: number | null])[];

export class LineChart {
  readonly card: HTMLElement;
  readonly #chart: LineChartInfo;
  readonly #host: HTMLElement;
  /** The signal that ends the chart's listeners with it. */
  readonly #life = new AbortController();
  readonly #size: ResizeObserver;
  #names: readonly string[];
  #lines: readonly Line[] = [];
  #plot: uPlot | null = null;

  /** @param names of the agents, in the order of their colours */
  constructor(chart: LineChartInfo, names: readonly string[]) {
    this.#chart = chart;
    this.#names = names;
    this.#host = element("div", { class: "plot", tabindex: 0, role: "img", "aria-label": chart.title });
    stepWithKeys(this.#host, () => this.#plot);
    this.card = chartCard(chart, this.#host);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw(), {
      signal: this.#life.signal,
    });
    // The first call comes when the chart gets its place on the page.
    this.#size = new ResizeObserver(() => {
      if (this.#plot?.width !== this.#width()) this.#draw();
    });
    this.#size.observe(this.#host);
  }

  /**
   * Shows these lines, one for each name, in place of the former ones.
   * @param names if they differ from the former ones
   */
  show(lines: readonly Line[], names = this.#names): void {
    const isOfOthers = names.join("\n") !== this.#names.join("\n");
    this.#names = names;
    this.#lines = lines;
    if (this.#plot === null || isOfOthers) this.#draw();
    else this.#plot.setData(this.#columns());
    this.#host.setAttribute("aria-label", this.#summary());
  }

  /** Ends the chart. Otherwise the page's colours and the other charts' cursors would keep it alive. */
  dispose(): void {
    this.#life.abort();
    this.#size.disconnect();
    this.#plot?.destroy();
    this.#plot = null;
  }

  #width(): number {
    return Math.floor(this.#host.clientWidth);
  }

  /** Draws in the present colours and width; without a width the chart is not on the page yet. */
  #draw(): void {
    const width = this.#width();
    this.#plot?.destroy();
    this.#plot = width < 50 ? null : new uPlot(this.#options(width), this.#columns(), this.#host);
  }

  #columns(): uPlot.AlignedData {
    const lines = this.#names.map((_, i) => new Map(this.#lines[i]));
    const steps = [...new Set(lines.flatMap((line) => [...line.keys()]))].toSorted((a, b) => a - b);
    return [steps, ...lines.map((line) => steps.map((step) => line.get(step) ?? null))];
  }

  #options(width: number): uPlot.Options {
    const read: uPlot.Series.Value = (plot, _value, series, at) => {
      const values = plot.data[series] ?? [];
      return this.#text(lastOf(values, at ?? values.length - 1));
    };
    const { doublings: counted, isLogarithmic = false } = this.#chart;
    const frame = lineFrame(this.#chart, width, counted ?? "steps");
    const across = counted === undefined ? frame : doublings(frame);
    // There are few points of measurement, so each is marked.
    const marks = counted === undefined ? {} : { points: { show: true, size: 6 } };
    const style = (i: number): uPlot.Series => ({ ...lineStyle(i), ...marks, label: this.#names[i]!, value: read });
    return {
      ...(isLogarithmic ? powers(across) : across),
      series: [
        counted === undefined ? axisSeries("RL steps") : countSeries(counted),
        ...this.#names.map((_, i) => style(i)),
      ],
      legend: { live: true, markers: { fill: (_plot, i) => lineColour(i - 1) } },
    };
  }

  #text(value: number | null): string {
    return value === null ? "–" : formatAs(this.#chart.format, value);
  }

  /** The newest values in words, for those who cannot see the drawing. */
  #summary(): string {
    const newest = this.#names.map((name, i) => {
      const value = this.#lines[i]?.findLast(([, y]) => y !== null)?.[1] ?? null;
      return `${name} ${this.#text(value)}`;
    });
    return `${this.#chart.title}. At the end: ${newest.join("; ")}`;
  }
}
