/**
 * A pool of child processes that train folders, some at a time, by default with one thread each. A run depends on its
 * settings alone, so the results are the same for any number of processes. This file only starts and stops processes;
 * the caller shows their messages.
 */
import { type ChildProcess, fork } from "node:child_process";
import { extname } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { WorldgradError } from "../../engine/index.ts";
import type { Job } from "./job.ts";
import type { Message } from "./messages.ts";

export interface PoolOptions<J extends Job> {
  /** The number of processes at a time. */
  readonly jobs: number;
  /** The number of threads of each process; default 1. Results do not depend on it. */
  readonly threads?: number;
  readonly signal: AbortSignal;
  readonly onMessage: (job: J, message: Message) => void;
  readonly onFinished: (job: J) => void;
}

/**
 * Trains all jobs in order.
 * @returns whether all were completed; if not, the signal stopped them
 * @throws WorldgradError with the message of a child that failed; the others were stopped and have saved their state
 */
export async function trainAll<J extends Job>(queue: readonly J[], options: PoolOptions<J>): Promise<boolean> {
  const { jobs, threads = 1, signal, onMessage, onFinished } = options;
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
      const { child, ended } = start(job, threads, (message) => onMessage(job, message));
      running.add(child);
      const failure = await ended;
      running.delete(child);
      if (failure === null) onFinished(job);
      else if (!signal.aborted && failures.push(failure) === 1) stopAll();
    }
  };
  await Promise.all(Array.from({ length: jobs }, worker));
  signal.removeEventListener("abort", stopAll);
  const [failure] = failures;
  if (failure !== undefined) throw new WorldgradError(failure);
  return !signal.aborted;
}

/** Starts a process. `ended` gets null after success, else the error in one line. */
function start(
  job: Job,
  threads: number,
  onMessage: (message: Message) => void,
): { child: ChildProcess; ended: Promise<string | null> } {
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
  child.on("message", (message) => onMessage(message as Message));
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
  return (lines.findLast((line) => /^(worldgrad: |\w*Error\b)/.test(line)) ?? lines.at(-1) ?? "").replace(
    /^worldgrad: /,
    "",
  );
}
