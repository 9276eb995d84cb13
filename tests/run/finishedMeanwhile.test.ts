/** A folder that was finished while a process waited for its lock: nothing of it may be cut back and played again. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Device } from "../../engine/device.ts";
import { presetFor } from "../../run/presets.ts";
import type { StartOptions } from "../../run/startOptions.ts";
import { parseStart } from "../../run/node/commandLine.ts";
import { createRun } from "../../run/node/runFolder.ts";
import { sealed } from "../../run/node/sealed.ts";
import { type Job, SUMMARY } from "../../run/arms/jobs.ts";
import { trainJob } from "../../run/arms/train.ts";
import { wasm } from "../support/rlExecutors.ts";
import { QUIET } from "../support/tinyRun.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-finished-"));
let device: Device;
beforeAll(async () => void (device = await wasm.open()));
afterAll(() => {
  device.dispose();
  rmSync(folder, { recursive: true, force: true });
});

test("a folder with a summary keeps its logs, even if the process is stopped at once", async () => {
  const preset = presetFor(parseStart(["--quick", "--env", "terminal"]) as StartOptions);
  const job: Job = { path: join(folder, "warm"), preset, device: "wasm" };
  const run = createRun(job.path, { preset });
  // Lines behind the last checkpoint, as the last evaluation's are: whoever continues the run cuts them off.
  run.appendMetrics({ step: 1, phase: "sft", loss: 2 });
  run.appendMetrics({ step: 1, phase: "eval", success: 0.5 });
  run.writeFile(SUMMARY, sealed({ before: 1 }));
  const log = (): string => readFileSync(join(job.path, "metrics.jsonl"), "utf8");
  const written = log();
  const stop = new AbortController();
  stop.abort();
  expect(await trainJob(job, device, QUIET, stop.signal)).toBe(true);
  expect(log()).toBe(written);
});
