/** Every method by name, with a world model and a token weighting on top, does 20 steps on WebGPU and gets what wasm gets. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import { learn } from "../../rl/learn.ts";
import { METHODS, objectiveOf } from "../../rl/methods.ts";
import { randomBatch, toyLearner } from "../support/rlBatches.ts";
import { gpuEnabled } from "../support/gpu.ts";
import { wasm, webgpu } from "../support/rlExecutors.ts";

describe.each(gpuEnabled ? [webgpu] : [wasm])("on $name", ({ open }) => {
  let device: Device;
  let other: Device;
  beforeAll(async () => {
    [device, other] = [await open(), await wasm.open()];
  });
  afterAll(() => [device, other].forEach((d) => d.dispose()));

  it.each(Object.keys(METHODS))("%s+paw+actfocus", { timeout: 60_000 }, async (name) => {
    const objective = objectiveOf({ method: `${name}+paw+actfocus`, maxLength: 20 });
    const steps = async (where: Device, count: number): Promise<Record<string, number>[]> => {
      const learner = toyLearner(where, objective);
      const reports: Record<string, number>[] = [];
      for (let step = 0; step < count; step++)
        reports.push((await learn(learner, randomBatch(7 + step), step)).metrics);
      return reports;
    };
    const [here, there] = [await steps(device, 20), await steps(other, 2)];
    for (const metrics of here) expect(Object.entries(metrics).filter(([, x]) => !Number.isFinite(x))).toEqual([]);
    // The second step sees what the first one did to the parameters.
    expect(Object.keys(here[1]!)).toEqual(Object.keys(there[1]!));
    for (const [metric, value] of Object.entries(there[1]!)) {
      expect(Math.abs(here[1]![metric]! - value), metric).toBeLessThanOrEqual(2e-3 * Math.max(1, Math.abs(value)));
    }
  });
});
