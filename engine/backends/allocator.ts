/**
 * An allocator over one growing range of bytes: size classes, four to an octave, with one last-in-first-out list of
 * free blocks per class, so that a loop that asks for the same sizes in the same order gets the same addresses every
 * time. When nothing fits any more, free neighbours are merged once and cut anew. It hands out offsets and never
 * touches memory.
 */

/** Blocks begin at multiples of this: a cache line. */
const ALIGNMENT = 64;

/**
 * The smallest size class that holds `bytes`: 64·n up to 256, then 4, 5, 6, 7 times a power of two (at most a quarter
 * unused).
 */
export function sizeClass(bytes: number): number {
  const lines = Math.max(1, Math.ceil(bytes / ALIGNMENT));
  if (lines <= 4) return lines * ALIGNMENT;
  const step = 2 ** (Math.floor(Math.log2(lines - 1)) - 2); // lines ∈ (4·step, 8·step]
  return Math.ceil(lines / step) * step * ALIGNMENT;
}

interface Range {
  start: number;
  end: number;
}

export class Allocator {
  readonly limit: number;
  /** Everything from here to the limit was never given out, or was merged back. */
  #top = 0;
  readonly #free = new Map<number, number[]>();
  /** Merged free space below `#top`, by address. */
  #ranges: Range[] = [];
  /** Requests that a free block of the class met, and those for which one was cut. */
  hits = 0;
  misses = 0;

  /** @param limit bytes that may be given out */
  constructor(limit: number) {
    this.limit = limit;
  }

  /** The end of the highest block given out so far. */
  get top(): number {
    return this.#top;
  }

  /** The offset of a block of `sizeClass(bytes)` bytes; `undefined` when no free space is large enough. */
  alloc(bytes: number): number | undefined {
    const size = sizeClass(bytes);
    const free = this.#free.get(size)?.pop();
    if (free !== undefined) {
      this.hits++;
      return free;
    }
    this.misses++;
    return this.#cut(size) ?? (this.#merge() ? this.#cut(size) : undefined);
  }

  /** Takes back a block that `alloc(bytes)` gave. */
  free(offset: number, bytes: number): void {
    const size = sizeClass(bytes);
    const list = this.#free.get(size);
    if (list === undefined) this.#free.set(size, [offset]);
    else list.push(offset);
  }

  /** From the first merged range that is large enough, or from the top. */
  #cut(size: number): number | undefined {
    const index = this.#ranges.findIndex((range) => range.end - range.start >= size);
    if (index >= 0) {
      const range = this.#ranges[index]!;
      const offset = range.start;
      range.start += size;
      if (range.start === range.end) this.#ranges.splice(index, 1);
      return offset;
    }
    if (this.#top + size > this.limit) return undefined;
    this.#top += size;
    return this.#top - size;
  }

  /** Turns all free blocks into maximal ranges. False if there was nothing to merge. */
  #merge(): boolean {
    const blocks = [...this.#free].flatMap(([size, list]) =>
      list.map((start): Range => ({ start, end: start + size })),
    );
    if (blocks.length === 0) return false;
    this.#free.clear();
    const merged: Range[] = [];
    for (const block of [...this.#ranges, ...blocks].toSorted((a, b) => a.start - b.start)) {
      const last = merged[merged.length - 1];
      if (last !== undefined && last.end === block.start) last.end = block.end;
      else merged.push({ ...block });
    }
    if (merged[merged.length - 1]!.end === this.#top) this.#top = merged.pop()!.start;
    this.#ranges = merged;
    return true;
  }
}
