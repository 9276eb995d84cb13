/** The types that both displays share: what a display does, where it writes, and what is decided before it is made. */
import type { Observer } from "../../node/job/observer.ts";
import type { Transcript } from "../../node/records.ts";
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

export interface Display extends Observer {
  /** Shows what several runs made of the same task, side by side, each with what it expected to be answered. */
  sideBySide(records: readonly NamedTranscript[]): void;
  table(table: Table): void;
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
