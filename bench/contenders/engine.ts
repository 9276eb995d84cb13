/**
 * Interface of a contender inside its process: it prepares a task, samples its results, and does the work many times.
 */
import type { Task } from "../cases/task.ts";

/** A task whose inputs are in place, with everything compiled that can be. */
export interface Prepared {
  /**
   * Does the work and returns samples of the results (`sample` in data.ts), or the losses. Called once, before `run`.
   */
  check(): Promise<readonly number[]>;
  /** Does the work once more. A device with a queue only enqueues it. */
  run(): void | Promise<void>;
  /** Resolves when all enqueued work is done. */
  finish?(): Promise<void>;
  /** Further figures by name, such as the parts of an RL step in milliseconds; called after the timing. */
  figures?(): Promise<Record<string, number>>;
  dispose(): void;
}

export interface Engine {
  /** One line: library, version, executor, adapter. */
  readonly description: string;
  /** @returns the prepared task, or a sentence that says why the engine cannot do it */
  prepare(task: Task): Promise<Prepared | string>;
  /** Bytes of the engine's own count: now, and at the peak. */
  memory?(): { readonly live: number; readonly peak: number };
}

export interface EngineOptions {
  readonly threads: number;
}
