/**
 * The common part of environments on a square grid: cells, directions, moves as words, and the map as text. A cell is
 * its row-major index in a grid of side `size`; there is nothing beyond the edge.
 */
import type { Rng } from "../engine/index.ts";

/** Clockwise: the neighbours of a direction in this list, cyclically, are at right angles to it. */
export const DIRECTIONS = ["up", "right", "down", "left"] as const;
export type Direction = (typeof DIRECTIONS)[number];

/** The direction after so many quarter turns to the right. */
export function turned(direction: Direction, quarters: number): Direction {
  return DIRECTIONS[(DIRECTIONS.indexOf(direction) + quarters) % 4]!;
}

/** The cell next to `cell`, or undefined beyond the edge. */
export function neighbour(cell: number, direction: Direction, size: number): number | undefined {
  const column = cell % size;
  if (direction === "up") return cell >= size ? cell - size : undefined;
  if (direction === "down") return cell < size * (size - 1) ? cell + size : undefined;
  if (direction === "left") return column > 0 ? cell - 1 : undefined;
  return column < size - 1 ? cell + 1 : undefined;
}

/**
 * One to `most` words, each a direction, in any case, with spaces or commas between them; undefined for any other text.
 */
export function readMoves(action: string, most: number): Direction[] | undefined {
  const words = action
    .trim()
    .toLowerCase()
    .split(/\s*,\s*|\s+/);
  const moves = words.flatMap((word) => DIRECTIONS.filter((direction) => direction === word));
  return moves.length === words.length && moves.length <= most ? moves : undefined;
}

/** The answer to a text that is no move. */
export function moveHelp(most: number): string {
  const list = DIRECTIONS.join(", ");
  return `unknown action; use ${most === 1 ? `one of ${list}` : `1 to ${most} of ${list}`}`;
}

/** Words that say nothing of the board. */
const FILLERS = ["hmm", "well", "now", "look", "wait", "maybe", "ok", "see"] as const;

/**
 * A thought before an action. It tries every direction and names what is there, with zero to two filler words before
 * each. It does not say what to do: the action decides that.
 *
 *     now try up edge. try right 3 more. hmm ok try down hole. try left 5 more.
 *
 * @param meets a word or two for what is one move in this direction
 */
export function tryAll(meets: (direction: Direction) => string, rng: Rng): string {
  const words = DIRECTIONS.flatMap((direction) => {
    const fillers = Array.from({ length: rng.int(3) }, () => rng.choice(FILLERS));
    return [...fillers, "try", direction, `${meets(direction)}.`];
  });
  return words.join(" ");
}

/**
 * Lines of glyphs. With a space between the cells, each cell is a token of its own in tokenizers that join punctuation
 * or letters (those of most models, and the main job's); `dense` leaves the spaces out.
 */
export function showGrid(glyphs: readonly string[], size: number, dense: boolean): string {
  const rows = Array.from({ length: size }, (_, row) => glyphs.slice(row * size, (row + 1) * size));
  return rows.map((row) => row.join(dense ? "" : " ")).join("\n");
}

/** A text that is the same for a grid and its rotations and mirror images, and differs for all other grids. */
export function canonicalGrid(glyphs: readonly string[], size: number): string {
  let cells = glyphs;
  const forms: string[] = [];
  for (let quarter = 0; quarter < 4; quarter++) {
    const previous = cells;
    forms.push(cells.join(""), cells.map((_, i) => previous[i - (i % size) + size - 1 - (i % size)]!).join(""));
    cells = cells.map((_, i) => previous[(size - 1 - (i % size)) * size + Math.floor(i / size)]!);
  }
  return forms.sort()[0]!;
}
