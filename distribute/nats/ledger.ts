/**
 * The state of the messages in stream `episodes`: learnt from, given to the learner, or not asked for yet. It decides
 * the checkpoint's list of messages, and the messages that may be deleted. It knows no server.
 *
 * A message that was learnt from stays in the stream until a checkpoint was saved after that, as long as there is room:
 * a learner that is killed and continues from its last checkpoint learns from it again, and nobody has to replay it.
 */
import { check } from "../../engine/errors.ts";

/** `stored`: nobody asked for it yet. `given`: the learner has it. `learnt`: a step learnt from it, or dropped it. */
export type MessageState = "stored" | "given" | "learnt";

/** A checkpoint's state: all messages up to `sequence` are done, and so are those in the list. */
export interface LedgerState {
  readonly sequence: number;
  readonly learnt: readonly number[];
}

/** Bytes that the server adds to a message: subject, id and sequence. */
const OVERHEAD = 256;

interface Entry {
  state: MessageState;
  readonly bytes: number;
}

/** The messages that are in the stream. */
export class Ledger {
  readonly #entries = new Map<number, Entry>();
  readonly #quota: { readonly messages: number; readonly bytes: number };
  #bytes = 0;
  #largest = 0;
  #newest = 0;
  /** The messages that are done according to the checkpoint before the last one. */
  #saved: ReadonlySet<number> = new Set();
  /** The state in the checkpoint that is being written. */
  #pending: LedgerState | undefined;
  #restored: LedgerState = { sequence: 0, learnt: [] };

  /** @param quota the limits of the stream */
  constructor(quota: { readonly messages: number; readonly bytes: number }) {
    this.#quota = quota;
  }

  /** Restores the state of a checkpoint, before any message is added. */
  restore(state: LedgerState): void {
    this.#restored = state;
    this.#newest = Math.max(this.#newest, state.sequence);
  }

  /** Forgets the checkpoint, because the stream has been replaced. */
  reset(): void {
    this.#restored = { sequence: 0, learnt: [] };
    this.#newest = 0;
  }

  /** Whether a message is done according to the checkpoint. */
  isDone(sequence: number): boolean {
    return sequence <= this.#restored.sequence || this.#restored.learnt.includes(sequence);
  }

  add(sequence: number, bytes: number, state: MessageState): void {
    this.#newest = Math.max(this.#newest, sequence);
    if (this.#entries.has(sequence)) return;
    const stored = bytes + OVERHEAD;
    this.#entries.set(sequence, { state, bytes: stored });
    this.#bytes += stored;
    this.#largest = Math.max(this.#largest, stored);
  }

  mark(sequence: number, state: MessageState): void {
    const entry = this.#entries.get(sequence);
    if (entry) entry.state = state;
  }

  remove(sequence: number): void {
    this.#bytes -= this.#entries.get(sequence)?.bytes ?? 0;
    this.#entries.delete(sequence);
  }

  get size(): number {
    return this.#entries.size;
  }

  /** The state for a checkpoint that is being written; what is done in it stays done. */
  save(): LedgerState {
    let sequence = this.#newest;
    const learnt: number[] = [];
    for (const [n, { state }] of this.#entries) {
      if (state === "learnt") learnt.push(n);
      else sequence = Math.min(sequence, n - 1);
    }
    return { sequence, learnt: learnt.filter((n) => n > sequence).sort((a, b) => a - b) };
  }

  /**
   * The messages to delete now. Nobody needs those that were learnt from before the checkpoint before the last one. If
   * the stream is more than half full, also those learnt from since, oldest first; if it is nearly full, also those
   * that the learner has or nobody asked for, which would be played again after a crash.
   */
  excess(): number[] {
    const doomed: number[] = [...this.#saved].filter((n) => this.#entries.get(n)?.state === "learnt");
    let [count, bytes] = [this.#entries.size, this.#bytes];
    const drop = (n: number): void => {
      count--;
      bytes -= this.#entries.get(n)!.bytes;
    };
    for (const n of doomed) drop(n);
    const known = new Set(doomed);
    const { messages: most, bytes: room } = this.#quota;
    const isHalfFull = (): boolean => count > most / 2 || bytes > room / 2;
    // True if the next two messages may not fit.
    const isNearlyFull = (): boolean => count >= 0.9 * most || bytes + 2 * this.#largest > room;
    for (const [over, state] of [
      [isHalfFull, "learnt"],
      [isNearlyFull, "stored"],
      [isNearlyFull, "given"],
    ] as const) {
      if (!over()) continue;
      const candidates = [...this.#entries].filter(([n, entry]) => entry.state === state && !known.has(n));
      for (const [n] of candidates.sort(([a], [b]) => a - b)) {
        if (!over()) break;
        doomed.push(n);
        drop(n);
      }
    }
    return doomed;
  }

  /** A checkpoint with `state` has been asked for, so the one before it is on disk. */
  saved(state: LedgerState): void {
    const before = this.#pending;
    this.#pending = state;
    if (before === undefined) return;
    const done = [...this.#entries.keys()].filter((n) => n <= before.sequence || before.learnt.includes(n));
    this.#saved = new Set(done);
  }
}

/** @throws if a checkpoint's state is malformed */
export function checkLedgerState(value: LedgerState): LedgerState {
  const { sequence, learnt } = value;
  const isFine = Number.isSafeInteger(sequence) && Array.isArray(learnt) && learnt.every(Number.isSafeInteger);
  check(isFine, () => "checkpoint: the state of the rollout workers is damaged");
  return value;
}
