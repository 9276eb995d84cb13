/**
 * A learner on WebGPU whose episodes are played by threads on WebAssembly: two executors, so the same weights give
 * log-probabilities that differ by rounding. A correction weighs by that difference, and the metrics show it.
 */
import { afterAll, beforeAll, expect, it } from "vitest";
import { threadWorkers } from "../../run/node/threads.ts";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { trainRlAsync } from "../../distribute/async/train.ts";
import { importanceCorrection } from "../../methods/importanceCorrection.ts";
import { gpuOptions } from "../support/gpu.ts";
import { reportsOf, toyObjective, toyRlOptions } from "../support/rlRuns.ts";
import { toyModel } from "../support/rlToy.ts";

const module = new URL("../support/toyRollouts.ts", import.meta.url);

let gpu: Device;
beforeAll(async () => {
  gpu = await makeDevice("webgpu", { webgpu: gpuOptions });
}, 120_000);
afterAll(() => gpu.dispose());

it("trains; sampler and learner differ by rounding at age 0, later by what was learnt; TIS weighs", async () => {
  const model = toyModel(gpu);
  const objective = { ...toyObjective, importanceCorrection: importanceCorrection({ max: 2 }) };
  const options = { ...toyRlOptions(model, { steps: 4, objective }), workers: threadWorkers(1, { module }) };
  // With this schedule step 0 is played by its own version, and the others by the one before.
  const reports = await reportsOf(trainRlAsync({ ...options, maxStaleness: 1, schedule: "fixed" }));
  expect(reports.map(({ metrics }) => metrics["async/staleness_max"])).toEqual([0, 1, 1, 1]);
  const largest = reports.map(({ rows, scores }) => {
    const differences = rows.flatMap(({ trajectory: { stream } }, i) =>
      stream.versions.flatMap((v, t) =>
        v < 0 || Number.isNaN(scores.logProbs[i]![t]!) ? [] : [scores.logProbs[i]![t]! - stream.oldLogProbs[t]!],
      ),
    );
    expect(differences.length).toBeGreaterThan(10);
    return Math.max(...differences.map(Math.abs));
  });
  expect(largest[0]).toBeGreaterThan(0);
  expect(largest[0]).toBeLessThan(1e-4);
  for (const { step, metrics } of reports) {
    for (const name of ["loss", "reward", "grad_norm", "rollout_corr/kl"])
      expect(metrics[name], name).toSatisfy(Number.isFinite);
    if (step === 0) expect(Math.abs(metrics["rollout_corr/kl"]!)).toBeLessThan(1e-4);
    else {
      expect(largest[step]).toBeGreaterThan(1e-3);
      expect(metrics["rollout_corr/k3_kl"]).toBeGreaterThan(1e-7);
    }
  }
  expect(reports[0]!.metrics["rollout_corr/kl"]).not.toBe(0);
}, 300_000);
