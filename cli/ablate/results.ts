/**
 * From the metric lines of the finished cells to what they say together: curves with bands over seeds, the end, the way there. Times
 * are left out, so that the same command gives the same results.json, byte for byte, however often it was stopped.
 */
import { check } from "../../engine/errors.ts";
import type { Preset } from "../presets.ts";
import type { MetricsRecord } from "../report/records.ts";
import type { Interval } from "../report/statistics.ts";
import {
  bootstrap,
  type Difference,
  differencesBySeed,
  interquartileMean,
  mean,
  meanOver,
  pairedDifference,
  timeTo,
  type TimeTo,
} from "./statistics.ts";

/** A cell at one of its evaluations. */
export interface Point {
  /** RL steps done. */
  readonly step: number;
  /** Commands that the environment has answered in training, over all these steps. */
  readonly envSteps: number;
  /** Held-out tasks. */
  readonly success: number;
  readonly turns: number;
  /** −lp per token of what the environment answers in fixed held-out episodes, in nats. */
  readonly worldLoss: number;
  /** Mean reward of the training episodes since the evaluation before; null at the start. */
  readonly reward: number | null;
}

export interface CellResult {
  readonly env: string;
  readonly method: string;
  readonly seed: number;
  readonly points: readonly Point[];
}

export interface Curve {
  readonly steps: readonly number[];
  /** Mean over seeds. */
  readonly envSteps: readonly number[];
  /** null: not known of every seed, as the reward before the first step is, or a loss that is no number any more. */
  readonly success: readonly (Interval | null)[];
  readonly worldLoss: readonly (Interval | null)[];
  readonly reward: readonly (Interval | null)[];
}

export interface MethodResult {
  readonly method: string;
  readonly seeds: readonly number[];
  readonly curve: Curve;
  /** After the last step; `difference` to the first method, null for itself. */
  readonly success: Interval;
  readonly iqm: Interval;
  readonly difference: Difference | null;
  readonly envSteps: Interval;
  /** Success when `budget` environment steps were taken, linear between evaluations. */
  readonly atBudget: Interval;
  readonly budgetDifference: Difference | null;
  readonly threshold: TimeTo;
  readonly worldLoss: Interval;
  readonly worldDifference: Difference | null;
}

export interface EnvironmentResult {
  readonly env: string;
  /** Success and world-model loss of the warm starts, which all methods share. */
  readonly warm: { readonly success: Interval; readonly worldLoss: Interval };
  /** Environment steps that every cell has taken: what the most sparing one took in all. */
  readonly budget: number;
  readonly methods: readonly MethodResult[];
}

export interface Results {
  /** The method that the others are compared with. */
  readonly baseline: string;
  readonly threshold: number;
  /** RL steps, episodes of each, held-out episodes of an evaluation. */
  readonly steps: number;
  readonly trainingEpisodes: number;
  readonly heldOutEpisodes: number;
  readonly environments: readonly EnvironmentResult[];
  /** Interquartile mean of final success over environments and seeds, with a stratified bootstrap; with two environments or more. */
  readonly overall: readonly {
    readonly method: string;
    readonly iqm: Interval;
    readonly difference: Difference | null;
  }[];
  readonly cells: readonly CellResult[];
}

/** The curve of a finished cell. @throws if its log has lost its end, as a copy that was cut short has */
export function curveOfCell(path: string, metrics: readonly MetricsRecord[], preset: Preset): Point[] {
  const points = pointsOf(metrics, preset);
  const [first, last] = [points[0]?.step, points.at(-1)?.step];
  check(
    first === 0 && last === preset.rl.steps,
    () => `${path}: its log has evaluations from RL step ${first ?? "–"} to ${last ?? "–"}, expected 0 to ${preset.rl.steps}; remove the folder, and the same command trains it again`, // prettier-ignore
  );
  return points;
}

/** A point for every evaluation in the metric lines of a cell. */
export function pointsOf(metrics: readonly MetricsRecord[], { sft, rl }: Preset): Point[] {
  const points: Point[] = [];
  let envSteps = 0;
  let rewards: number[] = [];
  for (const line of metrics) {
    const number = (name: string): number => Number(line[name] ?? NaN);
    if (line.phase === "rl") {
      const episodes = rl.groups * rl.groupSize - (number("masked") || 0);
      envSteps += Math.round((number("tools/call_frequency") || 0) * episodes);
      if (Number.isFinite(number("reward"))) rewards.push(number("reward"));
    } else if (line.phase === "eval") {
      const reward = rewards.length > 0 ? mean(rewards) : null;
      points.push({ step: line.step - sft.steps, envSteps, success: number("success"), turns: number("num_turns/mean"), worldLoss: number("world_loss"), reward }); // prettier-ignore
      rewards = [];
    }
  }
  return points;
}

/** @param cells the finished ones @param methods in the order in which they were asked for; the first is the baseline */
export function resultsOf(
  cells: readonly CellResult[],
  methods: readonly string[],
  threshold: number,
  { rl, evaluation }: Preset,
): Results {
  const envs = [...new Set(cells.map(({ env }) => env))];
  const environments = envs.map((env) =>
    environmentResult(
      env,
      cells.filter((cell) => cell.env === env),
      methods,
      threshold,
      rl.steps,
    ),
  );
  return {
    baseline: methods[0]!,
    threshold,
    steps: rl.steps,
    trainingEpisodes: rl.groups * rl.groupSize,
    heldOutEpisodes: evaluation.finalEpisodes,
    environments,
    overall: envs.length > 1 ? overallOf(cells, envs, methods) : [],
    cells,
  };
}

const bySeed = (cells: readonly CellResult[], value: (cell: CellResult) => number): Map<number, number> =>
  new Map(cells.map((cell) => [cell.seed, value(cell)]));

const lastOf = ({ points }: CellResult): Point => points.at(-1)!;

function environmentResult(
  env: string,
  cells: readonly CellResult[],
  methods: readonly string[],
  threshold: number,
  steps: number,
): EnvironmentResult {
  const budget = Math.min(...cells.map((cell) => lastOf(cell).envSteps));
  const baseline = cells.filter(({ method }) => method === methods[0]);
  const present = methods.filter((method) => cells.some((cell) => cell.method === method));
  const warm = new Map(cells.map((cell) => [cell.seed, cell.points[0]!]));
  return {
    env,
    warm: {
      success: meanOver([...warm.values()].map((point) => point.success)),
      worldLoss: meanOver([...warm.values()].map((point) => point.worldLoss)),
    },
    budget,
    methods: present.map((method): MethodResult => {
      const own = cells.filter((cell) => cell.method === method);
      const values = (value: (cell: CellResult) => number): number[] => own.map(value);
      const compare = (value: (cell: CellResult) => number): Difference | null =>
        method === methods[0]
          ? null
          : pairedDifference([differencesBySeed(bySeed(own, value), bySeed(baseline, value))]);
      const success = (cell: CellResult): number => lastOf(cell).success;
      const worldLoss = (cell: CellResult): number => lastOf(cell).worldLoss;
      const atBudget = (cell: CellResult): number => successAt(cell.points, budget);
      return {
        method,
        seeds: own.map(({ seed }) => seed),
        curve: curveOf(own),
        success: meanOver(values(success)),
        iqm: bootstrap([values(success)], interquartileMean),
        difference: compare(success),
        envSteps: meanOver(values((cell) => lastOf(cell).envSteps)),
        atBudget: meanOver(values(atBudget)),
        budgetDifference: compare(atBudget),
        threshold: timeTo(own.map(({ points }) => points.find((p) => p.success >= threshold)?.step ?? null), steps), // prettier-ignore
        worldLoss: meanOver(values(worldLoss)),
        worldDifference: compare(worldLoss),
      };
    }),
  };
}

/** Cells of one method evaluate after the same steps. */
function curveOf(cells: readonly CellResult[]): Curve {
  const steps = cells[0]!.points.map(({ step }) => step);
  const at = (value: (point: Point) => number): number[][] =>
    steps.map((_, i) => cells.map(({ points }) => value(points[i]!)));
  const intervals = (value: (point: Point) => number): (Interval | null)[] =>
    at(value).map((values) => (values.some(Number.isNaN) ? null : meanOver(values)));
  return {
    steps,
    envSteps: at((point) => point.envSteps).map(mean),
    success: intervals((point) => point.success),
    worldLoss: intervals((point) => point.worldLoss),
    reward: intervals((point) => point.reward ?? NaN),
  };
}

/** Success after `envSteps` environment steps, linear between the evaluations around it; at the end the last one's. */
export function successAt(points: readonly Point[], envSteps: number): number {
  const next = points.findIndex((point) => point.envSteps >= envSteps);
  if (next < 0) return points.at(-1)!.success;
  const [a, b] = [points[next - 1], points[next]!];
  if (a === undefined || b.envSteps === a.envSteps) return b.success;
  return a.success + ((envSteps - a.envSteps) / (b.envSteps - a.envSteps)) * (b.success - a.success);
}

/** As rliable has it: all scores of a method together, resampled by environment. So are the differences to the first, seed by seed. */
function overallOf(
  cells: readonly CellResult[],
  envs: readonly string[],
  methods: readonly string[],
): Results["overall"] {
  const scores = (env: string, method: string): Map<number, number> =>
    bySeed(cells.filter((c) => c.env === env && c.method === method), (cell) => lastOf(cell).success); // prettier-ignore
  const first = methods[0]!;
  return methods
    .map((method) => ({ method, strata: envs.map((env) => scores(env, method)) }))
    .filter(({ strata }) => strata.every(({ size }) => size > 0))
    .map(({ method, strata }) => {
      const differences = strata.map((own, e) => differencesBySeed(own, scores(envs[e]!, first)));
      return {
        method,
        iqm: bootstrap(strata.map((own) => [...own.values()]), interquartileMean), // prettier-ignore
        difference: method === first ? null : pairedDifference(differences, interquartileMean),
      };
    });
}
