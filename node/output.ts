/** What a program does when nobody takes its output any more: `| head`, a terminal that was closed, a full disk. */
import process from "node:process";

/**
 * For programs whose work is more than what they print: they go on without a display. Called once, at the start. What
 * is lost is said on standard error, once, if that is still there.
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

/** For programs that only print: a reader who has enough ends them, as quietly as `head` does others. */
export function endWithOutput(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") process.stderr.write(`worldgrad: standard output: ${error.message}\n`);
    process.exit(error.code === "EPIPE" ? 0 : 1);
  });
  process.stderr.on("error", () => undefined);
}
