/** A reader that hangs ends the fuzzing, and the document that it hangs on is shown. */
import { spawnSync } from "node:child_process";
import process from "node:process";
import { expect, test } from "vitest";

test("a document that is read for too long ends the process, and is shown", () => {
  const program = `
    import { fuzz } from "./scripts/fuzz/fuzz.ts";
    import { watchdog } from "./scripts/fuzz/watchdog.ts";
    const documents = (await import("fast-check")).default.constant({ of: "this" });
    const hangs = { name: "hangs", documents, read() { for (;;); } };
    await fuzz(hangs, { seed: 1, ms: 1e6, runs: 1 }, watchdog(500));
  `;
  const args = ["--import", "tsx", "--input-type=module", "--eval", program];
  const { signal, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
  expect(stderr).toMatch(/nothing was read for 0\.5 s; the document that hangs:\n.*\n/);
  expect(signal).toBe("SIGKILL");
});
