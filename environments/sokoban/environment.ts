/**
 * One episode in a room. The first observation is the task and the board; an action is a direction, or several if the options
 * allow it; the answer is the board after it. The episode ends when all boxes stand on goals, or when there are no moves left.
 * A move against something that does not give way changes nothing and counts; an action that is no move counts as one.
 */
import { check } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import { Rng } from "../../engine/index.ts";
import { type EnvironmentOptions, SingleUseEnvironment, type StepInfo, type StepResult } from "../environment.ts";
import { type Direction, DIRECTIONS, moveHelp, neighbour, readMoves, showGrid, tryAll } from "../grid.ts";
import { selectFamilies } from "../selection.ts";
import { boxesOnGoals, glyphs, move, type Position, type Room } from "./room.ts";
import type { DistanceTable } from "./solver.ts";
import { drawRoom, FAMILIES, type RoomFamily } from "./tasks.ts";

export interface SokobanOptions extends EnvironmentOptions {
  /** Moves until the episode ends, 1 to 1,000, instead of the family's. */
  readonly moves?: number;
  /** Moves at most in one action, 1 to 16. Default 1. The expert then says as many at once as it may. */
  readonly movesPerAction?: number;
  /**
   * Reward for every box that comes to stand on a goal, taken back when it leaves it, in [0, 1): so pushing to and fro earns
   * nothing. Default 0: the reward is 1 for the solved room and nothing else.
   */
  readonly boxReward?: number;
  /** No spaces between the cells of a board. Default false: a space keeps every cell a token of its own. */
  readonly dense?: boolean;
}

interface Task {
  readonly family: RoomFamily;
  readonly room: Room;
  readonly moves: number;
  readonly table: DistanceTable;
}

export class SokobanEnvironment extends SingleUseEnvironment {
  readonly name = "sokoban";
  readonly #options: SokobanOptions;
  readonly #families: readonly RoomFamily[];
  readonly #movesPerAction: number;
  #task: Task | undefined;
  #position: Position = { player: 0, boxes: [] };
  #turns = 0;
  #moves = 0;
  #badActions = 0;

  /** @throws on option values that make no sense */
  constructor(options: SokobanOptions = {}) {
    super();
    const own = ["moves", "movesPerAction", "boxReward", "dense"];
    this.#families = selectFamilies("sokoban", FAMILIES, options, own);
    const { moves = 1, movesPerAction = 1, boxReward = 0, dense = false } = options;
    const within = (name: string, value: number, most: number): void =>
      check(
        Number.isInteger(value) && value >= 1 && value <= most,
        () => `sokoban: ${name} must be an integer in [1, ${most}], got ${showValue(value)}`,
      );
    within("moves", moves, 1_000);
    within("movesPerAction", movesPerAction, 16);
    check(
      Number.isFinite(boxReward) && boxReward >= 0 && boxReward < 1,
      () => `sokoban: boxReward must be in [0, 1), got ${showValue(boxReward)}`,
    );
    check(typeof dense === "boolean", () => `sokoban: dense must be true or false, got ${showValue(dense)}`);
    this.#options = options;
    this.#movesPerAction = movesPerAction;
  }

  protected begin(seed: number): string {
    const { split = "train", moves } = this.#options;
    const rng = new Rng(seed).split(`sokoban/${split}`);
    const family = rng.choice(this.#families);
    const { room, start, table } = drawRoom(rng, family, split);
    this.#position = start;
    this.#task = { family, room, moves: moves ?? family.moves, table };
    return `Push $ onto . in ${this.#task.moves} moves\n${this.#board(this.#task)}`;
  }

  /** @throws before reset */
  get info(): StepInfo {
    const { family } = this.#started();
    return { family: family.name, level: family.level };
  }

  protected act(action: string): StepResult {
    const task = this.#started();
    const { room, table } = task;
    const before = boxesOnGoals(room, this.#position);
    const wanted = readMoves(action, this.#movesPerAction);
    this.#turns++;
    if (wanted === undefined) [this.#badActions, this.#moves] = [this.#badActions + 1, this.#moves + 1];
    for (const direction of wanted ?? []) {
      if (this.#moves === task.moves || this.#solved(task)) break;
      this.#moves++;
      this.#position = move(room, this.#position, direction);
    }
    const success = this.#solved(task);
    const ending = success ? "solved" : this.#moves === task.moves ? "moves" : "none";
    const here = wanted === undefined ? moveHelp(this.#movesPerAction) : this.#board(task);
    const onGoals = boxesOnGoals(room, this.#position);
    return {
      observation: { solved: "All boxes are on goals.", moves: "No moves left.", none: here }[ending],
      reward: (success ? 1 : 0) + (this.#options.boxReward ?? 0) * (onGoals - before),
      done: ending !== "none",
      info: {
        ...this.info,
        success,
        turns: this.#turns,
        moves: this.#moves,
        toolErrors: this.#badActions,
        boxesOnGoals: onGoals,
        deadlock: table.distance(this.#position) === undefined,
        ending,
      },
    };
  }

  /**
   * The beginning of a shortest solution from here, as many moves as an action may have. From a position that cannot be solved
   * any more, some move that is possible. @throws before reset
   */
  expertAction(): string {
    const { room, table } = this.#started();
    const moves: Direction[] = [];
    let position = this.#position;
    while (moves.length < this.#movesPerAction) {
      const best = table.bestMove(position);
      if (best === undefined) break;
      moves.push(best);
      position = move(room, position, best);
    }
    if (moves.length > 0) return moves.join(" ");
    return DIRECTIONS.find((direction) => move(room, position, direction) !== position) ?? DIRECTIONS[0];
  }

  /** Moves of a shortest solution from here, or undefined if there is none. @throws before reset */
  movesToSolve(): number | undefined {
    return this.#started().table.distance(this.#position);
  }

  /**
   * A look at all four moves: `wall` (the edge is one), `stuck` (a box that does not give way), `dead` (the room cannot be
   * solved from there any more), `done` (it is solved), or how many more moves a shortest solution has from there. The expert takes a
   * move with the fewest. @throws before reset
   */
  thoughts(rng: Rng): string {
    const { room, table } = this.#started();
    const meets = (direction: Direction): string => {
      const next = neighbour(this.#position.player, direction, room.size);
      if (next === undefined || room.walls.has(next)) return "wall";
      const after = move(room, this.#position, direction);
      if (after === this.#position) return "stuck";
      const left = table.distance(after);
      return left === undefined ? "dead" : left === 0 ? "done" : `${left} more`;
    };
    return tryAll(meets, rng);
  }

  clone(): SokobanEnvironment {
    const copy = new SokobanEnvironment(this.#options);
    copy.resumeFrom(this);
    [copy.#task, copy.#position] = [this.#task, this.#position];
    [copy.#turns, copy.#moves, copy.#badActions] = [this.#turns, this.#moves, this.#badActions];
    return copy;
  }

  #solved({ room }: Task): boolean {
    return boxesOnGoals(room, this.#position) === room.goals.size;
  }

  #board({ room }: Task): string {
    return showGrid(glyphs(room, this.#position), room.size, this.#options.dense ?? false);
  }

  #started(): Task {
    check(this.#task !== undefined, () => "sokoban: the episode has no task yet; call reset first");
    return this.#task;
  }
}
