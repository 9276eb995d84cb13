/**
 * Curricula over single tasks: a buffer of tasks that failed, to be tried again, and pools of tasks by how hard they have proved.
 * What a curriculum is: curriculum.ts.
 */
import { check } from "../../engine/errors.ts";
import { checkKeys, showValue } from "../../engine/options.ts";
import type { Rng } from "../../engine/index.ts";
import type { Metrics } from "../episode/metrics.ts";
import { checkRange } from "../methods/tokenStatistics.ts";
import { type Curriculum, drawIndex, SuccessRates, type TaskChoice, type TaskOutcome } from "./curriculum.ts";

export interface FailedTasksOptions {
  /** Where new tasks come from; default: the run's environment options. */
  readonly base?: Curriculum;
  /** Share of the groups that try a failed task again, once there is one; default 0.3. */
  readonly share?: number;
  /** Failed tasks that are remembered; the oldest is forgotten first. Default 256. */
  readonly capacity?: number;
  /** A task is kept until this share of a group solves it; default 0.5. */
  readonly solvedAt?: number;
}

interface FailedTask {
  readonly choice: TaskChoice;
  readonly tries: number;
}

/**
 * Tasks at which a whole group failed are tried again until they are solved, as in WebRL (Qi et al. 2024, arXiv 2411.02337). There a
 * language model writes new tasks from the failed ones; here the failed tasks themselves come back.
 */
export class FailedTasks implements Curriculum {
  readonly name = "failed tasks";
  readonly #base: Curriculum | undefined;
  readonly #share: number;
  readonly #capacity: number;
  readonly #solvedAt: number;
  /** By kind and seed, oldest first. */
  #tasks: Map<string, FailedTask> = new Map();
  #solved = 0;

  constructor(options: FailedTasksOptions = {}) {
    checkKeys("FailedTasks", options, ["base", "share", "capacity", "solvedAt"]);
    const { base, share = 0.3, capacity = 256, solvedAt = 0.5 } = options;
    checkRange("FailedTasks", "share", share, 0, 1);
    check(Number.isInteger(capacity) && capacity >= 1, () => `FailedTasks: capacity must be an integer ≥ 1, got ${capacity}`); // prettier-ignore
    check(solvedAt > 0 && solvedAt <= 1, () => `FailedTasks: solvedAt must be in (0, 1], got ${solvedAt}`);
    this.#base = base;
    this.#share = share;
    this.#capacity = capacity;
    this.#solvedAt = solvedAt;
  }

  /** Failed tasks that are remembered. */
  get size(): number {
    return this.#tasks.size;
  }

  draw(rng: Rng): TaskChoice {
    const isAgain = rng.uniform() < this.#share && this.#tasks.size > 0;
    if (isAgain) return { ...rng.choice([...this.#tasks.values()]).choice, again: true };
    return this.#base?.draw(rng) ?? { name: "task" };
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
    // Failed tasks are the hard ones of their kind: they say nothing about it.
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
    check(isOwn, () => `FailedTasks.restore: expected { tasks, solved, base } with at most ${this.#capacity} tasks, got ${showValue(state)}`); // prettier-ignore
    this.#tasks = new Map(
      (tasks as readonly FailedTask[]).map((task) => [`${task.choice.name} ${task.choice.seed}`, task]),
    );
    this.#solved = solved!;
    this.#base?.restore(base);
  }
}

export interface DifficultyPool {
  readonly name: string;
  /** Tasks whose success rate is at least this, and below the next pool's. The first pool begins at 0. */
  readonly from: number;
  /** How often tasks are drawn from it, relative to the other pools that have any. */
  readonly weight: number;
}

export interface DifficultyPoolsOptions {
  /** All tasks, each with its seed. */
  readonly tasks: readonly (TaskChoice & { readonly seed: number })[];
  /** In ascending order of `from`; default hard (from 0, weight 1), normal (from .2, weight 3), easy (from .8, weight .5). */
  readonly pools?: readonly DifficultyPool[];
  /** Of the past, in each group's update of a task's rate; default 0.5. */
  readonly memory?: number;
  /** Rate of what was never tried; default 0.5. */
  readonly prior?: number;
}

const POOLS: readonly DifficultyPool[] = [
  { name: "hard", from: 0, weight: 1 },
  { name: "normal", from: 0.2, weight: 3 },
  { name: "easy", from: 0.8, weight: 0.5 },
];

/**
 * A fixed set of tasks, sorted into pools by their success rates: first a pool is drawn by its weight, then one of its tasks, all
 * alike (prime-rl's difficulty pools). A pool of weight 0 is retired: its tasks come back only if their rates change, which
 * they cannot while they are not played.
 */
export class DifficultyPools implements Curriculum {
  readonly name = "difficulty pools";
  readonly #tasks: DifficultyPoolsOptions["tasks"];
  readonly #pools: readonly DifficultyPool[];
  readonly #rates: SuccessRates;

  constructor(options: DifficultyPoolsOptions) {
    checkKeys("DifficultyPools", options, ["tasks", "pools", "memory", "prior"]);
    const { tasks, pools = POOLS, memory = 0.5, prior = 0.5 } = options;
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

  /** The tasks of each pool now. */
  pools(): { readonly pool: DifficultyPool; readonly tasks: readonly TaskChoice[] }[] {
    const indexOf = (p: number): number => this.#pools.findLastIndex(({ from }) => p >= from);
    const indices = this.#tasks.map((task) => indexOf(this.#rates.of(keyOf(task))));
    return this.#pools.map((pool, i) => ({ pool, tasks: this.#tasks.filter((_, k) => indices[k] === i) }));
  }

  draw(rng: Rng): TaskChoice {
    const pools = this.pools();
    const weights = pools.map(({ pool, tasks }) => (tasks.length > 0 ? pool.weight : 0));
    // Every pool with a task is retired: better any task than none.
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
