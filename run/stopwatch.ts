/** The times of a run's steps. */
import type { StepReport } from "../rl/train/report.ts";

/** A function that returns the seconds since its last call. */
export function stopwatch(): () => number {
  let last = performance.now();
  return () => {
    const now = performance.now();
    const seconds = (now - last) / 1000;
    last = now;
    return seconds;
  };
}

/** The metrics of a step with the times that it took. */
export function timed({ metrics }: StepReport, seconds: number): Record<string, number> {
  return { ...metrics, step_time: seconds, tokens_per_second: (metrics["step_tokens"] ?? 0) / seconds };
}
