/** The output of one command as it arrives: its first and last bytes, in bounded memory. */

/** Collects what stands between a first mark and the last one, and keeps about `most` bytes of it. */
export class CommandOutput {
  readonly #mark: Buffer;
  readonly #half: number;
  /** The first bytes, up to `most`. */
  readonly #head: Buffer[] = [];
  #headBytes = 0;
  /** The last bytes that have come, as many as a mark that two pieces share. */
  #tail: Buffer = Buffer.alloc(0);
  /** The last pieces: at least `half` bytes before the next mark, if so many have come. */
  readonly #recent: Buffer[] = [];
  #recentBytes = 0;
  #hasBegun = false;
  /** The bytes after the first mark. */
  #total = 0;
  /** The number of bytes before the last mark, and the last half of those that are shown. */
  #end: { readonly at: number; readonly last: Buffer } | undefined;

  /** @param most bytes that are shown, the line about those left out not counted */
  constructor(mark: string, most: number) {
    this.#mark = Buffer.from(mark);
    this.#half = Math.ceil(most / 2);
  }

  add(piece: Buffer): void {
    const seen = Buffer.concat([this.#tail, piece]);
    if (!this.#hasBegun) {
      // What comes before the first mark is the output of a job in the background, which nobody asked for now.
      const at = seen.indexOf(this.#mark);
      this.#hasBegun = at >= 0;
      this.#tail = this.#hasBegun ? Buffer.alloc(0) : Buffer.from(seen.subarray(-this.#mark.length));
      if (this.#hasBegun) this.add(seen.subarray(at + this.#mark.length));
      return;
    }
    const begun = piece.subarray(0, 2 * this.#half - this.#headBytes);
    this.#head.push(begun);
    this.#headBytes += begun.length;
    this.#recent.push(piece);
    this.#recentBytes += piece.length;
    // A command may know the mark, so that a later one is as good as an earlier one until the exit code has come.
    const found = seen.lastIndexOf(this.#mark);
    if (found >= 0) {
      const at = this.#total - this.#tail.length + found;
      const recent = Buffer.concat(this.#recent);
      const last = recent.subarray(0, recent.length - (this.#total + piece.length - at)).subarray(-this.#half);
      this.#end = { at, last: Buffer.from(last) };
    }
    this.#total += piece.length;
    this.#tail = Buffer.from(seen.subarray(-this.#mark.length));
    while (this.#recentBytes - this.#recent[0]!.length >= this.#half + this.#mark.length)
      this.#recentBytes -= this.#recent.shift()!.length;
  }

  /** The bytes that have come after the first mark. */
  get total(): number {
    return this.#total;
  }

  /** Whether the last mark has come. */
  get hasEnded(): boolean {
    return this.#end !== undefined;
  }

  #shown(): { readonly first: Buffer; readonly leftOut: number; readonly last: Buffer } {
    const { at, last } = this.#end ?? { at: this.#total, last: Buffer.concat(this.#recent).subarray(-this.#half) };
    const head = Buffer.concat(this.#head);
    if (at <= 2 * this.#half) return { first: head.subarray(0, at), leftOut: 0, last: Buffer.alloc(0) };
    return { first: head.subarray(0, this.#half), leftOut: at - 2 * this.#half, last };
  }

  /** The text; bytes that are no UTF-8 are shown as U+FFFD, and NUL bytes are dropped, as a terminal does. */
  text(): string {
    const { first, leftOut, last } = this.#shown();
    const cut = leftOut > 0 ? `\n[... ${leftOut} bytes ...]\n` : "";
    return `${first.toString("utf8")}${cut}${last.toString("utf8")}`.replaceAll("\0", "");
  }

  /** All bytes; undefined if some were left out. */
  bytes(): Buffer | undefined {
    const { first, leftOut } = this.#shown();
    return leftOut > 0 ? undefined : first;
  }
}
