/** The device, the model and the rollout server that a worker keeps while the learner's setup stays the same. */
import type { FromWorker, Job } from "../async/messages.ts";
import { type Opened, openServer, type ServeOptions } from "../async/serve.ts";
import type { Link } from "./connection.ts";
import { type PolicyEntry, setupFromBytes, weightsFromBytes } from "./protocol.ts";
import { objectOf, type Queue } from "./queue.ts";

/** Access to the objects of a queue. */
interface Source {
  readonly link: Link;
  readonly queue: Queue;
  /** The largest number of bytes of an object. */
  readonly largest: number;
  /** Whether the worker has ended meanwhile. */
  readonly isOver: () => boolean;
}

/** A rollout server with the setup of a learner. */
export class Session {
  readonly #source: Source;
  readonly #entry: PolicyEntry;
  readonly #opened: Opened;
  #isClosed = false;
  /** The newest weights of the server. */
  #object = "";
  readonly #hashes = new Map<number, string>();

  private constructor(source: Source, entry: PolicyEntry, opened: Opened) {
    this.#source = source;
    this.#entry = entry;
    this.#opened = opened;
  }

  /**
   * Reads the learner's setup and opens a server.
   * @param rows the largest number of episodes at a time
   * @throws if the setup has another hash or another version, or is none that this worker can take
   */
  static async open(
    source: Source,
    entry: PolicyEntry,
    serve: ServeOptions,
    rows: number,
    reply: (message: FromWorker) => void,
  ): Promise<Session> {
    const { link, queue, largest, isOver } = source;
    const how = { most: largest, hash: entry.configuration };
    const bytes = await link.insist("the setup", () => objectOf(queue.weights, entry.setup, how), isOver);
    // Its hash is that of the policy's entry, so whoever may write policies has written it.
    const setup = setupFromBytes(bytes, largest);
    const opened = await openServer({ ...setup, rows: Math.min(setup.rows, rows) }, serve, reply);
    return new Session(source, entry, opened);
  }

  /** Whether this is the setup of an entry. */
  isOf({ run, configuration }: PolicyEntry): boolean {
    return this.#entry.run === run && this.#entry.configuration === configuration;
  }

  /** Gives the server these weights. @throws if they are missing or have another hash */
  async install({ version, object, sha256: hash }: Pick<PolicyEntry, "version" | "object" | "sha256">): Promise<void> {
    if (this.#object === object) return;
    const { link, queue, largest, isOver } = this.#source;
    const read = (): Promise<Uint8Array> => objectOf(queue.weights, object, { most: largest, hash });
    const policy = weightsFromBytes(version, await link.insist(`weights of version ${version}`, read, isOver));
    if (this.#isClosed || this.#object === object) return;
    this.#object = object;
    this.#hashes.set(version, hash);
    this.#opened.server.receive({ kind: "policy", policy });
  }

  play(jobs: readonly Job[]): void {
    this.#opened.server.receive({ kind: "play", jobs });
  }

  /** The hashes of the weights of these versions; −1 is none. */
  hashesOf(versions: readonly number[]): Readonly<Record<string, string>> {
    const drawn = new Set(versions.filter((version) => version >= 0));
    return Object.fromEntries([...drawn].map((version) => [version, this.#hashes.get(version) ?? ""]));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#opened.server.close();
    this.#opened.executor.dispose();
  }
}
