/**
 * Curricula over single tasks: a buffer of failed tasks that are tried again, and pools of tasks by difficulty.
 * curriculum.ts has the common parts of curricula.
 */
import { check } from "../engine/errors.ts";
import { showValue } from "../engine/options.ts";
import { inCode, number, options, type OptionsOf, REQUIRED } from "../engine/optionTable.ts";
import type { Rng } from "../engine/index.ts";
import type { Metrics } from "../rl/episode/metrics.ts";
import { checkRange } from "../rl/objective/tokenStatistics.ts";
import { type Curriculum, drawIndex, SuccessRates } from "./curriculum.ts";
import type { TaskChoice, TaskOutcome } from "../rl/tasks/plugin.ts";

export const FAILED_TASKS = options("FailedTasks", {
  base: inCode<Curriculum>(
    "the curriculum that chooses new tasks; by default they come from the run's environment options",
    "a curriculum",
    (value) => typeof value === "object" && value !== null && "task" in value,
  ),
  share: number(0.3, "share of the groups that try a failed task again, once there is one", { min: 0, max: 1 }),
  capacity: number(256, "how many failed tasks are remembered; the oldest is forgotten first", {
    integer: true,
    min: 1,
  }),
  solvedAt: number(0.5, "a failed task is tried again until this share of a group solves it", { above: 0, max: 1 }),
  variants: number(0, "share of the tries that are a new task of the failed one's kind, and not the same task", {
    min: 0,
    max: 1,
  }),
});
/**
 * Options of `FailedTasks`: by default 30 % of the groups try a failed task again until half of a group solves it, 256
 * are remembered, and new tasks come from the run's environment options (`base`).
 */
export type FailedTasksOptions = OptionsOf<typeof FAILED_TASKS>;

interface FailedTask {
  readonly choice: TaskChoice;
  readonly tries: number;
}

/**
 * Tasks at which a whole group failed are tried again until they are solved. In WebRL (Qi et al. 2024, arXiv
 * 2411.02337) a language model writes new tasks from the failed ones. Here the failed tasks themselves are played
 * again, or (`variants`) the environment makes another task of the same kind, the family or level that the base
 * curriculum had drawn; nothing is written, and variants are not checked for being solvable or hard enough.
 */
export class FailedTasks implements Curriculum {
  readonly name = "curriculum";
  readonly #base: Curriculum | undefined;
  readonly #share: number;
  readonly #capacity: number;
  readonly #solvedAt: number;
  readonly #variants: number;
  /** Failed tasks by kind and seed, oldest first. */
  #tasks: Map<string, FailedTask> = new Map();
  #solved = 0;

  constructor(given?: FailedTasksOptions) {
    const { base, share, capacity, solvedAt, variants } = FAILED_TASKS.read(given);
    check(variants === 0 || base !== undefined, () => "FailedTasks: variants are of a kind, which only a base draws");
    this.#variants = variants;
    this.#base = base;
    this.#share = share;
    this.#capacity = capacity;
    this.#solvedAt = solvedAt;
  }

  /** The number of failed tasks that are remembered. */
  get size(): number {
    return this.#tasks.size;
  }

  task(rng: Rng): TaskChoice {
    const isAgain = rng.uniform() < this.#share && this.#tasks.size > 0;
    if (isAgain) {
      const { seed, ...kind } = rng.choice([...this.#tasks.values()]).choice;
      // A variant is a new task, which comes into the memory, and into the base's, by its own outcome.
      if (this.#variants > 0 && rng.uniform() < this.#variants) return kind;
      return { ...kind, seed: seed!, again: true };
    }
    return this.#base?.task(rng) ?? { name: "task" };
  }

  observe(outcomes: readonly TaskOutcome[]): void {
    for (const { choice, seed, success } of outcomes) {
      const key = `${choice.name} ${seed}`;
      const known = this.#tasks.get(key);
      if (success >= this.#solvedAt) this.#solved += Number(this.#tasks.delete(key));
      else if (known) this.#tasks.set(key, { ...known, tries: known.tries + 1 });
      else if (success === 0) this.#tasks.set(key, { choice: { ...choice, seed }, tries: 1 });
      if (this.#tasks.size > this.#capacity) this.#tasks.delete(this.#tasks.keys().next().value!);
    }
    // Failed tasks are the hard ones of their kind, so their outcomes would bias the base curriculum.
    this.#base?.observe(outcomes.filter(({ choice }) => !choice.again));
  }

  metrics(): Metrics {
    return {
      ...this.#base?.metrics(),
      "curriculum/failed_tasks": this.size,
      "curriculum/failed_tasks_solved": this.#solved,
    };
  }

  state(): unknown {
    return { tasks: [...this.#tasks.values()], solved: this.#solved, base: this.#base?.state() ?? null };
  }

  restore(state: unknown): void {
    const { tasks, solved, base } = (state ?? {}) as {
      readonly tasks?: unknown;
      readonly solved?: number;
      readonly base?: unknown;
    };
    const isOwn = Array.isArray(tasks) && tasks.length <= this.#capacity && typeof solved === "number";
    const expected = `{ tasks, solved, base } with at most ${this.#capacity} tasks`;
    check(isOwn, () => `FailedTasks.restore: expected ${expected}, got ${showValue(state)}`);
    this.#tasks = new Map(
      (tasks as readonly FailedTask[]).map((task) => [`${task.choice.name} ${task.choice.seed}`, task]),
    );
    this.#solved = solved!;
    this.#base?.restore(base);
  }
}

/** A pool of tasks by success rate. */
export interface DifficultyPool {
  readonly name: string;
  /**
   * The smallest success rate of the pool's tasks; the next pool's `from` is above all of them. The first pool begins
   * at 0.
   */
  readonly from: number;
  /** The frequency of draws from this pool, relative to the other pools that have tasks. */
  readonly weight: number;
}

export const DIFFICULTY_POOLS = options("DifficultyPools", {
  tasks: inCode<readonly (TaskChoice & { readonly seed: number })[]>(
    "all tasks, each with its seed",
    "a list of tasks with seeds",
    Array.isArray,
    REQUIRED,
  ),
  pools: inCode<readonly DifficultyPool[]>(
    "the pools in ascending order of `from`; by default hard (from 0, weight 1), normal (from .2, weight 3) and " +
      "easy (from .8, weight .5)",
    "a list of pools",
    Array.isArray,
  ),
  memory: number(0.5, "weight of a task's old success rate when a group's outcome is added", { min: 0, max: 1 }),
  prior: number(0.5, "success rate of tasks that were never tried", { min: 0, max: 1 }),
});
/**
 * Options of `DifficultyPools`: the `tasks` with their seeds have to be given; by default there are three pools (hard,
 * normal, easy), and a success rate begins at 0.5 (`prior`) and keeps half of its old value (`memory`).
 */
export type DifficultyPoolsOptions = OptionsOf<typeof DIFFICULTY_POOLS>;

const POOLS: readonly DifficultyPool[] = [
  { name: "hard", from: 0, weight: 1 },
  { name: "normal", from: 0.2, weight: 3 },
  { name: "easy", from: 0.8, weight: 0.5 },
];

/**
 * A fixed set of tasks, sorted into pools by their success rates: first a pool is drawn by its weight, then one of its
 * tasks with equal probability (prime-rl's difficulty pools). A pool of weight 0 is retired: its tasks are not played,
 * so their rates do not change and they stay in it.
 */
export class DifficultyPools implements Curriculum {
  readonly name = "curriculum";
  readonly #tasks: DifficultyPoolsOptions["tasks"];
  readonly #pools: readonly DifficultyPool[];
  readonly #rates: SuccessRates;

  constructor(given: DifficultyPoolsOptions) {
    const { tasks, pools = POOLS, memory, prior } = DIFFICULTY_POOLS.read(given);
    check(
      pools[0]?.from === 0 && pools.every(({ from }, i) => i === 0 || from > pools[i - 1]!.from),
      () => `DifficultyPools: expected pools in ascending order of from, the first at 0, got ${showValue(pools)}`,
    );
    for (const { name, weight } of pools) checkRange("DifficultyPools", `weight of ${name}`, weight, 0);
    for (const { name, seed } of tasks)
      check(seed !== undefined, () => `DifficultyPools: the task "${name}" has no seed`);
    this.#tasks = tasks;
    this.#pools = pools;
    this.#rates = new SuccessRates("DifficultyPools", tasks.map(keyOf), memory, prior);
  }

  /** The pools with their current tasks. */
  pools(): { readonly pool: DifficultyPool; readonly tasks: readonly TaskChoice[] }[] {
    const indexOf = (p: number): number => this.#pools.findLastIndex(({ from }) => p >= from);
    const indices = this.#tasks.map((task) => indexOf(this.#rates.of(keyOf(task))));
    return this.#pools.map((pool, i) => ({ pool, tasks: this.#tasks.filter((_, k) => indices[k] === i) }));
  }

  task(rng: Rng): TaskChoice {
    const pools = this.pools();
    const weights = pools.map(({ pool, tasks }) => (tasks.length > 0 ? pool.weight : 0));
    // If every pool with a task is retired, any task is better than none.
    if (weights.every((w) => w === 0)) return rng.choice(this.#tasks);
    return rng.choice(pools[drawIndex(weights, rng)]!.tasks);
  }

  observe(outcomes: readonly TaskOutcome[]): void {
    for (const { choice, seed, success } of outcomes) this.#rates.update(keyOf({ ...choice, seed }), success);
  }

  metrics(): Metrics {
    return Object.fromEntries(this.pools().map(({ pool, tasks }) => [`curriculum/pool/${pool.name}`, tasks.length]));
  }

  state(): unknown {
    return { rates: this.#rates.state() };
  }

  restore(state: unknown): void {
    this.#rates.restore((state as { readonly rates?: unknown } | null)?.rates);
  }
}

const keyOf = ({ name, seed }: { readonly name: string; readonly seed: number }): string => `${name} ${seed}`;
