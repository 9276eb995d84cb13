/**
 * Curricula: which tasks are played next, given how the earlier ones went. A curriculum names the task of every new group and is
 * told the outcome; it draws from the stream that it is handed and keeps what it knows as plain JSON, so a run resumes exactly.
 *
 * Here: what a curriculum is, and learnability. Failed-task buffer and difficulty pools: pools.ts.
 */
import { check } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import { inCode, number, options, type OptionsOf, REQUIRED } from "../../engine/optionTable.ts";
import type { Rng } from "../../engine/index.ts";
import type { EnvironmentOptions, EnvironmentSpec } from "../../environments/index.ts";
import { groupBy } from "../episode/groups.ts";
import type { Metrics } from "../episode/metrics.ts";
import { checkRange } from "../methods/tokenStatistics.ts";

/** What a group plays. */
export interface TaskChoice {
  /** The kind of task, for statistics and metrics. */
  readonly name: string;
  /** Laid over the environment options of the run. */
  readonly options?: EnvironmentOptions;
  /** A certain task of that kind; default: a new one. */
  readonly seed?: number;
  /** It was played before, and is played again because it failed. */
  readonly again?: boolean;
}

/** How a group went. */
export interface TaskOutcome {
  readonly choice: TaskChoice;
  /** The seed that was played, whether or not the choice named one. */
  readonly seed: number;
  /** Share of the group's episodes that succeeded. */
  readonly success: number;
}

export interface Curriculum {
  readonly name: string;
  /** The task of a new group. */
  draw(rng: Rng): TaskChoice;
  /** Once a step, with all its groups in order. */
  observe(outcomes: readonly TaskOutcome[]): void;
  metrics(): Metrics;
  /** Plain JSON; `restore` takes it back. */
  state(): unknown;
  /** @throws if the state is not of a curriculum with these options */
  restore(state: unknown): void;
}

/** An index with probability in proportion to its weight; the weights need not sum to 1, but one must be above 0. */
export function drawIndex(weights: readonly number[], rng: Rng): number {
  const total = weights.reduce((a, b) => a + b, 0);
  check(total > 0 && Number.isFinite(total), () => `drawIndex: the weights must be ≥ 0 and not all 0, got ${showValue(weights)}`); // prettier-ignore
  let rest = rng.uniform() * total;
  const found = weights.findIndex((weight) => (rest -= weight) < 0);
  return found >= 0 ? found : weights.findLastIndex((weight) => weight > 0); // rounding may leave a residue
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

/** Running success rates of named things. */
export class SuccessRates {
  readonly #rates: Map<string, number>;
  readonly #where: string;
  readonly #memory: number;

  /** @param memory of the past in each update, p ← memory·p + (1 − memory)·success @param prior p of what was never tried */
  constructor(where: string, names: readonly string[], memory: number, prior: number) {
    check(names.length > 0, () => `${where}: there are no tasks to choose from`);
    check(new Set(names).size === names.length, () => `${where}: two kinds of tasks have one name: ${names.join(", ")}`); // prettier-ignore
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
    const isOwn = entries.length === known.length && entries.every(([name, p]) => this.#rates.has(name) && typeof p === "number"); // prettier-ignore
    check(isOwn, () => `${this.#where}.restore: expected a rate for each of ${known.join(", ")}, got ${showValue(state)}`); // prettier-ignore
    for (const [name, p] of entries) this.#rates.set(name, p as number);
  }
}

export const LEARNABILITY = options("Learnability", {
  arms: inCode<readonly TaskChoice[]>(
    "kinds of tasks; `armsOf` makes them from an environment's families or levels",
    "a list of kinds of tasks",
    Array.isArray,
    REQUIRED,
  ),
  floor: number(0.1, "share of the tasks that is spread evenly, so that nothing is given up for good", {
    min: 0,
    max: 1,
  }),
  memory: number(0.9, "how much of a success rate stays with each group", { min: 0, max: 1 }),
  prior: number(0.5, "success rate of what was never tried; 0.5: the unknown is tried first", { min: 0, max: 1 }),
});
export type LearnabilityOptions = OptionsOf<typeof LEARNABILITY>;

/**
 * Learnability: kinds of tasks are drawn in proportion to p(1 − p), which is largest where every second try succeeds: there the
 * variance of the outcome is, and with it what a group can teach (Tzannetos et al. 2023, arXiv 2304.12877; Foster & Foerster
 * 2025, arXiv 2502.12272). Pr(k) = floor/K + (1 − floor)·p_k(1 − p_k)/Σ; evenly if all are 0.
 */
export class Learnability implements Curriculum {
  readonly name = "learnability";
  readonly #arms: readonly TaskChoice[];
  readonly #floor: number;
  readonly #rates: SuccessRates;

  constructor(given: LearnabilityOptions) {
    const { arms, floor, memory, prior } = LEARNABILITY.read(given);
    this.#arms = arms;
    this.#floor = floor;
    this.#rates = new SuccessRates("Learnability", arms.map(({ name }) => name), memory, prior); // prettier-ignore
  }

  /** Of each kind, in the order of the arms; they sum to 1. */
  probabilities(): number[] {
    const K = this.#arms.length;
    const values = this.#arms.map(({ name }) => this.#rates.of(name) * (1 - this.#rates.of(name)));
    const total = values.reduce((a, b) => a + b, 0);
    return values.map((v) => this.#floor / K + (1 - this.#floor) * (total > 0 ? v / total : 1 / K));
  }

  draw(rng: Rng): TaskChoice {
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
