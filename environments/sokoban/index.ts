/**
 * `sokoban`: push boxes (`$`) onto goals (`.`) in small generated rooms, within a number of moves. Boards are in the
 * usual notation (XSB; `-` is floor, `*` a box on a goal, `+` the player on one) without a frame: the edge is a wall. A
 * box in a corner never comes out again: unlike in a shell, a mistake may be final. Read it in this order: room.ts (the
 * rules), solver.ts (all positions of a room, backwards from solved), tasks.ts (what is drawn), this file (the
 * episode).
 *
 * The task families, each with the expert's episode for seed 0, in full for the first (a test plays them again and
 * compares):
 *
 * push (level 1): 4×4, one box, 2 to 5 moves
 *     Push $ onto . in 8 moves
 *     - - - -
 *     - $ - @
 *     - - - -
 *     # . # -
 *     $ up
 *     - - - @
 *     - $ - -
 *     - - - -
 *     # . # -
 *     $ left
 *     - - @ -
 *     - $ - -
 *     - - - -
 *     # . # -
 *     $ left
 *     - @ - -
 *     - $ - -
 *     - - - -
 *     # . # -
 *     $ down
 *     - - - -
 *     - @ - -
 *     - $ - -
 *     # . # -
 *     $ down
 *     All boxes are on goals.
 *
 * walk (level 2): 5×5, one box, 5 to 10 moves
 *     Push $ onto . in 15 moves
 *     - $ . - -
 *     - # - - -
 *     - - # - #
 *     - - - - @
 *     - - - - -
 *     $ left, left, left, up, left, up, up, right
 *     All boxes are on goals.
 *
 * pair (level 3): 5×5, two boxes, 6 to 12 moves
 *     Push $ onto . in 18 moves
 *     - - - # -
 *     # @ $ - -
 *     - - - . $
 *     - - - - -
 *     # - - - .
 *     $ up, right, down, left, down, right, up, right, right, down, down
 *     All boxes are on goals.
 *
 * room (level 4): 6×6 with more walls, two boxes, 10 to 16 moves
 *     Push $ onto . in 24 moves
 *     # - - # - -
 *     # - $ $ - .
 *     # - - - + -
 *     - - # - # -
 *     - - - # - -
 *     - - # - - -
 *     $ left, left, left, up, up, right, down, right, right, left, left, left, down, right, right
 *     All boxes are on goals.
 *
 * trio (level 5): 5×5, three boxes, 10 to 16 moves
 *     Push $ onto . in 24 moves
 *     - . . - -
 *     - . $ - -
 *     - $ # $ #
 *     - - @ - -
 *     - - - - -
 *     $ left, up, up, down, down, right, right, up, up, right, up, left, down, left
 *     All boxes are on goals.
 *
 * Every task can be solved, and the expert's solution has the fewest moves; also after a detour, if that was no dead
 * end. The random baseline solves 9, 0.6, 0.2, 0 and 0 % (in the order above; 1,000 seeds). With `movesPerAction` an
 * action may be several moves, and episodes get shorter in turns.
 *
 * A quarter of all rooms is held out, with their rotations and mirror images, wherever boxes and player stand: no
 * position of a held-out task can come up in training. Not here: rooms of your own, of other shapes, or with more than
 * three boxes.
 */
import type { Rng } from "../../engine/index.ts";
import type { EnvironmentSpec } from "../environment.ts";
import { defineGame, type Episode, type Game, type GameTask, type Move } from "../game.ts";
import { type Direction, DIRECTIONS, moveHelp, neighbour, readMoves, showGrid, tryAll } from "../grid.ts";
import { flag, number } from "../../engine/optionTable.ts";
import type { OptionsWith, SettledOptions } from "../options.ts";
import { boxesOnGoals, glyphs, move, type Position, type Room } from "./room.ts";
import type { DistanceTable } from "./solver.ts";
import { drawRoom, FAMILIES, type RoomFamily } from "./tasks.ts";

const SOKOBAN = {
  moves: number(undefined, "moves until the episode ends; by default the family's", {
    integer: true,
    min: 1,
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
  dense: flag(false, "no spaces between the cells of a board; a space keeps every cell a token of its own"),
};
/**
 * Options of `sokoban`, beside `EnvironmentOptions`: `moves` until the episode ends, 1 to 1,000 (default: the
 * family's), `movesPerAction`, 1 (default) to 16, `boxReward` in [0, 1) for a box on a goal, taken back when it leaves
 * it (default 0: only the solved room pays, 1), and `dense` (default false), no spaces between the cells of a board.
 */
export type SokobanOptions = OptionsWith<typeof SOKOBAN>;
type Chosen = SettledOptions<typeof SOKOBAN>;

interface RoomTask extends GameTask {
  readonly room: Room;
  readonly start: Position;
  readonly moves: number;
  readonly table: DistanceTable;
}

interface SokobanState {
  readonly position: Position;
  /** Moves so far: an action may have several. */
  readonly moves: number;
}

type SokobanEpisode = Episode<typeof SOKOBAN, RoomTask, SokobanState>;

const boardOf = (room: Room, position: Position, { dense }: Chosen): string =>
  showGrid(glyphs(room, position), room.size, dense);

function makeTask(rng: Rng, family: RoomFamily, options: Chosen): RoomTask {
  const { split, moves = family.moves } = options;
  const drawn = drawRoom(rng, family, split);
  return { ...drawn, moves, text: `Push $ onto . in ${moves} moves\n${boardOf(drawn.room, drawn.start, options)}` };
}

/**
 * The episode ends when all boxes stand on goals, or when there are no moves left. A move against something that does
 * not give way changes nothing and counts; an action that is no move counts as one.
 */
function play({ task, state, options }: SokobanEpisode, action: string): Move<SokobanState> {
  const { room, table } = task;
  const { movesPerAction, boxReward } = options;
  const wanted = readMoves(action, movesPerAction);
  let { position, moves } = state;
  if (wanted === undefined) moves++;
  for (const direction of wanted ?? []) {
    if (moves === task.moves || boxesOnGoals(room, position) === room.goals.size) break;
    moves++;
    position = move(room, position, direction);
  }
  const onGoals = boxesOnGoals(room, position);
  const score = onGoals === room.goals.size ? 1 : 0;
  const played = {
    state: { position, moves },
    failed: wanted === undefined,
    reward: score + boxReward * (onGoals - boxesOnGoals(room, state.position)),
    info: { moves, boxesOnGoals: onGoals, deadlock: table.distance(position) === undefined },
  };
  if (score === 1) return { ...played, observation: "All boxes are on goals.", ending: { kind: "solved", score } };
  if (moves === task.moves) return { ...played, observation: "No moves left.", ending: { kind: "moves", score } };
  return { ...played, observation: wanted === undefined ? moveHelp(movesPerAction) : boardOf(room, position, options) };
}

/**
 * The beginning of a shortest solution from here, as many moves as an action may have. From a position that cannot be
 * solved any more, some move that is possible.
 */
function expert({ task: { room, table }, state, options: { movesPerAction } }: SokobanEpisode): string {
  const moves: Direction[] = [];
  let { position } = state;
  while (moves.length < movesPerAction) {
    const best = table.bestMove(position);
    if (best === undefined) break;
    moves.push(best);
    position = move(room, position, best);
  }
  if (moves.length > 0) return moves.join(" ");
  return DIRECTIONS.find((direction) => move(room, position, direction) !== position) ?? DIRECTIONS[0];
}

/**
 * A look at all four moves: `wall` (the edge is one), `stuck` (a box that does not give way), `dead` (the room cannot
 * be solved from there any more), `done` (it is solved), or how many more moves a shortest solution has from there. The
 * expert takes a move with the fewest.
 */
function thoughts({ task: { room, table }, state: { position } }: SokobanEpisode, rng: Rng): string {
  const meets = (direction: Direction): string => {
    const next = neighbour(position.player, direction, room.size);
    if (next === undefined || room.walls.has(next)) return "wall";
    const after = move(room, position, direction);
    if (after === position) return "stuck";
    const left = table.distance(after);
    return left === undefined ? "dead" : left === 0 ? "done" : `${left} more`;
  };
  return tryAll(meets, rng);
}

export const game: Game<typeof SOKOBAN, RoomFamily, RoomTask, SokobanState> = {
  name: "sokoban",
  description: "push boxes onto goals in a small room, where a wrong push may be for ever",
  source: "after the game by H. Imabayashi, 1982",
  families: FAMILIES,
  options: SOKOBAN,
  makeTask,
  start: ({ start }) => ({ position: start, moves: 0 }),
  play,
  expert,
  random: (rng) => rng.choice(DIRECTIONS),
  thoughts,
};

/**
 * Push boxes onto goals in a small room, where a wrong push may be for ever: after the game by H. Imabayashi (1982).
 * Every task can be solved, and the expert's solution has the fewest moves.
 */
export const sokoban: EnvironmentSpec<SokobanOptions> = defineGame(game);
