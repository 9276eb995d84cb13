/**
 * Live episodes with what they hide in the open, for the tests of environments that hide something worth asking for.
 */
import type { Rng } from "../../engine/random.ts";
import * as calculator from "../../environments/calculator/episode.ts";
import { rules as calculatorRules } from "../../environments/calculator/rules.ts";
import type { FamilyInfo } from "../../rl/environment.ts";
import { GameEnvironment, type GameRules, type GameTask } from "../../environments/game.ts";
import * as gridworld from "../../environments/gridworld/episode.ts";
import { expertSuccess, rules as gridworldRules } from "../../environments/gridworld/rules.ts";
import { type OptionFields, type OptionsWith, settleOptions } from "../../environments/options.ts";
import { selectFamilies } from "../../environments/selection.ts";
import * as sokoban from "../../environments/sokoban/episode.ts";
import { rules as sokobanRules } from "../../environments/sokoban/rules.ts";
import { TERMINAL, type TerminalOptions } from "../../environments/terminal/episode.ts";
import { FAMILIES as TERMINAL_FAMILIES } from "../../environments/terminal/families.ts";
import type { Ending } from "../../environments/terminal/process.ts";
import { makeTask as makeTerminalTask, type TerminalTask } from "../../environments/terminal/tasks.ts";

class Opened<F extends OptionFields, Family extends FamilyInfo, Task extends GameTask, State> extends GameEnvironment<
  F,
  Family,
  Task,
  State
> {
  constructor(
    name: string,
    families: readonly Family[],
    options: F,
    rules: GameRules<F, Family, Task, State>,
    given: OptionsWith<F>,
  ) {
    super({ name, description: "", families, options }, () => Promise.resolve(rules), given);
  }

  expertAction(): string {
    return this.rules.expert!(this.episode);
  }

  override clone(seed?: number): this {
    return Object.setPrototypeOf(super.clone(seed), Object.getPrototypeOf(this) as object) as this;
  }
}

export class CalculatorEnvironment extends Opened<
  typeof calculator.CALCULATOR,
  calculator.ProblemFamily,
  calculator.CalculatorTask,
  number
> {
  constructor(options: calculator.CalculatorOptions = {}) {
    super("calculator", calculator.FAMILIES, calculator.CALCULATOR, calculatorRules, options);
  }
}

export class GridworldEnvironment extends Opened<
  typeof gridworld.GRIDWORLD,
  gridworld.LakeFamily,
  gridworld.LakeTask,
  number
> {
  constructor(options: gridworld.GridworldOptions = {}) {
    super("gridworld", gridworld.FAMILIES, gridworld.GRIDWORLD, gridworldRules, options);
  }

  expertSuccess(): number {
    return expertSuccess(this.episode);
  }
}

export class SokobanEnvironment extends Opened<
  typeof sokoban.SOKOBAN,
  sokoban.RoomFamily,
  sokoban.RoomTask,
  sokoban.SokobanState
> {
  constructor(options: sokoban.SokobanOptions = {}) {
    super("sokoban", sokoban.FAMILIES, sokoban.SOKOBAN, sokobanRules, options);
  }

  /** Moves of a shortest solution from here, or undefined if there is none. */
  movesToSolve(): number | undefined {
    const { task, state } = this.episode;
    return task.table.distance(state.position);
  }
}

/** A task of the terminal, whose tree tests change in place. */
export interface Task extends Omit<TerminalTask, "verify"> {
  readonly verify: (ending: Ending) => boolean;
}

/** A task of the families that the options admit, as an episode draws it. */
export function makeTask(rng: Rng, options: TerminalOptions): Task {
  const settled = settleOptions("terminal", TERMINAL, options);
  const family = rng.choice(selectFamilies("terminal", TERMINAL_FAMILIES, settled));
  const task = makeTerminalTask(rng, family, settled);
  return { ...task, verify: (ending) => task.verify(ending, task.fs) };
}
