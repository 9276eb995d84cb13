/**
 * Common parts of the row kernels: loops over a number of columns that is no multiple of four, and sums across the
 * lanes of a vector. Lanes are summed in one fixed tree, (x0 + x2) + (x1 + x3), whether one vector is summed or four at
 * once, so both ways give the same bits.
 */
import { F32x4, type FunctionBuilder, type I32, I32x4, load, type Var } from "./assembler.ts";

/** The sum of the lanes of `x`, in lane 0 (the other lanes are undefined). */
export function sumLanes(f: FunctionBuilder, x: F32x4): Var<F32x4> {
  const v = f.let(x);
  const pairs = f.let(v.add(v.shuffle(v, 2, 3, 2, 3)));
  return f.let(pairs.add(pairs.shuffle(pairs, 1, 1, 1, 1)));
}

/** Lane i of the result is the sum of the lanes of the i-th vector: a 4 × 4 transpose that adds as it goes. */
export function sumLanes4(f: FunctionBuilder, vectors: readonly F32x4[]): Var<F32x4> {
  const [a, b, c, d] = vectors as [F32x4, F32x4, F32x4, F32x4];
  const ab = f.let(a.shuffle(b, 0, 4, 1, 5).add(a.shuffle(b, 2, 6, 3, 7)));
  const cd = f.let(c.shuffle(d, 0, 4, 1, 5).add(c.shuffle(d, 2, 6, 3, 7)));
  return f.let(ab.shuffle(cd, 0, 1, 4, 5).add(ab.shuffle(cd, 2, 3, 6, 7)));
}

/**
 * The largest lane, in every lane. It may ignore NaN (`pmax` is one instruction, `max` eight); the later sum does not.
 */
export function maxLanes(f: FunctionBuilder, x: F32x4): Var<F32x4> {
  const v = f.let(x);
  const pairs = f.let(v.pmax(v.shuffle(v, 2, 3, 0, 1)));
  return f.let(pairs.pmax(pairs.shuffle(pairs, 1, 0, 3, 2)));
}

/** The columns of one turn of `forColumns`: four at a time, or one in every lane. */
export interface Columns {
  /** The four columns of this turn in the row at `row`, or the single one in every lane. */
  readonly load: (row: I32) => F32x4;
  readonly store: (row: I32, value: F32x4) => void;
  /** Sets lanes that stand for no column to zero: for use before adding to a sum. */
  readonly only: (x: F32x4) => F32x4;
}

const LANE_0 = I32x4.lanes(-1, 0, 0, 0);

/** Columns i + 4·group … of the rows, four at a time. */
const four = (f: FunctionBuilder, i: I32, group = 0): Columns => ({
  load: (row) => load.f32x4(row.at(i), 16 * group),
  store: (row, value) => f.store(row.at(i), value, 16 * group),
  only: (x) => x,
});

/**
 * Calls `body` for columns `from` (a multiple of 4) … count − 1 of a row: a loop over fours, then one over single
 * columns.
 */
export function forColumns(
  f: FunctionBuilder,
  count: I32,
  body: (columns: Columns) => void,
  from: I32 | number = 0,
): void {
  const whole = f.let(count.and(-4));
  f.for(from, whole, 4, (i) => body(four(f, i)));
  f.for(whole, count, 1, (i) =>
    body({
      load: (row) => load.splat(row.at(i)),
      store: (row, value) => f.storeLane(row.at(i), value, 0),
      only: (x) => x.and(LANE_0),
    }),
  );
}

/** The number of vectors per turn of `forColumnGroups`, a power of two. Measured with `npm run bench -- softmax`. */
const GROUP = 4;

/**
 * As `forColumns`, but `body` gets several vectors at once while there are that many. In a long formula each
 * instruction waits for the one before, so it pays to compute several before the first result is stored.
 */
export function forColumnGroups(f: FunctionBuilder, count: I32, body: (group: readonly Columns[]) => void): void {
  const grouped = f.let(count.and(-4 * GROUP));
  f.for(0, grouped, 4 * GROUP, (i) => body(Array.from({ length: GROUP }, (_, group) => four(f, i, group))));
  forColumns(f, count, (columns) => body([columns]), grouped);
}

/** The largest `value` of a row's columns, in every lane, by four running maxima that do not wait for each other. */
export function maxOfColumns(f: FunctionBuilder, count: I32, value: (columns: Columns) => F32x4): Var<F32x4> {
  const tops = [0, 1, 2, 3].map(() => f.let(F32x4.of(-Infinity)));
  const sixteens = f.let(count.and(-16));
  f.for(0, sixteens, 16, (i) => tops.forEach((top, group) => f.set(top, top.pmax(value(four(f, i, group))))));
  const [a, b, c, d] = tops as [Var<F32x4>, Var<F32x4>, Var<F32x4>, Var<F32x4>];
  f.set(a, a.pmax(b).pmax(c.pmax(d)));
  forColumns(f, count, (columns) => f.set(a, a.pmax(value(columns))), sixteens);
  return maxLanes(f, a);
}

/** Lane 0 of `x` in every lane. */
export const spread = (f: FunctionBuilder, x: F32x4): Var<F32x4> => {
  const v = f.let(x);
  return f.let(v.shuffle(v, 0, 0, 0, 0));
};
