/**
 * Asynchronous training on this thread: with staleness 0 it is the synchronous run to the last bit, whatever data
 * options there are; with more, a fixed schedule gives the same run every time. What it frees, how it stops, and what
 * is said when options do not fit together or workers fail. Corrections of stale data: asyncCorrections.test.ts.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { remax, vtrace } from "../../methods/advantages/index.ts";
import { type AsyncRlOptions, trainRlAsync } from "../../distribute/async/train.ts";
import { localWorkers } from "../../distribute/async/workers.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { importanceCorrection } from "../../methods/importanceCorrection.ts";
import { cispo, reinforce } from "../../methods/losses/index.ts";
import { Learnability } from "../../data/curriculum.ts";
import { dynamicSampling } from "../../data/dynamic.ts";
import { expertPrefix } from "../../data/expertPrefix.ts";
import { exploration, temperatureSchedule } from "../../data/exploration.ts";
import { type RlOptions, trainRl } from "../../rl/train/loop.ts";
import { common, toyAsyncOptions } from "../support/rlAsync.ts";
import { paramsOf, reportsOf, toyObjective, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel, letters, toySpec } from "../support/rlToy.ts";

vi.setConfig({ testTimeout: 120_000 }); // whole runs, on a machine that may be busy

let device: Device;
beforeAll(async () => {
  device = await makeDevice("wasm");
});
afterAll(() => device.dispose());

describe("staleness 0 is the synchronous run, bitwise", () => {
  const arms = [
    { name: "easy", options: {} },
    { name: "hard", options: { levels: [1, 1] as const } },
  ];
  /** Options of one run: some of them remember things, so each run has its own. */
  const kinds: Readonly<Record<string, () => Partial<RlOptions>>> = {
    plain: () => ({}),
    "two passes, a temperature schedule": () => ({
      iterations: 2,
      temperature: temperatureSchedule({ from: 1.2, to: 0.7, steps: 3 }),
    }),
    "exploration and a curriculum": () => ({
      plugins: [exploration({ epsilon: 0.3 }), new Learnability({ arms })],
    }),
    "dynamic sampling": () => ({ plugins: [dynamicSampling({ maxRefills: 2 })] }),
    "expert prefix": () => ({
      plugins: [expertPrefix({ maxPrefix: 1, success: (t: Trajectory): boolean => t.reward > 1.2 })],
    }),
    "a greedy baseline": () => ({ objective: { ...toyObjective, advantage: remax() } }),
    TIS: () => ({ objective: { ...toyObjective, importanceCorrection: importanceCorrection() } }),
  };
  const schedules = ["free", "fixed"] as const;
  const cases = Object.keys(kinds).flatMap((name) => schedules.map((schedule) => ({ name, schedule })));
  it.each(cases)("$name, $schedule", async ({ name, schedule }) => {
    const [one, other] = [endingModel(device), endingModel(device)];
    const sync = await reportsOf(trainRl(toyRlOptions(one, { steps: 4, ...kinds[name]!() })));
    const options = toyAsyncOptions(other, { steps: 4, ...kinds[name]!() }, { schedule });
    const async = await reportsOf(trainRlAsync(options));
    expect(async.map(common)).toEqual(sync.map((r) => r.metrics));
    expect(async.map((r) => r.rows)).toEqual(sync.map((r) => r.rows));
    expect(await paramsOf(other)).toEqual(await paramsOf(one));
    for (const { metrics } of async) expect(metrics["async/staleness_max"]).toBe(0);
  });

  it("also when it is resumed, and with any number of workers", async () => {
    const [one, other] = [endingModel(device), endingModel(device)];
    await reportsOf(trainRl(toyRlOptions(one, { steps: 4 })));
    const options = toyAsyncOptions(other, { steps: 2 }, { workers: localWorkers(3) });
    await reportsOf(trainRlAsync(options));
    await reportsOf(trainRlAsync({ ...options, startStep: 2, steps: 4, workers: 1 }));
    expect(await paramsOf(other)).toEqual(await paramsOf(one));
  });
});

describe("with staleness", () => {
  it("a fixed schedule is the same run every time, step n by version n − 2, also where it is resumed", async () => {
    const run = async (workers: number, startStep = 0): Promise<unknown> => {
      const model = endingModel(device);
      const options = toyAsyncOptions(model, { steps: 6, startStep }, { workers, maxStaleness: 2, schedule: "fixed" });
      const reports = await reportsOf(trainRlAsync(options));
      for (const { step, rows } of reports) {
        const versions = new Set(rows.flatMap((e) => e.trajectory.stream.versions.filter((v) => v >= 0)));
        expect([...versions]).toEqual([Math.max(startStep, step - 2)]);
      }
      return [reports.map(common), await paramsOf(model)];
    };
    expect(await run(1)).toEqual(await run(3));
    expect(await run(2, 3)).toEqual(await run(1, 3));
  });

  it("frees what it made, whether it ends, fails or is left", async () => {
    const model = endingModel(device);
    const options = toyAsyncOptions(model, { steps: 5 }, { maxStaleness: 1 });
    await reportsOf(trainRlAsync(options)); // constants that stay
    const before = device.backend.stats().liveBytes;
    await reportsOf(trainRlAsync(options));
    expect(device.backend.stats().liveBytes).toBe(before);
    for await (const { step } of trainRlAsync(options)) if (step === 1) break;
    expect(device.backend.stats().liveBytes).toBe(before);
    const long = toySpec(letters(1), () => "a".repeat(70));
    await expect(reportsOf(trainRlAsync({ ...options, env: long }))).rejects.toThrow("the task of toy takes");
    expect(device.backend.stats().liveBytes).toBe(before);
    const stop = new AbortController();
    const stopped: number[] = [];
    for await (const { step } of trainRlAsync({ ...options, rollout: { ...options.rollout, signal: stop.signal } })) {
      stopped.push(step);
      if (step === 2) stop.abort();
    }
    expect(stopped).toEqual([0, 1, 2]);
    expect(device.backend.stats().liveBytes).toBe(before);
  });

  it("stops while workers wait for an environment that never answers", async () => {
    const stop = new AbortController();
    const env = toySpec(() => {
      setTimeout(() => stop.abort(), 20);
      return new Promise(() => {});
    });
    const rollout = { maxActionTokens: 5, signal: stop.signal };
    const options = toyAsyncOptions(endingModel(device), { env, rollout }, { maxStaleness: 1 });
    expect(await reportsOf(trainRlAsync(options))).toEqual([]);
  });
});

describe("what does not fit together is said in one line", () => {
  it.each<[string, Partial<AsyncRlOptions>]>([
    ["maxStaleness must be an integer ≥ 0, got -1", { maxStaleness: -1 }],
    ["maxStaleness must be an integer ≥ 0, got 0.5", { maxStaleness: 0.5 }],
    ['schedule must be "free" or "fixed", got "loose"', { schedule: "loose" as "free" }],
    ["maxRestarts must be an integer ≥ 0, got -2", { maxRestarts: -2 }],
    ["patience must be > 0, got 0", { patience: 0 }],
    ["localWorkers: expected 1 to 64 workers, got 0", { workers: 0 }],
    ["groups and groupSize must be integers ≥ 1, got 0 and 3", { groups: 0 }],
    ["did you mean 'groups'?", { gruops: 2 } as Partial<AsyncRlOptions>],
    [
      "reinforce has no ratio, and nothing else makes up for a policy that is up to 1 steps old",
      { maxStaleness: 1, objective: { ...toyObjective, policyLoss: reinforce() } },
    ],
    [
      'the advantage "vtrace" and the correction tis_token both correct for π/μ',
      {
        maxStaleness: 1,
        objective: { ...toyObjective, advantage: vtrace(), critic: {}, importanceCorrection: importanceCorrection() },
      },
    ],
  ])("%s", async (message, overrides) => {
    const options = { ...toyAsyncOptions(endingModel(device), { steps: 1 }), ...overrides };
    await expect(reportsOf(trainRlAsync(options))).rejects.toThrow(message);
  });

  it("and what does fit runs: a correction without a ratio, a ratio without a correction", async () => {
    const masked = importanceCorrection({ mode: "mask", min: 0.5 });
    for (const parts of [{ policyLoss: reinforce(), importanceCorrection: masked }, { policyLoss: cispo() }]) {
      const objective = { ...toyObjective, ...parts };
      const options = toyAsyncOptions(endingModel(device), { steps: 2, objective }, { maxStaleness: 1 });
      expect((await reportsOf(trainRlAsync(options))).length).toBe(2);
    }
  });

  it("workers that cannot start end the run, after as many tries as are allowed", async () => {
    let tries = 0;
    const workers = {
      count: 2,
      start(_: number, __: unknown, { ended }: { ended: (reason: string) => void }) {
        tries++;
        queueMicrotask(() => ended("no such script"));
        return { post: () => {}, terminate: () => Promise.resolve() };
      },
    };
    const options = toyAsyncOptions(endingModel(device), {}, { workers, maxRestarts: 3 });
    await expect(reportsOf(trainRlAsync(options))).rejects.toThrow(
      "trainRlAsync: every rollout worker has ended, after 3 restarts; the last one: no such script",
    );
    expect(tries).toBe(5);
  });

  it("a worker that falls silent is replaced, one that works for long is not", async () => {
    const [one, other] = [endingModel(device), endingModel(device)];
    await reportsOf(trainRl(toyRlOptions(one)));
    let started = 0;
    const local = localWorkers(2);
    const workers = {
      count: 2,
      heartbeat: true,
      start(...[index, setup, events]: Parameters<typeof local.start>) {
        // The first of them hears everything and does nothing.
        if (started++ === 0) return { post: () => {}, terminate: () => Promise.resolve() };
        const worker = local.start(index, setup, events);
        const pulse = setInterval(() => events.receive({ kind: "alive" }), 5);
        const terminate = (): Promise<void> => {
          clearInterval(pulse);
          return worker.terminate();
        };
        return { ...worker, terminate };
      },
    };
    // The play of the one that lives takes longer than this patience.
    const slow = toySpec(async (action, turn) => {
      await new Promise((next) => setTimeout(next, 100));
      return letters(2)(action, turn);
    });
    const options = toyAsyncOptions(other, { env: slow }, { workers, patience: 0.1 });
    const reports = await reportsOf(trainRlAsync(options));
    expect(started).toBe(3);
    expect(reports[0]!.metrics["async/restarts"]).toBe(1);
    expect(reports[0]!.metrics["async/replayed_episodes"]).toBeGreaterThan(0);
    expect(await paramsOf(other)).toEqual(await paramsOf(one));
  });
});
