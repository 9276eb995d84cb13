/** The main job as a smoke test: 20 small steps on an executor, all finite, and the policy is trained. */
import { expect } from "vitest";
import { MemoryStore } from "../../job/memoryStore.ts";
import type { Preset } from "../../job/preset.ts";
import { Run } from "../../job/run.ts";
import { presetOfFlags } from "./presetOfFlags.ts";
import type { Executor } from "./rlExecutors.ts";
import { QUIET } from "./tinyRun.ts";

type Numbers = Readonly<Record<string, unknown>>;

/** Two groups of four, so that 20 steps take a minute on a software adapter. */
export const smokePreset = (...flags: readonly string[]): Preset =>
  presetOfFlags("--quick", "--steps", "20", "--set", "rl.groups=2", "--set", "evaluation.every=20", ...flags);

/** @returns the metrics of RL's 20 steps, whose numbers are finite; the policy is trained in some of them */
export function expectTrained(store: MemoryStore): readonly Numbers[] {
  const steps = store.metrics.filter(({ phase }) => phase === "rl");
  expect(steps).toHaveLength(20);
  for (const { phase: _, ...numbers } of steps) expect(Object.values(numbers).every(Number.isFinite)).toBe(true);
  expect(steps.some((numbers) => Number(numbers["grad_norm"] ?? 0) > 0)).toBe(true);
  return steps;
}

/** Runs the preset to its end. @returns as `expectTrained` */
export async function smokeRun(executor: Executor, preset: Preset): Promise<readonly Numbers[]> {
  const store = new MemoryStore("a smoke run", { preset });
  const device = await executor.open();
  try {
    const run = new Run(store, preset, device, QUIET, new AbortController().signal);
    expect(await run.run(false)).not.toBeNull();
    run.dispose();
  } finally {
    device.dispose();
  }
  return expectTrained(store);
}
