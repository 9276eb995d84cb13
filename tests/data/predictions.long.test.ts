/** Rewarded predictions are learnt in a run of some length. All else: predictions.test.ts. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { predictions } from "../../data/predictions.ts";
import { trainRl } from "../../rl/train/loop.ts";
import { reportsOf, toyObjective, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel, toySpec } from "../support/rlToy.ts";

let device: Device;
beforeAll(async () => {
  device = await makeDevice("wasm");
});
afterAll(() => device.dispose());

it("are learnt: without a world-model loss the answers come to be predicted", async () => {
  // Actions that end are paid, so that there is something to predict: who learns answers alone may never end an
  // action again.
  const dull = toySpec((_, turn) => ({ observation: "ab", reward: 1, done: turn === 2, info: {} }));
  const { world: _none, ...objective } = toyObjective;
  const reports = await reportsOf(
    trainRl(
      toyRlOptions(endingModel(device), {
        env: dull,
        objective,
        steps: 40,
        plugins: [predictions({ perStep: 6, size: 8, threshold: 0.6 })],
      }),
    ),
  );
  const right = reports.flatMap(({ metrics }) => metrics["predictions/reward"] ?? []);
  expect(right.length).toBeGreaterThan(30);
  const mean = (all: readonly number[]): number => all.reduce((a, b) => a + b, 0) / all.length;
  expect(mean(right.slice(0, 5))).toBeLessThan(0.4);
  expect(mean(right.slice(-5))).toBeGreaterThan(0.8);
});
