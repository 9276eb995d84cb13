/** An environment that can have few episodes at a time: neither refills nor workers on this thread have more. */
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { trainRlAsync } from "../../distribute/async/train.ts";
import { dynamicSampling } from "../../data/dynamic.ts";
import { trainRl } from "../../rl/train/loop.ts";
import { toyAsyncOptions } from "../support/rlAsync.ts";
import { reference } from "../support/rlExecutors.ts";
import { reportsOf, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel, letters, toySpec } from "../support/rlToy.ts";

let device: Device;
beforeAll(async () => {
  device = await reference.open();
});
afterAll(() => device.dispose());

/** An environment that says that it can have five episodes at a time, and how many there are and were at most. */
function narrow(): { env: EnvironmentSpec; counts: { live: number; most: number } } {
  const spec = toySpec(letters(2));
  const counts = { live: 0, most: 0 };
  const make = (): ReturnType<typeof spec.make> => {
    const inner = spec.make();
    let isLive = false;
    const reset = inner.reset.bind(inner);
    inner.reset = async (...call) => {
      isLive = true;
      counts.most = Math.max(counts.most, ++counts.live);
      await new Promise((resolve) => setTimeout(resolve, 2));
      return reset(...call);
    };
    inner.close = () => {
      if (isLive) counts.live--;
      isLive = false;
    };
    return inner;
  };
  return { env: { ...spec, atOnce: () => 5, make }, counts };
}

it("has no more episodes than that among all workers, and refuses more workers", async () => {
  const { env, counts } = narrow();
  const options = (workers: number) =>
    toyAsyncOptions(endingModel(device), { env, steps: 2, groupSize: 8 }, { workers });
  await reportsOf(trainRlAsync(options(2)));
  expect(counts).toEqual({ live: 0, most: 4 }); // two each
  await expect(reportsOf(trainRlAsync(options(6)))).rejects.toThrow(
    "trainRlAsync: toy can have 5 episodes at a time, too few for 6 workers; take at most 5",
  );
});

it("has no more than that when groups are drawn again, in the synchronous run and in an asynchronous one", async () => {
  const refilled = { steps: 2, groupSize: 4, plugins: [dynamicSampling({ maxRefills: 2 })] };
  const sync = narrow();
  const played = await reportsOf(trainRl(toyRlOptions(endingModel(device), { env: sync.env, ...refilled })));
  const refills = played.map(({ metrics }) => metrics["dynamic_sampling/refills"]!);
  expect(Math.max(...refills)).toBeGreaterThan(0);
  expect(sync.counts).toEqual({ live: 0, most: 5 });

  const async = narrow();
  const options = toyAsyncOptions(endingModel(device), { env: async.env, ...refilled }, { workers: 2 });
  const reports = await reportsOf(trainRlAsync(options));
  expect(reports.map(({ metrics }) => metrics["dynamic_sampling/refills"])).toEqual(refills);
  expect(async.counts).toEqual({ live: 0, most: 4 });
});
