/** Calls of environments and of servers with a time limit: they may throw, hang or be aborted. */
import { reasonOf } from "../../engine/errors.ts";
import { LONGEST_TIMER } from "../../engine/options.ts";
import type { StopReason } from "../episode/stream.ts";

/** The callbacks of each signal, which are called when it is aborted. */
const waiting = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `tell` when the signal is aborted. A run's signal gets one listener for all calls, because Node warns of more
 * than ten. `AbortSignal.any` is not used: in Node 20 the signal keeps something for each call of it.
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

/** The signal of one call. `forget` is to be called when the call is over. */
export interface CallEnd {
  /** Aborted with the outer signal, when the time is up, and by `abort`. */
  readonly signal: AbortSignal;
  abort(reason: unknown): void;
  forget(): void;
}

/**
 * A signal for one call under a longer-lived one, such as a run's, which keeps nothing of the call.
 * @param timeout in milliseconds; Infinity for no limit
 * @param tooLate the reason when the time is up
 */
export function endOfCall(timeout: number, outer: AbortSignal | undefined, tooLate: () => Error): CallEnd {
  const controller = new AbortController();
  const giveUp = (): void => controller.abort(tooLate());
  // A timer, even the longest, would keep a program from ending.
  const timer = timeout === Infinity ? undefined : setTimeout(giveUp, Math.min(timeout, LONGEST_TIMER));
  const passOn = (): void => controller.abort(outer?.reason);
  if (outer?.aborted) passOn();
  const stopWaiting = outer && whenAborted(outer, passOn);
  const forget = (): void => {
    clearTimeout(timer);
    stopWaiting?.();
  };
  return { signal: controller.signal, abort: (reason) => controller.abort(reason), forget };
}

/** The result of a call, or the reason why there is none. */
export type Answer<R> =
  { readonly result: R } | { readonly stop: StopReason; readonly error: string; readonly cause: unknown };

/**
 * The result of `call`, or the reason why there is none: `timeout`, `aborted`, or `tool_error` if it threw. It never
 * rejects. When the time is up the signal of the call is aborted, but nothing waits for the call to end.
 * @param timeout in milliseconds; Infinity for no limit
 * @param who the name of the environment, for the error
 */
export async function answerWithin<R>(
  call: (signal: AbortSignal) => Promise<R>,
  { timeout, signal: outer, who }: { timeout: number; signal?: AbortSignal | undefined; who: string },
): Promise<Answer<R>> {
  // It has the name that AbortSignal.timeout uses, so that an environment can tell it from the end of the run.
  const tooLate = (): Error => new DOMException(`${who}: no answer within ${timeout} ms`, "TimeoutError");
  const end = endOfCall(timeout, outer, tooLate);
  const { signal } = end;
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
    end.forget();
    signal.removeEventListener("abort", onAbort);
  }
}
