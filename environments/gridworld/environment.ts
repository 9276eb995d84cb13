/**
 * One episode on a lake. The first observation is the task and the map; an action is a direction; the answer is the map after it.
 * The episode ends at the goal, in a hole, or when there are no moves left. An action that is no direction costs a move.
 */
import { check } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import { Rng } from "../../engine/index.ts";
import { type EnvironmentOptions, SingleUseEnvironment, type StepInfo, type StepResult } from "../environment.ts";
import { type Direction, moveHelp, neighbour, readMoves, showGrid, tryAll } from "../grid.ts";
import { selectFamilies } from "../selection.ts";
import { glyphs, type Lake, slipped } from "./lake.ts";
import { type Plan, solve } from "./plan.ts";
import { distances, drawLake, FAMILIES, type LakeFamily } from "./tasks.ts";

export interface GridworldOptions extends EnvironmentOptions {
  /**
   * The probability in [0, 1) that a move goes off at a right angle, half of it to each side, instead of the family's. FrozenLake's
   * is 2/3. The maps do not depend on it.
   */
  readonly slip?: number;
  /** Moves until the episode ends, 1 to 1,000, instead of the family's. */
  readonly moves?: number;
  /** No spaces between the cells of a map. Default false: a space keeps every cell a token of its own. */
  readonly dense?: boolean;
}

interface Task {
  readonly family: LakeFamily;
  readonly lake: Lake;
  readonly moves: number;
  /** What is left to chance: the stream of turn n is `chance.split(n)`. */
  readonly chance: Rng;
  /** The best policy; worked out when it is first asked for, and shared by clones. */
  plan: Plan | undefined;
}

export class GridworldEnvironment extends SingleUseEnvironment {
  readonly name = "gridworld";
  readonly #options: GridworldOptions;
  readonly #families: readonly LakeFamily[];
  #task: Task | undefined;
  #cell = 0;
  #turns = 0;
  #badActions = 0;

  /** @throws on option values that make no sense */
  constructor(options: GridworldOptions = {}) {
    super();
    this.#families = selectFamilies("gridworld", FAMILIES, options, ["slip", "moves", "dense"]);
    const { slip = 0, moves = 1, dense = false } = options;
    check(
      Number.isFinite(slip) && slip >= 0 && slip < 1,
      () => `gridworld: slip must be a probability in [0, 1), got ${showValue(slip)}`,
    );
    check(typeof dense === "boolean", () => `gridworld: dense must be true or false, got ${showValue(dense)}`);
    check(
      Number.isInteger(moves) && moves >= 1 && moves <= 1_000,
      () => `gridworld: moves must be an integer in [1, 1000], got ${showValue(moves)}`,
    );
    this.#options = options;
  }

  protected begin(seed: number): string {
    const { split = "train", slip, moves } = this.#options;
    const rng = new Rng(seed).split(`gridworld/${split}`);
    const family = rng.choice(this.#families);
    const { lake, start } = drawLake(rng, family, split);
    this.#cell = start;
    const task: Task = {
      family,
      lake: { ...lake, slip: slip ?? family.slip },
      moves: moves ?? family.moves,
      chance: rng.split("slips"),
      plan: undefined,
    };
    this.#task = task;
    return `Reach G in ${task.moves} moves${task.lake.slip > 0 ? " on ice" : ""}\n${this.#map(task)}`;
  }

  /** @throws before reset */
  get info(): StepInfo {
    const { family } = this.#started();
    return { family: family.name, level: family.level };
  }

  protected act(action: string): StepResult {
    const task = this.#started();
    const { lake } = task;
    const wanted = readMoves(action, 1)?.[0];
    const chance = task.chance.split(this.#turns).uniform();
    this.#turns++;
    const went = wanted && slipped(wanted, lake.slip, chance);
    if (went === undefined) this.#badActions++;
    else this.#cell = neighbour(this.#cell, went, lake.size) ?? this.#cell;
    const success = this.#cell === lake.goal;
    const ending = success ? "goal" : lake.holes.has(this.#cell) ? "hole" : this.#left(task) === 0 ? "moves" : "none";
    const here = went === undefined ? moveHelp(1) : this.#map(task);
    return {
      observation: { goal: "You reach G.", hole: "You fall into O.", moves: "No moves left.", none: here }[ending],
      reward: success ? 1 : 0,
      done: ending !== "none",
      info: {
        ...this.info,
        success,
        turns: this.#turns,
        toolErrors: this.#badActions,
        slipped: went !== wanted,
        ending,
      },
    };
  }

  /** The best move from here, with the moves that are left. @throws before reset and after the end */
  expertAction(): Direction {
    const task = this.#started();
    check(this.#left(task) > 0, () => "gridworld: there are no moves left; the episode is over");
    return this.#plan(task).best(this.#cell, this.#left(task));
  }

  /** The probability that the expert, from here on, reaches the goal: no policy has a higher one. @throws before reset */
  expertSuccess(): number {
    const task = this.#started();
    return this.#plan(task).success(this.#cell, this.#left(task));
  }

  /**
   * A look at all four moves: `edge` (nothing moves), `hole`, `goal`, or how many more moves the shortest way to the goal
   * has from there, around the holes. Where nothing slips the expert takes a move with the fewest. @throws before reset
   */
  thoughts(rng: Rng): string {
    const { lake } = this.#started();
    const away = distances(lake);
    const meets = (direction: Direction): string => {
      const next = neighbour(this.#cell, direction, lake.size);
      if (next === undefined) return "edge";
      if (next === lake.goal) return "goal";
      return lake.holes.has(next) ? "hole" : `${away[next]!} more`;
    };
    return tryAll(meets, rng);
  }

  /** @param seed of the copy's slips from here on; without it they are those of the original */
  clone(seed?: number): GridworldEnvironment {
    const copy = new GridworldEnvironment(this.#options);
    copy.resumeFrom(this);
    const task = this.#task;
    copy.#task = task && seed !== undefined ? { ...task, chance: new Rng(seed).split("slips") } : task;
    [copy.#cell, copy.#turns, copy.#badActions] = [this.#cell, this.#turns, this.#badActions];
    return copy;
  }

  #plan(task: Task): Plan {
    return (task.plan ??= solve(task.lake, task.moves));
  }

  #left(task: Task): number {
    return task.moves - this.#turns;
  }

  #map({ lake }: Task): string {
    return showGrid(glyphs(lake, this.#cell), lake.size, this.#options.dense ?? false);
  }

  #started(): Task {
    check(this.#task !== undefined, () => "gridworld: the episode has no task yet; call reset first");
    return this.#task;
  }
}
