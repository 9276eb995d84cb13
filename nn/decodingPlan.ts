/**
 * The plan of a step of decoding, which the host makes before the executor does anything: which tokens are read where,
 * in how many forward passes, and with which random numbers rows draw. The plan consists of arrays, so that a captured
 * step can be replayed with the numbers of another (`refill`; engine/capture.ts).
 */
import { check } from "../engine/errors.ts";
import type { Rng } from "../engine/random.ts";
import type { FloatType } from "../engine/types.ts";
import type { KvCache, Places } from "./cache.ts";

/** The tokens that a row reads next, and its stream if it draws: the token at position p takes the p-th number. */
export interface Part {
  readonly row: number;
  /** The tokens, at least one. */
  readonly tokens: readonly number[];
  readonly rng?: Rng;
}

/** One forward pass: the tokens, [N], and their places. */
interface Pass {
  readonly ids: Int32Array;
  readonly places: Places;
}

/** A step of decoding. */
export interface Plan {
  /** The forward passes in order; each has the tokens that it reads, padding included. */
  readonly passes: readonly Pass[];
  /** [W] for W drawing rows, padding included: the token of the last pass behind which each draws. */
  readonly last: Int32Array;
  /** [W], 1/temperature; 0 is greedy. It has the device's float type, so that it is uploaded as it is. */
  readonly scale: Float32Array | Float64Array;
  /** [2 · W], the keys of their streams. */
  readonly keys: Int32Array;
  /** For each draw, [W]: the position in its stream of each row's random number. */
  readonly counters: readonly Int32Array[];
  /** The places of the drawn tokens, which are read at once, for each draw but the last. */
  readonly drawn: readonly Places[];
}

/** The number of tokens of a pass and of rows of a draw, given the number that there are; the rest is padding. */
export interface Widths {
  /** The largest number of tokens of a pass, unless more rows draw. */
  readonly most: number;
  readonly ofPass: (tokens: number) => number;
  readonly ofDraw: (rows: number) => number;
}

/** Options of a step's plan. */
export interface Planning {
  readonly vocabSize: number;
  readonly float: FloatType;
  readonly widths: Widths;
  /** The number of draws of each drawing row; 0: its logits are wanted. */
  readonly draws: number;
  /** 1/temperature; 0 is greedy. */
  readonly invTemperature: number;
}

/**
 * Plans a step and makes room for it: the rows of the cache grow by the tokens that are read.
 * @param drawing the parts that draw, or whose logits are wanted
 * @throws if a row has no room, a part is empty, a token is none of the vocabulary, or more rows draw than there are in
 *   the width
 */
export function planStep(cache: KvCache, parts: readonly Part[], drawing: readonly Part[], how: Planning): Plan {
  const { widths, draws, float, invTemperature } = how;
  const width = widths.ofDraw(drawing.length);
  check(drawing.length <= width, () => `Decoder: ${drawing.length} rows are to be read at once, the width is ${width}`);
  const { passes, last } = passesOf(cache, parts, drawing, width, how);
  const scale = float === "f64" ? new Float64Array(width) : new Float32Array(width);
  const keys = new Int32Array(2 * width);
  const rows = drawing.map(({ row, rng }, i) => {
    if (rng) keys.set([rng.key[0] | 0, rng.key[1] | 0], 2 * i);
    return row;
  });
  const counters: Int32Array[] = [];
  const drawn: Places[] = [];
  for (let n = 0; n < draws; n++) {
    if (n > 0) drawn.push(cache.appendWhereRoom(rows, width));
    const next = new Int32Array(width);
    rows.forEach((row, i) => (next[i] = cache.lengths[row]!));
    counters.push(next);
  }
  return { passes, last, scale: scale.fill(invTemperature), keys, counters, drawn };
}

function passesOf(
  cache: KvCache,
  parts: readonly Part[],
  drawing: readonly Part[],
  width: number,
  { vocabSize, widths }: Planning,
): Pick<Plan, "passes" | "last"> {
  const places = cache.append(
    parts.map(({ row, tokens }) => {
      check(tokens.length > 0, () => `Decoder: row ${row} has no tokens to read`);
      const wrong = tokens.findIndex((id) => !Number.isInteger(id) || id < 0 || id >= vocabSize);
      check(
        wrong < 0,
        () => `Decoder: row ${row} is to read the id ${tokens[wrong]}, which is none of the vocabulary of ${vocabSize}`,
      );
      return { row, count: tokens.length };
    }),
  );
  // The order of reading: first all tokens but the last ones of drawing parts, then those, so that one pass has them
  // all. Any order is right in which the tokens of a row keep theirs.
  const total = parts.reduce((sum, { tokens }) => sum + tokens.length, 0);
  const [ids, rows, positions] = [new Int32Array(total), new Int32Array(total), new Int32Array(total)];
  const isDrawing = new Set(drawing);
  let [n, front, back] = [0, 0, total - drawing.length];
  for (const part of parts) {
    const { tokens } = part;
    const lead = isDrawing.has(part) ? tokens.length - 1 : tokens.length;
    for (let t = 0; t < tokens.length; t++, n++) {
      const at = t < lead ? front++ : back++;
      ids[at] = tokens[t]!;
      rows[at] = places.rows[n]!;
      positions[at] = places.positions[n]!;
    }
  }
  // The first pass is the short one; the last has a token of every drawing part at its end.
  const most = Math.max(widths.most, drawing.length);
  const count = Math.ceil(total / most);
  const passes = Array.from({ length: count }, (_, pass): Pass => {
    const end = total - most * (count - 1 - pass);
    const begin = Math.max(0, end - most);
    const padded = widths.ofPass(end - begin);
    const made: Pass = { ids: new Int32Array(padded), places: cache.noPlaces(padded) };
    made.ids.set(ids.subarray(begin, end));
    for (let n = begin; n < end; n++) cache.setPlace(made.places, n - begin, rows[n]!, positions[n]!);
    return made;
  });
  const last = new Int32Array(width);
  for (let i = 0; i < drawing.length; i++) last[i] = Math.min(total, most) - drawing.length + i;
  return { passes, last };
}

/** Copies the numbers of a plan into another one of the same sizes. */
export function refill(into: Plan, from: Plan): void {
  const [old, fresh] = [arraysOf(into), arraysOf(from)];
  old.forEach((array, i) => array.set(fresh[i]!));
}

function arraysOf({ passes, last, scale, keys, counters, drawn }: Plan): (Int32Array | Plan["scale"])[] {
  const places = [...passes.map((pass) => pass.places), ...drawn].flatMap((p) => [p.rows, p.positions, p.slots]);
  return [...passes.map(({ ids }) => ids), ...places, last, scale, keys, ...counters];
}
