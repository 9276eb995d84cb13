/**
 * The live curves: charts with a line for each agent, and for each agent a chart with a line for each term of its loss.
 * All are small, so that they are seen together.
 */
import { type Line, LineChart, type LineChartInfo } from "../run/page/lineChart.ts";
import type { MetricsRecord } from "../run/records.ts";

/** The data of an agent's curves. */
export interface Measured {
  readonly label: string;
  readonly metrics: readonly MetricsRecord[];
  /** Steps before RL, which the axis does not count. */
  readonly warmSteps: number;
}

/** The metric of a line, and the phase of the metric lines that it is read from. */
interface Choice {
  readonly phase: "rl" | "eval";
  readonly metric: string;
  /** The number of values over which the mean is drawn; default 1. */
  readonly window?: number;
}

const CHARTS: readonly (LineChartInfo & Choice)[] = [
  {
    title: "Success on held-out tasks",
    about: "The share of tasks solved that are never trained on; the same tasks at every point.",
    format: "percent",
    phase: "eval",
    metric: "success",
  },
  {
    title: "Reward in training",
    about: "What the agent earns in the episodes that it learns from: the mean over the last ten steps.",
    format: "number",
    phase: "rl",
    metric: "reward",
    window: 10,
  },
  {
    title: "Surprise at its own episodes",
    about: "Nats per token of what the world answers, on held-out tasks. Lower is better predicted.",
    format: "number",
    phase: "eval",
    metric: "world_loss/on_policy",
  },
  {
    title: "Entropy of the policy",
    about: "How many ways it still tries, in nats per token. Near 0 it always does the same.",
    format: "number",
    phase: "rl",
    metric: "entropy",
    window: 10,
  },
  {
    title: "Groups without spread",
    about: "The share of tasks of a step whose episodes all earned the same: their advantages are 0.",
    format: "percent",
    phase: "rl",
    metric: "frac_reward_zero_std",
    window: 10,
  },
  {
    title: "World and policy gradient",
    about: "The cosine between the two. 1: they pull the same way; below 0: one undoes the other.",
    format: "number",
    phase: "rl",
    metric: "grad_cosine/world_policy",
  },
];

const ABOUT_SHARES = "How long the gradient of each term of the loss is, as a share of the sum of all these lengths.";
/** The terms of a loss, as `grad_share/TERM` has them, in the order of their colours; others come behind them. */
const TERMS: readonly string[] = ["policy", "world", "kl", "entropy", "value", "imitation"];
const SHARE = "grad_share/";

/** The terms that have a gradient share in any of these metric lines. */
export function sharedTerms(metrics: readonly MetricsRecord[]): readonly string[] {
  const present = new Set(metrics.flatMap(Object.keys).filter((name) => name.startsWith(SHARE)));
  const names = [...present].map((name) => name.slice(SHARE.length));
  return [...TERMS.filter((name) => names.includes(name)), ...names.filter((name) => !TERMS.includes(name)).toSorted()];
}

/** The height of a drawing in pixels. */
const HEIGHT = 170;

export class Curves {
  readonly views: readonly HTMLElement[];
  readonly #agents: readonly Measured[];
  /** One for each of `CHARTS`, and one for each agent. */
  readonly #charts: readonly LineChart[];
  readonly #shares: readonly LineChart[];

  /** @param agents in the order of their colours; their metrics may change */
  constructor(agents: readonly Measured[]) {
    const names = agents.map(({ label }) => label);
    this.#agents = agents;
    this.#charts = CHARTS.map((chart) => new LineChart({ ...chart, height: HEIGHT }, names));
    const shares = { about: ABOUT_SHARES, format: "percent", height: HEIGHT } as const;
    this.#shares = names.map((name) => new LineChart({ ...shares, title: `Gradient shares: ${name}` }, []));
    this.views = [...this.#charts, ...this.#shares].map(({ card }) => card);
  }

  /** Draws what has been measured until now. */
  show(): void {
    CHARTS.forEach((choice, i) => this.#charts[i]!.show(this.#agents.map((agent) => lineOf(agent, choice))));
    // A term of one agent is in the charts of all, so that it has the same colour in each.
    const names = sharedTerms(this.#agents.flatMap(({ metrics }) => metrics));
    this.#agents.forEach((agent, i) => {
      const lines = names.map((term) => lineOf(agent, { phase: "rl", metric: `${SHARE}${term}` }));
      this.#shares[i]!.show(lines, names);
    });
  }

  dispose(): void {
    for (const chart of [...this.#charts, ...this.#shares]) chart.dispose();
  }
}

function lineOf({ metrics, warmSteps }: Measured, { phase, metric, window = 1 }: Choice): Line {
  const points = metrics.flatMap((line): (readonly [number, number])[] => {
    const value = line[metric];
    // A line of RL has the number of its step, an evaluation that of the steps before it.
    const step = line.step - warmSteps + (phase === "rl" ? 1 : 0);
    return line.phase === phase && typeof value === "number" && Number.isFinite(value) ? [[step, value]] : [];
  });
  return points.map(([step], i) => {
    const seen = points.slice(Math.max(0, i + 1 - window), i + 1);
    return [step, seen.reduce((sum, [, value]) => sum + value, 0) / seen.length];
  });
}
