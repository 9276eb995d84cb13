/**
 * The distances of all positions of a room from solved, by one breadth-first search backwards, by pulling, from all
 * solved positions. They give the generator its difficulty (the exact number of moves) and the expert its next move,
 * and they show every deadlock: a position that was not reached cannot be solved. The search is exhaustive, so it is
 * for small rooms: cells^(boxes + 1) up to 2^22, for example three boxes on 6×6.
 */
import { check } from "../../engine/errors.ts";
import type { Rng } from "../../engine/index.ts";
import { type Direction, DIRECTIONS, neighbour } from "../grid.ts";
import { move, type Position, type Room } from "./room.ts";

const MOST_CODES = 2 ** 22;
/** Positions farther away than a byte can hold count as unsolvable; none was ever seen in rooms of this size. */
const FARTHEST = 254;

export class DistanceTable {
  readonly #room: Room;
  readonly #cells: number;
  /** Moves from solved, plus 1, by the position's code; 0 for positions that cannot be solved. */
  readonly #distances: Uint8Array;
  /** The codes of all positions that can be solved, nearest first. */
  readonly #codes: number[] = [];
  /** Index in `#codes` of the first position of each distance; at the end, the number of all. */
  readonly #starts: number[] = [];

  /** @throws if the room has too many cells or boxes for an exhaustive search */
  constructor(room: Room) {
    this.#room = room;
    this.#cells = room.size ** 2;
    const codes = this.#cells ** (room.goals.size + 1);
    check(
      codes <= MOST_CODES,
      () =>
        `sokoban: ${room.goals.size} boxes on ${room.size}×${room.size} make ${codes} codes, ` +
        `the search takes ${MOST_CODES}`,
    );
    this.#distances = new Uint8Array(codes);
    this.#search();
  }

  /** Moves to the nearest solved position, or undefined if none can be reached. */
  distance({ player, boxes }: Position): number | undefined {
    const distance = this.#distances[this.#encode(player, boxes)]!;
    return distance === 0 ? undefined : distance - 1;
  }

  /** The first direction that leads nearer; undefined if solved or not solvable. */
  bestMove(position: Position): Direction | undefined {
    const here = this.distance(position);
    if (here === undefined) return undefined;
    return DIRECTIONS.find((direction) => this.distance(move(this.#room, position, direction)) === here - 1);
  }

  /** A position drawn uniformly from those `distance` moves from solved; undefined if there is none. */
  draw(distance: number, rng: Rng): Position | undefined {
    const codes = this.#codes.slice(this.#starts[distance], this.#starts[distance + 1] ?? 0).sort((a, b) => a - b);
    return codes.length === 0 ? undefined : this.#decode(rng.choice(codes));
  }

  #search(): void {
    const { size, walls, goals } = this.#room;
    // Tables instead of `neighbour`: −1 for the edge and for walls.
    const next = DIRECTIONS.map((direction) =>
      Array.from({ length: this.#cells }, (_, cell) => {
        const to = neighbour(cell, direction, size);
        return to === undefined || walls.has(to) ? -1 : to;
      }),
    );
    const boxes = new Array<number>(goals.size);
    const moved = new Array<number>(goals.size);
    const visit = (player: number, boxes: readonly number[], distance: number): void => {
      const code = this.#encode(player, boxes);
      if (this.#distances[code] !== 0 || distance > FARTHEST) return;
      this.#distances[code] = distance + 1;
      this.#codes.push(code);
      if (this.#starts.length === distance) this.#starts.push(this.#codes.length - 1);
    };
    const solved = [...goals].sort((a, b) => a - b);
    for (let player = 0; player < this.#cells; player++)
      if (!walls.has(player) && !goals.has(player)) visit(player, solved, 0);
    for (const code of this.#codes) {
      const player = this.#decodeInto(boxes, code);
      const distance = this.#distances[code]!; // stored plus 1: that of the neighbours
      for (let way = 0; way < DIRECTIONS.length; way++) {
        // The player came from `from`, going `way`; a box in front of it may have been pushed, or have stood there
        // before.
        const from = next[(way + 2) % 4]![player]!;
        if (from === -1 || boxes.includes(from)) continue;
        visit(from, boxes, distance);
        const ahead = boxes.indexOf(next[way]![player]!);
        if (ahead !== -1) {
          replaceSorted(boxes, ahead, player, moved);
          visit(from, moved, distance);
        }
      }
    }
    this.#starts.push(this.#codes.length);
  }

  #encode(player: number, boxes: readonly number[]): number {
    let code = player;
    for (const box of boxes) code = code * this.#cells + box;
    return code;
  }

  #decode(code: number): Position {
    const boxes = new Array<number>(this.#room.goals.size);
    return { player: this.#decodeInto(boxes, code), boxes };
  }

  /** Writes the boxes into `boxes`, and returns the player. */
  #decodeInto(boxes: number[], code: number): number {
    for (let i = boxes.length - 1; i >= 0; i--) {
      boxes[i] = code % this.#cells;
      code = Math.floor(code / this.#cells);
    }
    return code;
  }
}

/** Writes the ascending numbers `from` into `to`, with `value` in the place of the one at `index`, ascending again. */
function replaceSorted(from: readonly number[], index: number, value: number, to: number[]): void {
  let at = 0;
  let placed = false;
  for (let i = 0; i < from.length; i++) {
    if (i === index) continue;
    if (!placed && value < from[i]!) {
      to[at++] = value;
      placed = true;
    }
    to[at++] = from[i]!;
  }
  if (!placed) to[at] = value;
}
