/**
 * Self-play in the main job, small: 20 steps of each kind; stopped after some steps and continued from the checkpoint,
 * which has the tasks that were made, the run is the same to the last bit.
 */
import { expect, it } from "vitest";
import { MemoryStore } from "../../run/memoryStore.ts";
import { Run } from "../../run/run.ts";
import type { Preset } from "../../run/preset.ts";
import { presetOfFlags } from "../support/presetOfFlags.ts";
import { wasm } from "../support/rlExecutors.ts";
import { expectTrained } from "../support/smokeRun.ts";
import { QUIET } from "../support/tinyRun.ts";

/** A warm start that is long enough for some proposals to be tasks. */
const WARM = ["sft.demonstrations=400", "sft.steps=150", "sft.batchSize=16", "evaluation.every=20"];
const quick = (...flags: readonly string[]): Preset => {
  const set = [...WARM, "rl.groups=3", "rl.groupSize=3"].flatMap((one) => ["--set", one]);
  return presetOfFlags("--quick", "--env", "code", "--steps", "20", ...set, ...flags);
};
const PHASES = ["--set", "selfPlay.challengerSteps=3", "--set", "selfPlay.solverSteps=4"];

async function play(store: MemoryStore, preset: Preset, stopAfter = Infinity): Promise<void> {
  const device = await wasm.open();
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

it.each([
  ["absolute-zero", []],
  ["r-zero", PHASES],
])("%s: 20 steps, all finite; it goes on as if it had never stopped", { timeout: 900_000 }, async (name, more) => {
  const preset = quick("--self-play", name, ...more, "--set", "rl.checkpointEvery=2");
  const whole = new MemoryStore("whole", { preset });
  await play(whole, preset);
  const steps = expectTrained(whole);
  if (name === "absolute-zero") {
    expect(steps.some((numbers) => Number(numbers["self_play/valid"]) > 0)).toBe(true);
    expect(Number(steps.at(-1)!["self_play/kept"])).toBeGreaterThan(0);
  }
  const stopped = new MemoryStore("stopped", { preset });
  await play(stopped, preset, 9);
  expect(numbersOf(stopped).length).toBeLessThan(20);
  await play(stopped, preset);
  expect(numbersOf(stopped)).toEqual(numbersOf(whole));
});
