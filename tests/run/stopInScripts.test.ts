/**
 * A run that is stopped while scripted players play, as they do before a tokenizer is trained, before a warm start,
 * for an evaluation and for a baseline: the next of their episodes is not begun, which matters where the environment
 * is a server.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { environmentOf } from "../../run/worlds.ts";
import { MemoryStore } from "../../run/memoryStore.ts";
import { Run } from "../../run/run.ts";
import { QUIET, tinyPreset } from "../support/tinyRun.ts";

let device: Device;
beforeAll(async () => void (device = await makeDevice("wasm")));
afterAll(() => device.dispose());

const CORPUS = 12;
const DEMONSTRATIONS = 10;
const HELD_OUT = 6;

/** Plays until the n-th environment is made after `phase` began (undefined: from the start), and stops there. */
async function stopped(method: string, n: number, phase?: string): Promise<{ made: number; store: MemoryStore }> {
  const preset = tinyPreset("--method", method, "--steps", "2");
  const own = {
    ...preset,
    tokenizer: { ...preset.tokenizer, corpusEpisodes: CORPUS },
    sft: { ...preset.sft, demonstrations: DEMONSTRATIONS },
    evaluation: { ...preset.evaluation, finalEpisodes: HELD_OUT },
  };
  const stop = new AbortController();
  const env = environmentOf(own);
  let [made, isCounting] = [0, phase === undefined];
  const { make } = env;
  const spy = vi.spyOn(env, "make").mockImplementation((options) => {
    if (isCounting && ++made === n) stop.abort(new Error("enough"));
    return make(options);
  });
  const observer = { ...QUIET, phase: (name: string): void => void (isCounting ||= name.includes(phase!)) };
  const store = new MemoryStore("stopped", { preset: own });
  const run = new Run(store, own, device, observer, stop.signal);
  try {
    expect(await run.run(false)).toBeNull();
    expect(stop.signal.aborted).toBe(true);
  } finally {
    spy.mockRestore();
    run.dispose();
  }
  return { made, store };
}

describe("is stopped", () => {
  it.each([
    ["in the tokenizer's corpus", 3],
    ["in the demonstrations", CORPUS + 3],
  ])("%s", async (_, n) => {
    const { made, store } = await stopped("grpo", n);
    expect(made).toBe(n);
    expect(store.metrics).toEqual([]);
    expect(store.loadLatestCheckpoint()).toBeNull();
  });

  it("in the episodes on which an evaluation measures the world loss", async () => {
    const { made } = await stopped("grpo", HELD_OUT + 1, "evaluating");
    expect(made).toBe(HELD_OUT + 1); // the expert's episode is broken off, and random play does not take its task
  });

  it("in the lessons of the expert", async () => {
    const { made, store } = await stopped("expert", 1, "imitation");
    expect(made).toBe(1);
    expect(store.metrics.filter((line) => line["phase"] === "rl")).toEqual([]);
  });
});
