/**
 * The bookkeeping of bounded staleness: which episodes may be begun, and which finished ones a step learns from. It
 * counts units (a group, or all groups of a step), which are numbered by tickets. A step takes `batch` units.
 *
 * - Tickets below (version + maxStaleness + 1)·batch may be begun; later ones would be too old when their step comes
 *   (AReaL's rate limit, Fu et al. 2025, arXiv 2505.24298, eq. 3). So workers wait if they would get too far ahead.
 * - A step takes the lowest finished tickets, in their order. A slow unit does not hold up a step while others are
 *   finished.
 * - A unit with a token that is older than maxStaleness is never taken: it expires, and its ticket is begun again.
 *
 * With maxStaleness 0, step n learns from tickets n·batch … (n + 1)·batch − 1, all played by version n.
 */
import { check } from "../../engine/errors.ts";

/**
 * Options of `StalenessQueue`: how many units a step takes, how old their tokens may be, and in which order they are
 * taken.
 */
export interface QueueOptions {
  /** The number of units that a step takes. */
  readonly batch: number;
  /** The number of steps by which a unit's oldest token may be older than the step that learns from it. */
  readonly maxStaleness: number;
  /**
   * True: every step waits for its own tickets, from version·batch on. Default false: it takes the lowest finished
   * ones.
   */
  readonly inOrder?: boolean;
  /** The number of steps that are done already; default 0. */
  readonly startVersion?: number;
}

/** A unit that has been played. */
export interface Finished<T> {
  readonly ticket: number;
  readonly value: T;
  /** The oldest version that drew one of its tokens. */
  readonly oldest: number;
}

/** The queue of units between rollout workers and learner. */
export class StalenessQueue<T> {
  readonly #batch: number;
  readonly #maxStaleness: number;
  readonly #inOrder: boolean;
  #version: number;
  #next: number;
  /** Tickets that are begun and not finished. */
  readonly #begun = new Set<number>();
  /** Finished units, lowest ticket first. */
  #finished: Finished<T>[] = [];

  constructor({ batch, maxStaleness, inOrder = false, startVersion = 0 }: QueueOptions) {
    check(Number.isInteger(batch) && batch >= 1, () => `StalenessQueue: batch must be an integer ≥ 1, got ${batch}`);
    check(
      Number.isInteger(maxStaleness) && maxStaleness >= 0,
      () => `maxStaleness must be an integer ≥ 0, got ${maxStaleness}`,
    );
    this.#batch = batch;
    this.#maxStaleness = maxStaleness;
    this.#inOrder = inOrder;
    this.#version = startVersion;
    this.#next = startVersion * batch;
  }

  /** The number of steps that have been learnt. */
  get version(): number {
    return this.#version;
  }
  /** The number of finished units that no step has taken. */
  get length(): number {
    return this.#finished.length;
  }
  /** The number of units that are being played. */
  get playing(): number {
    return this.#begun.size;
  }

  /** The tickets to begin now, in order. @param last the last ticket of the run */
  admit(last: number = Infinity): number[] {
    const tickets: number[] = [];
    const end = Math.min(last + 1, (this.#version + this.#maxStaleness + 1) * this.#batch);
    while (this.#next < end) tickets.push(this.#next++);
    for (const ticket of tickets) this.#begun.add(ticket);
    return tickets;
  }

  /** Adds a finished unit. @throws if its ticket has not been begun, or is finished already */
  push(unit: Finished<T>): void {
    check(this.#begun.delete(unit.ticket), () => `StalenessQueue: unit ${unit.ticket} is not being played`);
    this.#finished.push(unit);
    this.#finished.sort((a, b) => a.ticket - b.ticket);
  }

  /** Removes and returns the units that have become too old. Their tickets count as begun again. */
  expire(): Finished<T>[] {
    const old = this.#finished.filter(({ oldest }) => this.#version - oldest > this.#maxStaleness);
    if (old.length === 0) return [];
    this.#finished = this.#finished.filter((unit) => !old.includes(unit));
    for (const { ticket } of old) this.#begun.add(ticket);
    return old;
  }

  /** The units of the next step, if there are enough. @throws if one has expired; call `expire` first */
  take(): Finished<T>[] | undefined {
    if (this.#finished.length < this.#batch) return undefined;
    const taken = this.#finished.slice(0, this.#batch);
    if (this.#inOrder && taken.at(-1)!.ticket >= (this.#version + 1) * this.#batch) return undefined;
    for (const { ticket, oldest } of taken) {
      check(
        this.#version - oldest <= this.#maxStaleness,
        () => `StalenessQueue: unit ${ticket} has tokens of version ${oldest}, too old for version ${this.#version}`,
      );
    }
    this.#finished = this.#finished.slice(this.#batch);
    return taken;
  }

  /** Counts a step that has been learnt. */
  advance(): void {
    this.#version++;
  }
}
