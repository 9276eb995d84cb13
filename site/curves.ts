/**
 * The live curves, with a line for each agent: success on new tasks, which stands by itself; four that say whether an
 * agent learns; and further ones, among them where each agent's gradient comes from. All have the same horizontal axis.
 */
import { type Line, LineChart, type LineChartInfo, type LineView } from "../run/page/lineChart.ts";
import type { MetricsRecord } from "../run/records.ts";
import type { Recorded } from "./recorded.ts";

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

type Chart = LineChartInfo & Choice;

const SUCCESS: Chart = {
  title: "Does it solve tasks that it was never trained on?",
  about: "",
  format: "percent",
  phase: "eval",
  metric: "success",
  atLeast: 0.2,
};

const FIRST: readonly Chart[] = [
  {
    title: "Does it earn more in training?",
    about: "What it earns in the episodes that it learns from: the mean over ten steps.",
    format: "number",
    phase: "rl",
    metric: "reward",
    window: 10,
  },
  {
    title: "Do the answers surprise it less?",
    about: "Nats per token of what the world answers, in its own episodes of new tasks. Lower is better predicted.",
    format: "number",
    phase: "eval",
    metric: "world_loss/on_policy",
  },
  {
    title: "Does it still try different things?",
    about: "The entropy of its actions, in nats per token. Near 0 it always does the same.",
    format: "number",
    phase: "rl",
    metric: "entropy",
    window: 10,
  },
  {
    title: "How many tasks teach nothing?",
    about: "The share of a step's tasks whose tries all earned the same: their advantages are 0.",
    format: "percent",
    phase: "rl",
    metric: "frac_reward_zero_std",
    window: 10,
  },
];

const FURTHER: readonly Chart[] = [
  {
    title: "Do acting and predicting pull the same way?",
    about: "The cosine between the two gradients. 1: they agree; below 0: one undoes the other.",
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

/** The heights of drawings in pixels. */
const HEIGHT = 170;
const HEIGHT_OF_SUCCESS = 210;

/** The cards of the curves, by their places on the page. */
export interface CurveViews {
  readonly success: HTMLElement;
  readonly first: readonly HTMLElement[];
  readonly further: readonly HTMLElement[];
}

export class Curves {
  readonly views: CurveViews;
  readonly #agents: readonly Measured[];
  readonly #success: LineChart;
  /** One for each of `FIRST` and `FURTHER`, and one for each agent. */
  readonly #charts: readonly LineChart[];
  readonly #shares: readonly LineChart[];
  readonly #recorded: readonly Line[];

  /**
   * @param agents in the order of their colours; their metrics may change
   * @param recorded what a run before showed of the success, and in words
   */
  constructor(agents: readonly Measured[], recorded: Recorded | undefined) {
    const names = agents.map(({ label }) => label);
    this.#agents = agents;
    this.#recorded = recorded?.success ?? [];
    this.#success = new LineChart({ ...SUCCESS, about: recorded?.about ?? "", height: HEIGHT_OF_SUCCESS }, names);
    this.#charts = [...FIRST, ...FURTHER].map((chart) => new LineChart({ ...chart, height: HEIGHT }, names));
    const shares = { about: ABOUT_SHARES, format: "percent", height: HEIGHT } as const;
    this.#shares = names.map((name) => new LineChart({ ...shares, title: `What moves ${name}?` }, []));
    const cards = this.#charts.map(({ card }) => card);
    this.views = {
      success: this.#success.card,
      first: cards.slice(0, FIRST.length),
      further: [...cards.slice(FIRST.length), ...this.#shares.map(({ card }) => card)],
    };
  }

  /**
   * Draws what has been measured until now.
   * @param steps of RL in all, the end of the axis
   * @param events the steps at which something happened
   * @param tested the last step after which all have been tested; what the legend tells of the success
   */
  show(steps: number, events: readonly number[], tested: number | undefined): void {
    const view: LineView = { axis: "steps", bands: false, upTo: steps };
    const linesOf = (choice: Choice): Line[] => this.#agents.map((agent) => lineOf(agent, choice));
    this.#success.show(linesOf(SUCCESS), undefined, { ...view, events, recorded: this.#recorded, rest: tested });
    [...FIRST, ...FURTHER].forEach((choice, i) => this.#charts[i]!.show(linesOf(choice), undefined, view));
    // A term of one agent is in the charts of all, so that it has the same colour in each.
    const names = sharedTerms(this.#agents.flatMap(({ metrics }) => metrics));
    this.#agents.forEach((agent, i) => {
      const lines = names.map((term) => lineOf(agent, { phase: "rl", metric: `${SHARE}${term}` }));
      this.#shares[i]!.show(lines, names, view);
    });
  }

  dispose(): void {
    for (const chart of [this.#success, ...this.#charts, ...this.#shares]) chart.dispose();
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
