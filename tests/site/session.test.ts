/** A session: paused, stepped and taken back to earlier steps, it has the numbers of the run that was left alone. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { device as makeDevice, type Device } from "../../engine/index.ts";
import type { Observer } from "../../run/observer.ts";
import type { MetricsRecord } from "../../run/records.ts";
import { presetFor } from "../../run/presets.ts";
import { Run } from "../../run/run.ts";
import { startOptions } from "../../run/startOptions.ts";
import { createRun, type RunFolder } from "../../run/node/runFolder.ts";
import type { WarmStart } from "../../run/warmStart.ts";
import { Session, warmUp } from "../../site/session.ts";

const STEPS = 6;
const preset = presetFor(startOptions({ quick: true, steps: String(STEPS), method: "grpo_token+echo" }));
const quiet: Observer = { phase() {}, update() {}, evaluation() {}, transcript() {}, note() {} };

/** Lines without what depends on the clock. */
const timeless = (metrics: readonly MetricsRecord[]): unknown[] =>
  metrics.map((line) =>
    Object.fromEntries(Object.entries(line).filter(([name]) => name !== "step_time" && name !== "tokens_per_second")),
  );

const folder = mkdtempSync(join(tmpdir(), "worldgrad-session-"));
let device: Device;
let warm: WarmStart;
let whole: RunFolder;
beforeAll(async () => {
  device = await makeDevice("wasm", { threads: 1 });
  whole = createRun(join(folder, "whole"), { preset });
  const run = new Run(whole, preset, device, quiet, new AbortController().signal);
  await run.run(false);
  run.dispose();
  warm = (await warmUp(preset, device, quiet, new AbortController().signal))!;
}, 120_000);
afterAll(() => {
  device.dispose();
  rmSync(folder, { recursive: true, force: true });
});

const expectWhole = (session: Session): void => {
  expect(timeless(session.metrics)).toEqual(timeless(whole.readMetrics()));
  expect(session.transcripts).toHaveLength(whole.readTranscripts().length);
  expect(session.summary?.after.successes).toBeTypeOf("number");
};

describe("a session", () => {
  test("played to its end has the lines of the run in a folder", async () => {
    const session = new Session(preset, warm, device, quiet);
    expect(session.step).toBe(0);
    expect(await session.playTo()).toBe(true);
    expect(session.step).toBe(STEPS);
    expectWhole(session);
    expect(await session.playTo()).toBe(true); // nothing is left to do
  });

  test("step by step, paused in the middle, and back to every step: the same lines each time", async () => {
    const heard: number[] = [];
    const session = new Session(preset, warm, device, {
      ...quiet,
      update: (step) => {
        heard.push(step);
        if (heard.length === 3) session.pause();
      },
    });
    expect(await session.playTo(1)).toBe(false);
    expect([session.step, heard]).toEqual([1, [1]]);
    expect(await session.playTo()).toBe(false); // paused when two more have been heard
    expect(session.step).toBe(3);
    await session.playTo();
    expectWhole(session);
    const steps = timeless(session.metrics);
    for (const step of [5, 2, 0, 3]) {
      await session.goTo(step);
      expect(session.step).toBe(step);
      expect(session.summary).toBe(null);
      const lines = timeless(session.metrics);
      expect(lines.length).toBeGreaterThan(warm.metrics.length - 1 + step);
      expect(lines).toEqual(steps.slice(0, lines.length));
    }
    await session.playTo();
    expectWhole(session);
  });

  test("what a method remembers goes back, too: a replay buffer, an adaptive KL, the reference", async () => {
    const words = { quick: true, steps: "4", method: "grpo_token+echo", kl: "0.05", "kl-target": "0.01", replay: "1" };
    const own = presetFor(startOptions({ ...words, "importance-correction": "tis" }));
    const session = new Session(own, warm, device, quiet);
    await session.playTo();
    const lines = timeless(session.metrics);
    expect(session.metrics.at(-2)!["kl"]).toBeGreaterThan(0);
    for (const step of [1, 3, 0]) {
      await session.goTo(step);
      await session.playTo();
      expect(timeless(session.metrics)).toEqual(lines);
    }
  });

  test("plays one thing at a time", async () => {
    const session = new Session(preset, warm, device, quiet);
    const playing = session.playTo(1);
    await expect(session.playTo(2)).rejects.toThrow("playTo: the session is playing; pause it first");
    await expect(session.goTo(0)).rejects.toThrow("goTo: the session is playing; pause it first");
    await playing;
  });
});
