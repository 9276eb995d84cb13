/** A chart with a line for each agent, against its RL steps or another axis. Drawn by uPlot. Runs in the browser. */
import uPlot from "uplot";
import { formatAs, type NumberFormat } from "../figures/format.ts";
import { chartCard, lastOf, stepWithKeys } from "./charts.ts";
import { cssColour, element } from "./dom.ts";
import {
  axisSeries,
  countSeries,
  doublings,
  drawEvents,
  lineColour,
  lineFrame,
  lineStyle,
  powers,
  spanning,
} from "./lines.ts";

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
  /** The least height of the vertical axis, so that a small share looks small; default: as high as the values. */
  readonly atLeast?: number;
  /** Whether values have intervals, which are read beside them and drawn as bands. */
  readonly hasIntervals?: boolean;
  /** The height of a dashed horizontal line. */
  readonly mark?: number;
  /** What stands before the title for those who cannot see the drawing. */
  readonly place?: string;
}

/** The values of an agent by RL step, or by the axis's quantity; null where there is none. NaN is no limit. */
export type Line = readonly (readonly [step: number, value: number | null, low?: number, high?: number])[];

/** How lines are shown. */
export interface LineView {
  readonly axis: string;
  readonly bands: boolean;
  /** The end of the horizontal axis, which then begins at 0; default: it has the values that there are. */
  readonly upTo?: number;
  /** The place whose values the legend shows while nobody points at another; default: the end. */
  readonly rest?: number | undefined;
  /** Places on the horizontal axis where something happened: upright lines, numbered from 1. */
  readonly events?: readonly number[];
  /** Lines of an earlier run behind these, dotted and pale, in their colours. */
  readonly recorded?: readonly Line[];
}

export class LineChart {
  readonly card: HTMLElement;
  readonly #chart: LineChartInfo;
  readonly #host: HTMLElement;
  /** The signal that ends the chart's listeners with it. */
  readonly #life = new AbortController();
  readonly #size: ResizeObserver;
  #names: readonly string[];
  #lines: readonly (Line | null)[] = [];
  #view: LineView = { axis: "RL steps", bands: true };
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
   * Shows these lines, one for each name, in place of the former ones. A line that is null is hidden.
   * @param names if they differ from the former ones
   */
  show(lines: readonly (Line | null)[], names = this.#names, view = this.#view): void {
    const drawn = (): string => JSON.stringify([this.#names, this.#shown, this.#view]);
    const before = drawn();
    [this.#names, this.#lines, this.#view] = [names, lines, view];
    if (this.#plot === null || drawn() !== before) this.#draw();
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

  /** The places of the lines that are not hidden. */
  get #shown(): number[] {
    return this.#names.flatMap((_, i) => (this.#lines[i] === null ? [] : [i]));
  }

  /** The steps on the axis, and for each line its values, with the limits of their intervals before them. */
  #columns(): uPlot.AlignedData {
    const { hasIntervals = false, mark } = this.#chart;
    const lines = this.#shown.map((i) => new Map((this.#lines[i] ?? []).map((point) => [point[0], point])));
    const recorded = (this.#view.recorded ?? []).map((line) => new Map(line.map(([step, value]) => [step, value])));
    const steps = [...new Set([...lines, ...recorded].flatMap((line) => [...line.keys()]))].toSorted((a, b) => a - b);
    const columns = lines.flatMap((line) =>
      (hasIntervals ? ([2, 3, 1] as const) : ([1] as const)).map((k) =>
        steps.map((step) => line.get(step)?.[k] ?? null),
      ),
    );
    return [
      steps,
      ...columns,
      ...(mark === undefined ? [] : [steps.map(() => mark)]),
      ...recorded.map((line) => steps.map((step) => line.get(step) ?? null)),
    ];
  }

  #options(width: number): uPlot.Options {
    const { doublings: counted, isLogarithmic = false, hasIntervals = false, mark } = this.#chart;
    const { axis, bands, upTo, rest, recorded = [] } = this.#view;
    const shown = this.#shown;
    const columns = hasIntervals ? 3 : 1;
    const read: uPlot.Series.Value = (plot, _value, series, at) => {
      const back = (column: number): number | null => {
        const values = plot.data[column] ?? [];
        const end = this.#view.rest === undefined ? -1 : plot.data[0].indexOf(this.#view.rest);
        return lastOf(values, at ?? (end < 0 ? values.length - 1 : end));
      };
      const [low, high] = hasIntervals ? [back(series - 2), back(series - 1)] : [null, null];
      const interval = low === null || high === null ? "" : ` [${this.#text(low)}, ${this.#text(high)}]`;
      return `${this.#text(back(series))}${interval}`;
    };
    const frame = lineFrame(this.#chart, width, counted ?? axis);
    const whole = upTo === undefined ? frame : spanning(frame, upTo);
    const across = counted === undefined ? whole : doublings(whole);
    // There are few points of measurement, so each is marked.
    const marks = counted === undefined ? {} : { points: { show: true, size: 6 } };
    const unnamed: uPlot.Series = { class: "hidden-row", points: { show: false } };
    const edge: uPlot.Series = { ...unnamed, stroke: "transparent", spanGaps: true };
    const series = shown.flatMap((i): uPlot.Series[] => [
      ...(hasIntervals ? [edge, edge] : []),
      { ...lineStyle(i), ...marks, label: this.#names[i]!, value: read },
    ]);
    const fills = shown.map((i, k): uPlot.Band => ({ series: [3 * k + 2, 3 * k + 1], fill: `${lineColour(i)}1f` }));
    return {
      ...(isLogarithmic ? powers(across) : across),
      series: [
        counted === undefined
          ? axisSeries(axis, String(rest ?? (upTo === undefined ? "end" : "newest")))
          : countSeries(counted),
        ...series,
        ...(mark === undefined ? [] : [{ ...unnamed, stroke: cssColour("--muted"), width: 1, dash: [4, 4] }]),
        ...recorded.map((_, i) => ({
          ...unnamed,
          stroke: `${lineColour(i)}66`,
          width: 1.5,
          dash: [2, 4],
          spanGaps: true,
        })),
      ],
      bands: hasIntervals && bands ? fills : [],
      hooks: { draw: [(plot) => drawEvents(plot, this.#view.events ?? [])] },
      legend: { live: true, markers: { fill: (_plot, i) => lineColour(shown[Math.floor((i - 1) / columns)] ?? 0) } },
    };
  }

  #text(value: number | null): string {
    return value === null ? "–" : formatAs(this.#chart.format, value);
  }

  /** The newest values in words, for those who cannot see the drawing. */
  #summary(): string {
    const newest = this.#shown.map((i) => {
      const value = this.#lines[i]?.findLast(([, y]) => y !== null)?.[1] ?? null;
      return `${this.#names[i]!} ${this.#text(value)}`;
    });
    const { place, title } = this.#chart;
    return `${place === undefined ? "" : `${place}: `}${title}. At the end: ${newest.join("; ")}`;
  }
}
