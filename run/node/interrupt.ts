/**
 * Ctrl-C in a terminal: the first press lets the program finish its step and save, a second one ends it at once.
 * Closing the terminal, and a kill from outside, count as a press.
 */
import process from "node:process";

/** The signals that end a program and let it react: Ctrl-C, `kill`, the end of its terminal. */
export const STOP_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/**
 * One press may arrive several times, because the terminal signals all processes of the group, and npm and tsx pass the
 * signal on. A signal within this time after the first is not a second press.
 */
const SAME_PRESS_MS = 1000;

/**
 * Handles Ctrl-C.
 * @param note is called once, at the first press
 * @returns a signal that is aborted from then on
 */
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
  for (const signal of STOP_SIGNALS) process.on(signal, onInterrupt);
  return stop.signal;
}
