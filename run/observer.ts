/**
 * An observer, which is told the progress of a run and does not influence it: a display, or a process that compares
 * several runs.
 */
import type { EventLoop } from "../rl/play/eventLoop.ts";
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
   * @param metrics the step's metrics, under the names of run/figures/catalogue.ts
   * @param lane the number of the run; default 0
   */
  update(step: number, metrics: Readonly<Record<string, number>>, lane?: number): void;
  /** An evaluation on held-out tasks after `step` steps of RL; 0 is the warm start. */
  evaluation(step: number, score: Score, lane?: number): void;
  /** One trajectory to show. */
  transcript(record: Transcript): void;
  /**
   * One message to show.
   * @param isWarning whether it says that something is wrong; displays of several runs show only these
   */
  note(text: string, isWarning?: boolean): void;
}

/** The observer and the stop signal of a long part of a run. */
export interface Watch {
  readonly observer: Observer;
  readonly eventLoop: EventLoop;
  readonly signal: AbortSignal;
}

/**
 * The callback after each step of the training of a judging model: it shows the loss, and lets signals and messages
 * through. It throws the signal's reason if the run was stopped.
 */
export function shownTo({ observer, eventLoop, signal }: Watch): (step: number, loss: number) => Promise<void> {
  return async (step, loss) => {
    observer.update(step, { loss });
    await eventLoop.turn();
    signal.throwIfAborted();
  };
}
