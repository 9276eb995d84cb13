/**
 * Live episodes with what they hide in the open, for the tests of environments that hide something worth asking for.
 */
import type { Rng } from "../../engine/random.ts";
import { type CalculatorOptions, game as calculatorGame } from "../../environments/calculator/index.ts";
import type { FamilyInfo } from "../../environments/environment.ts";
import { type Game, GameEnvironment, type GameTask } from "../../environments/game.ts";
import { expertSuccess, game as gridworldGame, type GridworldOptions } from "../../environments/gridworld/index.ts";
import { settleOptions } from "../../environments/options.ts";
import { selectFamilies } from "../../environments/selection.ts";
import { game as sokobanGame, type SokobanOptions } from "../../environments/sokoban/index.ts";
import { game as terminalGame, type TerminalOptions } from "../../environments/terminal/index.ts";
import type { Ending } from "../../environments/terminal/process.ts";
import { makeTask as makeTerminalTask, type TerminalTask } from "../../environments/terminal/tasks.ts";

/** What a game is made of. */
type FieldsOf<G> = G extends Game<infer F, infer _F, infer _T, infer _S> ? F : never;
type FamilyOf<G> = G extends Game<infer _O, infer F extends FamilyInfo, infer _T, infer _S> ? F : never;
type TaskOf<G> = G extends Game<infer _O, infer _F, infer T extends GameTask, infer _S> ? T : never;
type StateOf<G> = G extends Game<infer _O, infer _F, infer _T, infer S> ? S : never;

class Opened<G> extends GameEnvironment<FieldsOf<G>, FamilyOf<G>, TaskOf<G>, StateOf<G>> {
  expertAction(): string {
    return this.game.expert(this.episode);
  }

  override clone(seed?: number): this {
    return Object.setPrototypeOf(super.clone(seed), Object.getPrototypeOf(this) as object) as this;
  }
}

export class CalculatorEnvironment extends Opened<typeof calculatorGame> {
  constructor(options: CalculatorOptions = {}) {
    super(calculatorGame, options);
  }
}

export class GridworldEnvironment extends Opened<typeof gridworldGame> {
  constructor(options: GridworldOptions = {}) {
    super(gridworldGame, options);
  }

  expertSuccess(): number {
    return expertSuccess(this.episode);
  }
}

export class SokobanEnvironment extends Opened<typeof sokobanGame> {
  constructor(options: SokobanOptions = {}) {
    super(sokobanGame, options);
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
  const settled = settleOptions("terminal", terminalGame.options, options);
  const family = rng.choice(selectFamilies("terminal", terminalGame.families, settled));
  const task = makeTerminalTask(rng, family, settled);
  return { ...task, verify: (ending) => task.verify(ending, task.fs) };
}
