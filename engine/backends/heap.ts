/**
 * The buffers of an executor with one memory of limited size, as WebAssembly's is (4 GiB, what 32-bit addresses reach),
 * and what does not fit into it.
 *
 * A buffer that programs only read may be moved out: when the memory is full, `alloc` moves such buffers, those that
 * were declared first before the others, into storage outside until there is room. A program that reads one of them
 * gets a copy, which is a temporary of that program (`within`). Programs and kernels know nothing of it, so the bits
 * are the same. A buffer that was moved out stays there, so that a model whose weights are read in turn, step after
 * step, has a fixed part of them inside.
 *
 * Nothing here touches a byte: that is for the executor (`HeapBytes`), and for the counting one not even that.
 */
import { check, fail, OutOfMemoryError } from "../errors.ts";
import { Allocator } from "./allocator.ts";
import type { Buffer } from "./backend.ts";

/** Storage in the memory, or outside of it as an `Outside`. */
export interface HeapBuffer<Outside> extends Buffer {
  /** Where it begins in the memory, in bytes; `undefined` when it was moved out, or freed. */
  offset: number | undefined;
  /** Its bytes, if it was moved out. */
  outside?: Outside | undefined;
  /** Where the block of memory begins that it lies in. */
  block: number;
  readonly owner: object;
  /** What it is a part of. */
  readonly whole?: HeapBuffer<Outside>;
  /** How many live parts it has: its storage stays until it is freed and they are. */
  parts?: number;
  /** Where it began, once it is freed while parts live. */
  shelvedAt?: number;
}

/** What a heap asks of the executor, which has the bytes. */
export interface HeapBytes<Outside> {
  /** Whether the memory reaches to `end`, grown if need be. */
  reserve(end: number): boolean;
  /** Returns when everything enqueued is done: blocks are cut anew, or read. @throws the first failure */
  settle(): void;
  /** A copy outside of what is there; `undefined` if the system has no room for one. */
  copyOut(offset: number, bytes: number): Outside | undefined;
  /** Writes a copy into a buffer, ordered with the programs before and after. */
  copyIn(buffer: HeapBuffer<Outside>, outside: Outside): void;
}

/** Buffers of one memory. */
export class Heap<Outside> {
  /** Bytes and buffers that are not freed, those outside included; the most bytes so far. */
  readonly live = { bytes: 0, buffers: 0, peak: 0 };
  /** Bytes outside, and the most so far. */
  readonly outside = { bytes: 0, peak: 0 };
  readonly allocator: Allocator;
  readonly #name: string;
  readonly #bytes: HeapBytes<Outside>;
  /** What may be moved out, in the order in which it will be. */
  readonly #movable = new Set<HeapBuffer<Outside>>();
  /** What stays, because a program is about to run on it. */
  #wanted: readonly Buffer[] = [];
  #disposed = false;

  /** @param name of the executor, for errors */
  constructor(name: string, allocator: Allocator, bytes: HeapBytes<Outside>) {
    this.#name = name;
    this.allocator = allocator;
    this.#bytes = bytes;
  }

  alloc(bytes: number): HeapBuffer<Outside> {
    const offset = this.#place(bytes);
    const { live } = this;
    live.bytes += bytes;
    live.buffers++;
    live.peak = Math.max(live.peak, live.bytes);
    return { bytes, offset, block: offset, owner: this };
  }

  part(whole: Buffer, offset: number, bytes: number): HeapBuffer<Outside> {
    check(offset + bytes <= whole.bytes, () => `${this.#name}: part: ${bytes} bytes at ${offset} of ${whole.bytes}`);
    const own = this.own(whole, "part");
    this.#moveIn(own);
    const start = this.offsetOf(own, "part");
    const root = own.whole ?? own;
    root.parts = (root.parts ?? 0) + 1;
    return { bytes, offset: start + offset, block: root.block, owner: this, whole: root };
  }

  free(buffer: Buffer): void {
    if (this.#disposed) return; // gone with the backend
    const own = this.own(buffer, "free");
    const { whole, offset } = own;
    own.offset = undefined;
    if (offset === undefined) {
      own.outside = undefined;
      this.outside.bytes -= own.bytes;
      this.#uncount(own);
    } else if (whole !== undefined) {
      whole.parts!--;
      if (whole.parts === 0 && whole.shelvedAt !== undefined) this.#shelve(whole, whole.shelvedAt);
    } else if ((own.parts ?? 0) > 0) own.shelvedAt = offset;
    else this.#shelve(own, offset);
  }

  /** Whether programs only read it from now on; see `Backend.readOnly`. */
  readOnly(buffer: Buffer, is: boolean): void {
    const own = this.own(buffer, "readOnly");
    if (!is) {
      this.#moveIn(own);
      this.#movable.delete(own);
    } else if (own.whole === undefined && own.outside === undefined) this.#movable.add(own);
  }

  /** The buffers as a program finds them in the memory: instead of one outside a copy, which joins `temps`. */
  within(buffers: readonly Buffer[], temps: Buffer[]): readonly Buffer[] {
    if (this.outside.bytes === 0) return buffers;
    this.#wanted = buffers;
    try {
      return buffers.map((buffer) => {
        const { outside } = this.own(buffer, "run");
        if (outside === undefined) return buffer;
        const copy = this.alloc(buffer.bytes);
        temps.push(copy);
        this.#bytes.copyIn(copy, outside);
        return copy;
      });
    } finally {
      this.#wanted = [];
    }
  }

  /** A buffer of this heap that is not freed. */
  own(buffer: Buffer, what: string): HeapBuffer<Outside> {
    check(!this.#disposed, () => `${this.#name}: the backend was used after dispose()`);
    const own = buffer as HeapBuffer<Outside>;
    check(own.owner === this, () => `${this.#name}: ${what}: the buffer belongs to another backend`);
    const isLive = own.offset !== undefined || own.outside !== undefined;
    check(isLive, () => `${this.#name}: ${what}: the buffer of ${buffer.bytes} bytes was freed before`);
    return own;
  }

  /** Of a buffer in the memory. */
  offsetOf(buffer: Buffer, what: string): number {
    return this.own(buffer, what).offset ?? fail(`${this.#name}: ${what}: the buffer lies outside of the memory`);
  }

  dispose(): void {
    this.#disposed = true;
    this.#movable.clear();
    Object.assign(this.live, { bytes: 0, buffers: 0 });
    this.outside.bytes = 0;
  }

  /** Where a block for `bytes` begins. Moves out what may be, until there is one. */
  #place(bytes: number): number {
    check(!this.#disposed, () => `${this.#name}: the backend was used after dispose()`);
    for (;;) {
      const { misses } = this.allocator;
      const offset = this.allocator.alloc(bytes);
      if (this.allocator.misses !== misses) {
        try {
          this.#bytes.settle(); // blocks may have been cut anew
        } catch (error) {
          if (offset !== undefined) this.allocator.free(offset, bytes);
          throw error;
        }
      }
      if (offset !== undefined && this.#bytes.reserve(this.allocator.top)) return offset;
      if (offset !== undefined) this.allocator.free(offset, bytes);
      if (bytes <= this.allocator.limit && this.#moveOut()) continue;
      const { bytes: live, buffers } = this.live;
      const limit = offset === undefined ? `the limit is ${this.allocator.limit}` : "the system gives no more";
      const outside = this.outside.bytes === 0 ? "" : `, ${this.outside.bytes} of them outside of the memory`;
      throw new OutOfMemoryError(
        `${this.#name}: out of memory: asked for ${bytes} bytes, ${live} are live in ${buffers} buffers${outside}, ` +
          limit,
      );
    }
  }

  /** Moves the first buffer out that may be; whether there was one, and room for it. */
  #moveOut(): boolean {
    for (const own of this.#movable) {
      if (own.offset === undefined || (own.parts ?? 0) > 0 || this.#wanted.includes(own)) continue;
      this.#bytes.settle();
      const outside = this.#bytes.copyOut(own.offset, own.bytes);
      if (outside === undefined) return false;
      this.allocator.free(own.offset, own.bytes);
      own.offset = undefined;
      own.outside = outside;
      this.#movable.delete(own);
      this.outside.bytes += own.bytes;
      this.outside.peak = Math.max(this.outside.peak, this.outside.bytes);
      return true;
    }
    return false;
  }

  /** Into the memory, and to stay there. */
  #moveIn(own: HeapBuffer<Outside>): void {
    const { outside, bytes } = own;
    if (outside === undefined) return;
    own.offset = own.block = this.#place(bytes);
    own.outside = undefined;
    this.outside.bytes -= bytes;
    this.#bytes.copyIn(own, outside);
  }

  #shelve(own: HeapBuffer<Outside>, start: number): void {
    this.allocator.free(start, own.bytes);
    this.#uncount(own);
  }

  #uncount(own: HeapBuffer<Outside>): void {
    this.#movable.delete(own);
    this.live.bytes -= own.bytes;
    this.live.buffers--;
  }
}
