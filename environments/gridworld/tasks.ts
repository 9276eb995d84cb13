/**
 * How a task of `gridworld` is drawn: map, goal and start anew for every seed, always with a way
 * to the goal.
 */
import type { Rng } from "../../engine/index.ts";
import { canonicalGrid, DIRECTIONS, neighbour } from "../grid.ts";
import { drawUntil, isHeldOut, type Split } from "../selection.ts";
import type { LakeFamily } from "./episode.ts";
import { glyphs, type Lake } from "./lake.ts";
import { solve } from "./solve.ts";

/** On ice no task is given that the best policy would fail more often than this. */
const LEAST_SUCCESS = 0.7;

/**
 * Is this lake, in any orientation, kept for held-out tasks? The start plays no part: no held-out map is ever trained
 * on.
 */
export function isHeldOutLake(lake: Lake): boolean {
  return isHeldOut(canonicalGrid(glyphs(lake), lake.size));
}

/** A lake of the family and a cell to start from. */
export function drawLake(rng: Rng, family: LakeFamily, split: Split): { lake: Lake; start: number } {
  const { size, slip, moves } = family;
  const [nearest, farthest] = family.distance;
  return drawUntil("gridworld", () => {
    const cells = rng.shuffle(Array.from({ length: size ** 2 }, (_, cell) => cell));
    const lake: Lake = { size, goal: cells[0]!, holes: new Set(cells.slice(1, 1 + family.holes)), slip };
    if (isHeldOutLake(lake) !== (split === "heldout")) return undefined;
    const away = distances(lake);
    let starts = cells.filter((cell) => nearest <= away[cell]! && away[cell]! <= farthest);
    if (slip > 0) {
      const policy = solve(lake, moves);
      starts = starts.filter((cell) => policy.success(cell, moves) >= LEAST_SUCCESS);
    }
    return starts.length === 0 ? undefined : { lake, start: rng.choice(starts) };
  });
}

/**
 * Moves from every cell to the goal around the holes, without slipping; Infinity where there is no way, and in holes.
 */
export function distances(lake: Lake): number[] {
  const away = Array.from({ length: lake.size ** 2 }, () => Infinity);
  away[lake.goal] = 0;
  const queue = [lake.goal];
  for (const cell of queue)
    for (const direction of DIRECTIONS) {
      const next = neighbour(cell, direction, lake.size);
      if (next === undefined || lake.holes.has(next) || away[next]! < Infinity) continue;
      away[next] = away[cell]! + 1;
      queue.push(next);
    }
  return away;
}
