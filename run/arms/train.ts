/** The work of a job's process (cell.ts): it begins or continues the folder, trains it, and writes its results. */
import { existsSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import type { Device } from "../../engine/index.ts";
import { check } from "../../engine/errors.ts";
import { bestOf } from "../best.ts";
import type { Observer } from "../observer.ts";
import { presetOf } from "../presets.ts";
import { Run } from "../run.ts";
import { flushFolder } from "../node/disk.ts";
import { createRun, openRun } from "../node/runFolder.ts";
import { sealed } from "../node/sealed.ts";
import { shippedWarmStart } from "../node/shippedWarmStart.ts";
import { threadWorkers } from "../node/threads.ts";
import { loadUserFilesOf } from "../node/userFiles.ts";
import { trainRlAsync } from "../../distribute/async/train.ts";
import type { RolloutWorkers } from "../../distribute/async/workers.ts";
import { putWarmStart } from "../warmStart.ts";
import { writeReport } from "../report/report.ts";
import { isFinished, type Job, SUMMARY } from "./jobs.ts";

/**
 * Trains a job whose folder is locked. The former owner of the lock may have finished the folder meanwhile; to continue
 * it would cut its logs back.
 * @returns whether the job is finished; not if the signal was aborted
 */
export async function trainJob(job: Job, device: Device, observer: Observer, signal: AbortSignal): Promise<boolean> {
  if (isFinished(job)) return true;
  if (!existsSync(job.path)) begin(job);
  const folder = openRun(job.path);
  if (job.reportTo) folder.reportTo(job.reportTo);
  const preset = presetOf(folder);
  await loadUserFilesOf(preset);
  const { env, environmentFile } = preset;
  const startWorkers = (count: number): RolloutWorkers => threadWorkers(count, { env, environmentFile });
  const playAhead = { startWorkers, train: trainRlAsync };
  const run = new Run(folder, preset, device, observer, signal, { playAhead });
  try {
    const summary = await (job.from === undefined ? run.warmUp(true) : run.run(true));
    if (summary === null) return false;
    if ("after" in summary) {
      await writeReport(folder, summary);
      folder.pruneCheckpoints(1, bestOf(folder.readMetrics(), folder.listCheckpoints())?.step);
    }
    folder.writeFile(SUMMARY, sealed(summary));
    return true;
  } finally {
    run.dispose();
  }
}

/** Makes the folder, completely or not at all. An arm gets the lines and the checkpoint of its warm start. */
function begin({ path, preset, from, shipped = false }: Job): void {
  const unfinished = `${path}.tmp`;
  rmSync(unfinished, { recursive: true, force: true });
  const folder = createRun(unfinished, { preset });
  if (from !== undefined) {
    const source = openRun(from);
    const checkpoint = source.loadLatestCheckpoint();
    check(checkpoint !== null, () => `${from}: the warm start has no checkpoint`);
    putWarmStart(folder, { ...checkpoint, metrics: source.readMetrics(), transcripts: [] });
  }
  if (shipped) putWarmStart(folder, shippedWarmStart(preset)!);
  renameSync(unfinished, path);
  flushFolder(dirname(path)); // or the arm begins again when the power has gone
}
