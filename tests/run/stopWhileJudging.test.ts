/**
 * A run that is stopped while a model that judges is made, before RL begins: it ends at once, and resumed it is the run
 * that was never stopped.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { MemoryStore } from "../../run/memoryStore.ts";
import { shownTo } from "../../run/observer.ts";
import type { Preset } from "../../run/preset.ts";
import { Run } from "../../run/run.ts";
import { EventLoop } from "../../rl/play/eventLoop.ts";
import { QUIET, tinyPreset } from "../support/tinyRun.ts";

let device: Device;
beforeAll(async () => void (device = await makeDevice("wasm")));
afterAll(() => device.dispose());

const small = (part: string): string[] =>
  ["episodes=8", "steps=3", "batchSize=2"].flatMap((option) => ["--set", `${part}.${option}`]);
const JUDGES: Readonly<Record<string, readonly string[]>> = {
  "process model": ["--reward", "prm", ...small("prm"), "--set", "prm.samples=2"],
  "outcome model": ["--reward", "orm", ...small("orm")],
  "outcome critic": ["--env", "code", "--method", "coderl", ...small("outcomeCritic")],
};
const presetOf = (who: string): Preset => tinyPreset("--steps", "2", "--kl", "0.1", ...JUDGES[who]!);

interface Played {
  readonly store: MemoryStore;
  readonly isDone: boolean;
  /** The phases, each with its last update. */
  readonly phases: readonly string[];
}

/** @param stopAt what was told last before the signal comes, from outside: "phase: update" */
async function played(who: string, { store, stopAt }: { store?: MemoryStore; stopAt?: string } = {}): Promise<Played> {
  const preset = presetOf(who);
  const at = store ?? new MemoryStore("judged", { preset });
  const stop = new AbortController();
  const phases: string[] = [];
  let phase = "";
  const told = (what: string): void => {
    phases.push(what);
    if (what === stopAt) setImmediate(() => stop.abort()); // as Ctrl-C does: when the event loop turns
  };
  const observer = {
    ...QUIET,
    phase: (name: string): void => told(`${(phase = name)}: 0`),
    update: (step: number): void => told(`${phase}: ${step}`),
  };
  const run = new Run(at, preset, device, observer, stop.signal);
  const summary = await run.run(store !== undefined);
  run.dispose();
  return { store: at, isDone: summary !== null, phases };
}

const withoutTimes = ({ store }: Played): unknown[] =>
  store.metrics.map((line) =>
    Object.fromEntries(Object.entries(line).filter(([name]) => !/time|seconds|_ms|per_second/.test(name))),
  );

describe.each(Object.keys(JUDGES))("a run with this model: %s", (who) => {
  it("says what it does, stops there, and goes on as if it had not stopped", { timeout: 60_000 }, async () => {
    const whole = await played(who);
    expect(whole.isDone).toBe(true);
    const own = whole.phases.filter((told) => told.startsWith(who));
    expect(own.length).toBeGreaterThanOrEqual(5);
    for (const stopAt of own.slice(0, -1)) {
      const stopped = await played(who, { stopAt });
      expect(stopped.isDone, stopAt).toBe(false);
      const after = stopped.phases.slice(stopped.phases.indexOf(stopAt) + 1);
      expect(
        after.filter((told) => told.endsWith(": 0") && !told.startsWith(who)),
        stopAt,
      ).toEqual([]);
      expect(after.length, stopAt).toBeLessThan(own.length - own.indexOf(stopAt) - 1);
      const resumed = await played(who, { store: stopped.store });
      expect(resumed.isDone).toBe(true);
      expect(withoutTimes(resumed), stopAt).toEqual(withoutTimes(whole));
    }
  });
});

it("what a step of such a training shows is its loss, and the signal's reason ends it", async () => {
  const stop = new AbortController();
  const shown: unknown[] = [];
  const observer = { ...QUIET, update: (...told: readonly unknown[]) => void shown.push(told) };
  const eventLoop = new EventLoop();
  const onStep = shownTo({ observer, eventLoop, signal: stop.signal });
  await onStep(1, 0.5);
  setImmediate(() => stop.abort(new Error("enough")));
  await expect(
    (async () => {
      for (let step = 2; step < 100; step++) await onStep(step, 0.25);
    })(),
  ).rejects.toThrow("enough");
  expect(shown).toEqual([
    [1, { loss: 0.5 }],
    [2, { loss: 0.25 }],
  ]);
  eventLoop.close();
});
