/**
 * The inner products of attention, for tiles of four queries (rows) and four keys (columns) of the score matrix. The
 * matrix itself is never stored: only the weights of a block of columns are. Lane r of a vector belongs to row r, so
 * the statistics of the softmax need no sums across lanes.
 *
 * `dots` makes scores from rows and columns, `addColumns` adds weighted columns to the rows' results, and `addRows`
 * adds weighted rows to the columns' results. All of them run along the head dimension in one order, so a row's result
 * has the same bits in a tile of four rows as alone, in any block, and with or without masks.
 *
 * Loops along the head dimension stay loops of few instructions: V8 computes sums as late as it can but loads in order,
 * so the values of a long straight line do not fit the registers (twice the time at 32 floats).
 */
import { type AnyVector, F32x4, type FunctionBuilder, I32, load, select, type Var } from "./assembler.ts";
import { sumLanes4 } from "./lanes.ts";

/** The number of rows and columns of a tile. */
export const TILE = 4;
/** The number of rows per unit of work, a multiple of the tile. */
export const UNIT_ROWS = 32;
/** The number of columns whose weights are kept and then added to the rows' results; a multiple of the tile. */
export const BLOCK = 32;
/** The memory of a unit for the weights of one block: a vector per column, with a lane for each of four rows. */
export const BLOCK_BYTES: number = 4 * TILE * BLOCK;

/** Bytes of a row of the head, in whole vectors. */
export const rowBytes = (headDim: number): number => 16 * Math.ceil(headDim / 4);

export const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i);
export type Pointers = readonly Var<I32>[];

/** Calls `body(read, write)` for each vector of a head of `size` floats, then for each single float (in lane 0). */
function alongHead(
  f: FunctionBuilder,
  size: number,
  body: (read: (pointer: I32) => F32x4, write: (pointer: I32, value: F32x4) => void) => void,
): void {
  const vectors = (size & -4) * 4;
  f.for(0, vectors, 16, (at) =>
    body(
      (pointer) => load.f32x4(pointer.add(at)),
      (pointer, value) => f.store(pointer.add(at), value),
    ),
  );
  for (let at = vectors; at < 4 * size; at += 4) {
    body(
      (pointer) => load.lane0(pointer, at), // zeros in the other lanes: they add nothing
      (pointer, value) => f.storeLane(pointer, value, 0, at),
    );
  }
}

/**
 * Lane r of vector c = Σ_d rows[r][d] · columns[c][d], for four rows. Two columns at a time: eight sums fit the
 * registers.
 */
export function dots(f: FunctionBuilder, rows: Pointers, columns: Pointers, size: number): Var<F32x4>[] {
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

/** Lane r = Σ_d a[r][d] · b[r][d], with the same sums as `dots`. */
export function rowDots(f: FunctionBuilder, a: Pointers, b: Pointers, size: number): Var<F32x4> {
  const sums = a.map(() => f.let(F32x4.of(0)));
  alongHead(f, size, (read) => sums.forEach((sum, r) => f.set(sum, sum.add(read(a[r]!).mul(read(b[r]!))))));
  return sumLanes4(f, sums);
}

/** Each lane of the vector, spread over all lanes. */
export const lanesOf = (f: FunctionBuilder, x: F32x4): Var<F32x4>[] =>
  range(TILE).map((r) => f.let(x.shuffle(x, r, r, r, r)));

/** Neighbouring columns, at most `BLOCK`, whose weights are kept until they are used together. */
export interface Block {
  /** The number of columns, and the first one's. */
  readonly count: Var<I32>;
  readonly first: Var<I32>;
}

export function newBlock(f: FunctionBuilder): Block {
  return { count: f.let(I32.of(0)), first: f.let(I32.of(0)) };
}

/** Keeps the vectors of `count` ≤ 4 columns from `column` on; there must be room. Each `memory` has `BLOCK_BYTES`. */
export function keep(
  f: FunctionBuilder,
  block: Block,
  column: I32,
  count: I32 | number,
  lists: readonly { memory: I32; columns: readonly AnyVector[] }[],
): void {
  f.if(block.count.eq(0), () => f.set(block.first, column));
  for (const { memory, columns } of lists) {
    const at = f.let(memory.add(block.count.shl(4)));
    columns.forEach((vector, c) => f.store(at, vector, 16 * c));
  }
  f.set(block.count, block.count.add(count));
}

/** The weights of a block: one for each of the four rows and each column, and the columns' place in their matrix. */
export interface Weighted {
  readonly block: Block;
  readonly memory: I32;
  /** The address of kept masks: pairs that do not see each other are dropped, whatever the row or column holds. */
  readonly seen: I32 | undefined;
  /** The address of the matrix of the columns, and the number of floats from one column to the next. */
  readonly columns: I32;
  readonly stride: I32;
}

/** results[r][d] = factor[r] · results[r][d] + Σ_c weights[c][r] · columns[c][d], columns in order. */
export function addColumns(
  f: FunctionBuilder,
  results: Pointers,
  { block, memory, seen, columns, stride }: Weighted,
  size: number,
  factors?: readonly F32x4[],
): void {
  const start = f.let(columns.at(block.first.mul(stride)));
  const step = f.let(stride.shl(2));
  forStrips(f, size, ({ vectors, at, read, write }) => {
    // Four rows by eight floats of the result stay in registers.
    const targets = results.map((row) => f.let(row.add(at)));
    const sums = targets.map((row, r) =>
      vectors.map((v) => f.let(factors === undefined ? read(row, v) : read(row, v).mul(factors[r]!))),
    );
    const column = f.let(start.add(at));
    forWeights(f, block, memory, seen, (weighted) => {
      const values = vectors.map((v) => f.let(read(column, v)));
      sums.forEach((row, r) => {
        const times = weighted(r);
        row.forEach((sum, v) => f.set(sum, sum.add(times(values[v]!))));
      });
      f.set(column, column.add(step));
    });
    targets.forEach((row, r) => vectors.forEach((v) => write(row, sums[r]![v]!, v)));
  });
}

/** columns[c][d] += Σ_r weights[c][r] · rows[r][d], rows in order. */
export function addRows(
  f: FunctionBuilder,
  rows: Pointers,
  { block, memory, seen, columns, stride }: Weighted,
  size: number,
): void {
  const start = f.let(columns.at(block.first.mul(stride)));
  const step = f.let(stride.shl(2));
  forStrips(f, size, ({ vectors, at, read, write }) => {
    const values = rows.map((row) => vectors.map((v) => f.let(read(row.add(at), v))));
    const column = f.let(start.add(at));
    forWeights(f, block, memory, seen, (weighted) => {
      const sums = vectors.map((v) => f.let(read(column, v)));
      values.forEach((row, r) => {
        const times = weighted(r);
        sums.forEach((sum, v) => f.set(sum, sum.add(times(row[v]!))));
      });
      vectors.forEach((v) => write(column, sums[v]!, v));
      f.set(column, column.add(step));
    });
  });
}

/** Visits the columns of a block: `weighted(r)` loads the weight of row r and returns the multiplication by it. */
function forWeights(
  f: FunctionBuilder,
  block: Block,
  memory: I32,
  seen: I32 | undefined,
  body: (weighted: (r: number) => (x: F32x4) => F32x4) => void,
): void {
  const weights = f.let(memory.add(0));
  const masks = seen && f.let(seen.add(0));
  f.for(0, block.count, 1, () => {
    body((r) => {
      const weight = f.let(load.splat(weights, 4 * r));
      if (masks === undefined) return (x) => x.mul(weight);
      const mask = f.let(load.splat(masks, 4 * r).asI32x4());
      return (x) => x.mul(weight).and(mask);
    });
    for (const at of masks ? [weights, masks] : [weights]) f.set(at, at.add(4 * TILE));
  });
}

/** A part of a head that is processed at once: whole vectors, or a single float in lane 0 of one. */
interface Strip {
  /** Numbers of the vectors. */
  readonly vectors: readonly number[];
  /** The offset of the strip in a row, in bytes. */
  readonly at: I32 | number;
  readonly read: (pointer: I32, vector: number) => F32x4;
  readonly write: (pointer: I32, value: F32x4, vector: number) => void;
}

/** Visits the strips of a head: eight floats at a time, then four, then single ones. */
function forStrips(f: FunctionBuilder, size: number, body: (strip: Strip) => void): void {
  const whole = (count: number, at: I32 | number): Strip => ({
    vectors: range(count),
    at,
    read: (pointer, v) => load.f32x4(pointer, 16 * v),
    write: (pointer, value, v) => f.store(pointer, value, 16 * v),
  });
  f.for(0, 4 * (size & -8), 32, (at) => body(whole(2, at)));
  if ((size & 4) !== 0) body(whole(1, 4 * (size & -8)));
  for (let d = size & -4; d < size; d++) {
    body({
      vectors: [0],
      at: 4 * d,
      read: (pointer) => load.lane0(pointer),
      write: (pointer, value) => f.storeLane(pointer, value, 0),
    });
  }
}

/** Fills a row with zeros. */
export function clearRow(f: FunctionBuilder, row: I32, size: number): void {
  alongHead(f, size, (_, write) => write(row, F32x4.of(0)));
}

/** row[d] *= factor (in all lanes). */
export function scaleRow(f: FunctionBuilder, row: Var<I32>, factor: F32x4, size: number): void {
  alongHead(f, size, (read, write) => write(row, read(row).mul(factor)));
}

/** The addresses of four rows from `first` on, `stride` floats apart; `spare` stands for rows beyond the last. */
export function rowPointers(
  f: FunctionBuilder,
  base: I32,
  first: I32,
  stride: I32,
  count: I32,
  spare: I32,
): Var<I32>[] {
  return range(TILE).map((r) => {
    const row = first.add(r);
    return f.let(select(row.lt(count), base.at(row.mul(stride)), spare));
  });
}

/** The addresses of four rows or columns from `first` on. With `count`, the last one stands for those beyond it. */
export function neighbours(f: FunctionBuilder, base: I32, first: I32, stride: I32, count?: I32): Var<I32>[] {
  if (count) return range(TILE).map((c) => f.let(base.at(first.add(c).min(count.sub(1)).mul(stride))));
  const step = f.let(stride.shl(2));
  const pointers = [f.let(base.at(first.mul(stride)))];
  while (pointers.length < TILE) pointers.push(f.let(pointers.at(-1)!.add(step)));
  return pointers;
}

/** The first query head of a kv head is ⌈kv·H/Hkv⌉, the smallest h with ⌊h·Hkv/H⌋ = kv. */
export const firstHead = (kv: I32, heads: I32, kvHeads: I32): I32 => kv.mul(heads).add(kvHeads).sub(1).divU(kvHeads);
