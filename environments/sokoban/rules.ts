/**
 * The tasks of `sokoban`, its answers and its scripted players. It is loaded later: it imports no value of ../game.ts.
 *
 * Walls and goals are drawn at random, then a start from among all positions of that room that are as many moves from
 * solved as the family says. So every task can be solved, and its length is exact.
 */
import type { Rng } from "../../engine/index.ts";
import type { GameRules, Move } from "../game.ts";
import {
  canonicalGrid,
  type Direction,
  DIRECTIONS,
  moveHelp,
  neighbour,
  readMoves,
  showGrid,
  tryAll,
} from "../grid.ts";
import type { SettledOptions } from "../options.ts";
import { drawUntil, isHeldOut, type Split } from "../selection.ts";
import type { RoomFamily, RoomTask, SOKOBAN, SokobanEpisode, SokobanState } from "./episode.ts";
import { boxesOnGoals, glyphs, move, type Position, type Room } from "./room.ts";
import { DistanceTable } from "./solver.ts";

/** Starts that are tried in one room before another is drawn. */
const STARTS = 16;

/**
 * Whether this room, in any orientation, is kept for held-out tasks. Boxes and player play no part: no position that an
 * episode can reach in a held-out room occurs in training.
 */
function isHeldOutRoom(room: Room): boolean {
  return isHeldOut(canonicalGrid(glyphs(room), room.size));
}

/** A room of the family, a start with no box on a goal, and the distances of all positions. */
export function drawRoom(
  rng: Rng,
  family: RoomFamily,
  split: Split,
): { room: Room; start: Position; table: DistanceTable } {
  const { size, walls, boxes } = family;
  const [least, most] = family.solution;
  return drawUntil("sokoban", () => {
    const cells = rng.shuffle(Array.from({ length: size ** 2 }, (_, cell) => cell));
    const room: Room = { size, walls: new Set(cells.splice(0, walls)), goals: new Set(cells.splice(0, boxes)) };
    if (isHeldOutRoom(room) !== (split === "heldout")) return undefined;
    const table = new DistanceTable(room);
    for (let attempt = 0; attempt < STARTS; attempt++) {
      const distance = least + rng.int(most - least + 1);
      const start = table.draw(distance, rng);
      if (start && boxesOnGoals(room, start) === 0) return { room, start, table };
    }
    return undefined;
  });
}

type Chosen = SettledOptions<typeof SOKOBAN>;

const boardOf = (room: Room, position: Position, { dense }: Chosen): string =>
  showGrid(glyphs(room, position), room.size, dense);

/** The ways from the player to the boxes, and from the first box to the goals: `$ right 1 up 2 . down 1`. */
function bearings({ size, goals }: Room, { player, boxes }: Position): string {
  const way = (from: number, to: number): string => {
    const right = (to % size) - (from % size);
    const down = Math.floor(to / size) - Math.floor(from / size);
    const parts = [
      right === 0 ? "" : `${right > 0 ? "right" : "left"} ${Math.abs(right)}`,
      down === 0 ? "" : `${down > 0 ? "down" : "up"} ${Math.abs(down)}`,
    ];
    return parts.filter((part) => part !== "").join(" ");
  };
  const toBoxes = boxes.map((box) => `$ ${way(player, box)}`);
  return [...toBoxes, ...[...goals].map((goal) => `. ${way(boxes[0]!, goal)}`)].join(" ");
}

function makeTask(rng: Rng, family: RoomFamily, options: Chosen): RoomTask {
  const { split, spare, brief } = options;
  const drawn = drawRoom(rng, family, split);
  const { room, start, table } = drawn;
  const moves = spare === undefined ? (options.moves ?? family.moves) : table.distance(start)! + spare;
  const board = boardOf(room, start, options) + (brief ? `\n${bearings(room, start)}` : "");
  return { ...drawn, moves, text: `Push $ onto . in ${moves} moves\n${board}` };
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
  const left = table.distance(position) ?? Infinity;
  if (options.giveUp && left > task.moves - moves)
    return { ...played, observation: "It cannot be solved any more.", ending: { kind: "hopeless", score } };
  const seen = options.brief ? bearings(room, position) : boardOf(room, position, options);
  return { ...played, observation: wanted === undefined ? moveHelp(movesPerAction) : seen };
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

export const rules: GameRules<typeof SOKOBAN, RoomFamily, RoomTask, SokobanState> = {
  makeTask,
  start: ({ start }) => ({ position: start, moves: 0 }),
  play,
  expert,
  random: (rng) => rng.choice(DIRECTIONS),
  thoughts,
};
