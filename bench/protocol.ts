/** Requests of `process.ts` and answers of `child.ts` and `peers/protocol.py`: one JSON object a line. */
import type { Task } from "./cases/task.ts";

export type Request =
  | { readonly do: "prepare"; readonly task: Task }
  | { readonly do: "time"; readonly calls: number }
  | { readonly do: "memory" }
  | { readonly do: "figures" };

export interface Answer {
  readonly error?: string;
  /** Answer to the start: library, version, executor. */
  readonly description?: string;
  /** Answer to `prepare`: samples of the results, or why the contender cannot do it. */
  readonly check?: readonly number[];
  readonly cannot?: string;
  /** Answer to `time`: milliseconds of the clock for all calls together. */
  readonly ms?: number;
  /** Processor time of the calls in milliseconds, summed over threads: a busy machine stretches it less. */
  readonly processorMs?: number;
  /** Answer to `memory`, in bytes: what the engine counts as its own, and the peak of the process. */
  readonly live?: number;
  readonly peak?: number;
  readonly peakRss?: number;
  readonly figures?: Record<string, number>;
}
