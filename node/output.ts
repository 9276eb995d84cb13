/** What a program does when its output cannot be written any more: `| head`, a closed terminal, a full disk. */
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
    process.stderr.write(`worldgrad: standard output is gone (${error.message}); the run goes on without it\n`);
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
