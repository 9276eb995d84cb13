/**
 * The two inner products of attention, for tiles of four rows and four columns of the score matrix, which itself is never
 * stored: only the weights of a block of columns are. Rows are the side whose result is being made (queries for o and dq, keys for dk and dv); lane r of a vector belongs
 * to row r, so softmax statistics need no sums across lanes.
 *
 * `dots` makes scores from rows and columns, `accumulate` adds weighted columns to the rows' results. Both run along the head
 * dimension in vectors of four, then single floats, in one order: a row's result has the same bits in a tile of four rows as
 * alone (decoding), and with or without masks.
 */
import { F32x4, type FunctionBuilder, I32, type I32x4, load, type Var } from "./assembler.ts";
import { sumLanes4 } from "./lanes.ts";

/** Rows and columns of a tile. */
export const TILE = 4;
/** Rows per unit of work, a multiple of the tile. */
export const UNIT_ROWS = 32;
/** Columns whose weights are kept until they are added to the rows' results together, a multiple of the tile. */
export const BLOCK = 32;
/** Bytes of memory that a unit needs for the weights of one block: a vector, four rows, per column. */
export const BLOCK_BYTES: number = 4 * TILE * BLOCK;

export const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i);
export type Pointers = readonly Var<I32>[];

/** Calls `body(read, write)` for each vector, then each single float (in lane 0), of a head dimension of `size` floats. */
function alongHead(
  f: FunctionBuilder,
  size: I32,
  body: (read: (pointer: I32) => F32x4, write: (pointer: I32, value: F32x4) => void) => void,
): void {
  const bytes = f.let(size.shl(2));
  const whole = f.let(bytes.and(-16));
  f.for(0, whole, 16, (at) =>
    body(
      (pointer) => load.f32x4(pointer.add(at)),
      (pointer, value) => f.store(pointer.add(at), value),
    ),
  );
  f.for(whole, bytes, 4, (at) =>
    body(
      (pointer) => load.lane0(pointer.add(at)), // zeros in the other lanes: they add nothing
      (pointer, value) => f.storeLane(pointer.add(at), value, 0),
    ),
  );
}

/** Lane r of vector c = Σ_d rows[r][d] · columns[c][d]; always four rows. Two columns at a time: eight sums fit the registers. */
export function dots(f: FunctionBuilder, rows: Pointers, columns: Pointers, size: I32): Var<F32x4>[] {
  const results: Var<F32x4>[] = [];
  for (let first = 0; first < columns.length; first += 2) {
    const pair = columns.slice(first, first + 2);
    const sums = pair.map(() => rows.map(() => f.let(F32x4.of(0))));
    alongHead(f, size, (read) => {
      const inPair = pair.map((column) => f.let(read(column)));
      rows.forEach((row, r) => {
        const inRow = f.let(read(row));
        sums.forEach((sum, c) => f.set(sum[r]!, sum[r]!.add(inPair[c]!.mul(inRow))));
      });
    });
    results.push(...sums.map((sum) => sumLanes4(f, sum)));
  }
  return results;
}

/** One number of a weight matrix in all lanes: `weights[c]` has lane r for row r. */
export const lanesOf = <V extends F32x4 | I32x4>(f: FunctionBuilder, weight: V): Var<V>[] =>
  range(TILE).map((r) => f.let(weight.shuffle(weight, r, r, r, r) as V));

/**
 * results[r][d] += Σ_c weights[c][r] · columns[c][d], columns in order. `seen[c][r]` (masks in all lanes) drops products of
 * pairs that do not see each other, whatever the column holds. Rows that repeat another's pointer must see nothing.
 */
export function accumulate(
  f: FunctionBuilder,
  results: Pointers,
  columns: Pointers,
  weights: readonly (readonly F32x4[])[],
  size: I32,
  seen?: readonly (readonly I32x4[])[],
): void {
  const inColumn = columns.map(() => f.variable("f32x4"));
  const sum = f.variable("f32x4");
  alongHead(f, size, (read, write) => {
    inColumn.forEach((x, c) => f.set(x, read(columns[c]!)));
    results.forEach((result, r) => {
      f.set(sum, read(result));
      inColumn.forEach((x, c) => {
        const product = x.mul(weights[c]![r]!);
        f.set(sum, sum.add(seen === undefined ? product : product.and(seen[c]![r]!)));
      });
      write(result, sum);
    });
  });
}

/** Weights of up to `BLOCK` neighbouring columns, which all four rows see, on their way into the rows' results. */
export interface Block {
  /** How many columns there are, and the first one's number. */
  readonly count: Var<I32>;
  readonly first: Var<I32>;
}

export function newBlock(f: FunctionBuilder): Block {
  return { count: f.let(I32.of(0)), first: f.let(I32.of(0)) };
}

/** Keeps the weights of four columns from `column` on; `flush` must have made room. `memory` holds `BLOCK_BYTES` per list. */
export function keep(
  f: FunctionBuilder,
  { count, first }: Block,
  column: I32,
  lists: readonly { memory: I32; weights: readonly F32x4[] }[],
): void {
  f.if(count.eq(0), () => f.set(first, column));
  for (const { memory, weights } of lists) {
    const at = f.let(memory.add(count.shl(4)));
    weights.forEach((weight, c) => f.store(at, weight, 16 * c));
  }
  f.set(count, count.add(TILE));
}

/**
 * results[r][d] = factor[r] · results[r][d] + Σ_c weights[c][r] · column c, the columns of a block in order: `accumulate` as a
 * matrix product, with four rows by eight floats of the result in registers.
 */
export function accumulateBlock(
  f: FunctionBuilder,
  results: Pointers,
  { count, first }: Block,
  memory: I32,
  columns: I32,
  stride: I32,
  size: I32,
  factors?: readonly F32x4[],
): void {
  const start = f.let(columns.at(first.mul(stride)));
  const step = f.let(stride.shl(2));
  const d = f.let(I32.of(0));
  for (const width of [8, 4, 1]) {
    const vectors = range(Math.ceil(width / 4));
    const read = width === 1 ? load.lane0 : load.f32x4;
    f.while(d.add(width).le(size), () => {
      const targets = results.map((row) => f.let(row.at(d)));
      const sums = targets.map((row, r) =>
        vectors.map((v) => f.let(factors === undefined ? read(row, 16 * v) : read(row, 16 * v).mul(factors[r]!))),
      );
      const [weight, column] = [f.let(memory.add(0)), f.let(start.at(d))];
      f.for(0, count, 1, () => {
        const values = vectors.map((v) => f.let(read(column, 16 * v)));
        sums.forEach((row, r) => {
          const w = f.let(load.splat(weight, 4 * r));
          row.forEach((sum, v) => f.set(sum, sum.add(values[v]!.mul(w))));
        });
        f.set(weight, weight.add(4 * TILE));
        f.set(column, column.add(step));
      });
      targets.forEach((row, r) =>
        vectors.forEach((v) => {
          if (width === 1) f.storeLane(row, sums[r]![v]!, 0);
          else f.store(row, sums[r]![v]!, 16 * v);
        }),
      );
      f.set(d, d.add(width));
    });
  }
}

/** row[d] *= factor (in all lanes). */
export function scaleRow(f: FunctionBuilder, row: Var<I32>, factor: F32x4, size: I32): void {
  alongHead(f, size, (read, write) => write(row, read(row).mul(factor)));
}

/** The addresses of `TILE` rows from `first` on, `stride` floats apart; rows beyond the last (`count` − 1) repeat it. */
export function tilePointers(f: FunctionBuilder, base: I32, first: I32, count: I32, stride: I32): Var<I32>[] {
  return range(TILE).map((r) => f.let(base.at(first.add(r).min(count.sub(1)).mul(stride))));
}

/** first, first + 1, first + 2, first + 3 */
export const laneNumbers = (first: I32, zeroToThree: I32x4): I32x4 => first.splat().add(zeroToThree);

/** Four integers of an array from `first` on, those beyond `count` − 1 repeating the last. */
export function loadLanes(f: FunctionBuilder, base: I32, first: I32, count: I32): Var<I32x4> {
  const at = (r: number): I32 => load.i32(base.at(first.add(r).min(count.sub(1))));
  const v = f.let(at(0).splat());
  for (const r of [1, 2, 3]) f.set(v, v.withLane(r, at(r)));
  return v;
}

/** The first query head of a kv head is ⌈kv·H/Hkv⌉, the smallest h with ⌊h·Hkv/H⌋ = kv. */
export const firstHead = (kv: I32, heads: I32, kvHeads: I32): I32 => kv.mul(heads).add(kvHeads).sub(1).divU(kvHeads);
