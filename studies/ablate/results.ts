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

/** A number at each evaluation; null where some seed has none: a reward before the first step, a loss that broke. */
type Line = readonly (Interval | null)[];

export interface Curve {
  readonly steps: readonly number[];
  /** Means over seeds. */
  readonly envSteps: readonly number[];
  readonly success: Line;
  readonly worldLoss: Line;
  readonly worldLossOnPolicy: Line;
  readonly worldLossExcess: Line;
  readonly reward: Line;
  readonly shown: Readonly<Record<string, Line>>;
}

/** What an evaluation measures, over seeds. */
export interface Measures {
  readonly success: Interval;
  readonly worldLoss: Interval;
  readonly worldLossRandom: Interval;
  readonly worldLossOnPolicy: Interval;
  /** `worldLossOnPolicy` minus the entropy of the answers themselves; null unless every seed has it. */
  readonly worldLossExcess: Interval | null;
  /** pass@k by k. */
  readonly passAt: Readonly<Record<string, Interval>>;
  readonly families: Readonly<Record<string, Interval>>;
}

/** What came out of an arm after its last step. Differences are to the first arm; its own are null. */
export interface ArmResult extends Measures {
  readonly arm: string;
  readonly seeds: readonly number[];
  /** RL steps. */
  readonly steps: number;
  /** Whether it plays episodes in training; if not, it has no environment steps to compare. */
  readonly plays: boolean;
  readonly curve: Curve;
  readonly difference: Difference | null;
  readonly iqm: Interval;
  readonly iqmDifference: Difference | null;
  readonly envSteps: Interval;
  readonly flops: Interval;
  /** Environment steps to the baseline's best smoothed success of the same seed, as a ratio to the baseline's own. */
  readonly speed: Ratio | null;
  /** Mean success on the way to `budget` environment steps. */
  readonly area: Interval | null;
  readonly areaDifference: Difference | null;
  /** Success after `budget` environment steps, linear between evaluations. */
  readonly atBudget: Interval | null;
  readonly budgetDifference: Difference | null;
  readonly threshold: TimeTo;
  readonly worldDifference: Difference | null;
}

export interface EnvironmentResult {
  readonly env: string;
  /** The warm starts, with which all arms begin. */
  readonly warm: Measures;
  /** The environment steps that every arm that plays has taken: the least of their totals. 0 if none plays. */
  readonly budget: number;
  /** The families of tasks that the first arm trains on; the others show transfer. */
  readonly rewarded: readonly string[];
  readonly arms: readonly ArmResult[];
}

/** What the results have from the settings. */
interface Given {
  readonly threshold: number;
  /** Episodes in a training step of the first arm, and held-out episodes of an evaluation. */
  readonly trainingEpisodes: number;
  readonly heldOutEpisodes: number;
  /** Further metrics that were asked for. */
  readonly shown: readonly string[];
  readonly tuning: readonly Tuning[];
}

export interface Results extends Given {
  /** The arm that the others are compared with. */
  readonly baseline: string;
  readonly environments: readonly EnvironmentResult[];
  /** Final success over environments and seeds, stratified bootstrap; for two environments or more. */
  readonly overall: readonly Pick<ArmResult, "arm" | "iqm" | "difference">[];
  readonly cells: readonly CellResult[];
}

export interface ResultOptions extends Given {
  /** All arms in the given order; the first is the baseline. */
  readonly arms: readonly string[];
  /** The families of tasks that the first arm trains on. */
  readonly rewarded: (env: string) => readonly string[];
}

/** @param cells the finished ones */
export function resultsOf(cells: readonly CellResult[], options: ResultOptions): Results {
  const { arms, rewarded: _, ...given } = options;
  const envs = [...new Set(cells.map(({ env }) => env))];
  const own = (env: string): CellResult[] => cells.filter((cell) => cell.env === env);
  return {
    baseline: arms[0]!,
    ...given,
    environments: envs.map((env) => environmentResult(env, own(env), options)),
    overall: envs.length > 1 ? overallOf(envs.map(own), arms) : [],
    cells,
  };
}

const lastOf = ({ points }: CellResult): Point => points.at(-1)!;
const successOf = (cell: CellResult): number => lastOf(cell).success;
const plays = (cell: CellResult): boolean => lastOf(cell).envSteps > 0;

function environmentResult(env: string, cells: readonly CellResult[], options: ResultOptions): EnvironmentResult {
  const { arms, threshold, rewarded } = options;
  const budget = Math.min(...cells.filter(plays).map((cell) => lastOf(cell).envSteps));
  const [first, ...others] = arms.map((arm) => cells.filter((cell) => cell.arm === arm)) as [CellResult[]];
  const warm = [...new Map(cells.map((cell) => [cell.seed, cell])).values()];
  const result = (own: readonly CellResult[]): ArmResult => armResult(own, first, budget, threshold);
  return {
    env,
    warm: measuresOf(
      warm.map((cell) => cell.warm),
      warm.map(({ families }) => families.before),
    ),
    budget: Number.isFinite(budget) ? budget : 0,
    rewarded: rewarded(env),
    arms: [first, ...others].filter(({ length }) => length > 0).map(result),
  };
}

function armResult(
  cells: readonly CellResult[],
  first: readonly CellResult[],
  budget: number,
  threshold: number,
): ArmResult {
  type Value = (cell: CellResult) => number;
  const over = (value: Value): Interval => meanOver(cells.map(value));
  const against = (value: Value, statistic?: typeof mean): Difference | null =>
    cells === first ? null : pairedDifference([differencesTo(first, cells, value)], statistic);
  const ends = cells.map(lastOf);
  const [{ step: steps }] = ends as [Point];
  const isPlaying = cells.every(plays);
  // An arm that plays nothing has no place on an axis of environment steps, and nothing can be compared with it there.
  const isComparable = isPlaying && first.every(plays);
  const atBudget: Value = ({ points }) => successAt(points, budget);
  const area: Value = ({ points }) => areaUnder(points, budget);
  return {
    arm: cells[0]!.arm,
    seeds: cells.map(({ seed }) => seed),
    steps,
    plays: isPlaying,
    curve: curveOf(cells),
    difference: against(successOf),
    iqm: bootstrap([cells.map(successOf)], interquartileMean),
    iqmDifference: against(successOf, interquartileMean),
    envSteps: over((cell) => lastOf(cell).envSteps),
    flops: over((cell) => lastOf(cell).flops),
    speed: isComparable ? speedOf(cells, first) : null,
    area: isPlaying ? over(area) : null,
    areaDifference: isComparable ? against(area) : null,
    atBudget: isPlaying ? over(atBudget) : null,
    budgetDifference: isComparable ? against(atBudget) : null,
    threshold: timeTo(
      cells.map(({ points }) => points.find((p) => p.success >= threshold)?.step ?? null),
      steps,
    ),
    worldDifference: against((cell) => lastOf(cell).worldLoss),
    ...measuresOf(
      ends,
      cells.map(({ families }) => families.after),
    ),
  };
}

/** The differences to the first arm, seed by seed. */
function differencesTo(
  first: readonly CellResult[],
  cells: readonly CellResult[],
  value: (cell: CellResult) => number,
): number[] {
  const bySeed = (of: typeof cells): Map<number, number> => new Map(of.map((cell) => [cell.seed, value(cell)]));
  return differencesBySeed(bySeed(cells), bySeed(first));
}

/** @param rates of the families of tasks, of each seed */
function measuresOf(points: readonly Point[], rates: readonly Rates[]): Measures {
  const over = (value: (point: Point) => number): Interval => meanOver(points.map(value));
  const excesses = points.flatMap(({ worldLossExcess }) => worldLossExcess ?? []);
  const tries = Object.keys(points[0]?.passAt ?? {}).filter((k) =>
    points.every(({ passAt }) => passAt?.[k] !== undefined),
  );
  const families = [...new Set(rates.flatMap((of) => Object.keys(of)))].toSorted();
  return {
    success: over(({ success }) => success),
    worldLoss: over(({ worldLoss }) => worldLoss),
    worldLossRandom: over(({ worldLossRandom }) => worldLossRandom),
    worldLossOnPolicy: over(({ worldLossOnPolicy }) => worldLossOnPolicy),
    worldLossExcess: excesses.length === points.length ? meanOver(excesses) : null,
    passAt: Object.fromEntries(tries.map((k) => [k, over(({ passAt }) => passAt![k]!)])),
    // A seed without tasks of a family is left out of its mean.
    families: Object.fromEntries(
      families.map((name) => {
        const own = rates.flatMap((of) => of[name] ?? []);
        return [name, meanOver(own.map(({ successes, episodes }) => successes / episodes))];
      }),
    ),
  };
}

/** The time of each seed to the first arm's best success with that seed; the first arm's own is to that evaluation. */
function speedOf(cells: readonly CellResult[], first: readonly CellResult[]): Ratio | null {
  const pairs = cells.flatMap(({ seed, points }) => {
    const other = first.find((cell) => cell.seed === seed);
    if (other === undefined) return [];
    const target = bestSmoothed(other.points);
    const base = envStepsTo(other.points, target)!;
    return [{ time: envStepsTo(points, target), horizon: points.at(-1)!.envSteps, base }];
  });
  return pairedRatio(pairs);
}

/** The mean curve of an arm, whose cells evaluate after the same steps. */
function curveOf(cells: readonly CellResult[]): Curve {
  const [{ points }] = cells as [CellResult];
  const at = (value: (point: Point) => number): number[][] =>
    points.map((_, i) => cells.map((cell) => value(cell.points[i]!)));
  const line = (value: (point: Point) => number | null | undefined): Line =>
    at((point) => value(point) ?? NaN).map((values) => (values.some(Number.isNaN) ? null : meanOver(values)));
  return {
    steps: points.map(({ step }) => step),
    envSteps: at(({ envSteps }) => envSteps).map(mean),
    success: line(({ success }) => success),
    worldLoss: line(({ worldLoss }) => worldLoss),
    worldLossOnPolicy: line(({ worldLossOnPolicy }) => worldLossOnPolicy),
    worldLossExcess: line(({ worldLossExcess }) => worldLossExcess),
    reward: line(({ reward }) => reward),
    shown: Object.fromEntries(Object.keys(points[0]!.shown).map((name) => [name, line(({ shown }) => shown[name])])),
  };
}

/** Resamples an arm's scores by environment, as rliable does, and so its differences to the first arm. */
function overallOf(envs: readonly (readonly CellResult[])[], arms: readonly string[]): Results["overall"] {
  const strata = (arm: string): CellResult[][] => envs.map((cells) => cells.filter((cell) => cell.arm === arm));
  const first = strata(arms[0]!);
  return arms.flatMap((arm) => {
    const own = strata(arm);
    if (own.some(({ length }) => length === 0)) return [];
    const differences = own.map((cells, e) => differencesTo(first[e]!, cells, successOf));
    return [
      {
        arm,
        iqm: bootstrap(
          own.map((cells) => cells.map(successOf)),
          interquartileMean,
        ),
        difference: arm === arms[0] ? null : pairedDifference(differences, interquartileMean),
      },
    ];
  });
}
