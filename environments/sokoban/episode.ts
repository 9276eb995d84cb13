/** The families of `sokoban`, its options, and what an episode knows. */
import { flag, number } from "../../engine/optionTable.ts";
import type { FamilyInfo } from "../../rl/environment.ts";
import { type Episode, type GameTask, STRICT } from "../game.ts";
import type { OptionsWith } from "../options.ts";
import type { Position, Room } from "./room.ts";
import type { DistanceTable } from "./solver.ts";

export interface RoomFamily extends FamilyInfo {
  readonly size: number;
  readonly walls: number;
  readonly boxes: number;
  /** Moves of the shortest solution: least and most. */
  readonly solution: readonly [number, number];
  /** Moves until the episode ends. */
  readonly moves: number;
}

/** No solution is longer than 16 moves, the length that demonstrations have by default. */
// prettier-ignore
export const FAMILIES: readonly RoomFamily[] = [
  { name: "push", level: 1, description: "4×4, one box, 2 to 5 moves",
    size: 4, walls: 2, boxes: 1, solution: [2, 5], moves: 8 },
  { name: "walk", level: 2, description: "5×5, one box, 5 to 10 moves",
    size: 5, walls: 3, boxes: 1, solution: [5, 10], moves: 15 },
  { name: "pair", level: 3, description: "5×5, two boxes, 6 to 12 moves",
    size: 5, walls: 3, boxes: 2, solution: [6, 12], moves: 18 },
  { name: "room", level: 4, description: "6×6 with more walls, two boxes, 10 to 16 moves",
    size: 6, walls: 8, boxes: 2, solution: [10, 16], moves: 24 },
  { name: "trio", level: 5, description: "5×5, three boxes, 10 to 16 moves",
    size: 5, walls: 2, boxes: 3, solution: [10, 16], moves: 24 },
];

export const SOKOBAN = {
  moves: number(undefined, "moves until the episode ends; by default the family's", {
    integer: true,
    min: 1,
    max: 1_000,
  }),
  spare: number(undefined, "moves until the episode ends beyond those of a shortest solution, in place of `moves`", {
    integer: true,
    min: 0,
    max: 1_000,
  }),
  movesPerAction: number(1, "moves at most in one action; the expert says as many at once", {
    integer: true,
    min: 1,
    max: 16,
  }),
  boxReward: number(0, "reward for a box that comes to stand on a goal, taken back when it leaves it", {
    min: 0,
    below: 1,
  }),
  giveUp: flag(false, "an episode ends as soon as the moves that are left cannot solve it any more"),
  brief: flag(
    false,
    "the task also says where the boxes are from the player, and the goals from the first box; answers say only that",
  ),
  slips: STRICT.slips,
  dense: flag(false, "no spaces between the cells of a board; a space keeps every cell a token of its own"),
};
/** Options of `sokoban`, beside `EnvironmentOptions`; `SOKOBAN` says what each does, and its default. */
export type SokobanOptions = OptionsWith<typeof SOKOBAN>;

export interface RoomTask extends GameTask {
  readonly room: Room;
  readonly start: Position;
  readonly moves: number;
  readonly table: DistanceTable;
}

export interface SokobanState {
  readonly position: Position;
  /** Moves so far: an action may have several. */
  readonly moves: number;
}

export type SokobanEpisode = Episode<typeof SOKOBAN, RoomTask, SokobanState>;
