/** The workers that are present, which they announce about once a second, and what they refuse. */
import type { Connection } from "./connection.ts";
import { Fields, fromJson } from "./json.ts";

/** The largest number of workers that are counted. */
const MOST_WORKERS = 100_000;
/** The largest number of refusals that are shown. */
const MOST_REFUSALS = 100;
const LOOK_MS = 2000;
/** After this number of looks without a message a worker counts as gone. */
const SILENT = 4;

/** Text from outside, without control characters, for a terminal. */
export const printable = (text: string): string => text.replace(/[^\P{C}]/gu, " ").slice(0, 300);

/** Counts between two steps. */
export const NOTHING = { rejected_messages: 0, duplicate_episodes: 0, reissued_episodes: 0, stored_episodes: 0 };
/** Counts as metrics. */
export const prefixed = (counts: typeof NOTHING): Record<string, number> =>
  Object.fromEntries(Object.entries(counts).map(([name, count]) => [`async/${name}`, count]));

/** The workers of a queue. */
export class Roster {
  readonly #silent = new Map<string, number>();
  readonly #refusals = new Set<string>();
  readonly #note: (line: string) => void;
  readonly #server: string;
  #looks = 0;
  readonly #clock: ReturnType<typeof setInterval>;

  /**
   * @param subject the subject of their messages
   * @param server the address that is shown to the user, for workers to connect to
   */
  constructor(connection: Connection, subject: string, server: string, note: (line: string) => void) {
    this.#note = note;
    this.#server = server;
    connection.subscribe(subject, {
      callback: (error, message) => {
        if (error !== null || message.data.length > 4096) return;
        try {
          this.#hear(new Fields("presence", fromJson("presence", message.string())));
        } catch {
          // The sender of a malformed message is no worker.
        }
      },
    });
    this.#clock = setInterval(() => this.#look(), LOOK_MS);
  }

  get size(): number {
    return this.#silent.size;
  }

  close(): void {
    clearInterval(this.#clock);
  }

  #hear(fields: Fields): void {
    const worker = printable(fields.text("worker"));
    const kind = fields.text("kind");
    if (kind === "refused") {
      const why = printable(fields.text("why", 1024));
      if (this.#refusals.size < MOST_REFUSALS && !this.#refusals.has(worker))
        this.#note(`worker ${worker} refuses: ${why}`);
      this.#refusals.add(worker);
    } else if (kind === "left") {
      if (this.#silent.delete(worker)) this.#note(`worker ${worker} has left (${this.size} left)`);
    } else if (kind === "here" && (this.size < MOST_WORKERS || this.#silent.has(worker))) {
      const isNew = !this.#silent.has(worker);
      this.#silent.set(worker, 0);
      if (isNew) this.#note(`worker ${worker} is here (${this.size} now)`);
    }
  }

  #look(): void {
    if (++this.#looks === 2 && this.size === 0)
      this.#note(`no worker is there yet; start some, here or elsewhere: npm run worker -- --server ${this.#server}`);
    for (const [worker, silent] of this.#silent) {
      if (silent < SILENT) this.#silent.set(worker, silent + 1);
      else {
        this.#silent.delete(worker);
        this.#note(`worker ${worker} is gone (${this.size} left)`);
      }
    }
  }
}
