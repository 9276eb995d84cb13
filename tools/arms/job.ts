/**
 * A folder to be trained, in a process of its own: a warm start, or an arm of a comparison, which begins where a warm start ended. Arms
 * that share one begin with the same weights and the same evaluation. A folder is finished when it has a summary.json, which is written
 * last.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { StartOptions } from "../../node/job/commandLine.ts";
import type { Preset } from "../../node/job/preset.ts";

export const SUMMARY = "summary.json";

export interface Job {
  readonly path: string;
  readonly preset: Preset;
  /** The run whose warm start it begins with; none: it is a warm start. */
  readonly from?: string;
  readonly device: StartOptions["device"];
}

/** Steps that a job has to do. */
export const stepsOf = ({ from, preset }: Job): number => (from === undefined ? preset.sft.steps : preset.rl.steps);

export const isFinished = ({ path }: Job): boolean => existsSync(join(path, SUMMARY));

/** What a finished folder says of itself. */
export function readSummary({ path }: Job): Readonly<Record<string, unknown>> {
  return JSON.parse(readFileSync(join(path, SUMMARY), "utf8")) as Record<string, unknown>;
}
