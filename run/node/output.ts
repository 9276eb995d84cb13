/**
 * What a program does when its output cannot be written any more (`| head`, a closed terminal, a full disk), or is read
 * too slowly: what a full pipe does not take waits in the process's memory.
 */
import process from "node:process";

/**
 * For programs that do more than print: they go on without a display. To be called once, at the start. The loss is
 * reported once on standard error, if that still works.
 */
export function outliveOutput(): void {
  let said = false;
  process.stdout.on("error", (error: Error) => {
    if (said) return;
    said = true;
    process.stderr.write(`worldgrad: standard output is gone (${error.message}); it goes on without it\n`);
  });
  process.stderr.on("error", () => undefined);
}

/** For programs that only print: they end quietly when their reader closes the pipe, as `head` does. */
export function endWithOutput(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") process.stderr.write(`worldgrad: standard output: ${error.message}\n`);
    process.exit(error.code === "EPIPE" ? 0 : 1);
  });
  process.stderr.on("error", () => undefined);
}

/** Bytes that may wait for a reader. */
const MOST_WAITING = 2 ** 20;

/**
 * Standard output for a display: while too much waits for a reader that is slow or reads nothing, what is written is
 * left out. What a display shows is in the run's folder as well. (Terminals take at once, or stop the program: Ctrl-S.)
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
 * Resolves when what was written has been taken, or nothing of it for so many milliseconds. To be awaited before
 * `process.exit`, which throws away what waits.
 */
export async function outputTaken(patienceMs = 10_000): Promise<void> {
  const { stdout } = process;
  let [waiting, since] = [Infinity, performance.now()];
  while (stdout.writableLength > 0 && !stdout.destroyed && performance.now() - since < patienceMs) {
    if (stdout.writableLength < waiting) [waiting, since] = [stdout.writableLength, performance.now()];
    await new Promise((next) => setTimeout(next, 10));
  }
}
