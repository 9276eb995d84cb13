/**
 * The jobs of a comparison: folders that processes of their own train, by default with one thread each. A job is a warm
 * start, or an arm that begins where a warm start ended; arms of one warm start begin with equal weights and the same
 * evaluation. A run depends on its settings alone, so the results are the same for any number of processes. This file
 * only starts and stops processes; the caller's observers show their progress.
 */
import { type ChildProcess, fork } from "node:child_process";
import { existsSync } from "node:fs";
import { extname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { fail } from "../../engine/errors.ts";
import { WorldgradError } from "../../engine/index.ts";
import { type Arm, presetOfArm } from "../arms.ts";
import { withFiles } from "../node/commandLine.ts";
import { openRun } from "../node/runFolder.ts";
import { unsealed } from "../node/sealed.ts";
import type { Observer } from "../observer.ts";
import type { Preset } from "../preset.ts";
import { presetFor } from "../presets.ts";
import type { StartOptions } from "../startOptions.ts";

/** The file of a finished folder, which is written last. */
export const SUMMARY = "summary.json";

export interface Job {
  readonly path: string;
  readonly preset: Preset;
  /** The run whose warm start it begins with; undefined for a warm start itself. */
  readonly from?: string;
  readonly device: StartOptions["device"];
  /** Whether it begins with the warm start that lies beside the source (node/shippedWarmStart.ts). */
  readonly shipped?: boolean;
  readonly reportTo?: StartOptions["reportTo"];
}

/** The job of a warm start. It has no method: its folder names plain GRPO, whatever the arms are. */
export function warmJob(path: string, base: StartOptions): Job {
  return { path, preset: presetFor({ ...base, method: "grpo_token" }), device: base.device, reportTo: base.reportTo };
}

/** @throws UsageError in one line that names the arm */
export function armJob(path: string, arm: Arm, base: StartOptions, from: string): Job {
  const { device, reportTo } = base;
  return { path, preset: presetOfArm(arm, base, withFiles), from, device, reportTo };
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

/**
 * A message of a child: what its run tells an observer. Messages travel by structured clone, so that NaN stays NaN.
 */
export type Message = {
  [K in keyof Observer]: readonly [name: K, args: Parameters<Observer[K]>];
}[keyof Observer];

export interface PoolOptions<J extends Job> {
  /** The number of processes at a time. */
  readonly jobs: number;
  /** The number of threads of each process; default 1. Results do not depend on it. */
  readonly threads?: number;
  readonly signal: AbortSignal;
  /** The observer of a job, which is told what happens in its process. */
  readonly observer: (job: J) => Observer;
  readonly onFinished?: (job: J) => void;
}

/**
 * Trains all jobs in order.
 * @returns whether all were completed; if not, the signal stopped them
 * @throws WorldgradError with the message of a child that failed; the others were stopped and have saved their state
 */
export async function trainAll<J extends Job>(queue: readonly J[], options: PoolOptions<J>): Promise<boolean> {
  const { jobs, threads = 1, signal, observer, onFinished } = options;
  const waiting = [...queue];
  const running = new Set<ChildProcess>();
  const failures: string[] = [];
  const stopAll = (): void => {
    for (const child of running) child.kill("SIGINT");
  };
  signal.addEventListener("abort", stopAll);
  const worker = async (): Promise<void> => {
    while (!signal.aborted && failures.length === 0) {
      const job = waiting.shift();
      if (job === undefined) return;
      const { child, ended } = start(job, threads, observer(job));
      running.add(child);
      const failure = await ended;
      running.delete(child);
      if (failure === null) onFinished?.(job);
      else if (!signal.aborted && failures.push(failure) === 1) stopAll();
    }
  };
  await Promise.all(Array.from({ length: jobs }, worker));
  signal.removeEventListener("abort", stopAll);
  const [failure] = failures;
  if (failure !== undefined) throw new WorldgradError(failure);
  return !signal.aborted;
}

/** The receiver of warnings of several runs: what one of them has said is not shown for another. */
export function toldOnce(show: (line: string) => void): (line: string, text: string) => void {
  const told = new Set<string>();
  return (line, text) => {
    if (!told.has(text)) show(line);
    told.add(text);
  };
}

/** Starts a process. `ended` gets null after success, else the error in one line. */
function start(job: Job, threads: number, observer: Observer): { child: ChildProcess; ended: Promise<string | null> } {
  const program = new URL(`cell${extname(fileURLToPath(import.meta.url))}`, import.meta.url);
  const child = fork(program, [JSON.stringify(job)], {
    env: { WORLDGRAD_THREADS: String(threads), ...process.env },
    silent: true,
    // Detached from the group that Ctrl-C reaches: this process stops its children itself, once.
    detached: true,
    // JSON would turn a loss that is NaN into null.
    serialization: "advanced",
  });
  let output = "";
  const hear = (chunk: Buffer): void => void (output = (output + chunk.toString()).slice(-4000));
  child.stdout?.on("data", hear);
  child.stderr?.on("data", hear);
  child.on("message", (message) => {
    const [name, args] = message as Message;
    (observer[name] as (...args: readonly unknown[]) => void)(...args);
  });
  const ended = new Promise<string | null>((end) => {
    child.on("error", (error) => end(`${job.path}: ${error.message}`));
    child.on("close", (code, signal) =>
      end(code === 0 ? null : `${job.path}: ${messageIn(output) || `ended by ${signal ?? `code ${code}`}`}`),
    );
  });
  return { child, ended };
}

/** The line with the message in a process's output: the one that names an error, or the last. */
function messageIn(text: string): string {
  const lines = text.trim().split("\n");
  const line = lines.findLast((one) => /^(worldgrad: |\w*Error\b)/.test(one)) ?? lines.at(-1) ?? "";
  return line.replace(/^worldgrad: /, "");
}
