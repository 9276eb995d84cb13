/** Flags for threads that play: what is wrong is one line, and nothing is left. asyncRun.long.test.ts has the runs. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { startIn } from "../../support/mainJob.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-async-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test.each([
  [["--workers", "0"], '--workers: expected an integer ≥ 1, got "0"'],
  [["--workers", "65"], "expected 1 to 64 workers, got 65"],
  [["--max-staleness", "1"], "--max-staleness is about --workers N; add it"],
  [["--workers", "1", "--max-staleness", "-1"], "--max-staleness must be an integer ≥ 0, got -1"],
  [["--workers", "1", "--max-staleness", "1", "--loss", "reinforce"], "reinforce has no ratio"],
])(
  "a wrong flag is one line and exit code 2: %j",
  async (args, message) => {
    const before = readdirSync(folder);
    const run = startIn(folder, "run/cli/main.ts", args);
    expect(await run.done, run.seen()).toBe(2);
    expect(run.seen()).toContain(message);
    expect(
      run
        .seen()
        .trim()
        .split("\n")
        .filter((line) => !line.startsWith("npm ")),
    ).toHaveLength(1);
    expect(readdirSync(folder)).toEqual(before);
  },
  120_000,
);
