/**
 * Errors of the library. Every message names the place, what was expected and what came: `matmul: inner dimensions
 * differ: [4, 3] · [5, 2]`.
 */

/**
 * A bad input or a lost device, never a bug in the caller's own code. A plain `Error` with a name and a code, so that
 * no class has to be imported to catch one.
 */
export class WorldgradError extends Error {
  override readonly name = "WorldgradError";
  /**
   * What a program can do about it. `INVALID`: what was asked cannot be, now or later; `OUT_OF_MEMORY`: less at a time
   * may fit; `KERNEL_FAILED`, `DEVICE_LOST`: the device is of no more use, another may be opened. Parts that speak to
   * other programs have codes of their own.
   */
  readonly code: string = "INVALID";
}

/** An executor's memory is full. The tensor that was to be made adds the open scopes to the message. */
export class OutOfMemoryError extends WorldgradError {
  override readonly code = "OUT_OF_MEMORY";
}

/** A kernel failed, some time before: the message names its op, which need not be the one that runs now. */
export class KernelFailure extends WorldgradError {
  override readonly code = "KERNEL_FAILED";
}

/** The system took the GPU away: a driver that restarts, a laptop that changes its GPU, a page in the background. */
export class DeviceLostError extends WorldgradError {
  override readonly code = "DEVICE_LOST";
}

/** Throws unless `condition` holds. The message is a function, so that a check that passes costs no string. */
export function check(condition: boolean, message: () => string): asserts condition {
  if (!condition) throw new WorldgradError(message());
}

/**
 * The result of `make`, which takes memory of the JavaScript engine: its RangeError would not name the caller.
 * @throws OutOfMemoryError, `what` in front, where the engine has no memory for it
 */
export function onHost<T>(what: () => string, make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new OutOfMemoryError(`${what()}: the JavaScript engine has no memory for it`, { cause: error });
  }
}

/** The length at which messages of foreign code are cut: they go into logs and onto terminals. */
const MOST_LETTERS = 2_000;

/** The thrown value in words; never an empty text. Never throws, whatever foreign code has thrown. */
export function reasonOf(thrown: unknown): string {
  let text: string;
  try {
    text = wordsOf(thrown);
  } catch {
    text = `a value without words, of type ${typeof thrown}`;
  }
  return text.length > MOST_LETTERS ? `${text.slice(0, MOST_LETTERS)}...` : text;
}

function wordsOf(thrown: unknown): string {
  if (thrown instanceof Error) {
    // A refused connection of Node's has a code and no message.
    const { code } = thrown as { readonly code?: unknown };
    const known = typeof code === "string" || typeof code === "number" ? ` (${code})` : "";
    return String(thrown.message) || `${thrown.name} without a message${known}`;
  }
  if (thrown === "") return "an empty text";
  const text = String(thrown);
  return text.startsWith("[object ") ? (JSON.stringify(thrown) ?? text) : text;
}

/** Throws `WorldgradError` with `message`; an expression, so that it can stand after `??`. */
export function fail(message: string): never {
  throw new WorldgradError(message);
}
