/**
 * Continuous batching in rollouts: neither the company of an episode, nor how many are played at once, nor how long
 * environments take changes a token or a bit of a log-probability; slow environments hold nobody up; shared tasks are
 * read once.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import type { Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import { Decoder } from "../../nn/decoder.ts";
import type { Model } from "../../nn/transformer.ts";
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { type EpisodeRequest, rollout, type RolloutOptions } from "../../rl/play/rollout.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { gpuEnabled } from "../support/gpu.ts";
import { reference, wasm, webgpu } from "../support/rlExecutors.ts";
import { endingModel, letters, toyModel, toySpec, toyTemplate } from "../support/rlToy.ts";

const COUNT = 14;
const TASKS = ["a", "b", "abcabc", "fade"];
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Groups of three share a task. */
const requests = (spec: EnvironmentSpec, chosen: readonly number[]): EpisodeRequest[] =>
  chosen.map((e) => {
    const group = Math.floor(e / 3);
    return { spec, options: {}, seed: group, group, rng: new Rng(3).split(e) };
  });
const everyone = Array.from({ length: COUNT }, (_, e) => e);
const task = (seed: number): string => TASKS[seed % TASKS.length]!;
const patient = toySpec(letters(3), task);

afterEach(() => void vi.restoreAllMocks());

describe.each([reference, wasm])("on $name", ({ open }) => {
  let device: Device;
  let model: Model;
  beforeAll(async () => {
    device = await open();
    model = endingModel(device);
  });
  afterAll(() => device.dispose());
  const play = (
    spec: EnvironmentSpec,
    chosen: readonly number[] = everyone,
    options: RolloutOptions = {},
  ): Promise<Trajectory[]> => rollout(model, toyTemplate, requests(spec, chosen), { maxActionTokens: 12, ...options });

  it("the same tokens and bits alone, in any order, in any number, in bursts, whatever environments take", async () => {
    const together = await play(patient);
    expect(new Set(together.map((t) => t.stream.ids.join())).size).toBeGreaterThan(8);
    expect(new Set(together.map((t) => t.stopReason)).size).toBeGreaterThan(1);
    expect(await play(patient)).toEqual(together);
    for (const e of [0, 1, 5, 13]) expect(await play(patient, [e])).toEqual([together[e]]);
    expect((await play(patient, everyone.toReversed())).toReversed()).toEqual(together);
    for (const maxConcurrent of [1, 3, 5]) expect(await play(patient, everyone, { maxConcurrent })).toEqual(together);
    for (const burst of [2, 5, 30]) expect(await play(patient, everyone, { burst })).toEqual(together);
    // With top-k the host draws: other tokens, the same independence.
    const filtered = await play(patient, everyone, { topK: 12 });
    expect((await play(patient, everyone.toReversed(), { topK: 12, maxConcurrent: 4 })).toReversed()).toEqual(filtered);
  });

  it("random delays of environments change nothing, with few rows and with many", { timeout: 60_000 }, async () => {
    const together = await play(patient);
    for (const [seed, maxConcurrent] of [
      [1, 14],
      [2, 4],
      [3, 4],
    ] as const) {
      const rng = new Rng(seed);
      const act = letters(3);
      const moody = toySpec(async (action, turn) => {
        const ms = [0, 0, 1, 5][rng.int(4)]!;
        if (ms > 0) await pause(ms);
        return act(action, turn);
      }, task);
      expect(await play(moody, everyone, { maxConcurrent })).toEqual(together);
    }
  });

  it("an environment that waits for all others to finish gets its answer in", async () => {
    let finished = 0;
    let release = (): void => {};
    const others = new Promise<void>((resolve) => (release = resolve));
    let first = true;
    const act = letters(2);
    const spec = toySpec(async (action, turn) => {
      const mine = first;
      first = false;
      if (mine) await others;
      const result = act(action, turn);
      if (result instanceof Promise) throw new Error("never");
      if (result.done && !mine && ++finished >= 3) release();
      return result;
    }, task);
    const trajectories = await play(spec, everyone, { maxActionTokens: 40, timeout: 20_000 });
    expect(trajectories.every((t) => !t.masked)).toBe(true);
  });

  it("a slow one keeps its row, and only that: with two rows the rest is played in the other", async () => {
    const order: number[] = [];
    let slow = true;
    const act = letters(1);
    const spec = toySpec(async (action, turn) => {
      if (slow) {
        slow = false;
        while (order.length < 3) await pause(1); // until three others have acted
      }
      order.push(turn);
      return act(action, turn);
    }, task);
    const trajectories = await play(spec, everyone, { maxConcurrent: 2, maxActionTokens: 40, timeout: 20_000 });
    expect(trajectories.every((t) => !t.masked)).toBe(true);
    expect(order.length).toBeGreaterThan(3);
  });

  it("a task that several share is read once, the others read its last token", async () => {
    const start = vi.spyOn(Decoder.prototype, "start");
    await play(
      toySpec(letters(1), () => "abcdefabcdef"),
      everyone,
    );
    const read = start.mock.calls.map(([parts]) => parts.map(({ tokens }) => tokens.length));
    // <|task|>, 12 letters, <|end|>, <|act|>
    expect(read[0]).toEqual([15]);
    expect(read[1]!.toSorted((a, b) => a - b)).toEqual(Array(COUNT).fill(1));
    expect(read.flat().filter((n) => n > 1).length).toBe(1);
  });

  it("environments answer while the next tokens are computed", async () => {
    const original = Decoder.prototype.start;
    let computing = false;
    const answered = { meanwhile: 0, alone: 0 };
    vi.spyOn(Decoder.prototype, "start").mockImplementation(function (this: Decoder, ...args) {
      const finish = original.apply(this, args);
      computing = true;
      return () => {
        computing = false;
        return finish();
      };
    });
    const act = letters(3);
    const trajectories = await play(
      toySpec((action, turn) => {
        answered[computing ? "meanwhile" : "alone"]++;
        return act(action, turn);
      }, task),
    );
    vi.restoreAllMocks();
    expect(trajectories).toEqual(await play(patient));
    // Alone only where nobody else had anything to draw.
    expect(answered.meanwhile).toBeGreaterThan(5);
    expect(answered.alone).toBeLessThan(answered.meanwhile);
  });

  it("a row that became free is given away: no more rows than asked for, no more steps than needed", async () => {
    const start = vi.spyOn(Decoder.prototype, "start");
    const trajectories = await play(patient, everyone, { maxConcurrent: 4 });
    const rows = start.mock.calls.map(([parts]) => parts.length);
    expect(Math.max(...rows)).toBe(4);
    const drawn = trajectories.reduce((n, t) => n + t.stream.roles.filter((r) => r === "action").length, 0);
    // One step draws one token of each; only at the end and for shared tasks do rows stay empty.
    expect(rows.length).toBeLessThan(drawn / 4 + 40);
  });

  it("leaves no memory behind, also when an environment cannot set its task", async () => {
    await play(patient);
    const before = device.backend.stats().liveBytes;
    await play(patient, everyone, { maxConcurrent: 3, burst: 4 });
    const long = toySpec(letters(1), (seed) => (seed === 3 ? "abcdef".repeat(20) : "a"));
    const played = await play(long, everyone, { maxConcurrent: 3 });
    const cut = played.filter((t) => t.masked);
    expect(new Set(cut.map((t) => t.seed))).toEqual(new Set([3]));
    expect(played.filter((t) => t.seed === 3).length).toBe(cut.length);
    expect(new Set(cut.map((t) => [t.stopReason, t.stream.ids.length].join()))).toEqual(new Set(["tool_error,0"]));
    expect(cut[0]!.info["error"]).toContain("only 64 fit");
    expect(device.backend.stats().liveBytes).toBe(before);
  });

  it("an abort is heard while environments are busy, and those that had not begun are aborted too", async () => {
    const stop = new AbortController();
    const spec = toySpec(async (action, turn) => {
      setTimeout(() => stop.abort(), 5);
      return turn === 0 ? letters(9)(action, turn) : new Promise(() => {});
    }, task);
    const trajectories = await play(spec, everyone, { maxConcurrent: 5, signal: stop.signal, maxActionTokens: 40 });
    expect(trajectories.length).toBe(COUNT);
    expect(trajectories.at(-1)!.stopReason).toBe("aborted");
    expect(trajectories.filter((t) => t.stopReason === "aborted").every((t) => t.masked)).toBe(true);
    await expect(play(patient, everyone, { maxConcurrent: 0 })).rejects.toThrow(
      "maxConcurrent must be an integer ≥ 1, got 0",
    );
    await expect(play(patient, everyone, { burst: 1.5 })).rejects.toThrow("burst must be an integer ≥ 1, got 1.5");
  });
});

describe.each(gpuEnabled ? [webgpu] : [])("on $name", ({ open }) => {
  it("the same tokens and bits in any company; few readbacks", { timeout: 240_000 }, async () => {
    const device = await open();
    const model = toyModel(device);
    const options = { maxActionTokens: 6, maxConcurrent: 16 };
    const play = (chosen: readonly number[], more: RolloutOptions = {}): Promise<Trajectory[]> =>
      rollout(model, toyTemplate, requests(patient, chosen), { ...options, ...more });
    const read = vi.spyOn(device.backend, "read");
    const together = await play(everyone);
    const sampled = Math.max(...together.map((t) => t.stream.roles.filter((r) => r === "action").length));
    expect(read.mock.calls.length).toBeLessThan(sampled / 2 + 6);
    expect(await play([5])).toEqual([together[5]]);
    expect((await play([9, 2, 7], { burst: 1 })).map((t) => t.stream)).toEqual(
      [9, 2, 7].map((e) => together[e]!.stream),
    );
    device.dispose();
  });
});
