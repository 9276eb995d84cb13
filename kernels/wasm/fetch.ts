/** Memory that is brought into the cache before it is used. */
import { type FunctionBuilder, type I32, load } from "./assembler.ts";

/** The bytes of a cache line, and the lines that one turn of the loop loads. */
const LINE = 64;
const LINES = 8;

/**
 * The number of weights above which a matrix is fetched: its model fits into no cache. A smaller one may well be in the
 * cache, where fetching costs a product with one row up to two fifths of its time.
 */
const FETCHED_ABOVE = 2 ** 18;
/** The bytes fetched at a time: a part of the second-level cache, and enough for the processor's prefetching. */
const FETCH_BYTES = 2 ** 16;

/**
 * The number of rows of a matrix that are fetched at a time, a power of two, at least 4; 0 for a small matrix, which is
 * not fetched.
 */
export function fetchedRows(rows: number, columns: number, rowBytes: number): number {
  if (rows * columns <= FETCHED_ABOVE) return 0;
  return Math.max(4, 2 ** Math.floor(Math.log2(FETCH_BYTES / rowBytes)));
}

/**
 * Reads one word of each line of a stretch of memory, in its order, and drops it. Tiles read several rows of a matrix
 * at once, and with few rows on the other side they wait for memory most of the time; loads that nothing depends on
 * wait together. The rest at the end, less than `LINES` lines, comes when it is needed.
 */
export function fetch(f: FunctionBuilder, from: I32, bytes: I32): void {
  const at = f.let(from);
  f.for(0, bytes.divU(LINE * LINES), 1, () => {
    for (let line = 0; line < LINES; line++) f.let(load.i32(at, line * LINE));
    f.set(at, at.add(LINE * LINES));
  });
}
