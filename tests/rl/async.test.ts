/**
 * Asynchronous training on this thread: with staleness 0 it is the synchronous run to the last bit, whatever data options there are;
 * with more, tokens are those of the version that they are marked with, and the corrections are their formulas.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { AdamW } from "../../nn/optimizer.ts";
import type { Model } from "../../nn/transformer.ts";
import { initValueHead } from "../../nn/valueHead.ts";
import { type AdvantageEstimator, remax, vtrace } from "../../rl/methods/advantages/index.ts";
import { type FromWorker, type Job, policyOf, toWire } from "../../rl/async/messages.ts";
import { RolloutServer } from "../../rl/async/server.ts";
import { type AsyncOptions, type AsyncRlOptions, trainRlAsync } from "../../rl/async/train.ts";
import { localWorkers } from "../../rl/async/workers.ts";
import { importanceCorrection } from "../../rl/methods/importanceCorrection.ts";
import { Learnability } from "../../rl/tasks/curriculum.ts";
import { prefixedRequest } from "../../rl/tasks/expertPrefix.ts";
import { Exploration, temperatureSchedule } from "../../rl/tasks/exploration.ts";
import { rowOf } from "../../rl/methods/columns.ts";
import { score } from "../../rl/train/score.ts";
import { cispo, ppoClip, reinforce } from "../../rl/methods/losses/index.ts";
import type { Objective } from "../../rl/methods/objective.ts";
import { weighStep } from "../support/rlBatches.ts";
import { rewardsOfTokens, rolloutsOf, type Trajectory } from "../../rl/episode/stream.ts";
import { type RlOptions, trainRl } from "../../rl/train/loop.ts";
import { common } from "../support/rlAsync.ts";
import { paramsOf, reportsOf, toyObjective, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel, letters, toyModel, toySpec, toyTemplate } from "../support/rlToy.ts";

vi.setConfig({ testTimeout: 120_000 }); // whole runs, on a machine that may be busy

let device: Device;
beforeAll(async () => {
  device = await makeDevice("wasm");
});
afterAll(() => device.dispose());

const asyncOptions = (model: Model, own: Partial<RlOptions>, how: Partial<AsyncOptions> = {}): AsyncRlOptions => ({
  ...toyRlOptions(model, { ...own }),
  workers: 2,
  maxStaleness: 0,
  ...how,
});

describe("staleness 0 is the synchronous run, bitwise", () => {
  const arms = [
    { name: "easy", options: {} },
    { name: "hard", options: { levels: [1, 1] as const } },
  ];
  /** Options of one run: some of them remember things, so each run has its own. */
  const kinds: Readonly<Record<string, () => Partial<RlOptions>>> = {
    plain: () => ({}),
    "two passes, a temperature schedule": () => ({ iterations: 2, temperature: temperatureSchedule({ from: 1.2, to: 0.7, steps: 3 }) }), // prettier-ignore
    "exploration and a curriculum": () => ({ exploration: new Exploration({ epsilon: 0.3 }), curriculum: new Learnability({ arms }) }), // prettier-ignore
    "dynamic sampling": () => ({ dynamicSampling: { maxRefills: 2 } }),
    "expert prefix": () => ({ expertPrefix: { maxPrefix: 1, success: (t: Trajectory): boolean => t.reward > 1.2 } }),
    "a greedy baseline": () => ({ objective: { ...toyObjective, advantage: remax() } }),
    TIS: () => ({ objective: { ...toyObjective, importanceCorrection: importanceCorrection() } }),
  };
  it.each(Object.keys(kinds).flatMap((name) => (["free", "fixed"] as const).map((schedule) => ({ name, schedule }))))(
    "$name, $schedule",
    async ({ name, schedule }) => {
      const [one, other] = [endingModel(device), endingModel(device)];
      const sync = await reportsOf(trainRl(toyRlOptions(one, { steps: 4, ...kinds[name]!() })));
      const options = asyncOptions(other, { steps: 4, ...kinds[name]!() }, { schedule });
      const async = await reportsOf(trainRlAsync(options));
      expect(async.map(common)).toEqual(sync.map((r) => r.metrics));
      expect(async.map((r) => r.rows)).toEqual(sync.map((r) => r.rows));
      expect(await paramsOf(other)).toEqual(await paramsOf(one));
      for (const { metrics } of async) expect(metrics["async/staleness_max"]).toBe(0);
    },
  );

  it("also when it is resumed, and with any number of workers", async () => {
    const [one, other] = [endingModel(device), endingModel(device)];
    await reportsOf(trainRl(toyRlOptions(one, { steps: 4 })));
    const options = asyncOptions(other, { steps: 2 }, { workers: localWorkers(3) });
    await reportsOf(trainRlAsync(options));
    await reportsOf(trainRlAsync({ ...options, startStep: 2, steps: 4, workers: 1 }));
    expect(await paramsOf(other)).toEqual(await paramsOf(one));
  });
});

describe("with staleness", () => {
  it("a fixed schedule is the same run every time: step n by version n − 2, from the start and from where it is resumed", async () => {
    const run = async (workers: number, startStep = 0): Promise<unknown> => {
      const model = endingModel(device);
      const options = asyncOptions(model, { steps: 6, startStep }, { workers, maxStaleness: 2, schedule: "fixed" });
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
    const options = asyncOptions(model, { steps: 5 }, { maxStaleness: 1 });
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
    const env = toySpec(() => (setTimeout(() => stop.abort(), 20), new Promise(() => {})));
    const options = asyncOptions(endingModel(device), { env, rollout: { maxActionTokens: 5, signal: stop.signal } });
    expect(await reportsOf(trainRlAsync({ ...options, maxStaleness: 1 }))).toEqual([]);
  });

  it("TIS on stale data: each trained token's weight is multiplied by min(π/μ, 2), π before the step and μ as recorded", async () => {
    const objective: Objective = { ...toyObjective, importanceCorrection: importanceCorrection({ max: 1.05 }) };
    const model = endingModel(device);
    const options = asyncOptions(model, { steps: 6, objective, groups: 3 }, { maxStaleness: 2, schedule: "fixed" });
    let [stale, capped] = [0, 0];
    for (const { step, rows, scores, metrics } of await reportsOf(trainRlAsync(options))) {
      const base = weighStep(toyObjective, rows.map((e) => e.trajectory), step); // prettier-ignore
      rows.forEach(({ trajectory, wPolicy }, i) =>
        wPolicy.forEach((w, t) => {
          const own = base[i]!.wPolicy[t]!;
          if (own === 0) return expect(w).toBe(0);
          const ratio = Math.exp(scores.logProbs[i]![t]! - trajectory.stream.oldLogProbs[t]!);
          expect(w).toBeCloseTo(own * Math.min(ratio, 1.05), 6);
          stale += Number(Math.abs(ratio - 1) > 0.01);
          capped += Number(ratio > 1.05);
        }),
      );
      expect(metrics["rollout_corr/kl"]).toSatisfy(Number.isFinite);
      expect(metrics["clip_ratio/region_mean"]).toBe(0); // the ratio of the loss is 1: nothing is corrected twice
    }
    expect(stale).toBeGreaterThan(20);
    expect(capped).toBeGreaterThan(5);
  });

  it("V-trace on stale data: its recursion with π/μ, and a loss without a ratio of its own", async () => {
    const seen: { trajectories: readonly Trajectory[]; signals: Parameters<AdvantageEstimator["estimate"]>[1] & object; result: ReturnType<AdvantageEstimator["estimate"]> }[] = []; // prettier-ignore
    const inner = vtrace();
    const advantage: AdvantageEstimator = {
      ...inner,
      estimate(trajectories, signals = {}) {
        const result = inner.estimate(trajectories, signals);
        seen.push({ trajectories, signals, result });
        return result;
      },
    };
    const model = endingModel(device);
    const head = initValueHead(model.config, device);
    const critic = { head, optimizer: new AdamW(head) };
    const objective: Objective = { ...toyObjective, advantage, policyLoss: reinforce(), critic: {} };
    const options = asyncOptions(model, { steps: 6, objective, critic }, { maxStaleness: 2, schedule: "fixed" });
    const reports = await reportsOf(trainRlAsync(options));
    let stale = 0;
    seen.forEach(({ trajectories, signals, result }, n) => {
      for (const rollout of rolloutsOf(trajectories)) {
        const { tokens } = rollout;
        const V = tokens.map(({ row, t }) => signals.values![row]![t]!);
        const ratio = tokens.map(({ row, t }) => Math.exp(signals.logProbs![row]![t]! - trajectories[row]!.stream.oldLogProbs[t]!)); // prettier-ignore
        const r = rewardsOfTokens(rollout, trajectories);
        // v_s = V_s + Σ_{t≥s} (Π_{s≤i<t} c_i) δ_t, written out (arXiv 1802.01561, eq. 1).
        const rho = ratio.map((x) => Math.min(1, x));
        const delta = tokens.map((_, t) => rho[t]! * (r[t]! + (V[t + 1] ?? 0) - V[t]!));
        const v = tokens.map((_, s) => {
          let [sum, product] = [V[s]!, 1];
          for (let t = s; t < tokens.length; t++) {
            sum += product * delta[t]!;
            product *= rho[t]!;
          }
          return sum;
        });
        tokens.forEach(({ row, t }, k) => {
          expect(result.perToken[row]![t]).toBeCloseTo(rho[k]! * (r[k]! + (v[k + 1] ?? 0) - V[k]!), 9);
          expect(result.returns![row]![t]).toBeCloseTo(v[k]!, 9);
          stale += Number(Math.abs(ratio[k]! - 1) > 0.01);
        });
      }
      // μ is what was recorded, π what the learner scored before the step.
      const { scores, rows } = reports[n]!;
      rows.forEach(({ wPolicy }, i) =>
        wPolicy.forEach((w, t) => {
          if (w !== 0) expect(scores.logProbs[i]![t]).toBeCloseTo(signals.logProbs![i]![t]!, 4);
        }),
      );
    });
    expect(seen.length).toBe(6);
    expect(stale).toBeGreaterThan(20);
    for (const x of treeLeaves(head)) x.dispose();
  });

  it("a step without anything to train, because no group has spread, has no ratios to report and ends no run", async () => {
    const reward = (): { reward: number; parts: Record<string, number> } => ({ reward: 1, parts: {} });
    const objective = { ...toyObjective, dropConstantGroups: true, world: [] };
    const options = asyncOptions(
      endingModel(device),
      { reward, objective, steps: 3 },
      { maxStaleness: 1, schedule: "fixed" },
    );
    const reports = await reportsOf(trainRlAsync(options));
    expect(reports.map(({ metrics }) => metrics["frac_reward_zero_std"])).toEqual([1, 1, 1]);
    for (const { metrics, rows, scores } of reports) {
      expect(metrics).not.toHaveProperty("rollout_corr/kl");
      expect(scores.logProbs.map((row) => row.length)).toEqual(rows.map((row) => row.mask.length));
    }
  });

  it("without a correction the ratio of the loss is that of the learner to the sampler", async () => {
    const model = endingModel(device);
    const objective: Objective = { ...toyObjective, policyLoss: ppoClip({ epsilon: 0.01 }) };
    const reports = await reportsOf(trainRlAsync(asyncOptions(model, { steps: 5, objective }, { maxStaleness: 1, schedule: "fixed" }))); // prettier-ignore
    const clipped = reports.map(({ metrics }) => metrics["clip_ratio/region_mean"]!);
    expect(clipped[0]).toBe(0);
    expect(Math.max(...clipped)).toBeGreaterThan(0.1);
    for (const { metrics } of reports.slice(1)) expect(metrics["rollout_corr/k3_kl"]).toBeGreaterThan(0);
  });
});

describe("versions", () => {
  it.each([
    { kind: "reference" as const, digits: 9 },
    { kind: "wasm" as const, digits: 4 },
  ])("weights that come in the middle of an episode: each token is its own version's, on $kind", async ({ kind, digits }) => {
    const own = await makeDevice(kind);
    const models = Array.from({ length: 4 }, (_, seed) => toyModel(own, seed + 1));
    const policies = await Promise.all(models.map((model, version) => policyOf(model, version)));
    const episodes: Trajectory[] = [];
    const spec = toySpec(letters(3));
    const options = { config: models[0]!.config, device: own, template: toyTemplate, rollout: { maxActionTokens: 8, maxConcurrent: 5 }, rows: 5, environment: () => spec }; // prettier-ignore
    await new Promise<void>((resolve, reject) => {
      const server = new RolloutServer(options, (message: FromWorker) => {
        if (message.kind === "failed") reject(new Error(message.message));
        if (message.kind !== "episode") return;
        episodes.push(message.trajectory);
        if (episodes.length === 16) void server.close().then(resolve);
      });
      const jobs = Array.from({ length: 16 }, (_, id): Job => toWire({ id, pinned: false, sampling: id % 4 === 3 ? { temperature: 0.7 } : {}, request: { spec, options: {}, seed: id >> 2, group: id >> 2, rng: new Rng(9).split(id) } })); // prettier-ignore
      server.receive({ kind: "policy", policy: policies[0]! });
      server.receive({ kind: "play", jobs });
      // A token or so apart, so that policies change in turns, between turns, and while tasks are being read.
      let version = 0;
      const next = (): void => {
        server.receive({ kind: "policy", policy: policies[(version = (version + 1) % 4)]! });
        if (episodes.length < 16) setTimeout(next, 2);
      };
      setTimeout(next, 2);
    });
    const mixed = episodes.filter(({ stream }) => new Set(stream.versions.filter((v) => v >= 0)).size > 1);
    expect(mixed.length).toBeGreaterThan(4);
    const inOneTurn = mixed.filter(({ stream }) => stream.versions.some((v, t) => t > 0 && v >= 0 && stream.versions[t - 1]! >= 0 && stream.versions[t - 1] !== v)); // prettier-ignore
    expect(inOneTurn.length).toBeGreaterThan(0);
    for (const [version, model] of models.entries()) {
      const rows = episodes.map((t) => rowOf(t));
      const isIts = (t: Trajectory, at: number): boolean => t.stream.versions[at] === version;
      const { logProbs } = await score(model, rows, { padId: 0, scored: (row, t) => isIts(row.trajectory, t) });
      episodes.forEach(({ stream }, i) =>
        stream.versions.forEach((v, t) => {
          if (v === version) expect(stream.oldLogProbs[t]).toBeCloseTo(logProbs[i]![t]!, digits);
          expect(v >= 0).toBe(stream.roles[t] === "action");
        }),
      );
    }
    own.dispose();
  }); // prettier-ignore

  it("a synchronous run marks tokens with its steps", async () => {
    for (const { step, rows } of await reportsOf(trainRl(toyRlOptions(endingModel(device))))) {
      for (const { trajectory } of rows) {
        const { versions, roles } = trajectory.stream;
        expect(versions).toEqual(roles.map((role) => (role === "action" ? step : -1)));
      }
    }
  });

  it("what a request becomes when it is sent plays as the request itself", async () => {
    const spec = toySpec(letters(3));
    const plain = { spec, options: {}, seed: 1, group: 0, rng: new Rng(4) };
    const model = endingModel(device);
    const policy = await policyOf(model, 0);
    const explored = new Exploration({ epsilon: 0.5 }).apply(prefixedRequest(plain, 1), 0);
    const play = (job: Job): Promise<Trajectory> =>
      new Promise((resolve, reject) => {
        const options = { config: model.config, device, template: toyTemplate, rollout: { maxActionTokens: 5 }, rows: 1, environment: () => spec }; // prettier-ignore
        const server = new RolloutServer(options, (message) => {
          if (message.kind === "episode") void server.close().then(() => resolve(message.trajectory));
          else if (message.kind === "failed") reject(new Error(message.message));
        });
        server.receive({ kind: "policy", policy });
        server.receive({ kind: "play", jobs: [job] });
      });
    for (const request of [plain, prefixedRequest(plain, 1), explored]) {
      const job: Job = { id: 0, request, sampling: {}, pinned: false };
      expect(await play(structuredClone(toWire(job)))).toEqual(await play(job));
    }
    const custom = new Exploration({ epsilon: 0.5, choose: () => "a" }).apply(plain, 0);
    expect(() => toWire({ id: 0, request: custom, sampling: {}, pinned: false })).toThrow(
      "cannot be sent to another thread",
    );
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
    ["groups and groupSize must be ≥ 1, got 0 and 3", { groups: 0 }],
    ["did you mean 'groups'?", { gruops: 2 } as Partial<AsyncRlOptions>],
    ["reinforce has no ratio, and nothing else makes up for a policy that is up to 1 steps old", { maxStaleness: 1, objective: { ...toyObjective, policyLoss: reinforce() } }], // prettier-ignore
    ['the advantage "vtrace" and the correction tis_token both correct for π/μ', { maxStaleness: 1, objective: { ...toyObjective, advantage: vtrace(), critic: {}, importanceCorrection: importanceCorrection() } }], // prettier-ignore
  ])("%s", async (message, overrides) => {
    const options = { ...asyncOptions(endingModel(device), { steps: 1 }), ...overrides };
    await expect(reportsOf(trainRlAsync(options))).rejects.toThrow(message);
  });

  it("and what does fit runs: a correction without a ratio, a ratio without a correction", async () => {
    for (const own of [
      { policyLoss: reinforce(), importanceCorrection: importanceCorrection({ mode: "mask", min: 0.5 }) },
      { policyLoss: cispo() },
    ]) {
      const options = asyncOptions(endingModel(device), { steps: 2, objective: { ...toyObjective, ...own } }, { maxStaleness: 1 }); // prettier-ignore
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
    const options = asyncOptions(endingModel(device), {}, { workers, maxRestarts: 3 });
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
        return { ...worker, terminate: () => (clearInterval(pulse), worker.terminate()) };
      },
    };
    // The play of the one that lives takes longer than this patience.
    const slow = toySpec(
      (action, turn) => new Promise((answer) => setTimeout(() => answer(letters(2)(action, turn)), 100)),
    );
    const options = asyncOptions(other, { env: slow }, { workers, patience: 0.1 });
    const reports = await reportsOf(trainRlAsync(options));
    expect(started).toBe(3);
    expect(reports[0]!.metrics["async/restarts"]).toBe(1);
    expect(reports[0]!.metrics["async/replayed_episodes"]).toBeGreaterThan(0);
    expect(await paramsOf(other)).toEqual(await paramsOf(one));
  });
});
