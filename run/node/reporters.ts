/**
 * Files of a run for other programs, made from its metrics: events.out.tfevents.… for TensorBoard, and metrics.csv. The
 * run folder (runFolder.ts) keeps those that are there up to date while the run is trained. metrics.jsonl stays the one
 * log: a run that is resumed, whose log is cut back, has these files written anew. So no step is in them twice, and a
 * record that was cut off by a kill does not stay.
 */
import { appendFileSync, readFileSync, readdirSync, rmSync, statSync, truncateSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import type { MetricsRecord, Phase, ReporterName } from "../records.ts";
import { csvHead, csvRow } from "./csv.ts";
import { has, named, writeAtomically, writeFlushed } from "./disk.ts";
import { eventFileHead, scalarsEvent } from "./eventFile.ts";

/** A file that is made from the lines of metrics.jsonl. */
export interface Reporter {
  /** Whether the folder has such a file. */
  isThere(): boolean;
  /** Writes the file anew. */
  rewrite(lines: readonly MetricsRecord[]): void;
  /** Adds a line. @param all all lines, the new one included */
  append(line: MetricsRecord, all: () => readonly MetricsRecord[]): void;
}

/** The files that `--report-to` names, each for the run in `folder`. */
export const REPORTER_FILES: Readonly<Record<ReporterName, (folder: string) => Reporter>> = {
  tensorboard,
  csv,
};

const EVENT_FILE = /^events\.out\.tfevents\.(\d+)\./;
/** The first part of a tag, by which TensorBoard groups charts. */
const GROUPS: Readonly<Record<Phase, string>> = { sft: "warm_start", rl: "train", eval: "eval" };

/** A name for a file that is made now, and after that of an earlier second. */
function nameAfter(last: number): string {
  const made = Math.max(Math.floor(Date.now() / 1000), last + 1);
  return `events.out.tfevents.${String(made).padStart(10, "0")}.${hostname()}`;
}

/**
 * An event file under TensorFlow's name for it, which has the second when it was made. The time of an event is that of
 * config.json plus the time of all steps until then, as the log has no clock: breaks and evaluations do not count.
 */
function tensorboard(folder: string): Reporter {
  let path: string | undefined;
  let seconds = 0;
  const files = (): string[] => readdirSync(folder).filter((name) => EVENT_FILE.test(name));
  const eventOf = ({ step, phase, ...metrics }: MetricsRecord): Buffer => {
    const { step_time: duration } = metrics;
    if (typeof duration === "number" && Number.isFinite(duration)) seconds += duration;
    const values = Object.entries(metrics).flatMap(([name, value]) =>
      typeof value === "number" ? [[`${GROUPS[phase]}/${name}`, value] as const] : [],
    );
    return scalarsEvent(seconds, step, Object.fromEntries(values));
  };
  const rewrite = (lines: readonly MetricsRecord[]): void => {
    seconds = statSync(join(folder, "config.json")).mtimeMs / 1000;
    const bytes = Buffer.concat([eventFileHead(seconds), ...lines.map(eventOf)]);
    const old = files().toSorted();
    const newest = old.at(-1);
    if (newest !== undefined && readFileSync(join(folder, newest)).equals(bytes)) {
      path = join(folder, newest);
      return;
    }
    // A TensorBoard that is open goes on to the file whose name comes next.
    path = join(folder, nameAfter(newest === undefined ? 0 : Number(EVENT_FILE.exec(newest)![1])));
    writeFlushed(path, bytes);
    // The old file is emptied, and removed the next time: a TensorBoard whose file is gone stays there for good.
    for (const name of old) {
      const at = join(folder, name);
      if (statSync(at).size === 0) rmSync(at);
      else truncateSync(at);
    }
  };
  return {
    isThere: () => files().length > 0,
    rewrite,
    append(line, all) {
      const open = path;
      if (open === undefined) rewrite(all());
      else named(open, () => appendFileSync(open, eventOf(line)));
    },
  };
}

/** metrics.csv: a row for each line. A metric that comes later has the file written anew, with a column more. */
function csv(folder: string): Reporter {
  const path = join(folder, "metrics.csv");
  let columns: readonly string[] = [];
  const rewrite = (lines: readonly MetricsRecord[]): void => {
    columns = [...new Set(["step", "phase", ...lines.flatMap((line) => Object.keys(line))])];
    writeAtomically(path, [csvHead(columns), ...lines.map((line) => csvRow(line, columns))].join(""));
  };
  return {
    isThere: () => has(path),
    rewrite,
    append(line, all) {
      if (Object.keys(line).some((name) => !columns.includes(name))) rewrite(all());
      else named(path, () => appendFileSync(path, csvRow(line, columns)));
    },
  };
}
