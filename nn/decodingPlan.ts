/**
 * What the host decides of a step of decoding before the executor sees anything of it: which tokens are read where, in
 * how many forward passes, and which random numbers rows draw with. All of it is arrays, so that a step that was
 * captured is done again with the numbers of another (`refill`; engine/capture.ts).
 */
import { check } from "../engine/errors.ts";
import type { Rng } from "../engine/random.ts";
import type { KvCache, Places } from "./cache.ts";

/**
 * What a row reads next, and, if it is to draw, from which stream: the token at position p takes the stream's p-th
 * number.
 */
export interface Part {
  readonly row: number;
  /** At least one. */
  readonly tokens: readonly number[];
  readonly rng?: Rng;
}

/** Of one forward pass: what is read, [N], and where it goes. */
interface Pass {
  readonly ids: Int32Array;
  readonly places: Places;
}

/** A step of decoding. */
export interface Plan {
  /** In order; each has the tokens that it reads, padding included. */
  readonly passes: readonly Pass[];
  /** [W] for W drawing rows, padding included: behind which token of the last pass each draws. */
  readonly last: Int32Array;
  /** [2 · W], the keys of their streams. */
  readonly keys: Int32Array;
  /** For each draw, [W]: which number of its stream each row takes. */
  readonly counters: readonly Int32Array[];
  /** For each draw but the last: where the drawn tokens go, which are read at once. */
  readonly drawn: readonly Places[];
}

/** How many tokens a pass has and how many rows a draw, for as many as there are: what is more is padding. */
export interface Widths {
  /** Tokens of a pass at most, unless more rows draw. */
  readonly most: number;
  readonly ofPass: (tokens: number) => number;
  readonly ofDraw: (rows: number) => number;
}

/** How a step is planned. */
export interface Planning {
  readonly vocabSize: number;
  readonly widths: Widths;
  /** How often each drawing row draws. */
  readonly draws: number;
}

/**
 * Plans a step and makes room for it: the rows of the cache grow by what is read.
 * @param drawing those of the parts that draw, or are asked for logits
 * @throws if a row has no room, a part is empty or a token is none of the vocabulary
 */
export function planStep(cache: KvCache, parts: readonly Part[], drawing: readonly Part[], how: Planning): Plan {
  const { passes, last } = passesOf(cache, parts, drawing, how);
  const width = last.length;
  const keys = new Int32Array(2 * width);
  const rows = drawing.map(({ row, rng }, i) => {
    if (rng) keys.set([rng.key[0] | 0, rng.key[1] | 0], 2 * i);
    return row;
  });
  const counters: Int32Array[] = [];
  const drawn: Places[] = [];
  for (let n = 0; n < how.draws; n++) {
    if (n > 0) drawn.push(cache.appendWhereRoom(rows, width));
    const own = new Int32Array(width);
    rows.forEach((row, i) => (own[i] = cache.lengths[row]!));
    counters.push(own);
  }
  return { passes, last, keys, counters, drawn };
}

function passesOf(
  cache: KvCache,
  parts: readonly Part[],
  drawing: readonly Part[],
  { vocabSize, widths }: Planning,
): Pick<Plan, "passes" | "last"> {
  const places = cache.append(
    parts.map(({ row, tokens }) => {
      check(tokens.length > 0, () => `Decoder: row ${row} has no tokens to read`);
      const wrong = tokens.find((id) => !(id >= 0 && id < vocabSize));
      check(
        wrong === undefined,
        () => `Decoder: row ${row} is to read the id ${wrong}, which is outside of the vocabulary of ${vocabSize}`,
      );
      return { row, count: tokens.length };
    }),
  );
  // What is read, as indices into `places`: first all but the last tokens of drawing parts, then those, so that one
  // pass has them all. Any order will do in which a row's tokens are not read before those in front of them.
  const order = new Int32Array(places.rows.length);
  const ids = new Int32Array(order.length);
  const isDrawing = new Set(drawing);
  let [at, front, back] = [0, 0, order.length - drawing.length];
  for (const part of parts) {
    const { tokens } = part;
    const lead = isDrawing.has(part) ? tokens.length - 1 : tokens.length;
    for (let t = 0; t < tokens.length; t++, at++) {
      ids[at] = tokens[t]!;
      order[t < lead ? front++ : back++] = at;
    }
  }
  // The first pass is the short one; the last has a token of every drawing part at its end.
  const most = Math.max(widths.most, drawing.length);
  const count = Math.ceil(order.length / most);
  const passes = Array.from({ length: count }, (_, pass): Pass => {
    const end = order.length - most * (count - 1 - pass);
    const chosen = order.subarray(Math.max(0, end - most), end);
    const width = widths.ofPass(chosen.length);
    const own: Pass = { ids: new Int32Array(width), places: cache.noPlaces(width) };
    chosen.forEach((n, i) => {
      own.ids[i] = ids[n]!;
      cache.setPlace(own.places, i, places.rows[n]!, places.positions[n]!);
    });
    return own;
  });
  const last = new Int32Array(widths.ofDraw(drawing.length));
  for (let i = 0; i < drawing.length; i++) last[i] = Math.min(order.length, most) - drawing.length + i;
  return { passes, last };
}

/** Copies the numbers of a plan into another one of the same sizes. */
export function refill(into: Plan, from: Plan): void {
  const [old, fresh] = [arraysOf(into), arraysOf(from)];
  old.forEach((array, i) => array.set(fresh[i]!));
}

function arraysOf({ passes, last, keys, counters, drawn }: Plan): Int32Array[] {
  const places = [...passes.map((pass) => pass.places), ...drawn].flatMap((p) => [p.rows, p.positions, p.slots]);
  return [...passes.map(({ ids }) => ids), ...places, last, keys, ...counters];
}
