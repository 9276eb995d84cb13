/**
 * The main job as a person runs it: to its end; stopped by Ctrl-C or killed, then resumed, with the same result to the
 * last bit. Real processes in a temporary folder; flags are in main.test.ts.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { openRun } from "../../../run/node/runFolder.ts";
import {
  type Job,
  lastCheckpoint,
  metricsOf,
  ONE_AGENT,
  startAsNpmIn,
  startIn,
  startOnto,
  until,
} from "../../support/mainJob.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-main-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const STEPS = ["--steps", "6", "--device", "wasm"];

const start = (script: string, args: readonly string[]): Job => startIn(folder, script, args);
const startAsNpm = (script: string, args: readonly string[]): Job => startAsNpmIn(folder, script, args);
const metrics = (name: string): unknown[] => metricsOf(join(folder, "runs", name));
const lastModel = (name: string): Buffer => lastCheckpoint(join(folder, "runs", name))["model.safetensors"]!;

const report = (name: string): string => readFileSync(join(folder, "runs", name, "report.html"), "utf8");

/** Rewrites the newest checkpoint of a run as if `seconds` had gone by until then. */
function pretendItTook(seconds: number, name: string): void {
  const run = openRun(join(folder, "runs", name));
  const checkpoint = run.loadLatestCheckpoint();
  if (checkpoint === null) throw new Error(`${name} has no checkpoint`);
  run.rewindTo(checkpoint);
  const state = JSON.parse(new TextDecoder().decode(checkpoint.files["state.json"])) as object;
  run.saveCheckpoint(checkpoint.step, { ...checkpoint.files, "state.json": JSON.stringify({ ...state, seconds }) });
}

test("runs to its end, in plain lines, with a report; the same when stopped or killed, and resumed", async () => {
  const whole = start("run/cli/main.ts", [...ONE_AGENT, "--name", "whole", ...STEPS]);
  expect(await whole.done, whole.seen()).toBe(0);
  expect(whole.seen()).toContain("success rate");
  expect(whole.seen()).not.toContain("\u001b");
  expect(existsSync(join(folder, "runs/whole/report.html"))).toBe(true);

  for (const [name, signal, startFirst] of [
    ["stopped", "SIGINT", startAsNpm],
    ["closed", "SIGHUP", start],
    ["killed", "SIGKILL", start],
  ] as const) {
    const first = startFirst("run/cli/main.ts", [...ONE_AGENT, "--name", name, ...STEPS]);
    await until(first, "reinforcement learning");
    process.kill(-first.child.pid!, signal); // the whole group, as a terminal's Ctrl-C does
    const code = await first.done;
    if (signal !== "SIGKILL") {
      expect([0, 130], first.seen()).toContain(code);
      expect(existsSync(join(folder, `runs/${name}.pid`)), "its lock").toBe(false);
    }
    pretendItTook(1000, name);
    const second = start("run/cli/main.ts", ["--resume", join("runs", name), "--device", "wasm"]);
    expect(await second.done, second.seen()).toBe(0);
    expect(metrics(name)).toEqual(metrics("whole"));
    expect(lastModel(name).equals(lastModel("whole"))).toBe(true);
    // Wall time is that of both sessions.
    const seconds = Number(/<dt>wall time \(s\)<\/dt><dd>(\d+)/.exec(report(name))?.[1]);
    expect(seconds).toBeGreaterThanOrEqual(1000);
    expect(seconds).toBeLessThan(2000);
  }

  const episode = start("run/cli/generate.ts", ["--run", "runs/whole", "--seed", "3"]);
  expect(await episode.done, episode.seen()).toBe(0);
  expect(episode.seen()).toContain("task ");
});

test("without a reader, or onto a full disk, the run is the same; nobody else gets into its folder", async () => {
  const flags = (name: string): string[] => [...ONE_AGENT, "--name", name, "--steps", "2", "--device", "wasm"];
  // As `| true` does: the reader is gone at once.
  const unread = start("run/cli/main.ts", flags("unread"));
  unread.child.stdout!.destroy();
  const errors = (job: Job): string[] => job.seen().trim().split("\n");
  await until(unread, "is gone"); // on standard error
  const second = start("run/cli/main.ts", ["--resume", "runs/unread"]);
  expect(await second.done).toBe(1);
  expect(second.seen()).toMatch(
    /runs\/unread is being trained by process \d+; wait for it, or remove runs\/unread\.pid/,
  );
  expect(await unread.done).toBe(0);
  expect(errors(unread)).toHaveLength(1);
  expect(existsSync(join(folder, "runs/unread/report.html"))).toBe(true);
  expect(existsSync(join(folder, "runs/unread.pid"))).toBe(false);

  const full = startOnto(folder, "/dev/full", "run/cli/main.ts", flags("full"));
  expect(await full.done, full.seen()).toBe(0);
  expect(errors(full)).toEqual([expect.stringContaining("ENOSPC")]);
  expect(metrics("full")).toEqual(metrics("unread"));
  expect(lastModel("full").equals(lastModel("unread"))).toBe(true);
  // As `| head -5` does: the reader goes in the middle.
  const some = start("run/cli/main.ts", flags("some"));
  while (some.seen().split("\n").length <= 5) await new Promise((next) => setTimeout(next, 20));
  some.child.stdout!.destroy();
  expect(await some.done, some.seen()).toBe(0);
  expect(metrics("some")).toEqual(metrics("unread"));
  // A reader of one byte every 50 ms, which has not got far when the run has ended.
  const reader = `const { readSync } = require("node:fs");
    const [byte, word] = [Buffer.alloc(1), new Int32Array(new SharedArrayBuffer(4))];
    while (readSync(0, byte) > 0) Atomics.wait(word, 0, 0, 50);`;
  const slow = spawn(process.execPath, ["--eval", reader], { stdio: ["pipe", "ignore", "inherit"] });
  const read = start("run/cli/main.ts", flags("slow"));
  read.child.stdout!.pipe(slow.stdin);
  expect(await read.done, read.seen()).toBe(0);
  expect(slow.exitCode).toBeNull();
  slow.kill("SIGKILL");
  expect(metrics("slow")).toEqual(metrics("unread"));
  // A program that only prints ends.
  const list = startOnto(folder, "/dev/full", "run/cli/main.ts", ["--list"]);
  expect(await list.done).toBe(0);
});
