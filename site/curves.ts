/** The live curves: one line for each agent, drawn again when a number arrives. */
import { type Line, LineChart, type LineChartInfo } from "../tools/page/lineChart.ts";
import type { MetricsRecord } from "../job/records.ts";

/** A chart: which lines of metrics it draws, and what of them. */
export interface ChartChoice extends LineChartInfo {
  readonly phase: "rl" | "eval";
  readonly metric: string;
  /** The number of values over which the mean is drawn; default 1. */
  readonly window?: number;
}

export class LiveChart {
  readonly card: HTMLElement;
  readonly #choice: ChartChoice;
  readonly #chart: LineChart;
  readonly #lines: Line[];

  /** @param names of the agents, in the order of their colours */
  constructor(choice: ChartChoice, names: readonly string[]) {
    this.#choice = choice;
    this.#chart = new LineChart(choice, names);
    this.#lines = names.map(() => []);
    this.card = this.#chart.card;
  }

  /** @param warmSteps steps before RL, which the axis does not count */
  show(agent: number, metrics: readonly MetricsRecord[], warmSteps: number): void {
    const { phase, metric, window = 1 } = this.#choice;
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
    this.#chart.show(this.#lines);
  }
}
