/** Who is told how a run goes: a display, a process that compares several runs, or nobody. It decides nothing. */
import type { Score, Transcript } from "../records.ts";

export interface Observer {
  /**
   * A new phase of `total` steps begins; `done` of them lie behind us already (a resumed run).
   * @param lanes names of the runs that go through this phase side by side, `total` steps each. Default: one run without a name
   */
  phase(name: string, total: number, done?: number, lanes?: readonly string[]): void;
  /** Steps finished in this phase, and what they measured under the names of tools/figures/catalogue.ts. @param lane which run; default 0 */
  update(step: number, metrics: Readonly<Record<string, number>>, lane?: number): void;
  /** Held-out tasks, played after `step` steps of RL; 0: by the warm start. */
  evaluation(step: number, score: Score, lane?: number): void;
  /** One trajectory, to be shown. */
  transcript(record: Transcript): void;
  /** One message, to be shown. */
  note(text: string): void;
}
