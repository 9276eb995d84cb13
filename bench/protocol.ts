/** What `process.ts` asks a contender's process, and what `child.ts` and `peers/torch_bench.py` answer: one JSON object a line. */
import type { Task } from "./cases/task.ts";

export type Request =
  | { readonly do: "prepare"; readonly task: Task }
  | { readonly do: "time"; readonly calls: number }
  | { readonly do: "memory" }
  | { readonly do: "figures" };

export interface Answer {
  readonly error?: string;
  /** Of the start: who this is. */
  readonly description?: string;
  /** Of `prepare`: samples of the results, or why the contender cannot do it. */
  readonly check?: readonly number[];
  readonly cannot?: string;
  /** Of `time`: milliseconds for all calls together. */
  readonly ms?: number;
  /** Of `memory`, in bytes: what the engine counts as its own, and what the process took at most. */
  readonly live?: number;
  readonly peak?: number;
  readonly peakRss?: number;
  readonly figures?: Record<string, number>;
}
