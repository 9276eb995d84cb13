/**
 * A job: a folder that a process of its own trains. It is a warm start, or an arm of a comparison, which begins where a
 * warm start ended. Arms of the same warm start begin with the same weights and the same evaluation. A folder is
 * finished when it has a summary.json, which is written last.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { StartOptions } from "../../job/startOptions.ts";
import type { Preset } from "../../job/preset.ts";

export const SUMMARY = "summary.json";

export interface Job {
  readonly path: string;
  readonly preset: Preset;
  /** The run whose warm start it begins with; undefined for a warm start itself. */
  readonly from?: string;
  readonly device: StartOptions["device"];
}

/** How many steps a job has. */
export const stepsOf = ({ from, preset }: Job): number => (from === undefined ? preset.sft.steps : preset.rl.steps);

export const isFinished = ({ path }: Job): boolean => existsSync(join(path, SUMMARY));

/** The summary of a finished folder. */
export function readSummary({ path }: Job): Readonly<Record<string, unknown>> {
  return JSON.parse(readFileSync(join(path, SUMMARY), "utf8")) as Record<string, unknown>;
}
