/** Which steps are captured, and which are forgotten: what is kept of a model on the host has a limit. */
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { Captured } from "../../engine/capture.ts";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { tensor } from "../../engine/ops/create.ts";
import { add } from "../../engine/ops/pointwise.ts";
import { scope } from "../../engine/scope.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { CapturedSteps } from "../../nn/capturedSteps.ts";
import type { Plan } from "../../nn/decodingPlan.ts";
import { toyModel } from "../support/rlToy.ts";

const replay = vi.spyOn(Captured.prototype, "replay");
const plan: Plan = {
  passes: [],
  last: Int32Array.of(0),
  scale: Float32Array.of(1),
  keys: Int32Array.of(0, 0),
  counters: [],
  drawn: [],
};
let device: Device;
let x: Tensor;
beforeAll(async () => {
  device = await makeDevice("wasm", { threads: 1 });
  x = tensor([1], { device });
});
afterAll(() => device.dispose());

const steps = (): CapturedSteps => CapturedSteps.of(toyModel(device));
/** So many additions, each of three calls. */
const additions = (count: number) => (): Tensor =>
  scope(() => {
    let y = x;
    for (let n = 0; n < count; n++) y = add(y, 1);
    return y;
  });
/** Whether the step was a replay. */
function replays(own: CapturedSteps, sizes: string, count: number): boolean {
  const before = replay.mock.calls.length;
  const result = own.run(sizes, plan, [x], additions(count));
  expect(result.readSync()[0]).toBe(1 + count);
  result.dispose();
  return replay.mock.calls.length > before;
}

it("sizes are captured when they come a second time, for each model", () => {
  const own = steps();
  expect([1, 2, 3, 4].map(() => replays(own, "a", 2))).toEqual([false, false, true, true]);
  expect([1, 2, 3].map(() => replays(own, "b", 3))).toEqual([false, false, true]);
  expect(replays(own, "a", 2)).toBe(true);
  expect(replays(steps(), "a", 2)).toBe(false);
  const model = toyModel(device);
  expect(CapturedSteps.of(model)).toBe(CapturedSteps.of(model));
});

it("a step of too many calls is not kept", () => {
  const own = steps();
  expect([1, 2, 3, 4].map(() => replays(own, "long", 3000))).toEqual([false, false, false, false]);
  expect([1, 2, 3].map(() => replays(own, "shorter", 2000))).toEqual([false, false, true]);
});

it("those that were used longest ago are forgotten first", () => {
  const own = steps();
  const names = ["a", "b", "c", "d", "e"]; // of 6,000 calls each: all five fit
  for (const name of names) for (let n = 0; n < 2; n++) replays(own, name, 2000);
  expect(names.map((name) => replays(own, name, 2000))).toEqual([true, true, true, true, true]);
  expect(replays(own, "a", 2000)).toBe(true);
  for (let n = 0; n < 2; n++) replays(own, "f", 2000); // b makes room for it
  expect(["a", "c", "d", "e", "f"].map((name) => replays(own, name, 2000))).toEqual([true, true, true, true, true]);
  expect([1, 2, 3].map(() => replays(own, "b", 2000))).toEqual([false, false, true]);
});

it("sizes that come once are forgotten, too", () => {
  const own = steps();
  replays(own, "first", 1);
  for (let n = 0; n < 1100; n++) replays(own, `once ${n}`, 1);
  expect([1, 2, 3].map(() => replays(own, "first", 1))).toEqual([false, false, true]);
  expect([1, 2].map(() => replays(own, "once 1099", 1))).toEqual([false, true]);
});
