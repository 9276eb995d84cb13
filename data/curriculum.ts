/**
 * Curricula: plug-ins that choose the next tasks by the outcomes of earlier ones. A curriculum names the task of every
 * new group and is told its outcome. It draws from the random stream that it is given and keeps its state as plain
 * JSON, so that a run resumes exactly.
 *
 * This file has the curriculum by learnability. pools.ts has the buffer of failed tasks and the difficulty pools,
 * curricula.ts all of them by name.
 */
import { check } from "../engine/errors.ts";
import { showValue } from "../engine/options.ts";
import { inCode, number, options, type OptionsOf, REQUIRED } from "../engine/optionTable.ts";
import type { Rng } from "../engine/index.ts";
import type { EnvironmentOptions, EnvironmentSpec } from "../rl/environment.ts";
import { groupBy } from "../rl/episode/groups.ts";
import type { Metrics } from "../rl/episode/metrics.ts";
import { checkRange } from "../rl/objective/tokenStatistics.ts";
import type { EpisodePlugin, TaskChoice, TaskOutcome } from "../rl/tasks/plugin.ts";

/** A plug-in that chooses tasks and learns from their outcomes. */
export interface Curriculum extends EpisodePlugin {
  task(rng: Rng): TaskChoice;
  observe(outcomes: readonly TaskOutcome[]): void;
  metrics(): Metrics;
  state(): unknown;
  restore(state: unknown): void;
}

/** An index with probability in proportion to its weight; the weights need not sum to 1, but one must be above 0. */
export function drawIndex(weights: readonly number[], rng: Rng): number {
  const total = weights.reduce((a, b) => a + b, 0);
  check(
    total > 0 && Number.isFinite(total),
    () => `drawIndex: the weights must be ≥ 0 and not all 0, got ${showValue(weights)}`,
  );
  let rest = rng.uniform() * total;
  const found = weights.findIndex((weight) => (rest -= weight) < 0);
  return found >= 0 ? found : weights.findLastIndex((weight) => weight > 0); // rounding may leave a remainder
}

/** The kinds of tasks that `options` admit: one for each family, or one for each level. */
export function armsOf(
  { name, families }: EnvironmentSpec,
  by: "family" | "level",
  options: EnvironmentOptions = {},
): TaskChoice[] {
  check(by === "family" || by === "level", () => `armsOf: by must be "family" or "level", got ${showValue(by)}`);
  const { families: wanted, levels: [low, high] = [-Infinity, Infinity] } = options;
  const admitted = families.filter((f) => (wanted?.includes(f.name) ?? true) && low <= f.level && f.level <= high);
  check(admitted.length > 0, () => `armsOf: ${name} has no family that the options admit`);
  if (by === "family") return admitted.map((f) => ({ name: f.name, options: { families: [f.name] } }));
  const levels = groupBy(admitted, (f) => f.level).toSorted((a, b) => a[0]!.level - b[0]!.level);
  return levels.map((of) => ({ name: `level ${of[0]!.level}`, options: { families: of.map((f) => f.name) } }));
}

/** Running means of success rates by name. */
export class SuccessRates {
  readonly #rates: Map<string, number>;
  readonly #where: string;
  readonly #memory: number;

  /**
   * @param memory the weight of the old rate in an update: p ← memory·p + (1 − memory)·success
   * @param prior the rate before the first try
   */
  constructor(where: string, names: readonly string[], memory: number, prior: number) {
    check(names.length > 0, () => `${where}: there are no tasks to choose from`);
    check(
      new Set(names).size === names.length,
      () => `${where}: two kinds of tasks have one name: ${names.join(", ")}`,
    );
    checkRange(where, "memory", memory, 0, 1);
    checkRange(where, "prior", prior, 0, 1);
    this.#where = where;
    this.#memory = memory;
    this.#rates = new Map(names.map((name) => [name, prior]));
  }

  of(name: string): number {
    return this.#rates.get(name)!;
  }

  update(name: string, success: number): void {
    const before = this.#rates.get(name);
    check(before !== undefined, () => `${this.#where}: was told of "${name}", which it does not know`);
    checkRange(this.#where, "success", success, 0, 1);
    this.#rates.set(name, this.#memory * before + (1 - this.#memory) * success);
  }

  state(): Record<string, number> {
    return Object.fromEntries(this.#rates);
  }

  restore(state: unknown): void {
    const entries = Object.entries((state ?? {}) as Record<string, unknown>);
    const known = [...this.#rates.keys()];
    const isRate = (p: unknown): boolean => typeof p === "number" && p >= 0 && p <= 1;
    const areRates = entries.every(([name, p]) => this.#rates.has(name) && isRate(p));
    check(
      entries.length === known.length && areRates,
      () =>
        `${this.#where}.restore: expected a rate in [0, 1] for each of ${known.join(", ")}, got ${showValue(state)}`,
    );
    for (const [name, p] of entries) this.#rates.set(name, p as number);
  }
}

export const LEARNABILITY = options("Learnability", {
  arms: inCode<readonly TaskChoice[]>(
    "the kinds of tasks to choose from; `armsOf` makes them from an environment's families or levels",
    "a list of kinds of tasks",
    Array.isArray,
    REQUIRED,
  ),
  floor: number(0.1, "share of the tasks that is spread evenly over all kinds, so that no kind is given up", {
    min: 0,
    max: 1,
  }),
  memory: number(0.9, "weight of the old success rate when a group's outcome is added", { min: 0, max: 1 }),
  prior: number(0.5, "success rate of kinds that were never tried; at 0.5 these are tried first", { min: 0, max: 1 }),
});
/**
 * Options of `Learnability`: the kinds of tasks (`arms`) have to be given; by default 10 % of the tasks are spread
 * evenly (`floor`), and a success rate begins at 0.5 (`prior`) and keeps 0.9 of its old value (`memory`).
 */
export type LearnabilityOptions = OptionsOf<typeof LEARNABILITY>;

/**
 * Learnability: kinds of tasks are drawn in proportion to p(1 − p), the variance of the outcome. It is largest where
 * every second try succeeds, and the policy learns most from a group there (Tzannetos et al. 2023, arXiv 2304.12877;
 * Foster & Foerster 2025, arXiv 2502.12272). Pr(k) = floor/K + (1 − floor)·p_k(1 − p_k)/Σ_j p_j(1 − p_j); all kinds are
 * equally likely if the sum is 0.
 */
export class Learnability implements Curriculum {
  readonly name = "curriculum";
  readonly #arms: readonly TaskChoice[];
  readonly #floor: number;
  readonly #rates: SuccessRates;

  constructor(given: LearnabilityOptions) {
    const { arms, floor, memory, prior } = LEARNABILITY.read(given);
    this.#arms = arms;
    this.#floor = floor;
    const names = arms.map(({ name }) => name);
    this.#rates = new SuccessRates("Learnability", names, memory, prior);
  }

  /** The probability of each kind, in the order of the arms. */
  probabilities(): number[] {
    const K = this.#arms.length;
    const values = this.#arms.map(({ name }) => this.#rates.of(name) * (1 - this.#rates.of(name)));
    const total = values.reduce((a, b) => a + b, 0);
    return values.map((v) => this.#floor / K + (1 - this.#floor) * (total > 0 ? v / total : 1 / K));
  }

  task(rng: Rng): TaskChoice {
    return this.#arms[drawIndex(this.probabilities(), rng)]!;
  }

  observe(outcomes: readonly TaskOutcome[]): void {
    for (const { choice, success } of outcomes) this.#rates.update(choice.name, success);
  }

  metrics(): Metrics {
    const shares = this.probabilities();
    return Object.fromEntries(
      this.#arms.flatMap(({ name }, k) => [
        [`curriculum/${name}/success`, this.#rates.of(name)],
        [`curriculum/${name}/share`, shares[k]!],
      ]),
    );
  }

  state(): unknown {
    return { rates: this.#rates.state() };
  }

  restore(state: unknown): void {
    this.#rates.restore((state as { readonly rates?: unknown } | null)?.rates);
  }
}
