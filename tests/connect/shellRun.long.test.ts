/**
 * The main job in the real shell, as a person runs it: to its end; killed and resumed, with the same bits; with workers
 * in threads; with faults. No sandbox is left behind. Needs bubblewrap.
 */
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { afterAll, expect, test } from "vitest";
import { shell } from "../../connect/shell/index.ts";
import { withFaults } from "../../environments/index.ts";
import { lastCheckpoint, metricsOf, startFromSourceIn, startIn, until } from "../support/mainJob.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-shell-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A size of disk that no other test asks for, by which these sandboxes are known among all processes. */
const DISK_MB = 5;
const MARK = `\0${DISK_MB * 2 ** 20}\0`;

/**
 * An action of three tokens has no room for a pipeline, whose parts would complain in any order: a model that writes
 * random bytes comes upon them.
 */
const FLAGS = [
  "--quick",
  "--set",
  `env.diskMb=${DISK_MB}`,
  "--env",
  "shell",
  "--set",
  "rollout.maxActionTokens=3",
  "--device",
  "wasm",
];

/**
 * Whether a process is the second half of a `bwrap` whose first half was killed just then: it waits for a word of the
 * first half for ever, and has begun nothing (docs/security.md).
 */
function isHalf(pid: string): boolean {
  const [call, descriptor] = readFileSync(`/proc/${pid}/syscall`, "utf8").split(" ");
  return call === "0" && readlinkSync(`/proc/${pid}/fd/${Number(descriptor)}`).includes("eventfd");
}

/** The numbers of the processes that run these sandboxes. */
const sandboxes = (): string[] =>
  readdirSync("/proc").filter((name) => {
    try {
      const isOurs = /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, "utf8").includes(MARK);
      return isOurs && !isHalf(name);
    } catch {
      return false; // it has just ended
    }
  });
/** A sandbox ends a moment after its trainer. */
async function noneIsLeft(): Promise<void> {
  await expect.poll(sandboxes, { timeout: 10_000 }).toEqual([]);
}

test("a run ends; killed and resumed it has the same bits; workers end it, too; no sandbox is left", async () => {
  const whole = startIn(folder, "run/cli/main.ts", [...FLAGS, "--name", "whole"]);
  expect(await whole.done, whole.seen()).toBe(0);
  await noneIsLeft();

  // A program that plays nothing knows the environment of the run, too.
  const model = startFromSourceIn(folder, "run/cli/export.ts", ["--run", "runs/whole", "--to", "exported"]);
  expect(await model.done, model.seen()).toBe(0);

  const first = startIn(folder, "run/cli/main.ts", [...FLAGS, "--name", "killed"]);
  await until(first, "reinforcement learning");
  process.kill(-first.child.pid!, "SIGKILL");
  await first.done;
  await noneIsLeft();
  const second = startIn(folder, "run/cli/main.ts", ["--resume", "runs/killed", "--device", "wasm"]);
  expect(await second.done, second.seen()).toBe(0);
  const [a, b] = ["whole", "killed"].map((name) => join(folder, "runs", name));
  expect(metricsOf(b!)).toEqual(metricsOf(a!));
  expect(lastCheckpoint(b!)["model.safetensors"]!.equals(lastCheckpoint(a!)["model.safetensors"]!)).toBe(true);

  const workers = startIn(folder, "run/cli/main.ts", [...FLAGS, "--name", "workers", "--workers", "2"]);
  expect(await workers.done, workers.seen()).toBe(0);
  const ofWorkers = lastCheckpoint(join(folder, "runs/workers"))["model.safetensors"]!;
  expect(ofWorkers.equals(lastCheckpoint(a!)["model.safetensors"]!)).toBe(true);
  await noneIsLeft();
});

test("with faults, answers of the real shell have stamps, and verdicts lie; the truth stands in the info", async () => {
  const faulty = withFaults(shell);
  const options = { families: ["permit"], diskMb: DISK_MB, noise: 1, falsePositives: 1, falseNegatives: 1 };
  const stamp = /\[\d\d:\d\d:\d\d \d{4}\]$/;
  const env = faulty.make(options);
  const task = await env.reset(0);
  expect(sandboxes()).not.toEqual([]);
  expect((await env.step("ls")).observation).toMatch(stamp);
  expect((await env.step("ls /nowhere")).observation).toMatch(/No such file or directory\n\[exit 2\] \[/);
  const action = faulty.expert!(env);
  expect((await env.step(action)).observation).toMatch(stamp);
  expect(await env.step("done")).toMatchObject({ reward: 0, done: true, info: { success: true } });
  env.close!();
  const again = faulty.make(options);
  expect(await again.reset(0)).toBe(task);
  expect(await again.step("done")).toMatchObject({ reward: 1, done: true, info: { success: false } });
  again.close!();
  await noneIsLeft();
});
