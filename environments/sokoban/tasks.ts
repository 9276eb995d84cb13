/**
 * The task families of `sokoban`, and how a task is drawn: walls and goals at random, then a start from among all
 * positions of that room that are as many moves from solved as the family says. So every task can be solved, and its
 * length is exact.
 */
import type { Rng } from "../../engine/index.ts";
import type { FamilyInfo } from "../environment.ts";
import { canonicalGrid } from "../grid.ts";
import { drawUntil, isHeldOut, type Split } from "../selection.ts";
import { boxesOnGoals, glyphs, type Position, type Room } from "./room.ts";
import { DistanceTable } from "./solver.ts";

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

/** Starts that are tried in one room before another is drawn. */
const STARTS = 16;

/**
 * Is this room, in any orientation, kept for held-out tasks? Boxes and player play no part: no position that an episode
 * could pass through in a held-out room can come up in training.
 */
export function isHeldOutRoom(room: Room): boolean {
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
