/**
 * The process that trains one folder (pool.ts starts it): a warm start, or an arm from its warm start to its end. It
 * begins or continues the folder, sends its parent what a display would show (messages.ts), and ends when the parent
 * does.
 */
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import process from "node:process";
import { device } from "../../engine/index.ts";
import { check, fail } from "../../engine/errors.ts";
import { report } from "../../node/flags.ts";
import { presetOf } from "../../job/presets.ts";
import { writeReport } from "../report/report.ts";
import { threadWorkers } from "../../node/threads.ts";
import { trainRlAsync } from "../../rl/async/train.ts";
import type { RolloutWorkers } from "../../rl/async/workers.ts";
import { Run } from "../../job/run.ts";
import { loadEnvironmentOf } from "../../node/environmentFile.ts";
import { lockFolder } from "../../node/lock.ts";
import { createRun, openRun, type RunFolder } from "../../node/runFolder.ts";
import { type Job, SUMMARY } from "./job.ts";
import { messenger } from "./messages.ts";

/** How long to wait until the process of a killed comparison has noticed that its parent is gone. */
const PATIENCE_MS = 30_000;

async function main(): Promise<number> {
  const job = JSON.parse(process.argv[2] ?? fail("cell: expected a job")) as Job;
  const stop = new AbortController();
  const onInterrupt = (): void => stop.abort(new Error("interrupted"));
  process.on("SIGINT", onInterrupt);
  process.on("SIGTERM", onInterrupt);
  // If the parent was killed, nobody reads the messages, and the next comparison needs the folder.
  process.on("disconnect", () => process.exit(1));
  mkdirSync(dirname(job.path), { recursive: true });
  const release = await lockFolder(job.path, { patienceMs: PATIENCE_MS });
  const executor = await device(job.device);
  try {
    if (!existsSync(job.path)) begin(job);
    const folder = openRun(job.path);
    const preset = presetOf(folder);
    await loadEnvironmentOf(preset);
    const { environmentFile } = preset;
    const startWorkers = (count: number): RolloutWorkers => threadWorkers(count, { environmentFile });
    const playAhead = { startWorkers, train: trainRlAsync };
    const run = new Run(folder, preset, executor, messenger(), stop.signal, { playAhead });
    const summary = await (job.from === undefined ? run.warmUp(true) : run.run(true));
    if (summary === null) return 130;
    if ("after" in summary) {
      await writeReport(folder, summary);
      folder.pruneCheckpoints(1);
    }
    folder.writeFile(SUMMARY, `${JSON.stringify(summary, null, 2)}\n`);
    return 0;
  } finally {
    release();
  }
}

/** Makes the folder, complete or not at all. An arm gets the lines and the checkpoint of its warm start. */
function begin({ path, preset, from }: Job): void {
  const unfinished = `${path}.tmp`;
  rmSync(unfinished, { recursive: true, force: true });
  const folder = createRun(unfinished, { preset });
  if (from !== undefined) copyWarmStart(openRun(from), folder);
  renameSync(unfinished, path);
}

function copyWarmStart(source: RunFolder, target: RunFolder): void {
  const checkpoint = source.loadLatestCheckpoint();
  check(checkpoint !== null, () => `${source.path}: the warm start has no checkpoint`);
  for (const line of source.readMetrics()) target.appendMetrics(line);
  target.saveCheckpoint(checkpoint.step, checkpoint.files);
}

process.exitCode = await main().catch(report);
// Threads and Dawn may keep the process alive after their device is disposed.
process.exit();
