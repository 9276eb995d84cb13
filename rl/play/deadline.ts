/** Calls of environments that may throw, hang or be told to stop: none of them outlives its time. */
import type { StopReason } from "../episode/stream.ts";

/** The longest that a timer can wait, some 25 days; a longer one would fire at once. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** What came back: the result, or why there is none. */
export type Answer<R> = { readonly result: R } | { readonly stop: StopReason; readonly error: string };

/**
 * The result of `call`, or `timeout`, `aborted`, `tool_error` (it threw). Never rejects; the call's own signal is aborted when its time
 * is up, but nothing waits for it to notice.
 * @param timeout in milliseconds; Infinity for no bound @param who named in the error
 */
export async function answerWithin<R>(
  call: (signal: AbortSignal) => Promise<R>,
  { timeout, signal: outer, who }: { timeout: number; signal?: AbortSignal | undefined; who: string },
): Promise<Answer<R>> {
  const clock = new AbortController();
  const tooLate = (): void => clock.abort(new Error(`${who}: no answer within ${timeout} ms`));
  const timer = setTimeout(tooLate, Math.min(timeout, LONGEST_TIMER));
  const signal = outer ? AbortSignal.any([clock.signal, outer]) : clock.signal;
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
    const stop = outer?.aborted ? "aborted" : clock.signal.aborted ? "timeout" : "tool_error";
    return { stop, error: error instanceof Error ? error.message : String(error) };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort); // else the combined signal lives as long as the outer one
  }
}
