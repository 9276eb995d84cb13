/** An environment that can have few episodes at a time, and several workers on this thread: they share the room. */
import { expect, it } from "vitest";
import { trainRlAsync } from "../../rl/async/train.ts";
import { toyAsyncOptions } from "../support/rlAsync.ts";
import { reference } from "../support/rlExecutors.ts";
import { reportsOf } from "../support/rlRuns.ts";
import { endingModel, letters, toySpec } from "../support/rlToy.ts";

it("has no more episodes than that among all workers, and refuses more workers", async () => {
  const device = await reference.open();
  const spec = toySpec(letters(2));
  let [live, most] = [0, 0];
  const env = {
    ...spec,
    atOnce: () => 5,
    make: (): ReturnType<typeof spec.make> => {
      const inner = spec.make();
      let isLive = false;
      const reset = inner.reset.bind(inner);
      inner.reset = async (...call) => {
        isLive = true;
        most = Math.max(most, ++live);
        await new Promise((resolve) => setTimeout(resolve, 2));
        return reset(...call);
      };
      inner.close = () => {
        if (isLive) live--;
        isLive = false;
      };
      return inner;
    },
  };
  const options = (workers: number) =>
    toyAsyncOptions(endingModel(device), { env, steps: 2, groupSize: 8 }, { workers });
  await reportsOf(trainRlAsync(options(2)));
  expect([most, live]).toEqual([4, 0]); // two each
  await expect(reportsOf(trainRlAsync(options(6)))).rejects.toThrow(
    "trainRlAsync: toy can have 5 episodes at a time, too few for 6 workers; take at most 5",
  );
  device.dispose();
});
