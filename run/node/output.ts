/**
 * Output that cannot be written any more (`| head`, a closed terminal, a full disk), or is read too slowly: text that a
 * full pipe does not take waits in the process's memory.
 */
import process from "node:process";

/**
 * Lets a program that does more than print go on without a display. To be called once, at the start. The loss is
 * reported once on standard error, if that still works.
 */
export function outliveOutput(): void {
  let reported = false;
  process.stdout.on("error", (error: Error) => {
    if (reported) return;
    reported = true;
    process.stderr.write(`worldgrad: standard output is gone (${error.message}); it goes on without it\n`);
  });
  process.stderr.on("error", () => undefined);
}

/** Lets a program that only prints end quietly when its reader closes the pipe, as `head` does. */
export function endWithOutput(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") process.stderr.write(`worldgrad: standard output: ${error.message}\n`);
    process.exit(error.code === "EPIPE" ? 0 : 1);
  });
  process.stderr.on("error", () => undefined);
}

/** The largest number of bytes that may wait for a reader. */
const MOST_WAITING = 2 ** 20;

/**
 * Standard output for a display: while too much waits for a slow reader, further text is dropped. It is in the run's
 * folder as well. (Terminals take text at once, or stop the program: Ctrl-S.)
 */
export const displayOutput = {
  write(text: string): void {
    if (process.stdout.writableLength <= MOST_WAITING) process.stdout.write(text);
  },
  get columns(): number {
    return process.stdout.columns;
  },
  get rows(): number {
    return process.stdout.rows;
  },
  on: (event: "resize", listener: () => void): unknown => process.stdout.on(event, listener),
  off: (event: "resize", listener: () => void): unknown => process.stdout.off(event, listener),
};

/**
 * Resolves when all output has been taken, or none of it for so many milliseconds. To be awaited before `process.exit`,
 * which throws away waiting text.
 */
export async function outputTaken(patienceMs = 10_000): Promise<void> {
  const { stdout } = process;
  let [waiting, since] = [Infinity, performance.now()];
  while (stdout.writableLength > 0 && !stdout.destroyed && performance.now() - since < patienceMs) {
    if (stdout.writableLength < waiting) [waiting, since] = [stdout.writableLength, performance.now()];
    await new Promise((next) => setTimeout(next, 10));
  }
}
