/**
 * How a task of `sokoban` is drawn: walls and goals at random, then a start from among all
 * positions of that room that are as many moves from solved as the family says. So every task can be solved, and its
 * length is exact.
 */
import type { Rng } from "../../engine/index.ts";
import { canonicalGrid } from "../grid.ts";
import { drawUntil, isHeldOut, type Split } from "../selection.ts";
import type { RoomFamily } from "./episode.ts";
import { boxesOnGoals, glyphs, type Position, type Room } from "./room.ts";
import { DistanceTable } from "./solver.ts";

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
