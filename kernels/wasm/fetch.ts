/** Memory that is brought into the cache before it is worked on. */
import { type FunctionBuilder, type I32, load } from "./assembler.ts";

/** Bytes of a cache line, and lines that one turn of the loop asks for. */
const LINE = 64;
const LINES = 8;

/**
 * A matrix of more weights than this is one of a model that no cache holds. What is smaller may well be in the cache,
 * where fetching costs a product with one row up to two fifths of its time.
 */
const FETCHED_ABOVE = 2 ** 18;
/** What is fetched at a time: a part of the second-level cache, and enough for the processor's prefetching to run. */
const FETCH_BYTES = 2 ** 16;

/**
 * How many rows of a matrix are fetched at a time, a power of two, at least 4; 0: the matrix is small, and nothing is
 * fetched.
 */
export function fetchedRows(rows: number, columns: number, rowBytes: number): number {
  if (rows * columns <= FETCHED_ABOVE) return 0;
  return Math.max(4, 2 ** Math.floor(Math.log2(FETCH_BYTES / rowBytes)));
}

/**
 * Reads one word of each line of a stretch of memory, in its order, and uses none. Tiles read several rows of a matrix
 * at once, and with few rows on the other side they wait for memory most of the time; loads that nothing depends on
 * wait together. What is left at the end, less than `LINES` lines, comes when it is needed.
 */
export function fetch(f: FunctionBuilder, from: I32, bytes: I32): void {
  const at = f.let(from);
  f.for(0, bytes.divU(LINE * LINES), 1, () => {
    for (let line = 0; line < LINES; line++) f.let(load.i32(at, line * LINE));
    f.set(at, at.add(LINE * LINES));
  });
}
