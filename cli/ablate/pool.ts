/**
 * Trains folders in child processes, some at a time, each with one thread. A run depends on its settings alone, so what comes out is
 * the same for any number of processes. Here is only who runs when, and how far all of them are together.
 */
import { type ChildProcess, fork } from "node:child_process";
import { extname } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { WorldgradError } from "../../engine/errors.ts";
import type { Progress } from "./cell.ts";
import type { Job } from "./plan.ts";

export interface PoolOptions<J extends Job> {
  /** How many at a time. */
  readonly jobs: number;
  readonly signal: AbortSignal;
  /** Whenever one of them has moved: steps done by all jobs together, and what those that run now measured last. */
  readonly onProgress: (done: number, metrics: Readonly<Record<string, number>>) => void;
  readonly onFinished: (job: J) => void;
}

/** Steps that a job has to do. */
export const stepsOf = ({ from, preset }: Job): number => (from === undefined ? preset.sft.steps : preset.rl.steps);

/**
 * @returns whether all came to their end; if not, the signal stopped them
 * @throws WorldgradError with what a child said, if one failed; the others were stopped and have saved what they learnt
 */
export async function trainAll<J extends Job>(queue: readonly J[], options: PoolOptions<J>): Promise<boolean> {
  const { jobs, signal, onProgress, onFinished } = options;
  const waiting = [...queue];
  const steps = new Map<Job, number>();
  const running = new Map<Job, { child: ChildProcess; metrics: Readonly<Record<string, number>> }>();
  const failures: string[] = [];
  const stopAll = (): void => {
    for (const { child } of running.values()) child.kill("SIGINT");
  };
  signal.addEventListener("abort", stopAll);
  const tell = (): void => {
    const done = [...steps.values()].reduce((sum, n) => sum + n, 0);
    onProgress(done, together([...running.values()].map(({ metrics }) => metrics)));
  };
  const worker = async (): Promise<void> => {
    while (!signal.aborted && failures.length === 0) {
      const job = waiting.shift();
      if (job === undefined) return;
      const { child, ended } = start(job, (progress) => {
        steps.set(job, progress.step);
        running.set(job, { child, metrics: progress.metrics });
        tell();
      });
      running.set(job, { child, metrics: {} });
      const failure = await ended;
      running.delete(job);
      if (failure === null) {
        steps.set(job, stepsOf(job));
        onFinished(job);
        tell();
      } else if (!signal.aborted && failures.push(failure) === 1) stopAll();
    }
  };
  await Promise.all(Array.from({ length: jobs }, worker));
  signal.removeEventListener("abort", stopAll);
  const [failure] = failures;
  if (failure !== undefined) throw new WorldgradError(failure);
  return !signal.aborted;
}

/** `ended`: null after success, else what went wrong, in a line. */
function start(job: Job, onProgress: (p: Progress) => void): { child: ChildProcess; ended: Promise<string | null> } {
  const program = new URL(`cell${extname(fileURLToPath(import.meta.url))}`, import.meta.url);
  const child = fork(program, [JSON.stringify(job)], {
    env: { WORLDGRAD_THREADS: "1", ...process.env },
    silent: true,
    // Out of the group that Ctrl-C reaches: this process tells its children, once.
    detached: true,
  });
  let said = "";
  const hear = (chunk: Buffer): void => void (said = (said + chunk.toString()).slice(-4000));
  child.stdout?.on("data", hear);
  child.stderr?.on("data", hear);
  child.on("message", (message) => onProgress(message as Progress));
  const ended = new Promise<string | null>((end) => {
    child.on("error", (error) => end(`${job.path}: ${error.message}`));
    child.on("close", (code, signal) => end(code === 0 ? null : `${job.path}: ${messageIn(said) || `ended by ${signal ?? `code ${code}`}`}`)); // prettier-ignore
  });
  return { child, ended };
}

/** Of what it wrote, the line with the message: the one that names an error, or the last. */
function messageIn(text: string): string {
  const lines = text.trim().split("\n");
  return (lines.findLast((line) => /^(worldgrad: |\w*Error\b)/.test(line)) ?? lines.at(-1) ?? "").replace(
    /^worldgrad: /,
    "",
  );
}

/** Means over the cells that run now; tokens per second are those of all. */
function together(cells: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const names = ["reward", "success", "loss", "world_loss", "tokens_per_second"];
  return Object.fromEntries(
    names.flatMap((name): [string, number][] => {
      const values = cells.map((metrics) => metrics[name]).filter((value) => value !== undefined);
      if (values.length === 0) return [];
      const sum = values.reduce((a, b) => a + b, 0);
      return [[name, name === "tokens_per_second" ? sum : sum / values.length]];
    }),
  );
}
