/**
 * The buffers of an executor with one memory of limited size, such as WebAssembly's (4 GiB, the reach of 32-bit
 * addresses), and storage outside for buffers that do not fit into it.
 *
 * A buffer that programs only read may be moved out: when the memory is full, `alloc` moves such buffers into storage
 * outside until there is room, in the order in which they were declared read-only. A program that reads one of them
 * gets a copy, which is a temporary of that program (`within`). Programs and kernels know nothing of it, so the bits
 * are the same. A buffer that was moved out stays there, so that a model whose weights are read in turn, step after
 * step, has a fixed part of them inside.
 *
 * Nothing here touches a byte: the executor does (`HeapBytes`), and the counting one has no bytes.
 */
import { check, fail, OutOfMemoryError } from "../errors.ts";
import { Allocator } from "./allocator.ts";
import type { Buffer } from "./backend.ts";

/** Storage in the memory, or outside of it as an `Outside`. */
export interface HeapBuffer<Outside> extends Buffer {
  /** Its offset in the memory, in bytes; `undefined` when it was moved out, or freed. */
  offset: number | undefined;
  /** Its bytes, if it was moved out. */
  outside?: Outside | undefined;
  /** The offset of the block of memory that it lies in. */
  block: number;
  readonly owner: object;
  /** The buffer that it is a part of. */
  readonly whole?: HeapBuffer<Outside>;
  /** The number of its live parts: its storage stays until it and they are freed. */
  parts?: number;
  /** Its last offset, if it was freed while parts live. */
  shelvedAt?: number;
}

/** The calls of a heap to the executor, which has the bytes. */
export interface HeapBytes<Outside> {
  /** Grows the memory to `end` if need be; returns whether it reaches there. */
  reserve(end: number): boolean;
  /** Returns when everything enqueued is done, before blocks are cut anew or read. @throws the first failure */
  settle(): void;
  /** A copy of these bytes outside the memory; `undefined` if the system has no room for one. */
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
  /** The buffers that may be moved out, in this order. */
  readonly #movable = new Set<HeapBuffer<Outside>>();
  /** The buffers that must stay, because a program is about to run on them. */
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
    const held = this.checked(whole, "part");
    this.#moveIn(held);
    const start = this.offsetOf(held, "part");
    const root = held.whole ?? held;
    root.parts = (root.parts ?? 0) + 1;
    return { bytes, offset: start + offset, block: root.block, owner: this, whole: root };
  }

  free(buffer: Buffer): void {
    if (this.#disposed) return; // gone with the backend
    const held = this.checked(buffer, "free");
    const { whole, offset } = held;
    held.offset = undefined;
    if (offset === undefined) {
      held.outside = undefined;
      this.outside.bytes -= held.bytes;
      this.#uncount(held);
    } else if (whole !== undefined) {
      whole.parts!--;
      if (whole.parts === 0 && whole.shelvedAt !== undefined) this.#shelve(whole, whole.shelvedAt);
    } else if ((held.parts ?? 0) > 0) held.shelvedAt = offset;
    else this.#shelve(held, offset);
  }

  /** Declares whether programs only read the buffer from now on; see `Backend.readOnly`. */
  readOnly(buffer: Buffer, is: boolean): void {
    const held = this.checked(buffer, "readOnly");
    if (!is) {
      this.#moveIn(held);
      this.#movable.delete(held);
    } else if (held.whole === undefined && held.outside === undefined) this.#movable.add(held);
  }

  /** The buffers of a program, all in the memory: one that lies outside is replaced by a copy, which joins `temps`. */
  within(buffers: readonly Buffer[], temps: Buffer[]): readonly Buffer[] {
    if (this.outside.bytes === 0) return buffers;
    this.#wanted = buffers;
    try {
      return buffers.map((buffer) => {
        const { outside } = this.checked(buffer, "run");
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

  /** The buffer. @throws if it is not of this heap, or was freed */
  checked(buffer: Buffer, what: string): HeapBuffer<Outside> {
    check(!this.#disposed, () => `${this.#name}: the backend was used after dispose()`);
    const held = buffer as HeapBuffer<Outside>;
    check(held.owner === this, () => `${this.#name}: ${what}: the buffer belongs to another backend`);
    const isLive = held.offset !== undefined || held.outside !== undefined;
    check(isLive, () => `${this.#name}: ${what}: the buffer of ${buffer.bytes} bytes was freed before`);
    return held;
  }

  /** The offset of a buffer in the memory. */
  offsetOf(buffer: Buffer, what: string): number {
    return this.checked(buffer, what).offset ?? fail(`${this.#name}: ${what}: the buffer lies outside of the memory`);
  }

  dispose(): void {
    this.#disposed = true;
    this.#movable.clear();
    Object.assign(this.live, { bytes: 0, buffers: 0 });
    this.outside.bytes = 0;
  }

  /** The offset of a block for `bytes`. Moves buffers out until there is one. */
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

  /** Moves out the first buffer that may be; returns whether there was one, and room for it. */
  #moveOut(): boolean {
    for (const held of this.#movable) {
      if (held.offset === undefined || (held.parts ?? 0) > 0 || this.#wanted.includes(held)) continue;
      this.#bytes.settle();
      const outside = this.#bytes.copyOut(held.offset, held.bytes);
      if (outside === undefined) return false;
      this.allocator.free(held.offset, held.bytes);
      held.offset = undefined;
      held.outside = outside;
      this.#movable.delete(held);
      this.outside.bytes += held.bytes;
      this.outside.peak = Math.max(this.outside.peak, this.outside.bytes);
      return true;
    }
    return false;
  }

  /** Moves a buffer into the memory, to stay there. */
  #moveIn(held: HeapBuffer<Outside>): void {
    const { outside, bytes } = held;
    if (outside === undefined) return;
    held.offset = held.block = this.#place(bytes);
    held.outside = undefined;
    this.outside.bytes -= bytes;
    this.#bytes.copyIn(held, outside);
  }

  #shelve(held: HeapBuffer<Outside>, start: number): void {
    this.allocator.free(start, held.bytes);
    this.#uncount(held);
  }

  #uncount(held: HeapBuffer<Outside>): void {
    this.#movable.delete(held);
    this.live.bytes -= held.bytes;
    this.live.buffers--;
  }
}
