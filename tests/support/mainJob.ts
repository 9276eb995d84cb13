/** The main job as a real process in a folder of its own, and what it left there. */
import { type ChildProcess, spawn } from "node:child_process";
import { openSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import process from "node:process";
import { expect } from "vitest";
import { programAt } from "./programs.ts";

export interface Job {
  readonly child: ChildProcess;
  /** Everything that it has printed. */
  readonly seen: () => string;
  readonly done: Promise<number | null>;
}

/** Starts a program, such as run/cli/main.ts. */
export const startIn = (folder: string, program: string, args: readonly string[]): Job =>
  startJob(folder, process.execPath, [programAt(program), ...args]);

/** Starts a program whose standard output is a file. */
export const startOnto = (folder: string, file: string, program: string, args: readonly string[]): Job =>
  startJob(folder, process.execPath, [programAt(program), ...args], openSync(file, "w"));

/** Starts a program from its source as its npm script does: Ctrl-C also reaches a tsx that passes it on. */
export const startFromSourceIn = (folder: string, program: string, args: readonly string[]): Job =>
  startJob(folder, resolve("node_modules/.bin/tsx"), [resolve(program), ...args]);

/** The same as `npm start` does: a tsx of its own would kill a process that computes when Ctrl-C comes. */
export const startAsNpmIn = (folder: string, program: string, args: readonly string[]): Job =>
  startJob(folder, process.execPath, ["--import", import.meta.resolve("tsx"), resolve(program), ...args]);

function startJob(folder: string, command: string, args: readonly string[], output: "pipe" | number = "pipe"): Job {
  const child = spawn(command, args, {
    cwd: folder,
    env: { ...process.env, WORLDGRAD_THREADS: "1" },
    detached: true, // a process group of its own
    stdio: ["pipe", output, "pipe"],
  });
  let text = "";
  child.stdout?.on("data", (chunk: Buffer) => (text += chunk.toString()));
  child.stderr!.on("data", (chunk: Buffer) => (text += chunk.toString()));
  return { child, seen: () => text, done: new Promise((end) => child.on("close", (code) => end(code))) };
}

/** Waits until the output contains `text`. */
export async function until(run: Pick<Job, "seen" | "child">, text: string): Promise<void> {
  while (!run.seen().includes(text)) {
    expect(run.child.exitCode, `ended before it said "${text}":\n${run.seen()}`).toBe(null);
    await new Promise((next) => setTimeout(next, 20));
  }
}

/** Metrics of a run without the two that tell the time. */
export function metricsOf(path: string): Record<string, unknown>[] {
  const lines = readFileSync(join(path, "metrics.jsonl"), "utf8").trim().split("\n");
  return lines.map((line) => {
    const { step_time: _time, tokens_per_second: _speed, ...rest } = JSON.parse(line) as Record<string, unknown>;
    return rest;
  });
}

/** The files of a run's newest checkpoint. */
export function lastCheckpoint(path: string): Record<string, Buffer> {
  const checkpoints = join(path, "checkpoints");
  const newest = join(checkpoints, readdirSync(checkpoints).sort().at(-1)!);
  return Object.fromEntries(readdirSync(newest).map((name) => [name, readFileSync(join(newest, name))]));
}

/** Without what was not said, so that defaults can stand before it. */
export const definedOf = <T extends object>(options: T): T =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as T;

/** One agent in the terminal, where nothing else is said: the smallest run that has every part. */
export const ONE_AGENT = ["--quick", "--env", "terminal", "--method", "grpo+echo"] as const;
