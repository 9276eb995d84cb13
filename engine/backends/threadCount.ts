/**
 * The number of threads of the WebAssembly executor, and whether there can be any here. The threads themselves
 * (`threads.ts`) are imported only if there are some.
 */
import { environmentVariable } from "../environmentVariable.ts";
import { fail } from "../errors.ts";

const MAX_THREADS = 64;
/** The largest default number of threads: kernels of small models do not occupy more. */
const DEFAULT_THREADS = 8;

/** The part of Node's `process` that is used. */
interface NodeProcess {
  readonly getBuiltinModule?: (name: string) => unknown;
}
/** Node's `process`, where there is one. */
export const node = (): NodeProcess | undefined => (globalThis as { process?: NodeProcess }).process;

/** The reason why threads are impossible here; `undefined` if they are possible. */
export function obstacle(): string | undefined {
  if (typeof SharedArrayBuffer === "undefined") return "no shared memory: the page is not cross-origin isolated";
  try {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 0);
  } catch {
    return "the main thread of a page must not wait: create the device in a worker";
  }
  return node()?.getBuiltinModule === undefined && typeof Worker === "undefined" ? "no workers" : undefined;
}

/**
 * The default number of threads: the environment variable `WORLDGRAD_THREADS`, else one per processor, at most 8.
 * @throws if the variable is not a number from 1 to 64
 */
export function defaultThreads(): number {
  const variable = environmentVariable("WORLDGRAD_THREADS");
  if (variable !== undefined && variable !== "") return checkThreads(Number(variable), "WORLDGRAD_THREADS");
  const os = node()?.getBuiltinModule?.("node:os") as { availableParallelism(): number } | undefined;
  const cores = os?.availableParallelism() ?? (globalThis as { navigator?: Navigator }).navigator?.hardwareConcurrency;
  return Math.max(1, Math.min(cores ?? 1, DEFAULT_THREADS));
}

/** @throws unless `threads` is a whole number from 1 to 64 */
export function checkThreads(threads: number, where: string): number {
  const valid = Number.isInteger(threads) && threads >= 1 && threads <= MAX_THREADS;
  return valid ? threads : fail(`${where} must be a whole number from 1 to ${MAX_THREADS}, got ${threads}`);
}
