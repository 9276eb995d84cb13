/**
 * A WebGPU device that is lost in the middle of a training run: what is said, what is left on the disk, how the run
 * goes on.
 */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createRun, openRun } from "../../run/node/runFolder.ts";
import { device } from "../../engine/device.ts";
import { modelFromFiles, modelToFiles } from "../../pretrained/index.ts";
import { optimizerToFiles, restoreOptimizer } from "../../nn/index.ts";
import { tappedAdapter } from "../support/gpu.ts";
import { tinyTraining } from "../support/tinyTraining.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "worldgrad-lost-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("a device lost in training gives one clear error; the run goes on from the last checkpoint", async () => {
  const { adapter, device: gpu } = await tappedAdapter();
  const on = await device("webgpu", { webgpu: { adapter } });
  const training = tinyTraining(on);
  const run = createRun(join(folder, "run"), {});
  /** A trainer's loop: a step, its line, every second step a checkpoint. */
  const train = async (from: number, to: number): Promise<void> => {
    for (let n = from; n <= to; n++) {
      const loss = training.step(n);
      if (n === 6) gpu().destroy(); // the step's commands are recorded and not yet read back
      run.appendMetrics({ step: n, phase: "sft", loss: await loss.item() });
      loss.dispose();
      if (n % 2 !== 0) continue;
      run.saveCheckpoint(n, {
        ...(await modelToFiles(training.model)),
        ...(await optimizerToFiles(training.model.config, training.optimizer)),
      });
    }
  };
  const lost = /^webgpu device was lost: destroyed.*; last op: .*; rebuild from the last checkpoint$/;
  await expect(train(1, 10)).rejects.toThrow(lost);
  // Whoever goes on regardless gets the same error: nothing is computed, nothing is saved, nothing waits.
  expect(() => training.step(7)).toThrow(lost);
  await expect(modelToFiles(training.model)).rejects.toThrow(lost);
  await expect(on.synchronize()).rejects.toThrow(lost);
  on.dispose();

  expect(readdirSync(join(run.path, "checkpoints"))).toEqual(["step-000002", "step-000004"]);
  const again = openRun(run.path);
  const saved = again.loadLatestCheckpoint()!;
  expect(saved.step).toBe(4);
  again.rewindTo(saved);
  expect(again.readMetrics().map(({ step }) => step)).toEqual([1, 2, 3, 4]);

  // On wasm: the step after the checkpoint has the loss that an undisturbed run has there.
  const wasm = await device("wasm");
  const text = (bytes: Uint8Array | undefined): string => new TextDecoder().decode(bytes);
  const model = modelFromFiles(text(saved.files["config.json"]), saved.files["model.safetensors"]!, wasm);
  const resumed = tinyTraining(wasm, 1, model);
  restoreOptimizer(model.config, resumed.optimizer, saved.files["optimizer.safetensors"]!);
  const undisturbed = tinyTraining(wasm);
  for (let n = 1; n <= 4; n++) undisturbed.step(n).dispose();
  for (let n = 5; n <= 7; n++) {
    expect(Math.abs((await resumed.step(n).item()) - (await undisturbed.step(n).item()))).toBeLessThan(1e-4);
  }
  wasm.dispose();
});
