/**
 * The episodes that the learner asks for. The hash of its request, the key, identifies an episode, so that a learner
 * that was killed and continues finds what workers stored for it. The same request may be made again, if an episode got
 * too old and is played once more; the number of the repetition is its turn.
 */
import { type Job, toWire, type WireRequest } from "../async/messages.ts";
import { sha256 } from "./connection.ts";
import { toJson } from "./json.ts";

/** A requested episode. */
export interface Wanted {
  /** Its number in the pool. */
  readonly id: number;
  readonly key: string;
  readonly turn: number;
  readonly request: WireRequest;
  readonly sampling: Job["sampling"];
  readonly pinned: boolean;
  /** The version of the policy that it was requested from. */
  readonly version: number;
  /** The number of times that it was given out before. */
  attempt: number;
  /** The sequence number of its ticket in the stream; undefined while it has none. */
  ticket: number | undefined;
  /** The number of successive looks at which its ticket was gone. */
  missed: number;
  /** The number of its rollouts that have thrown. */
  failures: number;
}

/** A message of an earlier life that nobody has asked for yet. */
export interface StoredMessage {
  readonly sequence: number;
  readonly bytes: Uint8Array;
}

/** The requested episodes, and stored ones that were not requested yet. */
export class Requests {
  readonly #wanted = new Map<string, Wanted>();
  readonly #turns = new Map<string, number>();
  readonly #stored = new Map<string, StoredMessage[]>();

  /** Adds a request. @throws if it cannot be sent */
  ask(run: string, job: Job, version: number): Wanted {
    const { id, request, sampling, pinned } = toWire(job);
    const wire = request as WireRequest;
    const key = sha256(toJson([run, wire, sampling, pinned ? version : null]));
    const turn = this.#turns.get(key) ?? 0;
    this.#turns.set(key, turn + 1);
    const asked = { id, key, turn, request: wire, sampling, pinned, version };
    const wanted: Wanted = { ...asked, attempt: 0, ticket: undefined, missed: 0, failures: 0 };
    this.#wanted.set(nameOf(wanted), wanted);
    return wanted;
  }

  /** All that have not arrived. */
  get open(): readonly Wanted[] {
    return [...this.#wanted.values()];
  }

  find(name: { readonly key: string; readonly turn: number }): Wanted | undefined {
    return this.#wanted.get(nameOf(name));
  }

  isOpen(wanted: Wanted): boolean {
    return this.find(wanted) === wanted;
  }

  arrived(wanted: Wanted): void {
    this.#wanted.delete(nameOf(wanted));
  }

  /**
   * Keeps a message of an earlier life until somebody asks for it.
   * @returns the request for it, if there is one already
   */
  keep(key: string, message: StoredMessage): Wanted | undefined {
    const waiting = this.open.find((wanted) => wanted.key === key);
    if (waiting) return waiting;
    const known = this.#stored.get(key);
    if (known) known.push(message);
    else this.#stored.set(key, [message]);
    return undefined;
  }

  /** Takes out a message that was kept. */
  takeStored({ key }: Wanted): StoredMessage | undefined {
    const stored = this.#stored.get(key);
    const next = stored?.shift();
    if (stored?.length === 0) this.#stored.delete(key);
    return next;
  }
}

const nameOf = ({ key, turn }: { readonly key: string; readonly turn: number }): string => `${key}.${turn}`;

/** The names of episodes, for the id of a message. */
export const namesOfAll = (wanted: readonly Wanted[]): readonly string[] => wanted.map(nameOf);
