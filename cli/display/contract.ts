/** The types that both displays share: what a display does, where it writes, and what is decided before it is made. */
import type { Score, Transcript } from "../report/records.ts";
import type { Style } from "./style.ts";
import type { Table } from "./table.ts";

/** The part of a writable stream that is used; `process.stdout` is one. */
export interface OutputStream {
  write(text: string): unknown;
  readonly columns?: number;
  readonly rows?: number;
  on?(event: "resize", listener: () => void): unknown;
  off?(event: "resize", listener: () => void): unknown;
}

/** A trajectory, and whose it is. */
export interface NamedTranscript {
  readonly name: string;
  readonly record: Transcript;
}

export interface Display {
  /**
   * A new phase of `total` steps begins; `done` of them lie behind us already (a resumed run).
   * @param lanes names of the runs that go through this phase side by side, `total` steps each. Default: one run without a name
   */
  phase(name: string, total: number, done?: number, lanes?: readonly string[]): void;
  /** Steps finished in this phase, and what they measured under the names of cli/report/catalogue.ts. @param lane which run; default 0 */
  update(step: number, metrics: Readonly<Record<string, number>>, lane?: number): void;
  /** Held-out tasks, played after `step` steps of RL; 0: by the warm start. */
  evaluation(step: number, score: Score, lane?: number): void;
  /** Shows one trajectory, above the live lines. */
  transcript(record: Transcript): void;
  /** Shows what several runs made of the same task, side by side, each with what it expected to be answered. */
  sideBySide(records: readonly NamedTranscript[]): void;
  table(table: Table): void;
  /** One message, above the live lines. */
  note(text: string): void;
  /** Leaves the last state on the screen and gives the cursor back. Further calls do nothing. */
  close(): void;
}

export interface DisplayOptions {
  readonly stream: OutputStream;
  readonly isTTY: boolean;
  /** Milliseconds, rising. Default `performance.now`. */
  readonly now?: () => number;
  /** Where NO_COLOR, FORCE_COLOR and TERM are looked up. Default: nowhere. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Metrics to show. Default: those of the catalogue, in its order, as far as there is room. */
  readonly show?: readonly string[];
  /** Shortest time between two redraws. Default 100 ms. On a terminal the clock also runs between updates. */
  readonly redrawMs?: number;
  /** Without a terminal: shortest time between two lines. 0 prints every step. Default 2000 ms. */
  readonly lineMs?: number;
}

/** A display with everything decided, as live.ts and plain.ts take it. */
export type ResolvedOptions = Required<Omit<DisplayOptions, "env" | "isTTY">> & {
  readonly style: Style;
};
