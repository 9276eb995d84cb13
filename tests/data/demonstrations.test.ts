/** Scripted episodes side by side (`playAll`), and the time limits of their calls (`timedCalls`, `demonstrate`). */
import { setTimeout as wait } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { demonstrate, playAll, playScripted, timedCalls } from "../../data/demonstrations.ts";
import { type EnvironmentSpec, SingleUseEnvironment, type StepResult } from "../../rl/environment.ts";
import { letters, toySpec, toyTemplate } from "../support/rlToy.ts";

const spec = toySpec(letters(1));
const ofSome = (most: number): EnvironmentSpec => ({ ...spec, atOnce: () => most });

describe("playAll", () => {
  it("gives the results in order, whichever ends first, and plays no more at a time than there is room", async () => {
    for (const [most, expected] of [
      [1, 1],
      [3, 3],
      [100, 16],
    ] as const) {
      let [live, highest] = [0, 0];
      const results = await playAll(ofSome(most), {}, 40, async (i) => {
        highest = Math.max(highest, ++live);
        await wait((i * 7) % 5);
        live--;
        return i * i;
      });
      expect(results).toEqual(Array.from({ length: 40 }, (_, i) => i * i));
      expect(highest).toBe(expected);
    }
    expect(await playAll(spec, {}, 0, () => Promise.reject(new Error("none")))).toEqual([]);
  });

  it("throws the first error, begins no further episode, and waits for those that had begun", async () => {
    let [begun, ended] = [0, 0];
    const played = playAll(ofSome(4), {}, 100, async (i) => {
      begun++;
      await wait(i === 2 ? 1 : 20);
      ended++;
      if (i === 2) throw new Error("third");
      if (i === 3) throw new Error("fourth");
    });
    await expect(played).rejects.toThrow("third");
    expect([begun, ended]).toEqual([4, 4]);
  });

  it("ends with the reason of a signal", async () => {
    const stop = new AbortController();
    let begun = 0;
    const played = playAll(
      ofSome(2),
      {},
      100,
      async () => {
        if (++begun === 6) stop.abort(new Error("enough"));
        await wait(1);
      },
      stop.signal,
    );
    await expect(played).rejects.toThrow("enough");
    expect(begun).toBeLessThanOrEqual(7);
  });
});

describe("the time of a call", () => {
  const silent = toySpec(() => new Promise(() => {}));

  it("is the environment's own limit, or else the given one; the error names the environment", async () => {
    const limited: EnvironmentSpec = { ...silent, limits: () => ({ step: 15 }) };
    await expect(playScripted(limited, {}, 0, toyTemplate, () => "a")).rejects.toThrow(
      "toy: step: no answer within 15 ms",
    );
    await expect(playScripted(silent, {}, 0, toyTemplate, () => "a", { timeout: 25 })).rejects.toThrow(
      "toy: step: no answer within 25 ms",
    );
    await expect(timedCalls(limited, {}, { timeout: 5 })("step", () => wait(1, "soon"))).resolves.toBe("soon");
  });

  it("ends with a signal, whose reason is thrown, and the environment is closed", async () => {
    let closed = 0;
    class Slow extends SingleUseEnvironment {
      readonly name = "slow";
      protected begin = (): Promise<string> => new Promise(() => {});
      protected act = (): StepResult => ({ observation: "", reward: 0, done: true, info: {} });
      close(): void {
        closed++;
      }
    }
    const slow: EnvironmentSpec = { ...spec, name: "slow", make: () => new Slow() };
    const stop = new AbortController();
    const episode = demonstrate(slow, {}, 0, toyTemplate, { signal: stop.signal });
    stop.abort(new Error("stopped"));
    await expect(episode).rejects.toThrow("stopped");
    expect(closed).toBe(1);
  });

  it("that is not used up changes nothing, and an error of the environment is thrown as it is", async () => {
    const quick = await demonstrate(spec, {}, 4, toyTemplate, { timeout: 5_000 });
    expect(quick).toEqual(await demonstrate(spec, {}, 4, toyTemplate));
    const broken = new RangeError("broken");
    const failing = toySpec(() => {
      throw broken;
    });
    await expect(playScripted(failing, {}, 0, toyTemplate, () => "a")).rejects.toBe(broken);
  });
});
