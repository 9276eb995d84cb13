/**
 * Versions of the policy in asynchronous training: each token is marked with the version that drew it, also where
 * weights come in the middle of an episode, and a request plays the same after it was sent.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import { type FromWorker, type Job, policyOf, toWire } from "../../distribute/async/messages.ts";
import { RolloutServer, type ServerOptions } from "../../distribute/async/server.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { rowOf } from "../../rl/objective/columns.ts";
import { prefixedRequest } from "../../data/expertPrefix.ts";
import { exploration } from "../../data/exploration.ts";
import { trainRl } from "../../rl/train/loop.ts";
import { score } from "../../rl/train/score.ts";
import { reportsOf, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel, letters, toyModel, toySpec, toyTemplate } from "../support/rlToy.ts";

vi.setConfig({ testTimeout: 120_000 }); // whole runs, on a machine that may be busy

let device: Device;
beforeAll(async () => {
  device = await makeDevice("wasm");
});
afterAll(() => device.dispose());

describe("versions", () => {
  it.each([
    { kind: "reference" as const, digits: 9 },
    { kind: "wasm" as const, digits: 4 },
  ])("weights that come in the middle of an episode: each token is its own version's, on $kind", async (executor) => {
    const { kind, digits } = executor;
    const own = await makeDevice(kind);
    const models = Array.from({ length: 4 }, (_, seed) => toyModel(own, seed + 1));
    const policies = await Promise.all(models.map((model, version) => policyOf(model, version)));
    const episodes: Trajectory[] = [];
    const spec = toySpec(letters(3));
    const options: ServerOptions = {
      config: models[0]!.config,
      device: own,
      template: toyTemplate,
      rollout: { maxActionTokens: 8, maxConcurrent: 5 },
      rows: 5,
      environment: () => spec,
    };
    const jobs = Array.from({ length: 16 }, (_, id): Job => {
      const group = Math.floor(id / 4);
      const sampling = id % 4 === 3 ? { temperature: 0.7 } : {};
      const request = { spec, options: {}, seed: group, group, rng: new Rng(9).split(id) };
      return toWire({ id, pinned: false, sampling, request });
    });
    await new Promise<void>((resolve, reject) => {
      const server = new RolloutServer(options, (message: FromWorker) => {
        if (message.kind === "failed") reject(new Error(message.message));
        if (message.kind !== "episode") return;
        episodes.push(message.trajectory);
        if (episodes.length === 16) void server.close().then(resolve);
      });
      server.receive({ kind: "policy", policy: policies[0]! });
      server.receive({ kind: "play", jobs });
      // A token or so apart, so that policies change in turns, between turns, and while tasks are being read.
      let version = 0;
      const next = (): void => {
        version = (version + 1) % 4;
        server.receive({ kind: "policy", policy: policies[version]! });
        if (episodes.length < 16) setTimeout(next, 2);
      };
      setTimeout(next, 2);
    });
    const mixed = episodes.filter(({ stream }) => new Set(stream.versions.filter((v) => v >= 0)).size > 1);
    expect(mixed.length).toBeGreaterThan(4);
    const inOneTurn = mixed.filter(({ stream: { versions } }) =>
      versions.some((version, t) => {
        const before = versions[t - 1] ?? -1;
        return version >= 0 && before >= 0 && before !== version;
      }),
    );
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
  });

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
    const explored = exploration({ epsilon: 0.5 }).request!(prefixedRequest(plain, 1), 0);
    const options: ServerOptions = {
      config: model.config,
      device,
      template: toyTemplate,
      rollout: { maxActionTokens: 5 },
      rows: 1,
      environment: () => spec,
    };
    const play = (job: Job): Promise<Trajectory> =>
      new Promise((resolve, reject) => {
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
    const custom = exploration({ epsilon: 0.5, choose: () => "a" }).request!(plain, 0);
    expect(() => toWire({ id: 0, request: custom, sampling: {}, pinned: false })).toThrow(
      "cannot be sent to another thread",
    );
  });
});
