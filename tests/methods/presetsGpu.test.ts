/**
 * Every method by name, with a world model and a token weighting on top, gets on WebGPU what it gets on wasm, also
 * after a step has moved the parameters. That each goes on for more steps: smoke.test.ts.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import { objectiveOf } from "../../methods/presets.ts";
import { METHODS } from "../../methods/choice.ts";
import { randomBatch, toyStep, trainOn } from "../support/rlBatches.ts";
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
    const steps = async (where: Device): Promise<Record<string, number>[]> => {
      // One of its own: baselines and coefficients may remember earlier steps.
      const learner = toyStep(where, objectiveOf({ method: `${name}+paw+actfocus`, maxLength: 20 }));
      const reports: Record<string, number>[] = [];
      for (const step of [0, 1]) reports.push((await trainOn(learner, randomBatch(7 + step), step)).metrics);
      return reports;
    };
    const [here, there] = [await steps(device), await steps(other)];
    // The second step sees what the first one did to the parameters.
    expect(Object.keys(here[1]!)).toEqual(Object.keys(there[1]!));
    for (const [metric, value] of Object.entries(there[1]!)) {
      expect(Math.abs(here[1]![metric]! - value), metric).toBeLessThanOrEqual(2e-3 * Math.max(1, Math.abs(value)));
    }
  });
});
