/**
 * The two inner products of attention, for tiles of four rows and four columns of the score matrix, which itself is never
 * stored. Rows are the side whose result is being made (queries for o and dq, keys for dk and dv); lane r of a vector belongs
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

export const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i);
export type Pointers = readonly Var<I32>[];

/** Calls `body(read, write)` for each vector, then each single float (in lane 0), of a head dimension of `size` floats. */
function alongHead(
  f: FunctionBuilder,
  size: I32,
  body: (read: (pointer: I32) => F32x4, write: (pointer: I32, value: F32x4) => void) => void,
): void {
  const bytes = f.let(size.shl(2));
  const [pairs, whole] = [f.let(bytes.and(-32)), f.let(bytes.and(-16))];
  const vector = (at: I32, offset: number): void =>
    body(
      (pointer) => load.f32x4(pointer.add(at), offset),
      (pointer, value) => f.store(pointer.add(at), value, offset),
    );
  f.for(0, pairs, 32, (at) => {
    vector(at, 0);
    vector(at, 16);
  });
  f.if(pairs.ne(whole), () => vector(pairs, 0));
  f.for(whole, bytes, 4, (at) =>
    body(
      (pointer) => load.lane0(pointer.add(at)), // zeros in the other lanes: they add nothing
      (pointer, value) => f.storeLane(pointer.add(at), value, 0),
    ),
  );
}

/** Lane r of vector c = Σ_d rows[r][d] · columns[c][d]; always four rows. */
export function dots(f: FunctionBuilder, rows: Pointers, columns: Pointers, size: I32): Var<F32x4>[] {
  const sums = columns.map(() => rows.map(() => f.let(F32x4.of(0))));
  const inRow = rows.map(() => f.variable("f32x4"));
  const inColumn = f.variable("f32x4");
  alongHead(f, size, (read) => {
    inRow.forEach((x, r) => f.set(x, read(rows[r]!)));
    columns.forEach((column, c) => {
      f.set(inColumn, read(column));
      sums[c]!.forEach((sum, r) => f.set(sum, sum.add(inColumn.mul(inRow[r]!))));
    });
  });
  return sums.map((sum) => sumLanes4(f, sum));
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
