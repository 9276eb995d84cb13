/**
 * An allocator over one growing range of bytes. A freed block goes to a last-in-first-out list of its size, so that a
 * loop that asks for the same sizes in the same order gets the same addresses every time. Sizes up to 4 MiB are rounded
 * to classes, four to an octave, so that lists are found again when shapes vary a little; larger blocks are rounded
 * only to 64 KiB, because a quarter of them would be too much to lose. Before the memory has to grow, free neighbours
 * are merged and cut anew. It hands out offsets and never touches memory.
 */

/** Blocks begin at multiples of this: a cache line. */
const ALIGNMENT = 64;
/** Above this many bytes there are no classes, and sizes are multiples of `LARGE_ALIGNMENT`. */
const LARGEST_CLASS = 4 * 2 ** 20;
const LARGE_ALIGNMENT = 65536;

/**
 * The size of a block for `bytes`. Up to 4 MiB: 64·n up to 256, then 4, 5, 6, 7 times a power of two (at most a quarter
 * unused). Above: the next multiple of 64 KiB.
 */
export function blockSize(bytes: number): number {
  if (bytes > LARGEST_CLASS) return Math.ceil(bytes / LARGE_ALIGNMENT) * LARGE_ALIGNMENT;
  const lines = Math.max(1, Math.ceil(bytes / ALIGNMENT));
  if (lines <= 4) return lines * ALIGNMENT;
  const step = 2 ** (Math.floor(Math.log2(lines - 1)) - 2); // lines ∈ (4·step, 8·step]
  return Math.ceil(lines / step) * step * ALIGNMENT;
}

interface Range {
  start: number;
  end: number;
}

/** A range of bytes, of which blocks are given out and taken back. */
export class Allocator {
  readonly limit: number;
  /** Bytes of memory that exist already. A block beyond them is given out only when none fits below. */
  reserved: number;
  /** The offset from which on nothing was given out, or was merged back. */
  #top = 0;
  readonly #free = new Map<number, number[]>();
  /** Whether a list of `#free` has a block. */
  #hasFree = false;
  /** Merged free space below `#top`, by address. */
  #ranges: Range[] = [];
  /** Requests that a free block of the same size served, and those for which a block was cut. */
  hits = 0;
  misses = 0;

  /** @param limit bytes that may be given out @param reserved bytes of memory that exist already */
  constructor(limit: number, reserved = 0) {
    this.limit = limit;
    this.reserved = reserved;
  }

  /** The end of the highest block given out so far. */
  get top(): number {
    return this.#top;
  }

  /** The offset of a block of `blockSize(bytes)` bytes; `undefined` when no free space is large enough. */
  alloc(bytes: number): number | undefined {
    const size = blockSize(bytes);
    const free = this.#free.get(size)?.pop();
    if (free !== undefined) {
      this.hits++;
      return free;
    }
    this.misses++;
    const cut = this.#cut(size, this.reserved);
    if (cut !== undefined) return cut;
    this.#merge();
    return this.#cut(size, this.reserved) ?? this.#cut(size, this.limit);
  }

  /** Takes back a block that `alloc(bytes)` gave. */
  free(offset: number, bytes: number): void {
    const size = blockSize(bytes);
    const list = this.#free.get(size);
    if (list === undefined) this.#free.set(size, [offset]);
    else list.push(offset);
    this.#hasFree = true;
  }

  /** A block cut from the smallest sufficient merged range (the lowest of these), or the top. @param end of the top */
  #cut(size: number, end: number): number | undefined {
    let index = -1;
    let best = Infinity;
    for (const [i, range] of this.#ranges.entries()) {
      const length = range.end - range.start;
      if (length >= size && length < best) [index, best] = [i, length];
    }
    if (index >= 0) {
      const range = this.#ranges[index]!;
      const offset = range.start;
      range.start += size;
      if (range.start === range.end) this.#ranges.splice(index, 1);
      return offset;
    }
    if (this.#top + size > Math.min(end, this.limit)) return undefined;
    this.#top += size;
    return this.#top - size;
  }

  /** Turns all free blocks into maximal ranges. */
  #merge(): void {
    if (!this.#hasFree) return;
    this.#hasFree = false;
    const blocks = this.#ranges;
    for (const [size, list] of this.#free) for (const start of list) blocks.push({ start, end: start + size });
    this.#free.clear();
    blocks.sort((a, b) => a.start - b.start);
    const merged: Range[] = [];
    for (const block of blocks) {
      const last = merged[merged.length - 1];
      if (last !== undefined && last.end === block.start) last.end = block.end;
      else merged.push(block);
    }
    if (merged[merged.length - 1]?.end === this.#top) this.#top = merged.pop()!.start;
    this.#ranges = merged;
  }
}
