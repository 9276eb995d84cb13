/** Calls of environments with a time limit: they may throw, hang or be aborted. */
import { reasonOf } from "../../engine/errors.ts";
import type { StopReason } from "../episode/stream.ts";

/** The longest delay of a timer in milliseconds, some 25 days; a longer one would fire at once. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** Those who are to be told when a signal is aborted. */
const waiting = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `tell` when the signal is aborted. A run's signal gets one listener for all calls, because Node warns of more
 * than ten. Of `AbortSignal.any` it keeps something for each call in Node 20.
 * @returns a function after which it is not called
 */
function whenAborted(signal: AbortSignal, tell: () => void): () => void {
  let those = waiting.get(signal);
  if (those === undefined) {
    const all = (those = new Set());
    waiting.set(signal, all);
    signal.addEventListener("abort", () => all.forEach((one) => one()), { once: true });
  }
  const all = those.add(tell);
  return () => void all.delete(tell);
}

/** The result of a call, or why there is none. */
export type Answer<R> =
  { readonly result: R } | { readonly stop: StopReason; readonly error: string; readonly cause: unknown };

/**
 * The result of `call`, or why there is none: `timeout`, `aborted`, or `tool_error` if it threw. It never rejects. When
 * the time is up the call's own signal is aborted, but nothing waits for the call to end.
 * @param timeout in milliseconds; Infinity for no limit
 * @param who the name of the environment, for the error
 */
export async function answerWithin<R>(
  call: (signal: AbortSignal) => Promise<R>,
  { timeout, signal: outer, who }: { timeout: number; signal?: AbortSignal | undefined; who: string },
): Promise<Answer<R>> {
  const clock = new AbortController();
  const { signal } = clock;
  const tooLate = (): void => clock.abort(new Error(`${who}: no answer within ${timeout} ms`));
  const timer = setTimeout(tooLate, Math.min(timeout, LONGEST_TIMER));
  const passOn = (): void => clock.abort(outer?.reason);
  if (outer?.aborted) passOn();
  const forget = outer && whenAborted(outer, passOn);
  let onAbort = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    onAbort = (): void => reject(signal.reason as Error);
    signal.addEventListener("abort", onAbort, { once: true });
  });
  aborted.catch(() => undefined);
  try {
    signal.throwIfAborted();
    return { result: await Promise.race([call(signal), aborted]) };
  } catch (error) {
    const stop = outer?.aborted ? "aborted" : signal.aborted ? "timeout" : "tool_error";
    return { stop, error: reasonOf(error), cause: error };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
    forget?.();
  }
}
