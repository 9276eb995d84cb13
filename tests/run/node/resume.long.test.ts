/**
 * A run with everything that remembers earlier steps (a running baseline, a KL coefficient, a curriculum, a buffer of
 * failed tasks, a replay buffer) is killed and resumed: it ends as the undisturbed one, to the last bit. Real processes
 * in a temporary folder.
 */
import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { lastCheckpoint, metricsOf, startIn } from "../../support/mainJob.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-resume-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

// The expert plays often enough that some episodes of a group succeed: only then is there something to replay.
const FLAGS = [
  "--quick",
  "--device",
  "wasm",
  "--steps",
  "6",
  "--env",
  "gridworld",
  "--method",
  "rae+paw",
  "--kl",
  "0.1",
  "--kl-target",
  "0.01",
  "--curriculum",
  "failed+learnability",
  "--replay",
  "1",
  "--set",
  "replay.maxUses=2",
  "--importance-correction",
  "tis",
  "--dynamic-sampling",
  "--explore",
  "0.7..0.4@6",
  "--set",
  "exploration.choose=expert",
  "--temperature",
  "1.2..0.8@6",
  "--set",
  "reward.format=0.2",
  "--set",
  "rl.lr=3e-4",
];
const pathOf = (name: string): string => join(folder, "runs", name);

test("killed after a checkpoint, and resumed", async () => {
  const whole = startIn(folder, "run/cli/main.ts", [...FLAGS, "--name", "whole"]);
  expect(await whole.done, whole.seen()).toBe(0);

  const first = startIn(folder, "run/cli/main.ts", [...FLAGS, "--name", "killed"]);
  // The checkpoint after RL step 2 (12 steps of warm start before it).
  const checkpoints = join(pathOf("killed"), "checkpoints");
  const isSaved = (): boolean => existsSync(checkpoints) && readdirSync(checkpoints).some((name) => /0*14$/.test(name));
  while (!isSaved()) {
    expect(first.child.exitCode, first.seen()).toBe(null);
    await new Promise((next) => setTimeout(next, 5));
  }
  process.kill(-first.child.pid!, "SIGKILL");
  await first.done;
  expect(metricsOf(pathOf("killed")).length).toBeLessThan(metricsOf(pathOf("whole")).length);

  // Without the optimiser's moments there is no way on: an optimiser that forgot would be another run.
  cpSync(pathOf("killed"), pathOf("bare"), { recursive: true });
  const newest = readdirSync(join(pathOf("bare"), "checkpoints"))
    .toSorted()
    .at(-1)!;
  rmSync(join(pathOf("bare"), "checkpoints", newest, "optimizer.safetensors"));
  const bare = startIn(folder, "run/cli/main.ts", ["--resume", join("runs", "bare"), "--device", "wasm"]);
  expect(await bare.done, bare.seen()).not.toBe(0);
  expect(bare.seen()).toMatch(new RegExp(`checkpoint .*${newest}: optimizer\\.safetensors is missing`));
  expect(
    readdirSync(join(pathOf("bare"), "checkpoints"))
      .toSorted()
      .at(-1),
  ).toBe(newest);

  const second = startIn(folder, "run/cli/main.ts", ["--resume", join("runs", "killed"), "--device", "wasm"]);
  expect(await second.done, second.seen()).toBe(0);

  const metrics = metricsOf(pathOf("whole"));
  expect(metricsOf(pathOf("killed"))).toEqual(metrics);
  const [files, resumed] = [lastCheckpoint(pathOf("whole")), lastCheckpoint(pathOf("killed"))];
  for (const name of [
    "model.safetensors",
    "optimizer.safetensors",
    "kl.json",
    "advantage.json",
    "curriculum.json",
    "replay.json",
  ]) {
    expect(resumed[name]!.equals(files[name]!), name).toBe(true);
  }
  // They have moved, and something was replayed.
  const last = (name: string): unknown => metrics.findLast((line) => name in line)?.[name];
  expect(metrics.some((line) => Number(line["replay/groups"]) > 0)).toBe(true);
  expect(last("temperature")).toBeLessThan(0.95);
  expect(last("kl_beta")).not.toBe(0.1);
  expect(JSON.parse(String(files["advantage.json"]))).not.toEqual({ gridworld: 0 });
  expect(last("rewards/format/mean")).toBeGreaterThan(0);
});
