/** The main job as a smoke test: 20 small steps, few on a GPU, all finite, and the policy is trained. */
import { expect } from "vitest";
import { MemoryStore } from "../../run/memoryStore.ts";
import type { Preset } from "../../run/preset.ts";
import { Run } from "../../run/run.ts";
import { presetOfFlags } from "./presetOfFlags.ts";
import { type Executor, wasm } from "./rlExecutors.ts";
import { QUIET } from "./tinyRun.ts";

type Numbers = Readonly<Record<string, unknown>>;

/** So small, and with episodes so short, that 20 steps take seconds, also on a software adapter. */
export function smokePreset(...flags: readonly string[]): Preset {
  const preset = presetOfFlags("--quick", "--steps", "20", "--set", "rl.groups=2", ...flags);
  const { maxTurns, maxActionTokens } = preset.rollout;
  return {
    ...preset,
    tokenizer: { ...preset.tokenizer, vocabSize: 280, corpusEpisodes: 20 },
    model: { ...preset.model, hiddenSize: 16, layers: 1, heads: 2, intermediateSize: 16 },
    sft: { ...preset.sft, demonstrations: 40, steps: 40, warmup: 2, checkpointEvery: 40, lr: 3e-2 },
    rollout: {
      ...preset.rollout,
      maxTurns: Math.min(3, maxTurns),
      maxActionTokens: Math.min(12, maxActionTokens),
      maxObservationTokens: 24,
    },
    evaluation: { every: 20, episodes: 4, finalEpisodes: 4 },
    checkpointEvery: 20,
  };
}

/**
 * Few steps on a software adapter, which takes ten times as long; that a method trains there, too, is the matter of
 * tests/methods/smoke.test.ts.
 */
const stepsOn = ({ name }: Executor): number => (name === wasm.name ? 20 : 4);

/**
 * @param count the number of steps
 * @returns the metrics of RL's steps, whose numbers are finite; in twenty the policy is trained in some of them
 */
export function expectTrained(store: MemoryStore, count = 20): readonly Numbers[] {
  const steps = store.metrics.filter(({ phase }) => phase === "rl");
  expect(steps).toHaveLength(count);
  for (const { phase: _, ...numbers } of steps) expect(Object.values(numbers).every(Number.isFinite)).toBe(true);
  if (count === 20) expect(steps.some((numbers) => Number(numbers["grad_norm"] ?? 0) > 0)).toBe(true);
  return steps;
}

/** Opens the executor, and plays a part of the run that the store holds; the part must end by itself. */
async function playOn(
  executor: Executor,
  store: MemoryStore,
  preset: Preset,
  part: (run: Run) => Promise<object | null>,
): Promise<void> {
  const device = await executor.open();
  try {
    const run = new Run(store, preset, device, QUIET, new AbortController().signal);
    expect(await part(run)).not.toBeNull();
    run.dispose();
  } finally {
    device.dispose();
  }
}

/** Fills the store with the warm start, from which a run with `resume` goes on. */
export const warmUp = (executor: Executor, store: MemoryStore, preset: Preset): Promise<void> =>
  playOn(executor, store, preset, (run) => run.warmUp(false));

/**
 * Runs the preset to its end: the warm start on WebAssembly, because a software adapter takes many times as long and
 * supervised training on WebGPU has tests of its own (tests/methods/smoke.test.ts), then RL and evaluation on
 * `executor`.
 * @returns as `expectTrained`
 */
export async function smokeRun(executor: Executor, given: Preset): Promise<readonly Numbers[]> {
  const steps = stepsOn(executor);
  const preset: Preset = { ...given, rl: { ...given.rl, steps } };
  const store = new MemoryStore("a smoke run", { preset });
  await warmUp(wasm, store, preset);
  await playOn(executor, store, preset, (run) => run.run(true));
  return expectTrained(store, steps);
}
