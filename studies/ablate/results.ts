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

export type EnvironmentResult = Readonly<ReturnType<typeof environmentResult>>;
function environmentResult(env: string, cells: readonly CellResult[], { arms, threshold, rewarded }: ResultOptions) {
  const budget = Math.min(...cells.filter(plays).map((cell) => lastOf(cell).envSteps));
  const all = arms.map((arm) => cells.filter((cell) => cell.arm === arm));
  const warm = [...new Map(cells.map((cell) => [cell.seed, cell])).values()];
  return {
    env,
    /** The warm starts, with which all arms begin. */
    warm: measuresOf(
      warm.map((cell) => cell.warm),
      warm.map(({ families }) => families.before),
    ),
    /** The environment steps that every arm that plays has taken: the least of their totals. 0 if none plays. */
    budget: Number.isFinite(budget) ? budget : 0,
    /** The families of tasks that the first arm trains on; the others show transfer. */
    rewarded: rewarded(env),
    arms: all.filter(({ length }) => length > 0).map((own) => armResult(own, all[0]!, budget, threshold)),
  };
}

/** What came out of an arm after its last step. Differences are to the first arm; its own are null. */
export type ArmResult = Readonly<ReturnType<typeof armResult>>;
function armResult(cells: readonly CellResult[], first: readonly CellResult[], budget: number, threshold: number) {
  type Value = (cell: CellResult) => number;
  const over = (value: Value): Interval => meanOver(cells.map(value));
  const against = (value: Value, statistic?: typeof mean): Difference | null =>
    cells === first ? null : pairedDifference([differencesTo(first, cells, value)], statistic);
  const ends = cells.map(lastOf);
  const steps = ends[0]!.step;
  const isPlaying = cells.every(plays);
  // An arm that plays nothing has no place on an axis of environment steps, and nothing can be compared with it there.
  const isComparable = isPlaying && first.every(plays);
  const atBudget: Value = ({ points }) => successAt(points, budget);
  const area: Value = ({ points }) => areaUnder(points, budget);
  const reached = cells.map(({ points }) => points.find(({ success }) => success >= threshold)?.step ?? null);
  return {
    arm: cells[0]!.arm,
    seeds: cells.map(({ seed }) => seed),
    /** RL steps. */
    steps,
    /** Whether it plays episodes in training; if not, it has no environment steps to compare. */
    plays: isPlaying,
    curve: curveOf(cells),
    difference: against(successOf),
    iqm: bootstrap([cells.map(successOf)], interquartileMean),
    iqmDifference: against(successOf, interquartileMean),
    envSteps: over((cell) => lastOf(cell).envSteps),
    flops: over((cell) => lastOf(cell).flops),
    /** Environment steps to the first arm's best smoothed success of the same seed, as a ratio to its own. */
    speed: isComparable ? speedOf(cells, first) : null,
    /** Mean success on the way to `budget` environment steps. */
    area: isPlaying ? over(area) : null,
    areaDifference: isComparable ? against(area) : null,
    /** Success after `budget` environment steps, linear between evaluations. */
    atBudget: isPlaying ? over(atBudget) : null,
    budgetDifference: isComparable ? against(atBudget) : null,
    threshold: timeTo(reached, steps),
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

/** What an evaluation measures, over seeds. */
export type Measures = Readonly<ReturnType<typeof measuresOf>>;
function measuresOf(points: readonly Point[], rates: readonly Rates[]) {
  const over = (value: (point: Point) => number): Interval => meanOver(points.map(value));
  const excesses = points.flatMap(({ worldLossExcess }) => worldLossExcess ?? []);
  const tries = Object.keys(points[0]?.passAt ?? {});
  const families = [...new Set(rates.flatMap((of) => Object.keys(of)))].toSorted();
  return {
    success: over(({ success }) => success),
    worldLoss: over(({ worldLoss }) => worldLoss),
    worldLossRandom: over(({ worldLossRandom }) => worldLossRandom),
    worldLossOnPolicy: over(({ worldLossOnPolicy }) => worldLossOnPolicy),
    /** `worldLossOnPolicy` minus the entropy of the answers themselves; null unless every seed has it. */
    worldLossExcess: excesses.length === points.length ? meanOver(excesses) : null,
    /** pass@k by k. */
    passAt: named(
      tries.filter((k) => points.every(({ passAt }) => passAt?.[k] !== undefined)),
      (k) => over(({ passAt }) => passAt![k]!),
    ),
    // A seed without tasks of a family is left out of its mean.
    families: named(families, (name) => {
      const own = rates.flatMap((of) => of[name] ?? []);
      return meanOver(own.map(({ successes, episodes }) => successes / episodes));
    }),
  };
}

const named = <T>(names: readonly string[], of: (name: string) => T): Readonly<Record<string, T>> =>
  Object.fromEntries(names.map((name) => [name, of(name)]));

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
export type Curve = Readonly<ReturnType<typeof curveOf>>;
function curveOf(cells: readonly CellResult[]) {
  const { points } = cells[0]!;
  const at = (value: (point: Point) => number): number[][] =>
    points.map((_, i) => cells.map((cell) => value(cell.points[i]!)));
  /** null where some seed has no number: the reward before the first step, or a loss that is not finite. */
  const line = (value: (point: Point) => number | null | undefined): readonly (Interval | null)[] =>
    at((point) => value(point) ?? NaN).map((values) => (values.some(Number.isNaN) ? null : meanOver(values)));
  return {
    steps: points.map(({ step }) => step),
    envSteps: at(({ envSteps }) => envSteps).map(mean),
    success: line(({ success }) => success),
    worldLoss: line(({ worldLoss }) => worldLoss),
    worldLossOnPolicy: line(({ worldLossOnPolicy }) => worldLossOnPolicy),
    worldLossExcess: line(({ worldLossExcess }) => worldLossExcess),
    reward: line(({ reward }) => reward),
    shown: named(Object.keys(points[0]!.shown), (name) => line(({ shown }) => shown[name])),
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
