/** The main job with an adapter: stopped and resumed it is the run that was never stopped, to the last bit. */
import { expect, it } from "vitest";
import { device as makeDevice } from "../../engine/index.ts";
import { MemoryStore } from "../../run/memoryStore.ts";
import type { Observer } from "../../run/observer.ts";
import type { Preset } from "../../run/preset.ts";
import { presetFor } from "../../run/presets.ts";
import { Run } from "../../run/run.ts";
import { startOptions } from "../../run/startOptions.ts";

const presetOf = (...lora: string[]): Preset =>
  presetFor(startOptions({ quick: true, method: "grpo+echo", set: ["kl.beta=0.05", "lora.r=4", ...lora] }));

async function go(store: MemoryStore, preset: Preset, resume: boolean, stopAfter = Infinity): Promise<string[]> {
  const device = await makeDevice("wasm", { threads: 1 });
  const stop = new AbortController();
  const notes: string[] = [];
  let isRl = false;
  const observer: Observer = {
    phase: (name) => (isRl = name.startsWith("reinforcement")),
    update: (step) => void (isRl && step >= stopAfter && stop.abort()),
    evaluation: () => undefined,
    transcript: () => undefined,
    note: (text) => void notes.push(text),
  };
  const run = new Run(store, preset, device, observer, stop.signal);
  const summary = await run.run(resume);
  expect(summary === null).toBe(stopAfter < Infinity);
  run.dispose();
  device.dispose();
  return notes;
}

it.each([
  ["DoRA and dropout", presetOf("lora.targetModules=all-linear", "lora.loraDropout=0.1", "lora.useDora=true")],
  ["ranks and α by name", presetOf("lora.rankPattern=q_proj:2", "lora.alphaPattern=v_proj:3")],
])("with a KL penalty, %s", { timeout: 600_000 }, async (_, preset) => {
  const [whole, parts] = [new MemoryStore("whole", { preset }), new MemoryStore("parts", { preset })];
  const notes = await go(whole, preset, false);
  expect(notes.some((note) => /^adapter: [\d,]+ parameters are trained, [\d.]+ % of all$/.test(note))).toBe(true);
  await go(parts, preset, false, 3);
  await go(parts, preset, true);
  const [expected, found] = [whole.loadLatestCheckpoint()!, parts.loadLatestCheckpoint()!];
  expect(Object.keys(found.files)).toContain("adapter_model.safetensors");
  expect(Object.keys(found.files)).not.toContain("reference.safetensors");
  for (const [name, bytes] of Object.entries(expected.files))
    if (name !== "state.json") expect(Buffer.compare(found.files[name]!, bytes), name).toBe(0);
  const timeless = (store: MemoryStore): object[] =>
    store.metrics.map((record) => ({ ...record, step_time: 0, tokens_per_second: 0 }));
  expect(timeless(parts)).toEqual(timeless(whole));
});
