/** What a contender is inside its process: it prepares a task, shows its results, and does the work again and again. */
import type { Task } from "../cases/task.ts";

/** A task with its inputs in place and everything compiled that can be. */
export interface Prepared {
  /** Does the work and returns samples of the results (`sample` in data.ts), or the losses. Called once, before `run`. */
  check(): Promise<readonly number[]>;
  /** Does the work once more. On a device that works by itself this only enqueues it. */
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
  /** @returns a sentence that says why, where the engine cannot do the task */
  prepare(task: Task): Promise<Prepared | string>;
  /** Bytes that the engine counts as its own, now and at most. */
  memory?(): { readonly live: number; readonly peak: number };
}

export interface EngineOptions {
  readonly threads: number;
}
