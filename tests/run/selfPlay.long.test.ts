/**
 * Self-play in the main job, small: 20 steps of each kind on WebAssembly, few on WebGPU; stopped after some steps and
 * continued from the checkpoint, which has the tasks that were made, the run is the same to the last bit.
 */
import { describe, expect, it } from "vitest";
import { MemoryStore } from "../../run/memoryStore.ts";
import { Run } from "../../run/run.ts";
import type { Preset } from "../../run/preset.ts";
import { presetOfFlags } from "../support/presetOfFlags.ts";
import { gpuEnabled } from "../support/gpu.ts";
import { type Executor, wasm, webgpu } from "../support/rlExecutors.ts";
import { expectTrained, stepsOn, warmUp } from "../support/smokeRun.ts";
import { QUIET } from "../support/tinyRun.ts";

/** A warm start that is long enough for some proposals to be tasks. */
const WARM = ["sft.demonstrations=400", "sft.steps=150", "sft.batchSize=16", "evaluation.every=20"];
const quick = (steps: number, ...flags: readonly string[]): Preset => {
  const set = [...WARM, "rl.groups=3", "rl.groupSize=3"].flatMap((one) => ["--set", one]);
  return presetOfFlags("--quick", "--env", "code", "--steps", String(steps), ...set, ...flags);
};
const PHASES = ["--set", "selfPlay.challengerSteps=3", "--set", "selfPlay.solverSteps=4"];

async function play(executor: Executor, store: MemoryStore, preset: Preset, stopAfter = Infinity): Promise<void> {
  const device = await executor.open();
  const stop = new AbortController();
  const witness = {
    begins: () => undefined,
    ended: ({ step }: { readonly step: number }) => (step + 1 >= stopAfter ? stop.abort() : undefined),
  };
  const run = new Run(store, preset, device, QUIET, stop.signal, { witness });
  try {
    await run.run(store.metrics.length > 0);
  } finally {
    run.dispose();
    device.dispose();
  }
}

/** The metrics of RL's steps, without times. */
const numbersOf = (store: MemoryStore): Readonly<Record<string, unknown>>[] =>
  store.metrics
    .filter(({ phase }) => phase === "rl")
    .map((line) =>
      Object.fromEntries(Object.entries(line).filter(([name]) => !/^(step_time|tokens_per_second)$/.test(name))),
    );

describe.each(gpuEnabled ? [wasm, webgpu] : [wasm])("on $name", (executor) => {
  it.each([
    ["absolute-zero", []],
    ["r-zero", PHASES],
  ])("%s: steps that are all finite, with tasks of the model's own", { timeout: 900_000 }, async (name, more) => {
    const count = stepsOn(executor);
    const preset = quick(count, "--self-play", name, ...more);
    const store = new MemoryStore(name, { preset });
    // On WebAssembly, as in smokeRun.
    await warmUp(wasm, store, preset);
    await play(executor, store, preset);
    const steps = expectTrained(store, count);
    if (name === "absolute-zero" && executor === wasm) {
      expect(steps.some((numbers) => Number(numbers["self_play/valid"]) > 0)).toBe(true);
      expect(Number(steps.at(-1)!["self_play/kept"])).toBeGreaterThan(0);
    }
  });
});

it.each([
  ["absolute-zero", []],
  ["r-zero", PHASES],
])("%s goes on as if it had never stopped", { timeout: 900_000 }, async (name, more) => {
  const preset = quick(20, "--self-play", name, ...more, "--set", "rl.checkpointEvery=2");
  const whole = new MemoryStore("whole", { preset });
  await play(wasm, whole, preset);
  const stopped = new MemoryStore("stopped", { preset });
  await play(wasm, stopped, preset, 9);
  expect(numbersOf(stopped).length).toBeLessThan(20);
  await play(wasm, stopped, preset);
  expect(numbersOf(stopped)).toEqual(numbersOf(whole));
});
