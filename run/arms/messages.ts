/**
 * The messages of a process that trains a folder to its parent: everything that a display would show. Messages travel
 * by structured clone (pool.ts), so NaN stays NaN.
 */
import process from "node:process";
import type { Display } from "../display/contract.ts";
import type { Score, Transcript } from "../records.ts";

export type Message =
  /**
   * A new phase of `total` steps, `done` of which are done. An evaluation before or after RL is a phase of one step.
   */
  | { readonly kind: "phase"; readonly name: string; readonly total: number; readonly done: number }
  /** The number of finished steps of the phase, and the metrics of the last one. */
  | { readonly kind: "step"; readonly step: number; readonly metrics: Readonly<Record<string, number>> }
  /** The score on held-out tasks after `step` steps of RL; at 0 it is the warm start's. */
  | { readonly kind: "evaluation"; readonly step: number; readonly score: Score }
  | { readonly kind: "transcript"; readonly record: Transcript }
  | { readonly kind: "note"; readonly text: string };

/** A display that shows nothing and sends everything to the parent. */
export function messenger(): Display {
  const send = (message: Message): void => {
    if (process.connected) process.send?.(message);
  };
  return {
    phase(name: string, total: number, done: number = 0): void {
      send({ kind: "phase", name, total, done });
    },
    update(step: number, metrics: Readonly<Record<string, number>>): void {
      send({ kind: "step", step, metrics });
    },
    evaluation(step: number, score: Score): void {
      send({ kind: "evaluation", step, score });
    },
    transcript(record: Transcript): void {
      send({ kind: "transcript", record });
    },
    note(text: string): void {
      send({ kind: "note", text });
    },
    // The parent makes its own tables, puts transcripts side by side, and closes what it opened.
    table: () => undefined,
    sideBySide: () => undefined,
    close: () => undefined,
  };
}
