/**
 * An observer is told how a run proceeds and does not influence it: a display, or a process that compares several runs.
 */
import type { Score, Transcript } from "./records.ts";

/** Receives the progress of a run. */
export interface Observer {
  /**
   * A new phase of `total` steps begins; in a resumed run `done` of them are done already.
   * @param lanes the names of the runs that go through this phase side by side, `total` steps each. Default: one run
   *   without a name
   */
  phase(name: string, total: number, done?: number, lanes?: readonly string[]): void;
  /**
   * A step of this phase has ended.
   * @param step the number of finished steps
   * @param metrics the step's metrics, under the names of tools/figures/catalogue.ts
   * @param lane which run; default 0
   */
  update(step: number, metrics: Readonly<Record<string, number>>, lane?: number): void;
  /** An evaluation on held-out tasks after `step` steps of RL; 0 is the warm start. */
  evaluation(step: number, score: Score, lane?: number): void;
  /** One trajectory to show. */
  transcript(record: Transcript): void;
  /** One message to show. */
  note(text: string): void;
}
