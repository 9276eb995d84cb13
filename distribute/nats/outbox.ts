/**
 * Stores a worker's episodes in the stream. Messages have ids, so that one that is sent twice, because the server's
 * answer was lost, is stored once. If the stream is full, the worker waits (back-pressure).
 */
import { isFull, type Link, sha256 } from "./connection.ts";
import { type EpisodeMessage, episodeToBytes } from "./episodes.ts";
import { toJson } from "./json.ts";
import type { Queue } from "./queue.ts";

/** Milliseconds between two attempts to store in a full stream. */
const FULL_MS = 200;

/** Stores episodes. */
export class Outbox {
  readonly #link: Link;
  readonly #queue: Queue;
  /** The worker's part of the ids, so that no worker can use an id that another one will need. */
  readonly #worker: string;
  readonly #inline: number;
  readonly #isOver: () => boolean;
  readonly #note: (line: string) => void;
  #isFull = false;

  constructor(
    link: Link,
    queue: Queue,
    worker: string,
    inline: number | undefined,
    isOver: () => boolean,
    note: (line: string) => void,
  ) {
    this.#inline = inline ?? 0.9 * link.maxPayload; // the rest is for headers
    this.#link = link;
    this.#queue = queue;
    this.#worker = worker;
    this.#isOver = isOver;
    this.#note = note;
  }

  /** Whether an episode waits because there is no room for it. */
  get isFull(): boolean {
    return this.#isFull;
  }

  /** Stores a message; one that is too large for the server goes to the object store. Resolves when it is stored. */
  async send(message: EpisodeMessage): Promise<void> {
    const { js, names, large } = this.#queue;
    let bytes = episodeToBytes(message);
    const { run, life, configuration, key, turn, attempt, worker } = message;
    const id = sha256(toJson([run, life, key, turn, attempt, message.kind, this.#worker]));
    if (bytes.length > this.#inline) {
      const whole = bytes;
      await this.#insist(() => large.putBlob({ name: id }, whole));
      const name = { run, life, configuration, key, turn, attempt, worker };
      bytes = episodeToBytes({ ...name, kind: "object", object: id, sha256: sha256(whole), size: whole.length });
    }
    await this.#insist(() => js.publish(names.episodes.subject, bytes, { msgID: id }));
  }

  /** Runs `work` as soon as the server is there and has room. */
  async #insist(work: () => Promise<unknown>): Promise<void> {
    for (;;) {
      try {
        await this.#link.insist("an episode", work, this.#isOver);
        this.#isFull = false;
        return;
      } catch (error) {
        const { cause } = error as { readonly cause?: unknown };
        if (this.#isOver() || !isFull(cause)) throw error;
        if (!this.#isFull) this.#note("the server's stream of episodes is full; waiting for the learner");
        this.#isFull = true;
        await new Promise((resolve) => setTimeout(resolve, FULL_MS));
      }
    }
  }
}
