/**
 * The worlds with pages and with a screen in the main job, small: warm start, 20 steps of RL, evaluation, on
 * WebAssembly and on WebGPU; everything stays finite, and the policy is trained.
 */
import { describe, expect, it } from "vitest";
import { MemoryStore } from "../../job/memoryStore.ts";
import type { Observer } from "../../job/observer.ts";
import type { Preset } from "../../job/preset.ts";
import { Run } from "../../job/run.ts";
import { presetOfFlags } from "../support/presetOfFlags.ts";
import { gpuEnabled } from "../support/gpu.ts";
import { wasm, webgpu } from "../support/rlExecutors.ts";

const QUIET: Observer = {
  phase: () => undefined,
  update: () => undefined,
  evaluation: () => undefined,
  transcript: () => undefined,
  note: () => undefined,
};

/** Two groups of four, so that 20 steps take a minute on a software adapter. */
const quick = (...flags: readonly string[]): Preset =>
  presetOfFlags("--quick", "--steps", "20", "--set", "rl.groups=2", "--set", "evaluation.every=20", ...flags);

type Case = readonly [env: string, flag: string, value: string];
const CASES: readonly Case[] = [
  ["web", "--set", "env.levels=1-4"],
  ["screen", "--set", "env.levels=1-4"],
  ["screen", "--set", "env.coordinates=bins"],
];

const SHORT: readonly Case[] = [
  ["web", "--set", "rollout.maxTurns=2"],
  ["screen", "--set", "rollout.maxTurns=2"],
];

describe.each(gpuEnabled ? [wasm, webgpu] : [wasm])("on $name", (executor) => {
  // A software adapter takes minutes for whole episodes of an untrained model: it has each world once, with short ones.
  it.each(executor === wasm ? CASES : SHORT)("%s, %s %s", { timeout: 600_000 }, async (env, ...flags) => {
    const preset = quick("--env", env, ...flags);
    const store = new MemoryStore(env, { preset });
    const device = await executor.open();
    try {
      const run = new Run(store, preset, device, QUIET, new AbortController().signal);
      expect(await run.run(false)).not.toBeNull();
      run.dispose();
    } finally {
      device.dispose();
    }
    const steps = store.metrics.filter(({ phase }) => phase === "rl");
    expect(steps).toHaveLength(20);
    for (const { phase: _, ...numbers } of steps) expect(Object.values(numbers).every(Number.isFinite)).toBe(true);
    expect(steps.some((numbers) => Number(numbers["grad_norm"] ?? 0) > 0)).toBe(true);
  });
});
