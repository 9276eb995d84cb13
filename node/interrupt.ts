/** Ctrl-C in a terminal: the first asks the work to come to a good end, a second one does not wait. */
import process from "node:process";

/**
 * One press may arrive more than once: the terminal tells all processes of the group, and npm and tsx pass on what they hear. What comes
 * so soon after the first is no second press.
 */
const SAME_PRESS_MS = 1000;

/** @param note told once, at the first press @returns aborted from then on */
export function stopOnInterrupt(note: () => void): AbortSignal {
  const stop = new AbortController();
  let first = 0;
  const onInterrupt = (): void => {
    if (!stop.signal.aborted) {
      first = performance.now();
      note();
      stop.abort(new Error("interrupted"));
    } else if (performance.now() - first > SAME_PRESS_MS) process.exit(130);
  };
  process.on("SIGINT", onInterrupt);
  process.on("SIGTERM", onInterrupt);
  return stop.signal;
}
