/**
 * The rules of Sokoban (Hiroyuki Imabayashi, 1982) in a square room: the player steps to a neighbouring cell, and
 * pushes the box that stands there if the cell behind it is free. One box at a time, no pulling. There is nothing
 * beyond the edge, as if it were walled.
 */
import { type Direction, neighbour } from "../grid.ts";

export interface Room {
  /** Cells of a side. */
  readonly size: number;
  readonly walls: ReadonlySet<number>;
  /** There are as many goals as boxes. */
  readonly goals: ReadonlySet<number>;
}

export interface Position {
  readonly player: number;
  /** They are in ascending order, so that equal positions are equal lists. */
  readonly boxes: readonly number[];
}

/** The position after a move, or `position` itself if the way is blocked. */
export function move(room: Room, position: Position, direction: Direction): Position {
  const isFree = (cell: number | undefined): cell is number =>
    cell !== undefined && !room.walls.has(cell) && !position.boxes.includes(cell);
  const next = neighbour(position.player, direction, room.size);
  if (isFree(next)) return { player: next, boxes: position.boxes };
  if (next === undefined || room.walls.has(next)) return position;
  const behind = neighbour(next, direction, room.size);
  if (!isFree(behind)) return position;
  return { player: next, boxes: position.boxes.map((box) => (box === next ? behind : box)).sort((a, b) => a - b) };
}

/** Boxes that stand on goals. */
export function boxesOnGoals(room: Room, { boxes }: Position): number {
  return boxes.filter((box) => room.goals.has(box)).length;
}

/**
 * The board in the usual notation (XSB): `#` wall, `$` box, `.` goal, `*` box on goal, `@` player, `+` player on goal,
 * `-` floor; without a position, the room itself.
 */
export function glyphs(room: Room, position?: Position): string[] {
  return Array.from({ length: room.size ** 2 }, (_, cell) => {
    const onGoal = room.goals.has(cell);
    if (room.walls.has(cell)) return "#";
    if (position?.player === cell) return onGoal ? "+" : "@";
    if (position?.boxes.includes(cell)) return onGoal ? "*" : "$";
    return onGoal ? "." : "-";
  });
}
