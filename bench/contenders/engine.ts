/** A contender inside its process: it prepares a task, shows its results, and does the work many times. */
import type { Task } from "../cases/task.ts";

/** A task whose inputs are in place, with everything compiled that can be. */
export interface Prepared {
  /**
   * Does the work and returns samples of the results (`sample` in data.ts), or the losses. Called once, before `run`.
   */
  check(): Promise<readonly number[]>;
  /** Does the work once more. On a device with a queue of its own this only enqueues it. */
  run(): void | Promise<void>;
  /** Resolves when everything has been done that was enqueued. */
  finish?(): Promise<void>;
  /** Called after the timing: further figures by name, such as the parts of an RL step in milliseconds. */
  figures?(): Promise<Record<string, number>>;
  dispose(): void;
}

export interface Engine {
  /** One line: library, version, executor, adapter. */
  readonly description: string;
  /** @returns what runs the task, or a sentence that says why the engine cannot do it */
  prepare(task: Task): Promise<Prepared | string>;
  /** Bytes that the engine counts as its own, now and at the most. */
  memory?(): { readonly live: number; readonly peak: number };
}

export interface EngineOptions {
  readonly threads: number;
}
