/**
 * The curves of an ablation's page: a line for every arm, the mean over seeds, with a band around it. uPlot draws them,
 * as it draws those of a run's report (run/page/charts.ts). Runs in the browser.
 */
import uPlot from "uplot";
import { metricInfo } from "../../run/figures/catalogue.ts";
import { formatAs, type NumberFormat } from "../../run/figures/format.ts";
import { chartCard, lastOf, stepWithKeys } from "../../run/page/charts.ts";
import { choice, cssColour, element } from "../../run/page/dom.ts";
import { axisSeries, lineColour, lineFrame, lineStyle } from "../../run/page/lines.ts";
import type { Interval } from "../../run/figures/statistics.ts";
import type { ArmResult, EnvironmentResult, Results } from "./results.ts";

type Axis = "steps" | "envSteps";

interface Chart {
  readonly title: string;
  readonly format: NumberFormat;
  readonly about: string;
  readonly of: (arm: ArmResult) => readonly (Interval | null)[];
  /** The height of a dashed horizontal line. */
  readonly mark?: number;
}

export function mountCurves(host: HTMLElement, { environments, threshold, shown: metrics }: Results): void {
  const views: View[] = [];
  const arms = [...new Set(environments.flatMap((env) => env.arms.map(({ arm }) => arm)))];
  const shown = new Set(arms);
  let axis: Axis = "steps";
  let bands = true;
  const draw = (): void => views.forEach((view) => view.draw(axis, bands, shown));
  const checkbox = (label: string, onChange: (checked: boolean) => void): HTMLElement => {
    const input = element("input", { type: "checkbox", checked: true });
    input.addEventListener("change", () => {
      onChange(input.checked);
      draw();
    });
    return element("label", { class: "check" }, input, element("span", {}, label));
  };
  const axes = [
    ["steps", "RL steps"],
    ["envSteps", "environment steps"],
  ] as const;
  host.append(
    choice<Axis>("against", axes, axis, (chosen) => {
      axis = chosen;
      draw();
    }),
    element(
      "div",
      { class: "controls" },
      checkbox("bands", (checked) => void (bands = checked)),
      ...arms.map((arm) => checkbox(arm, (on) => void (on ? shown.add(arm) : shown.delete(arm)))),
      element("span", { class: "muted" }, "Drag to zoom, double-click to zoom out, ← → to step through a chart."),
    ),
  );
  for (const env of environments) {
    const own = chartsOf(env, threshold, metrics).map((chart) => new View(chart, env, arms));
    views.push(...own);
    host.append(element("h3", {}, env.env), element("div", { class: "charts wide" }, ...own.map(({ card }) => card)));
  }
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  const observer = new ResizeObserver((entries) => {
    if (entries.some(({ target }) => views.find((view) => view.plotHost === target)?.hasOtherWidth())) draw();
  });
  for (const { plotHost } of views) observer.observe(plotHost);
}

const chartsOf = (env: EnvironmentResult, threshold: number, metrics: readonly string[]): Chart[] => [
  {
    title: "Success on held-out tasks",
    format: "percent",
    of: ({ curve }) => curve.success,
    mark: threshold,
    about:
      "Mean over seeds; the band is its 95 % bootstrap interval. The dashed line is the threshold. The arms of a " +
      "seed begin with the same weights, so all lines begin at one point.",
  },
  {
    title: "Reward in training",
    format: "number",
    of: ({ curve }) => curve.reward,
    about: "Mean reward of the episodes played since the evaluation before.",
  },
  {
    title: "World-model loss on held-out observations",
    format: "number",
    of: ({ curve }) => curve.worldLoss,
    about:
      `Nats per token of what the environment answers, in the same ${env.env} episodes at every point. Lower is ` +
      "better.",
  },
  {
    title: "World-model loss in its own episodes",
    format: "number",
    of: ({ curve }) => curve.worldLossOnPolicy,
    about: "Nats per token of the answers in held-out episodes that the arm has just played, its own to predict.",
  },
  ...(env.arms.some(({ curve }) => curve.worldLossExcess.some((value) => value !== null))
    ? [
        {
          title: "Excess of that loss over the answers' own entropy",
          format: "number",
          of: ({ curve }) => curve.worldLossExcess,
          about:
            "What is left in its own episodes without what nobody can predict who knows this world: 0 is to know it.",
        } satisfies Chart,
      ]
    : []),
  ...metrics.map((name): Chart => ({
    title: name,
    format: metricInfo(name).format,
    of: ({ curve }) => curve.shown[name] ?? [],
    about: name.startsWith("eval/")
      ? "Measured in each evaluation."
      : "Mean over the training steps since the evaluation before.",
  })),
];

class View {
  readonly card: HTMLElement;
  readonly plotHost: HTMLElement;
  private readonly chart: Chart;
  private readonly env: EnvironmentResult;
  /** All arms of the page: an arm has the same colour in every chart. */
  private readonly all: readonly string[];
  private plot: uPlot | null = null;

  constructor(chart: Chart, env: EnvironmentResult, all: readonly string[]) {
    this.chart = chart;
    this.env = env;
    this.all = all;
    this.plotHost = element("div", { class: "plot", tabindex: 0, role: "img", "aria-label": this.summary() });
    stepWithKeys(this.plotHost, () => this.plot);
    this.card = chartCard(chart, this.plotHost);
  }

  hasOtherWidth(): boolean {
    return this.plot?.width !== Math.floor(this.plotHost.clientWidth);
  }

  draw(axis: Axis, bands: boolean, shown: ReadonlySet<string>): void {
    const width = Math.floor(this.plotHost.clientWidth);
    this.plot?.destroy();
    this.plot = null;
    if (width < 50) return;
    // An arm that plays nothing has no place on an axis of environment steps.
    const arms = this.env.arms.filter(({ arm, plays }) => shown.has(arm) && (plays || axis === "steps"));
    this.plot = new uPlot(this.options(width, arms, axis, bands), this.columns(arms, axis), this.plotHost);
  }

  /** The steps on the axis, then for each arm the lower edge of its band, the upper edge, and its line. */
  private columns(arms: readonly ArmResult[], axis: Axis): uPlot.AlignedData {
    const places = [...new Set(arms.flatMap(({ curve }) => curve[axis]))].toSorted((a, b) => a - b);
    const rows = arms.flatMap((arm) => {
      const values = this.chart.of(arm);
      const at = new Map(arm.curve[axis].map((place, i) => [place, values[i] ?? null]));
      const row = (pick: (of: Interval) => number): (number | null)[] =>
        places.map((place) => {
          const interval = at.get(place) ?? null;
          return interval === null ? null : pick(interval);
        });
      return [row(({ low }) => low), row(({ high }) => high), row(({ value }) => value)];
    });
    const { mark } = this.chart;
    return [places, ...rows, ...(mark === undefined ? [] : [places.map(() => mark)])];
  }

  private options(width: number, arms: readonly ArmResult[], axis: Axis, bands: boolean): uPlot.Options {
    const { chart } = this;
    const format = (value: number | null): string => (value === null ? "–" : formatAs(chart.format, value));
    const edge = (): uPlot.Series => ({
      class: "hidden-row",
      stroke: "transparent",
      points: { show: false },
      spanGaps: true,
    });
    const series = arms.flatMap(({ arm }, m): uPlot.Series[] => {
      const i = this.all.indexOf(arm);
      const [low, high, line] = [1, 2, 3].map((k) => 3 * m + k) as [number, number, number];
      const read: uPlot.Series.Value = (plot, _value, _series, at) => {
        const back = (column: number): number | null => {
          const values = plot.data[column] ?? [];
          return lastOf(values, at ?? values.length - 1);
        };
        const [l, h] = [back(low), back(high)];
        return `${format(back(line))}${l === null || h === null ? "" : ` [${format(l)}, ${format(h)}]`}`;
      };
      return [edge(), edge(), { ...lineStyle(i), label: arm, value: read }];
    });
    const mark: uPlot.Series = {
      class: "hidden-row",
      stroke: cssColour("--muted"),
      width: 1,
      dash: [4, 4],
      points: { show: false },
    };
    const fills = arms.map(({ arm }, m): uPlot.Band => ({
      series: [3 * m + 2, 3 * m + 1],
      fill: `${lineColour(this.all.indexOf(arm))}1f`,
    }));
    return {
      ...lineFrame(chart, width, axis),
      series: [
        axisSeries(axis === "steps" ? "RL steps" : "environment steps"),
        ...series,
        ...(chart.mark === undefined ? [] : [mark]),
      ],
      bands: bands ? fills : [],
      legend: {
        live: true,
        markers: { fill: (_plot, i) => lineColour(this.all.indexOf(arms[Math.floor((i - 1) / 3)]?.arm ?? "")) },
      },
    };
  }

  /** A summary in words, for those who cannot see the drawing. */
  private summary(): string {
    const ends = this.env.arms.map((of) => {
      const last = this.chart.of(of).at(-1);
      return `${of.arm} ${last ? formatAs(this.chart.format, last.value) : "–"}`;
    });
    return `${this.env.env}: ${this.chart.title}. At the end: ${ends.join("; ")}`;
  }
}
