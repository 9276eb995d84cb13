/**
 * The curves of the report, drawn by uPlot (github.com/leeoniya/uPlot, MIT), which is bundled into the page. Runs in
 * the browser. All charts have the same step axis and one cursor: pointing at a step in one chart shows that step in
 * all. The warm start has many more steps than RL, so the axis can be limited to one phase; charts without data in it
 * are hidden.
 */
import uPlot from "uplot";
import type { ChartInfo } from "../figures/catalogue.ts";
import {
  chartData,
  chartsOf,
  isSparse,
  lastWarmStep,
  linesIn,
  smooth,
  type ChartData,
  type Curve,
  type StepRange,
} from "./curves.ts";
import { formatAs, formatNumber } from "../figures/format.ts";
import { choice, cssColour, element } from "./dom.ts";
import type { MetricsRecord } from "../records.ts";

const HEIGHT = 210;
const SYNC = "step";
const RANGES: readonly (readonly [StepRange, string])[] = [
  ["whole", "whole run"],
  ["sft", "warm start"],
  ["rl", "RL"],
];

export function mountCharts(host: HTMLElement, metrics: readonly MetricsRecord[]): void {
  const charts = chartsOf(metrics);
  if (charts.length === 0) {
    host.append(element("p", { class: "muted" }, "No metrics yet."));
    return;
  }
  const lastSft = lastWarmStep(metrics);
  const initial: StepRange = lastSft === null ? "whole" : "rl";
  let amount = 0.85;
  const toggle = element("input", { type: "checkbox", checked: true, id: "smooth" });
  const slider = element("input", {
    type: "range",
    min: 0.5,
    max: 0.98,
    step: 0.01,
    value: amount,
    "aria-label": "How smooth",
  });
  const views = charts.map((chart) => new ChartView(chart));
  const hidden = element("p", { class: "muted", "aria-live": "polite" });
  const showRange = (range: StepRange): void => {
    const lines = linesIn(metrics, range);
    const boundary = range === "whole" && lastSft !== null ? lastSft + 0.5 : null;
    for (const view of views) view.show(chartData(view.chart, lines), boundary);
    const titles = views.flatMap((view) => (view.card.hidden ? [view.chart.title] : []));
    hidden.textContent = titles.length > 0 ? `Nothing to draw in this part of the run: ${titles.join(", ")}.` : "";
  };
  const apply = (): void => {
    amount = Number(slider.value);
    slider.disabled = !toggle.checked;
    for (const view of views) view.setSmoothing(toggle.checked ? amount : 0);
  };
  toggle.addEventListener("change", apply);
  slider.addEventListener("input", apply);

  host.append(
    ...(lastSft === null ? [] : [choice("steps", RANGES, initial, showRange)]),
    element(
      "div",
      { class: "controls" },
      element("label", { class: "check" }, toggle, element("span", {}, "smooth")),
      slider,
      element(
        "span",
        { class: "muted" },
        "Pale lines are raw values. Drag to zoom, double-click to zoom out, ← → to step through a chart.",
      ),
    ),
    element("div", { class: "charts" }, ...views.map((view) => view.card)),
    hidden,
  );
  showRange(initial);
  apply();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => views.forEach((view) => view.draw()));
  const observer = new ResizeObserver((entries) => {
    for (const entry of entries) views.find((view) => view.plotHost === entry.target)?.fit();
  });
  for (const view of views) observer.observe(view.plotHost);
}

class ChartView {
  readonly card: HTMLElement;
  readonly plotHost: HTMLElement;
  readonly chart: ChartInfo;
  private data: ChartData = { steps: [], curves: [] };
  /** The step at which RL begins, if both phases are shown. */
  private boundary: number | null = null;
  private plot: uPlot | null = null;
  private amount = 0;

  constructor(chart: ChartInfo) {
    this.chart = chart;
    this.plotHost = element("div", { class: "plot", tabindex: 0, role: "img" });
    stepWithKeys(this.plotHost, () => this.plot);
    this.card = chartCard(chart, this.plotHost);
  }

  /** Shows other steps; a chart without a value in them is hidden. */
  show(data: ChartData, boundary: number | null): void {
    this.data = data;
    this.boundary = boundary;
    this.card.hidden = !data.curves.some((curve) => curve.some((value) => value !== null));
    this.plotHost.setAttribute("aria-label", this.summary());
    this.draw();
  }

  setSmoothing(amount: number): void {
    this.amount = amount;
    this.plot?.setData(this.columns());
  }

  /** Draws again if the width has changed. */
  fit(): void {
    if (this.plot?.width !== Math.floor(this.plotHost.clientWidth)) this.draw();
  }

  /** Draws again in the present colours and width. */
  draw(): void {
    const width = Math.floor(this.plotHost.clientWidth);
    this.plot?.destroy();
    this.plot = null;
    // Without a width the card is hidden, or not yet on the page.
    if (width >= 50) this.plot = new uPlot(this.options(width), this.columns(), this.plotHost);
  }

  /** Smooths measurements of training only: held-out points are few and have intervals of their own. */
  private smoothed(curve: Curve, series: number): Curve {
    const { heldOut = false, isSetting = false } = this.chart.series[series] ?? {};
    if (heldOut || isSetting) return curve;
    const { boundary } = this;
    return smooth(curve, this.amount, boundary === null ? -1 : this.data.steps.findIndex((step) => step > boundary));
  }

  /**
   * Steps, then the band's two edges (if any), the raw and the smoothed curve of each series, and the baseline (if
   * any).
   */
  private columns(): uPlot.AlignedData {
    const { steps, curves, band, baseline } = this.data;
    const edges = band ? [band.low, band.high].map((edge) => this.smoothed(edge, 0)) : [];
    const pairs = curves.flatMap((curve, i) => [curve, this.smoothed(curve, i)]);
    const all = [...edges, ...pairs, ...(baseline ? [baseline] : [])];
    return [[...steps], ...all.map((curve) => [...curve])];
  }

  private options(width: number): uPlot.Options {
    const { chart, data, boundary } = this;
    const axis = {
      stroke: cssColour("--muted"),
      grid: { stroke: cssColour("--grid"), width: 1 },
      ticks: { show: false },
    };
    const lineColour = (i: number): string => `--line-${1 + Math.max(0, (i - (data.band ? 3 : 1)) >> 1)}`;
    const format = (value: number | null): string => (value === null ? "–" : formatAs(chart.format, value));
    const edge = (): uPlot.Series => ({
      class: "hidden-row",
      stroke: "transparent",
      points: { show: false },
      spanGaps: true,
    });
    const series = chart.series.flatMap((info, i): uPlot.Series[] => {
      const colour = cssColour(`--line-${i + 1}`);
      const index = 1 + (data.band ? 2 : 0) + 2 * i;
      const isRare = (info.heldOut ?? false) || isSparse(data.curves[i] ?? []);
      return [
        { class: "hidden-row", stroke: `${colour}44`, width: 1, points: { show: false }, spanGaps: true },
        {
          label: info.label,
          stroke: colour,
          width: 2,
          spanGaps: true,
          points: { show: isRare || data.steps.length < 3, size: 7, fill: colour },
          // Shows the measured value, not the smoothed one; without a cursor the newest.
          value: (plot, _value, _series, step) => {
            const curve = plot.data[index] ?? [];
            // Between two measurements the earlier one holds.
            const back = step === null || isRare ? lastOf(curve, step ?? curve.length - 1) : curve[step];
            return format(back ?? null);
          },
        },
      ];
    });
    const baseline: uPlot.Series = {
      label: "warm start",
      stroke: cssColour("--line-1"),
      width: 1.5,
      dash: [6, 5],
      points: { show: false },
      spanGaps: true,
      value: (plot) => format(lastOf(plot.data.at(-1) ?? [], data.steps.length - 1)),
    };
    return {
      width,
      height: HEIGHT,
      scales: {
        x: { time: false, range: (_plot, low, high) => (low === high ? [low - 1, high + 1] : [low, high]) },
        y: chart.logScale ? { distr: 3 } : { range: (_plot, low, high) => yRange(chart, low, high) },
      },
      axes: [
        { ...axis, size: 30 },
        {
          ...axis,
          size: 58,
          values: (_plot, ticks) => shortTicks(ticks, chart),
        },
      ],
      series: [
        {
          label: "step",
          value: (_plot, step) => (step === null ? `${data.steps[0]}–${data.steps.at(-1)}` : String(step)),
        },
        ...(data.band ? [edge(), edge()] : []),
        ...series,
        ...(data.baseline ? [baseline] : []),
      ],
      bands: data.band ? [{ series: [2, 1], fill: `${cssColour("--line-1")}26` }] : [],
      cursor: { sync: { key: SYNC }, y: false, points: { size: 8 }, drag: { x: true, y: false } },
      legend: {
        live: true,
        markers: {
          dash: (plot, i) => (plot.series[i]?.dash ? "dashed" : "solid"),
          fill: (plot, i) => (plot.series[i]?.dash ? "transparent" : cssColour(lineColour(i))),
        },
      },
      plugins: boundary === null ? [] : [phaseMark(boundary)],
    };
  }

  /** The first and the last value of each series in words, for those who cannot see the drawing. */
  private summary(): string {
    const parts = this.chart.series.map(({ label }, i) => {
      const values = (this.data.curves[i] ?? []).filter((value) => value !== null);
      const [first = NaN, last = NaN] = [values[0], values.at(-1)];
      return `${label}: from ${formatAs(this.chart.format, first)} to ${formatAs(this.chart.format, last)}`;
    });
    return `${this.chart.title}. ${parts.join("; ")}`;
  }
}

/** The frame of a chart: its title, the drawing, and an explanation. */
export function chartCard(
  { title, about }: { readonly title: string; readonly about: string },
  plotHost: HTMLElement,
): HTMLElement {
  const caption = about === "" ? [] : [element("figcaption", {}, about)];
  return element("figure", { class: "card" }, element("h3", {}, title), plotHost, ...caption);
}

/** Lets ← and → in `host` step through its chart, and so through all charts with the same cursor. */
export function stepWithKeys(host: HTMLElement, chart: () => uPlot | null): void {
  host.addEventListener("keydown", (event) => {
    const direction = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const plot = chart();
    if (direction === undefined || plot === null) return;
    event.preventDefault();
    const places = plot.data[0];
    const last = places.length - 1;
    const index = Math.min(last, Math.max(0, (plot.cursor.idx ?? (direction > 0 ? -1 : last + 1)) + direction));
    const [left, top] = [plot.valToPos(places[index] ?? 0, "x"), plot.over.clientHeight / 2];
    // The third argument, which uPlot's types lack, tells the other charts.
    const typed: { setCursor(at: { left: number; top: number }, fireHook: boolean, publish: boolean): void } = plot;
    typed.setCursor({ left, top }, true, true);
  });
}

/** Rates start at 0, so that a rise looks as large as it is; other numbers use the whole height. */
export function yRange(chart: Pick<ChartInfo, "format">, low: number | null, high: number | null): [number, number] {
  if (low === null || high === null) return [0, 1];
  if (chart.format === "percent") return [0, high > 0 ? Math.min(1, high * 1.1) : 1];
  // Single precision leaves rounding errors on a constant, which must not look like a curve.
  const isFlat = high - low <= 1e-6 * Math.max(Math.abs(low), Math.abs(high));
  const pad = isFlat ? Math.abs(high) * 0.5 || 1 : 0.08 * (high - low);
  return [low >= 0 && low - pad < 0 ? 0 : low - pad, high + pad];
}

/** The value at `index` or, if there is none, the nearest one before. */
export function lastOf(curve: ArrayLike<number | null | undefined>, index: number): number | null {
  for (let i = index; i >= 0; i--) {
    const value = curve[i];
    if (typeof value === "number") return value;
  }
  return null;
}

/** The ticks of an axis in short, with as many digits as tell them apart. */
export function shortTicks(ticks: readonly (number | null)[], chart: Pick<ChartInfo, "format">): string[] {
  const places = ticks.filter((tick) => tick !== null);
  const gap = Math.abs((places[1] ?? NaN) - places[0]!);
  const digits = Math.ceil(Math.log10(Math.max(...places.map(Math.abs)) / gap)) + 1;
  // One tick, or two that are equal, have no gap.
  const needed = Number.isFinite(digits) ? Math.min(12, digits) : 0;
  const write = (tick: number): string => {
    if (chart.format === "percent") return `${Number((tick * 100).toPrecision(Math.max(3, needed)))} %`;
    if (chart.format === "count" || Math.abs(tick) >= 1000) return formatAs("count", tick);
    if (tick === 0) return "0";
    if (Math.abs(tick) < 0.001) return formatNumber(tick);
    return String(Number(tick.toPrecision(Math.max(4, needed)))).replace("-", "−");
  };
  return ticks.map((tick) => (tick === null ? "" : write(tick)));
}

/** A dashed line between warm start and RL, with the names of both beside it. */
function phaseMark(step: number): uPlot.Plugin {
  return {
    hooks: {
      draw: (plot) => {
        const { ctx, bbox } = plot;
        const x = Math.round(plot.valToPos(step, "x", true));
        if (x < bbox.left || x > bbox.left + bbox.width) return;
        ctx.save();
        ctx.strokeStyle = ctx.fillStyle = cssColour("--muted");
        ctx.lineWidth = devicePixelRatio;
        ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
        ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
        ctx.textBaseline = "top";
        const gap = 5 * devicePixelRatio;
        ctx.textAlign = "right";
        if (x - bbox.left > 30 * devicePixelRatio) ctx.fillText("SFT", x - gap, bbox.top + gap);
        ctx.textAlign = "left";
        ctx.fillText("RL", x + gap, bbox.top + gap);
        ctx.restore();
      },
    },
  };
}
