/** The requests of `process.ts` and the answers of `child.ts` and `peers/torch_bench.py`: one JSON object a line. */
import type { Task } from "./cases/task.ts";

export type Request =
  | { readonly do: "prepare"; readonly task: Task }
  | { readonly do: "time"; readonly calls: number }
  | { readonly do: "memory" }
  | { readonly do: "figures" };

export interface Answer {
  readonly error?: string;
  /** The answer to the start: who this is. */
  readonly description?: string;
  /** The answer to `prepare`: samples of the results, or why the contender cannot do it. */
  readonly check?: readonly number[];
  readonly cannot?: string;
  /** The answer to `time`: milliseconds of the clock for all calls together. */
  readonly ms?: number;
  /** Milliseconds of the processor in the same calls, of all threads together: a busy machine stretches them less. */
  readonly processorMs?: number;
  /** The answer to `memory`, in bytes: what the engine counts as its own, and the most that the process took. */
  readonly live?: number;
  readonly peak?: number;
  readonly peakRss?: number;
  readonly figures?: Record<string, number>;
}
