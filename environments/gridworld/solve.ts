/**
 * The best policy on a lake, by value iteration (Bellman 1957) backwards from the last move: exact for the given number
 * of moves, no discount. With few moves left it takes risks that it would not take with many.
 */
import { type Direction, DIRECTIONS } from "../grid.ts";
import { type Lake, outcomes } from "./lake.ts";

export interface BestPolicy {
  /** The probability of reaching the goal from `cell` with `left` moves, if all of them are the best. */
  success(cell: number, left: number): number;
  /** The best move from `cell` with `left` ≥ 1 moves. */
  best(cell: number, left: number): Direction;
}

/**
 * Probabilities nearer to each other than this are equal: sums of products in another order differ in the last digits.
 */
const SAME = 1e-12;

/**
 * The best policy for up to `moves` moves. Of the directions that make reaching the goal most probable it takes the one
 * with the fewest moves to the end on average, where a fall counts as `moves`; ties go to the first in the order of
 * DIRECTIONS. The time to compute it is in O(moves · cells).
 */
export function solve(lake: Lake, moves: number): BestPolicy {
  const cells = lake.size ** 2;
  const over = (cell: number): boolean => cell === lake.goal || lake.holes.has(cell);
  const success = [Float64Array.from({ length: cells }, (_, cell) => (cell === lake.goal ? 1 : 0))];
  const best: Uint8Array[] = [new Uint8Array(cells)];
  let time = Float64Array.from({ length: cells }, (_, cell) => (lake.holes.has(cell) ? moves : 0));
  for (let left = 1; left <= moves; left++) {
    const before = success[left - 1]!;
    const timeBefore = time;
    const values = before.slice();
    const choices = new Uint8Array(cells);
    time = timeBefore.slice();
    for (let cell = 0; cell < cells; cell++) {
      if (over(cell)) continue;
      let [mostProbable, shortest] = [-1, Infinity];
      DIRECTIONS.forEach((direction, i) => {
        let [probable, takes] = [0, 1];
        for (const { cell: next, probability } of outcomes(lake, cell, direction)) {
          probable += probability * before[next]!;
          takes += probability * timeBefore[next]!;
        }
        const same = Math.abs(probable - mostProbable) <= SAME;
        if (same ? takes >= shortest - SAME : probable < mostProbable) return;
        [mostProbable, shortest, choices[cell]] = [probable, takes, i];
      });
      [values[cell], time[cell]] = [mostProbable, shortest];
    }
    success.push(values);
    best.push(choices);
  }
  return {
    success: (cell, left) => success[left]![cell]!,
    best: (cell, left) => DIRECTIONS[best[left]![cell]!]!,
  };
}
