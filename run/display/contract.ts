/** The types of both displays: the interface of a display, its output stream, and its options. */
import type { Observer } from "../observer.ts";
import type { Transcript } from "../records.ts";
import type { Style } from "./style.ts";
import type { Table } from "./table.ts";

/** The part of a writable stream that displays use; `process.stdout` is one. */
export interface OutputStream {
  write(text: string): unknown;
  readonly columns?: number;
  readonly rows?: number;
  on?(event: "resize", listener: () => void): unknown;
  off?(event: "resize", listener: () => void): unknown;
}

/** A trajectory, and the name of the agent that played it. */
export interface NamedTranscript {
  readonly name: string;
  readonly record: Transcript;
}

export interface Display extends Observer {
  /** Shows several agents' ways through the same task, side by side, each with the answers that it expected. */
  sideBySide(records: readonly NamedTranscript[]): void;
  table(table: Table): void;
  /** Leaves the last state on the screen and shows the cursor again. Further calls do nothing. */
  close(): void;
}

export interface DisplayOptions {
  readonly stream: OutputStream;
  readonly isTTY: boolean;
  /** The time in milliseconds, which never decreases. Default `performance.now`. */
  readonly now?: () => number;
  /** The variables NO_COLOR, FORCE_COLOR and TERM. Default: none. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Metrics to show. Default: those of the catalogue in its order, as many as fit. */
  readonly show?: readonly string[];
  /** Shortest time between two redraws. Default 100 ms. On a terminal the clock also redraws between updates. */
  readonly redrawMs?: number;
  /** Without a terminal: shortest time between two lines. 0 prints every step. Default 2000 ms. */
  readonly lineMs?: number;
}

/** The options with their defaults, as live.ts and plain.ts take them. */
export type ResolvedOptions = Required<Omit<DisplayOptions, "env" | "isTTY">> & {
  readonly style: Style;
};
