/**
 * A job: a folder that a process of its own trains. It is a warm start, or an arm of a comparison, which begins where a
 * warm start ended. Arms of the same warm start begin with the same weights and the same evaluation. A folder is
 * finished when it has a summary.json, which is written last.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fail } from "../../engine/errors.ts";
import type { StartOptions } from "../startOptions.ts";
import type { Preset } from "../preset.ts";
import { openRun } from "../node/runFolder.ts";
import { unsealed } from "../node/sealed.ts";

export const SUMMARY = "summary.json";

export interface Job {
  readonly path: string;
  readonly preset: Preset;
  /** The run whose warm start it begins with; undefined for a warm start itself. */
  readonly from?: string;
  readonly device: StartOptions["device"];
}

/** The number of steps of a job. */
export const stepsOf = ({ from, preset }: Job): number => (from === undefined ? preset.sft.steps : preset.rl.steps);

export const isFinished = ({ path }: Job): boolean => existsSync(join(path, SUMMARY));

/** The summary of a finished folder. @throws WorldgradError if it is not as it was written */
export function readSummary({ path }: Job): Readonly<Record<string, unknown>> {
  const file = join(path, SUMMARY);
  return unsealed(file, (problem) => fail(`${file}: ${problem}; without the file the job ends once more`));
}

/**
 * Checks the files from which results are made in finished folders, before others are trained for hours.
 * @throws WorldgradError naming the first file that is not as it was written
 */
export function checkFinished(jobs: readonly Job[]): void {
  for (const job of jobs.filter(isFinished)) {
    readSummary(job);
    openRun(job.path).loadLatestCheckpoint(); // which has the hashes of the logs
  }
}
