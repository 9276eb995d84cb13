/**
 * Which episodes may be begun, and which of the finished ones a step learns from: the bookkeeping of bounded staleness, without any
 * episode in it. Units (a group, or a whole step's groups) are numbered by tickets; a step takes `batch` units.
 *
 * - Begun are the tickets below (version + maxStaleness + 1)·batch: more would be too old when their turn comes (AReaL's rate limit, Fu
 *   et al. 2025, arXiv 2505.24298, eq. 3). So workers wait when they would run too far ahead.
 * - Taken are the lowest tickets that are finished, in their order. A unit that takes long holds nobody up while others are finished.
 * - A unit of which a token is older than maxStaleness is never taken: it expires, and the ticket is begun again.
 *
 * With maxStaleness 0 that leaves one possibility: step n learns from tickets n·batch … (n + 1)·batch − 1, all played by version n.
 */
import { check } from "../../engine/errors.ts";

export interface QueueOptions {
  /** Units that a step takes. */
  readonly batch: number;
  /** Steps that the oldest token of a unit may be behind the step that learns from it. */
  readonly maxStaleness: number;
  /** Every step takes its own tickets, version·batch and following, however long they take; default false: whichever are finished. */
  readonly inOrder?: boolean;
  /** Steps that are done already; default 0. */
  readonly startVersion?: number;
}

/** A unit that has been played. */
export interface Finished<T> {
  readonly ticket: number;
  readonly value: T;
  /** The oldest version that drew one of its tokens. */
  readonly oldest: number;
}

export class StalenessQueue<T> {
  readonly #batch: number;
  readonly #maxStaleness: number;
  readonly #inOrder: boolean;
  #version: number;
  #next: number;
  /** Begun and not finished. */
  readonly #begun = new Set<number>();
  /** By ticket, lowest first. */
  #finished: Finished<T>[] = [];

  constructor({ batch, maxStaleness, inOrder = false, startVersion = 0 }: QueueOptions) {
    check(Number.isInteger(batch) && batch >= 1, () => `StalenessQueue: batch must be an integer ≥ 1, got ${batch}`);
    check(Number.isInteger(maxStaleness) && maxStaleness >= 0, () => `maxStaleness must be an integer ≥ 0, got ${maxStaleness}`); // prettier-ignore
    this.#batch = batch;
    this.#maxStaleness = maxStaleness;
    this.#inOrder = inOrder;
    this.#version = startVersion;
    this.#next = startVersion * batch;
  }

  /** Steps that have been learnt. */
  get version(): number {
    return this.#version;
  }
  /** Finished units that nobody has taken. */
  get length(): number {
    return this.#finished.length;
  }
  /** Units that are being played. */
  get playing(): number {
    return this.#begun.size;
  }

  /** Tickets to begin now, in order. @param last units above this one are not begun: the run will be over */
  admit(last: number = Infinity): number[] {
    const tickets: number[] = [];
    const end = Math.min(last + 1, (this.#version + this.#maxStaleness + 1) * this.#batch);
    while (this.#next < end) tickets.push(this.#next++);
    for (const ticket of tickets) this.#begun.add(ticket);
    return tickets;
  }

  /** A unit is finished. @throws if its ticket has not been begun, or was finished before */
  push(unit: Finished<T>): void {
    check(this.#begun.delete(unit.ticket), () => `StalenessQueue: unit ${unit.ticket} is not being played`);
    this.#finished.push(unit);
    this.#finished.sort((a, b) => a.ticket - b.ticket);
  }

  /** Removes what has become too old. Its tickets count as begun again. */
  expire(): Finished<T>[] {
    const old = this.#finished.filter(({ oldest }) => this.#version - oldest > this.#maxStaleness);
    if (old.length === 0) return [];
    this.#finished = this.#finished.filter((unit) => !old.includes(unit));
    for (const { ticket } of old) this.#begun.add(ticket);
    return old;
  }

  /** The units of the next step, if there are enough. @throws if one has expired: ask `expire` first */
  take(): Finished<T>[] | undefined {
    if (this.#finished.length < this.#batch) return undefined;
    const taken = this.#finished.slice(0, this.#batch);
    if (this.#inOrder && taken.at(-1)!.ticket >= (this.#version + 1) * this.#batch) return undefined;
    for (const { ticket, oldest } of taken) {
      check(this.#version - oldest <= this.#maxStaleness, () => `StalenessQueue: unit ${ticket} has tokens of version ${oldest}, too old for version ${this.#version}`); // prettier-ignore
    }
    this.#finished = this.#finished.slice(this.#batch);
    return taken;
  }

  /** A step has been learnt. */
  advance(): void {
    this.#version++;
  }
}
