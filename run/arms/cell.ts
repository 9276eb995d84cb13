/**
 * The process that trains one folder (jobs.ts starts it): a warm start, or an arm from its warm start to its end. It
 * begins or continues the folder, tells its parent what a display would show, and ends when the parent does.
 */
import { dirname } from "node:path";
import process from "node:process";
import { device } from "../../engine/index.ts";
import { fail } from "../../engine/errors.ts";
import { makeFolder } from "../node/disk.ts";
import { report } from "../node/flags.ts";
import { outliveOutput, outputTaken } from "../node/output.ts";
import { STOP_SIGNALS } from "../node/interrupt.ts";
import { lockFolder } from "../node/lock.ts";
import type { Observer } from "../observer.ts";
import type { Job } from "./jobs.ts";
import { trainJob } from "./train.ts";

/** The time to wait until the process of a killed comparison has noticed that its parent is gone. */
const PATIENCE_MS = 30_000;

const tell =
  <K extends keyof Observer>(name: K) =>
  (...args: Parameters<Observer[K]>): void => {
    if (process.connected) process.send?.([name, args]);
  };
const PARENT: Observer = {
  phase: tell("phase"),
  update: tell("update"),
  evaluation: tell("evaluation"),
  transcript: tell("transcript"),
  note: tell("note"),
};

async function main(): Promise<number> {
  outliveOutput();
  const job = JSON.parse(process.argv[2] ?? fail("cell: expected a job")) as Job;
  const stop = new AbortController();
  for (const signal of STOP_SIGNALS) process.on(signal, () => stop.abort(new Error("interrupted")));
  // If the parent was killed, the messages are lost, and the next comparison needs the folder.
  process.on("disconnect", () => process.exit(1));
  makeFolder(dirname(job.path));
  const release = await lockFolder(job.path, { patienceMs: PATIENCE_MS });
  const executor = await device(job.device);
  try {
    return (await trainJob(job, executor, PARENT, stop.signal)) ? 0 : 130;
  } finally {
    release();
  }
}

process.exitCode = await main().catch(report);
await outputTaken();
// Threads and Dawn may keep the process alive after their device is disposed.
process.exit();
