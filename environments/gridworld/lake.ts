/**
 * Lakes: square maps with holes and a goal, and what a move does on them. The rules are those of FrozenLake (Gym:
 * Brockman et al. 2016), whose slippery version is `slip` = 2/3.
 */
import { type Direction, neighbour, turned } from "../grid.ts";

export interface Lake {
  /** Cells of a side. */
  readonly size: number;
  readonly holes: ReadonlySet<number>;
  readonly goal: number;
  /** The probability that a move goes off at a right angle, half of it to each side. */
  readonly slip: number;
}

/** The cells to which a move may lead, with probabilities that sum to 1. A move against the edge stays. */
export function outcomes(lake: Lake, cell: number, direction: Direction): { cell: number; probability: number }[] {
  const to = (way: Direction): number => neighbour(cell, way, lake.size) ?? cell;
  if (lake.slip === 0) return [{ cell: to(direction), probability: 1 }];
  return [
    { cell: to(direction), probability: 1 - lake.slip },
    { cell: to(turned(direction, 1)), probability: lake.slip / 2 },
    { cell: to(turned(direction, 3)), probability: lake.slip / 2 },
  ];
}

/** The direction of a move in `direction` on ice, for a uniform `chance` in [0, 1). */
export function slipped(direction: Direction, slip: number, chance: number): Direction {
  if (chance >= slip) return direction;
  return turned(direction, chance < slip / 2 ? 1 : 3);
}

/** The map: `@` you, `G` goal, `O` hole, `.` ground; without a player, the lake itself. */
export function glyphs(lake: Lake, player?: number): string[] {
  return Array.from({ length: lake.size ** 2 }, (_, cell) => {
    if (cell === player) return "@";
    if (cell === lake.goal) return "G";
    return lake.holes.has(cell) ? "O" : ".";
  });
}
