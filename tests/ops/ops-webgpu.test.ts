/**
 * Every WGSL kernel, executed: each op on each of its samples against the f64 reference, in the schedule for software
 * adapters and in the one for GPUs, with canaries behind every buffer. Needs an adapter (tests/support/adapter.ts finds
 * one).
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { device, type Device } from "../../engine/device.ts";
import { gpuOptions } from "../support/gpu.ts";
import { GuardedDevice } from "../support/guarded.ts";
import { allOps, difference, evaluate, labelOf, samplesOf } from "../support/opChecks.ts";

const SCHEDULES = ["software", "gpu"] as const;
let f64: Device;
let webgpu: Device;
let bySchedule: Record<(typeof SCHEDULES)[number], GuardedDevice>;
beforeAll(async () => {
  f64 = await device("reference");
  webgpu = await device("webgpu", { webgpu: gpuOptions });
  bySchedule = {
    software: new GuardedDevice(webgpu, { schedule: "software" }),
    gpu: new GuardedDevice(webgpu, { schedule: "gpu" }),
  };
  console.info(`WGSL runs on ${webgpu.description}`);
});
afterAll(() => [f64, webgpu].forEach((d) => d.dispose()));

describe.each(allOps().map((op) => ({ name: op.name, op })))("$name", ({ op }) => {
  test.each(samplesOf(op).map((sample) => ({ label: labelOf(sample), sample })))("$label", async ({ sample }) => {
    const expected = await evaluate(f64, op, sample);
    for (const schedule of SCHEDULES) {
      const actual = await evaluate(bySchedule[schedule], op, sample);
      expected.forEach((y, k) =>
        expect(difference(actual[k]!, y), `${schedule} schedule, output ${k}`).toBeLessThan(op.tolerance ?? 1e-5),
      );
    }
  });
});

test("all of it was dispatched", () => {
  const { compiledKernels, liveBuffers } = webgpu.backend.stats();
  expect(compiledKernels).toBeGreaterThan(allOps().length);
  expect(liveBuffers).toBe(0);
});
