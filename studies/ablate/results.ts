/**
 * Computes the results of an ablation from the curves of its finished cells: curves with bands over seeds, speed, and
 * final success. Times are left out, so that the same command gives the same results.json, byte for byte, however often
 * it was stopped.
 */
import {
  type Interval,
  bootstrap,
  type Difference,
  differencesBySeed,
  interquartileMean,
  mean,
  meanOver,
  pairedDifference,
  pairedRatio,
  type Ratio,
  timeTo,
  type TimeTo,
} from "../../run/figures/statistics.ts";
import { areaUnder, bestSmoothed, envStepsTo, type Point, successAt } from "./points.ts";
import type { Tuning } from "./tune.ts";

type Rates = Readonly<Record<string, { readonly successes: number; readonly episodes: number }>>;

export interface CellResult {
  readonly env: string;
  readonly arm: string;
  readonly seed: number;
  /** The evaluation of its warm start, with which its curve begins; a random player's curve begins with its own. */
  readonly warm: Point;
  readonly points: readonly Point[];
  /** Held-out success by family of tasks: the warm start's, and at the end. */
  readonly families: { readonly before: Rates; readonly after: Rates };
}

export interface Curve {
  readonly steps: readonly number[];
  /** Means over seeds. */
  readonly envSteps: readonly number[];
  /** null where some seed has no number: the reward before the first step, or a loss that is not finite. */
  readonly success: readonly (Interval | null)[];
  readonly worldLoss: readonly (Interval | null)[];
  readonly worldLossOnPolicy: readonly (Interval | null)[];
  readonly worldLossExcess: readonly (Interval | null)[];
  readonly reward: readonly (Interval | null)[];
  readonly shown: Readonly<Record<string, readonly (Interval | null)[]>>;
}

export interface ArmResult {
  readonly arm: string;
  readonly seeds: readonly number[];
  /** RL steps. */
  readonly steps: number;
  /** Whether it plays episodes in training; if not, it has no environment steps to compare. */
  readonly plays: boolean;
  readonly curve: Curve;
  /** Success after the last step. Differences are to the first arm; its own is null. */
  readonly success: Interval;
  readonly difference: Difference | null;
  readonly iqm: Interval;
  readonly iqmDifference: Difference | null;
  readonly envSteps: Interval;
  readonly flops: Interval;
  /**
   * Environment steps to the baseline's best smoothed success of the same seed, as a ratio to the baseline's own steps.
   */
  readonly speed: Ratio | null;
  /** Mean success on the way to `budget` environment steps. */
  readonly area: Interval | null;
  readonly areaDifference: Difference | null;
  /** Success after `budget` environment steps, linear between evaluations. */
  readonly atBudget: Interval | null;
  readonly budgetDifference: Difference | null;
  readonly threshold: TimeTo;
  readonly worldLoss: Interval;
  readonly worldDifference: Difference | null;
  readonly worldLossRandom: Interval;
  readonly worldLossOnPolicy: Interval;
  /** `worldLossOnPolicy` minus the entropy of the answers themselves; null unless every seed has it. */
  readonly worldLossExcess: Interval | null;
  /** pass@k by k. */
  readonly passAt: Readonly<Record<string, Interval>>;
  readonly families: Readonly<Record<string, Interval>>;
}

export interface EnvironmentResult {
  readonly env: string;
  /** The results of the warm starts, with which all arms begin. */
  readonly warm: Pick<
    ArmResult,
    "success" | "worldLoss" | "worldLossRandom" | "worldLossOnPolicy" | "worldLossExcess" | "passAt" | "families"
  >;
  /** The environment steps that every arm that plays has taken: the least of their totals. 0 if none plays. */
  readonly budget: number;
  /** The families of tasks that the first arm trains on; the others show transfer. */
  readonly rewarded: readonly string[];
  readonly arms: readonly ArmResult[];
}

export interface Results {
  /** The arm that the others are compared with. */
  readonly baseline: string;
  readonly threshold: number;
  /** Episodes in a training step of the first arm, and held-out episodes of an evaluation. */
  readonly trainingEpisodes: number;
  readonly heldOutEpisodes: number;
  /** Further metrics that were asked for. */
  readonly shown: readonly string[];
  readonly tuning: readonly Tuning[];
  readonly environments: readonly EnvironmentResult[];
  /**
   * Interquartile mean of final success over environments and seeds, stratified bootstrap; for two environments or
   * more.
   */
  readonly overall: readonly {
    readonly arm: string;
    readonly iqm: Interval;
    readonly difference: Difference | null;
  }[];
  readonly cells: readonly CellResult[];
}

export interface ResultOptions extends Pick<
  Results,
  "threshold" | "trainingEpisodes" | "heldOutEpisodes" | "shown" | "tuning"
> {
  /** All arms in the given order; the first is the baseline. */
  readonly arms: readonly string[];
  /** The families of tasks that the first arm trains on. */
  readonly rewarded: (env: string) => readonly string[];
}

/** @param cells the finished ones */
export function resultsOf(cells: readonly CellResult[], options: ResultOptions): Results {
  const { arms, threshold, trainingEpisodes, heldOutEpisodes, shown, tuning } = options;
  const envs = [...new Set(cells.map(({ env }) => env))];
  const own = (env: string): CellResult[] => cells.filter((cell) => cell.env === env);
  return {
    baseline: arms[0]!,
    threshold,
    trainingEpisodes,
    heldOutEpisodes,
    shown,
    tuning,
    environments: envs.map((env) => environmentResult(env, own(env), options)),
    overall: envs.length > 1 ? overallOf(cells, envs, arms) : [],
    cells,
  };
}

const bySeed = (cells: readonly CellResult[], value: (cell: CellResult) => number): Map<number, number> =>
  new Map(cells.map((cell) => [cell.seed, value(cell)]));

const lastOf = ({ points }: CellResult): Point => points.at(-1)!;
const plays = (cell: CellResult): boolean => lastOf(cell).envSteps > 0;

function environmentResult(env: string, cells: readonly CellResult[], options: ResultOptions): EnvironmentResult {
  const { arms, threshold, rewarded } = options;
  const ends = cells.filter(plays).map((cell) => lastOf(cell).envSteps);
  const budget = ends.length > 0 ? Math.min(...ends) : 0;
  const baseline = cells.filter(({ arm }) => arm === arms[0]);
  const warm = [...new Map(cells.map((cell) => [cell.seed, cell])).values()];
  const firsts = warm.map((cell) => cell.warm);
  return {
    env,
    warm: {
      success: meanOver(firsts.map((point) => point.success)),
      worldLoss: meanOver(firsts.map((point) => point.worldLoss)),
      worldLossRandom: meanOver(firsts.map((point) => point.worldLossRandom)),
      worldLossOnPolicy: meanOver(firsts.map((point) => point.worldLossOnPolicy)),
      worldLossExcess: excessOf(firsts),
      passAt: passAtOf(firsts),
      families: familiesOf(warm.map(({ families }) => families.before)),
    },
    budget,
    rewarded: rewarded(env),
    arms: arms
      .filter((arm) => cells.some((cell) => cell.arm === arm))
      .map((arm) =>
        armResult(
          arm,
          cells.filter((cell) => cell.arm === arm),
          { baseline, budget, threshold, first: arms[0]! },
        ),
      ),
  };
}

interface Against {
  readonly baseline: readonly CellResult[];
  readonly first: string;
  readonly budget: number;
  readonly threshold: number;
}

function armResult(
  arm: string,
  cells: readonly CellResult[],
  { baseline, first, budget, threshold }: Against,
): ArmResult {
  const values = (value: (cell: CellResult) => number): number[] => cells.map(value);
  const compare = (value: (cell: CellResult) => number, statistic?: typeof mean): Difference | null =>
    arm === first
      ? null
      : pairedDifference([differencesBySeed(bySeed(cells, value), bySeed(baseline, value))], statistic);
  const success = (cell: CellResult): number => lastOf(cell).success;
  const worldLoss = (cell: CellResult): number => lastOf(cell).worldLoss;
  const atBudget = (cell: CellResult): number => successAt(cell.points, budget);
  const area = (cell: CellResult): number => areaUnder(cell.points, budget);
  const steps = lastOf(cells[0]!).step;
  const isPlaying = cells.every(plays);
  // An arm that plays nothing has no place on an axis of environment steps, and nothing can be compared with it there.
  const isComparable = isPlaying && baseline.every(plays);
  return {
    arm,
    seeds: cells.map(({ seed }) => seed),
    steps,
    plays: isPlaying,
    curve: curveOf(cells),
    success: meanOver(values(success)),
    difference: compare(success),
    iqm: bootstrap([values(success)], interquartileMean),
    iqmDifference: compare(success, interquartileMean),
    envSteps: meanOver(values((cell) => lastOf(cell).envSteps)),
    flops: meanOver(values((cell) => lastOf(cell).flops)),
    speed: isComparable ? speedOf(cells, baseline) : null,
    area: isPlaying ? meanOver(values(area)) : null,
    areaDifference: isComparable ? compare(area) : null,
    atBudget: isPlaying ? meanOver(values(atBudget)) : null,
    budgetDifference: isComparable ? compare(atBudget) : null,
    threshold: timeTo(
      cells.map(({ points }) => points.find((p) => p.success >= threshold)?.step ?? null),
      steps,
    ),
    worldLoss: meanOver(values(worldLoss)),
    worldDifference: compare(worldLoss),
    worldLossRandom: meanOver(values((cell) => lastOf(cell).worldLossRandom)),
    worldLossOnPolicy: meanOver(values((cell) => lastOf(cell).worldLossOnPolicy)),
    worldLossExcess: excessOf(cells.map(lastOf)),
    passAt: passAtOf(cells.map(lastOf)),
    families: familiesOf(cells.map(({ families }) => families.after)),
  };
}

/**
 * The time of each seed to the baseline's best success with that seed; the baseline's own time is to that
 * evaluation.
 */
function speedOf(cells: readonly CellResult[], baseline: readonly CellResult[]): Ratio | null {
  const pairs = cells.flatMap(({ seed, points }) => {
    const other = baseline.find((cell) => cell.seed === seed);
    if (other === undefined) return [];
    const target = bestSmoothed(other.points);
    return [
      { time: envStepsTo(points, target), horizon: points.at(-1)!.envSteps, base: envStepsTo(other.points, target)! },
    ];
  });
  return pairedRatio(pairs);
}

function excessOf(points: readonly Point[]): Interval | null {
  const values = points.flatMap(({ worldLossExcess }) => (worldLossExcess === undefined ? [] : [worldLossExcess]));
  return values.length === points.length ? meanOver(values) : null;
}

/** The pass@k that every one of the points has. */
function passAtOf(points: readonly Point[]): Record<string, Interval> {
  const ks = Object.keys(points[0]?.passAt ?? {}).filter((k) =>
    points.every(({ passAt }) => passAt?.[k] !== undefined),
  );
  return Object.fromEntries(ks.map((k) => [k, meanOver(points.map(({ passAt }) => passAt![k]!))]));
}

/** The mean over seeds of each family's success, where a seed has tasks of it. */
function familiesOf(seeds: readonly Rates[]): Record<string, Interval> {
  const names = [...new Set(seeds.flatMap((rates) => Object.keys(rates)))].toSorted();
  return Object.fromEntries(
    names.map((name) => {
      const rates = seeds.flatMap((of) => (of[name] ? [of[name].successes / of[name].episodes] : []));
      return [name, meanOver(rates)];
    }),
  );
}

/** The mean curve of an arm, whose cells evaluate after the same steps. */
function curveOf(cells: readonly CellResult[]): Curve {
  const steps = cells[0]!.points.map(({ step }) => step);
  const at = (value: (point: Point) => number): number[][] =>
    steps.map((_, i) => cells.map(({ points }) => value(points[i]!)));
  const intervals = (value: (point: Point) => number): (Interval | null)[] =>
    at(value).map((values) => (values.some(Number.isNaN) ? null : meanOver(values)));
  const shown = Object.keys(cells[0]!.points[0]!.shown);
  return {
    steps,
    envSteps: at((point) => point.envSteps).map(mean),
    success: intervals((point) => point.success),
    worldLoss: intervals((point) => point.worldLoss),
    worldLossOnPolicy: intervals((point) => point.worldLossOnPolicy),
    worldLossExcess: intervals((point) => point.worldLossExcess ?? NaN),
    reward: intervals((point) => point.reward ?? NaN),
    shown: Object.fromEntries(shown.map((name) => [name, intervals((point) => point.shown[name] ?? NaN)])),
  };
}

/** Resamples an arm's scores by environment, as rliable does, and so its differences to the first arm. */
function overallOf(cells: readonly CellResult[], envs: readonly string[], arms: readonly string[]): Results["overall"] {
  const scores = (env: string, arm: string): Map<number, number> =>
    bySeed(
      cells.filter((c) => c.env === env && c.arm === arm),
      (cell) => lastOf(cell).success,
    );
  const first = arms[0]!;
  return arms
    .map((arm) => ({ arm, strata: envs.map((env) => scores(env, arm)) }))
    .filter(({ strata }) => strata.every(({ size }) => size > 0))
    .map(({ arm, strata }) => {
      const differences = strata.map((own, e) => differencesBySeed(own, scores(envs[e]!, first)));
      return {
        arm,
        iqm: bootstrap(
          strata.map((own) => [...own.values()]),
          interquartileMean,
        ),
        difference: arm === first ? null : pairedDifference(differences, interquartileMean),
      };
    });
}
