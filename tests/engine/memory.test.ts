/** Training for long: memory, bind groups and compiled kernels reach a steady state. */
import { describe, expect, test } from "vitest";
import { device, type Device } from "../../engine/device.ts";
import { onesLike } from "../../engine/ops/create.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { gpuEnabled, gpuOptions } from "../support/gpu.ts";
import { heldBy } from "../support/held.ts";
import { TINY, tinyTraining } from "../support/tinyTraining.ts";

const open: Record<string, () => Promise<Device>> = {
  wasm: () => device("wasm"),
  ...(gpuEnabled ? { webgpu: () => device("webgpu", { webgpu: gpuOptions }) } : {}),
};

/** A step takes 15 ms on a software adapter. */
const STEPS: Record<string, number> = { wasm: 1000, webgpu: 280 };

describe.each(Object.keys(open))("hundreds of training steps on %s", (name) => {
  test("memory and caches are constant after the first few, and the loss falls", { timeout: 180_000 }, async () => {
    const on = await open[name]!();
    const training = tinyTraining(on);
    const losses: number[] = [];
    const run = async (from: number, to: number): Promise<void> => {
      for (let n = from; n < to; n++) {
        const loss = training.step(n);
        if (n % 50 === 0) losses.push(await loss.item());
        loss.dispose();
      }
      await on.synchronize();
    };
    await run(0, 10);
    const before = heldBy(on);
    for (let n = 10; n < STEPS[name]!; n += 90) {
      await run(n, n + 90);
      expect(heldBy(on), `after ${n + 90} steps`).toEqual(before);
    }
    expect(losses[0]).toBeGreaterThan(2);
    expect(losses.at(-1)).toBeLessThan(name === "wasm" ? 0.3 : 1.5);
    for (const x of treeLeaves(training.model.params)) x.dispose();
    training.optimizer.dispose();
    // The rotary tables live as long as the device.
    expect(on.backend.stats().liveBytes).toBeLessThanOrEqual(2 * 4 * TINY.maxPositions * TINY.hiddenSize);
    on.dispose();
  });

  test("a step is one command buffer; its kernels, bind groups and buffers are found again", async () => {
    const on = await open[name]!();
    const training = tinyTraining(on);
    const step = async (n: number): Promise<Record<string, number>> => {
      const loss = training.step(n);
      expect(Number.isFinite(await loss.item())).toBe(true);
      loss.dispose();
      const stats: Record<string, number> = { ...on.backend.stats() };
      return stats;
    };
    let before = await step(0);
    before = await step(1);
    for (let n = 2; n < 6; n++) {
      const after = await step(n);
      expect(after["compiledKernels"]).toBe(before["compiledKernels"]);
      if (on.kind === "webgpu") {
        expect(after["submits"]! - before["submits"]!).toBe(1);
        expect(after["bufferMisses"]).toBe(before["bufferMisses"]);
        // All of them hits, one per dispatch.
        expect(after["bindGroupHits"]! - before["bindGroupHits"]!).toBe(after["dispatches"]! - before["dispatches"]!);
      }
      before = after;
    }
    on.dispose();
  });

  test("the measure sees one tensor that is left behind", async () => {
    const on = await open[name]!();
    const training = tinyTraining(on);
    const steps = (count: number): void => {
      for (let n = 0; n < count; n++) training.step(n).dispose();
    };
    steps(3);
    const before = heldBy(on);
    const leaked = onesLike(training.model.params.norm.weight);
    steps(3);
    expect(heldBy(on)).not.toEqual(before);
    leaked.dispose();
    expect(heldBy(on)["liveBytes"]).toBe(before["liveBytes"]);
    on.dispose();
  });
});
