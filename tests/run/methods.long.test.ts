/**
 * Whole runs: how the two gradients lie is in the metrics; one with a critic, a reference and a KL controller resumes
 * to the last bit.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createDisplay, type Display } from "../../run/display/display.ts";
import type { Preset } from "../../run/preset.ts";
import { presetOf } from "../../run/presets.ts";
import { Run } from "../../run/run.ts";
import { createRun, openRun } from "../../run/node/runFolder.ts";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { readSafetensors } from "../../nn/safetensors.ts";
import { lake } from "../support/lake.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-methods-"));
let device: Device;
beforeAll(async () => void (device = await makeDevice("wasm")));
afterAll(() => {
  device.dispose();
  rmSync(folder, { recursive: true, force: true });
});

test("a run of GRPO + ECHO has in its metrics how the two gradients lie, in every rl.gradEvery-th step", async () => {
  const plain = lake("--set", "rl.gradEvery=2");
  const preset: Preset = { ...plain, rl: { ...plain.rl, steps: 4 } };
  const folderOfRun = createRun(join(folder, "gradients"), { preset });
  const quiet = createDisplay({ stream: { write: () => true }, isTTY: false, env: {} });
  const run = new Run(folderOfRun, preset, device, quiet, new AbortController().signal);
  expect((await run.run(false))!.facts).toMatchObject({ method: "grpo_token+echo" });
  run.dispose();
  const rl = folderOfRun.readMetrics().filter(({ phase }) => phase === "rl");
  const lines = rl.filter((line) => "grad_cosine/world_policy" in line);
  // A step with flat groups alone has no policy gradient.
  const due = rl.filter((line, step) => step % 2 === 0 && Number(line["frac_reward_zero_std"]) < 1);
  expect(due.length).toBeGreaterThan(0);
  expect(lines).toEqual(due);
  for (const line of lines) {
    expect(Math.abs(line["grad_cosine/world_policy"] as number)).toBeLessThanOrEqual(1);
    expect(line["grad_ratio/world_policy"]).toBeGreaterThan(0);
  }
});

test("a run with a critic, a reference and a KL controller resumes to the last bit", async () => {
  const plain = lake("--method", "ppo+echo+actfocus", "--kl", "0.1", "--kl-target", "0.01");
  const preset: Preset = { ...plain, rl: { ...plain.rl, steps: 5 }, checkpointEvery: 1 };
  const quiet = createDisplay({ stream: { write: () => true }, isTTY: false, env: {} });

  const whole = createRun(join(folder, "whole"), { preset });
  const first = new Run(whole, preset, device, quiet, new AbortController().signal);
  expect((await first.run(false))!.facts).toMatchObject({ method: "ppo+echo+actfocus" });
  first.dispose();

  // Stopped after the third step of RL: what was saved then is all that the second session knows.
  const stop = new AbortController();
  let inRl = false;
  const stopping: Display = {
    phase: (name) => void (inRl = name.startsWith("reinforcement")),
    update: (done) => inRl && done === 3 && stop.abort(),
    note: () => {},
    evaluation: () => {},
    transcript: () => {},
    sideBySide: () => {},
    table: () => {},
    close: () => {},
  };
  const stopped = createRun(join(folder, "stopped"), { preset });
  const second = new Run(stopped, preset, device, stopping, stop.signal);
  expect(await second.run(false)).toBe(null);
  second.dispose();
  const reopened = openRun(stopped.path);
  const third = new Run(reopened, presetOf(reopened), device, quiet, new AbortController().signal);
  expect(await third.run(true)).not.toBe(null);
  third.dispose();

  const times = new Set(["step_time", "tokens_per_second"]);
  const metrics = (path: string): unknown[] =>
    openRun(path)
      .readMetrics()
      .map((line) => Object.fromEntries(Object.entries(line).filter(([name]) => !times.has(name))));
  expect(metrics(stopped.path)).toEqual(metrics(whole.path));
  const betas = whole.readMetrics().flatMap((line) => (typeof line["kl_beta"] === "number" ? [line["kl_beta"]] : []));
  expect(new Set(betas).size).toBe(5); // it moved in every step
  const last = (path: string): Record<string, string> => {
    const checkpoints = join(path, "checkpoints");
    const newest = join(checkpoints, readdirSync(checkpoints).toSorted().at(-1)!);
    const files = readdirSync(newest).filter((name) => !["state.json", "checkpoint.json"].includes(name));
    return Object.fromEntries(files.map((name) => [name, readFileSync(join(newest, name)).toString("base64")]));
  };
  const files = last(whole.path);
  expect(Object.keys(files)).toEqual(
    expect.arrayContaining(["head-value.safetensors", "kl.json", "reference.safetensors"]),
  );
  expect(last(stopped.path)).toEqual(files);
  // The critic learnt, the reference did not.
  const critic = readSafetensors(Buffer.from(files["head-value.safetensors"]!, "base64"));
  for (const name of ["head.weight", "m.weight", "v.weight"]) {
    expect(
      critic.get(name)!.data.some((x) => x !== 0),
      name,
    ).toBe(true);
  }
  expect(files["reference.safetensors"]).not.toBe(files["model.safetensors"]);
});
