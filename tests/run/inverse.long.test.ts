/**
 * Inverse dynamics in the main job, small: the run with labels, its controls, a run that is stopped and goes on, and
 * settings that make no sense.
 */
import { describe, expect, it } from "vitest";
import { MemoryStore } from "../../run/memoryStore.ts";
import type { Observer } from "../../run/observer.ts";
import { Run } from "../../run/run.ts";
import { presetOfFlags } from "../support/presetOfFlags.ts";
import { wasm } from "../support/rlExecutors.ts";

const SETTINGS = ["env.families=enter", "rl.groups=2", "sft.noviceShare=0.2", "tokenizer.novices=false"];
const FLAGS = ["--quick", "--env", "web", "--steps", "2", ...SETTINGS.flatMap((one) => ["--set", one])];

interface Outcome {
  readonly store: MemoryStore;
  readonly notes: readonly string[];
}

/** Plays a run; it is stopped after so many updates of a phase, if a number is given. */
async function played(flags: readonly string[], store?: MemoryStore, stopAt = Infinity): Promise<Outcome> {
  const preset = presetOfFlags(...FLAGS, ...flags);
  const at = store ?? new MemoryStore("labels", { preset });
  const notes: string[] = [];
  const stop = new AbortController();
  const observer: Observer = {
    phase: () => undefined,
    update: (step) => void (step >= stopAt && stop.abort()),
    evaluation: () => undefined,
    transcript: () => undefined,
    note: (text) => void notes.push(text),
  };
  const device = await wasm.open();
  const run = new Run(at, preset, device, observer, stop.signal);
  try {
    await run.run(store !== undefined);
  } finally {
    run.dispose();
    device.dispose();
  }
  return { store: at, notes };
}

const of = ({ store }: Outcome, phase: string): readonly Readonly<Record<string, unknown>>[] =>
  store.metrics.filter((line) => line.phase === phase);
const losses = (outcome: Outcome): unknown[] => of(outcome, "sft").map((line) => line["loss"]);

describe("labels", () => {
  it("are made, measured and imitated; a stopped run makes the same again", { timeout: 600_000 }, async () => {
    const labelled = ["--set", "sft.labelled=20"];
    const whole = await played(labelled);
    expect(whole.notes.find((note) => note.startsWith("inverse dynamics"))).toMatch(
      /^inverse dynamics: \d+\.\d % of the labels of \d+ episodes are the actions that were taken$/,
    );
    for (const line of of(whole, "sft")) {
      // A model that has hardly learnt may write actions that leave no room for the last ones.
      expect(line["labels/episodes"]).toBeGreaterThan(20);
      expect(line["labels/episodes"]).toBeLessThanOrEqual(40);
      expect(line["labels/accuracy"]).toBeGreaterThanOrEqual(0);
    }
    expect(of(whole, "rl")).toHaveLength(2);

    const stopped = await played(labelled, undefined, 5);
    expect(of(stopped, "sft").length).toBe(0); // while it learnt to label
    const resumed = await played(labelled, stopped.store);
    expect(losses(resumed)).toEqual(losses(whole));

    const shuffled = await played([...labelled, "--set", "sft.labels=shuffled"]);
    expect(losses(shuffled)).not.toEqual(losses(whole));
    const none = await played([...labelled, "--set", "sft.labels=none"]);
    expect(none.notes.some((note) => note.startsWith("inverse dynamics"))).toBe(false);
    expect(of(none, "sft")[0]).not.toHaveProperty(["labels/accuracy"]);
  });

  it.each([
    [["sft.labels=none"], "--set sft.labels is about --set sft.labelled=N; add it"],
    [["sft.labelled=60"], "--set sft.labelled: expected fewer than sft.demonstrations, 60,"],
    [["sft.labelled=0"], "sft.labelled must be an integer ≥ 1, got 0"],
    [["sft.labelled=9", "sft.labels=some"], "inverse | shuffled | none"],
  ])("%j: %s", (set, message) => {
    expect(() => presetOfFlags(...FLAGS, ...set.flatMap((one) => ["--set", one]))).toThrow(message);
  });
});
