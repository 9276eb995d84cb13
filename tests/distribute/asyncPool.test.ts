/** The learner's side of its workers: who is given what when one dies, what cannot be sent, and what is taken first. */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import type { Policy, ToWorker } from "../../distribute/async/messages.ts";
import { WorkerPool } from "../../distribute/async/pool.ts";
import { type AsyncRlOptions, trainRlAsync } from "../../distribute/async/train.ts";
import {
  messageWorkers,
  type RolloutWorkers,
  type WorkerEvents,
  type WorkerSetup,
} from "../../distribute/async/workers.ts";
import { reinforcePlusPlus } from "../../methods/advantages/index.ts";
import { exploration } from "../../data/exploration.ts";
import { unplayed } from "../support/rlAsync.ts";
import { reportsOf, toyObjective, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel, letters, toySpec, toyTemplate } from "../support/rlToy.ts";

vi.setConfig({ testTimeout: 60_000 });

let device: Device;
beforeAll(async () => {
  device = await makeDevice("wasm");
});
afterAll(() => device.dispose());

/** Workers that write down what they are sent. */
function scribes(count: number): {
  readonly workers: RolloutWorkers;
  readonly heard: ToWorker[][];
  readonly events: WorkerEvents[];
} {
  const heard: ToWorker[][] = [];
  const events: WorkerEvents[] = [];
  const start = (_: number, __: WorkerSetup, own: WorkerEvents): ReturnType<RolloutWorkers["start"]> => {
    const mine: ToWorker[] = [];
    heard.push(mine);
    events.push(own);
    return { post: (message) => void mine.push(message), terminate: () => Promise.resolve() };
  };
  return { workers: { count, start }, heard, events };
}

const setup = (): WorkerSetup => ({
  config: endingModel(device).config,
  device,
  template: toyTemplate,
  rollout: {},
  rows: 1,
});
const policy = (version: number): Policy => ({ version, weights: [] });
/** The same task as often as it is asked for, as a curriculum does. */
const request = { spec: toySpec(letters(2)), options: {}, seed: 7, group: 0, rng: new Rng(1) };
const spoken = (messages: readonly ToWorker[]): string[] =>
  messages.map((message) =>
    message.kind === "policy" ? `policy ${message.policy.version}` : `play ${message.jobs.map((job) => job.id).join()}`,
  );

describe("WorkerPool", () => {
  it("what a dead worker had of several steps is played by the versions that it was to be played by", async () => {
    const { workers, heard, events } = scribes(1);
    const pool = new WorkerPool(workers, setup());
    pool.publish(policy(0), { lazily: true, oldest: 0 });
    const first = pool.play([request, request], {}, 0);
    pool.publish(policy(1), { lazily: true, oldest: 0 });
    const second = pool.play([request], {}, 1);
    expect(spoken(heard[0]!)).toEqual(["policy 0", "play 0,1", "policy 1", "play 2"]);
    events[0]!.ended("killed");
    expect(spoken(heard[1]!)).toEqual(["policy 0", "play 0,1", "policy 1", "play 2"]);
    for (const message of heard[1]!) {
      if (message.kind !== "play") continue;
      for (const job of message.jobs)
        events[1]!.receive({ kind: "episode", id: job.id, trajectory: unplayed(job, [0]) });
    }
    expect((await first).length).toBe(2);
    expect((await second).length).toBe(1);
    await pool.close();
  });

  it("workers that did start are ended if another cannot be made", () => {
    let ended = 0;
    const start: RolloutWorkers["start"] = (index) => {
      if (index === 1) throw new Error("too many threads");
      return { post: () => {}, terminate: () => Promise.resolve(void ended++) };
    };
    expect(() => new WorkerPool({ count: 2, heartbeat: true, start }, setup())).toThrow("too many threads");
    expect(ended).toBe(1);
  });
  it("a worker that cannot be made anew leaves its work to the others; the last one's reason is said", async () => {
    const { workers, heard, events } = scribes(2);
    let made = 0;
    const start: RolloutWorkers["start"] = (...args) => {
      if (++made > 2) throw new Error("too many threads");
      return workers.start(...args);
    };
    const pool = new WorkerPool({ count: 2, start }, setup());
    pool.publish(policy(0), { lazily: true, oldest: 0 });
    const playing = pool.play([request], {}, 0);
    events[0]!.ended("killed");
    expect(spoken(heard[1]!)).toEqual(["policy 0", "play 0"]);
    events[1]!.ended("killed");
    await expect(playing).rejects.toThrow(
      "every rollout worker has ended, after 2 restarts; the last one: too many threads",
    );
    await pool.close();
  });
});

/** Web Workers that hear, and say nothing. */
const silent = (sent: unknown[] = []): RolloutWorkers =>
  messageWorkers(2, () => ({
    postMessage: (message) => void sent.push(message),
    addEventListener: () => {},
    terminate: () => {},
  }));
const runWith = (workers: RolloutWorkers, own: Partial<AsyncRlOptions>): Promise<unknown> =>
  reportsOf(trainRlAsync({ ...toyRlOptions(endingModel(device)), workers, maxStaleness: 0, ...own }));

describe("messages", () => {
  it("a request that cannot be sent ends the run in one line", async () => {
    const plugins = [exploration({ epsilon: 1, choose: () => "a" })];
    await expect(runWith(silent(), { plugins })).rejects.toThrow(
      "cannot be sent to another thread; play with workers on this one",
    );
  });

  it("wrong options start no worker", async () => {
    const sent: unknown[] = [];
    await expect(runWith(silent(sent), { iterations: 0 })).rejects.toThrow("iterations must be an integer ≥ 1");
    expect(sent).toEqual([]);
  });

  it("the weights of a version are in one piece of shared memory for all workers", async () => {
    const sent: unknown[] = [];
    const stop = new AbortController();
    const running = runWith(silent(sent), { rollout: { signal: stop.signal } });
    await vi.waitUntil(() => sent.length >= 6, { timeout: 50_000 });
    stop.abort();
    expect(await running).toEqual([]);
    const policies = (sent as ToWorker[]).flatMap((message) => (message.kind === "policy" ? [message.policy] : []));
    expect(policies.length).toBe(2);
    expect(policies[0]!.weights[0]!.buffer).toBeInstanceOf(SharedArrayBuffer);
    expect(policies[1]!.weights.map((w) => w.buffer)).toEqual(policies[0]!.weights.map((w) => w.buffer));
    policies[0]!.weights.forEach((w, i) => expect(policies[1]!.weights[i]!.buffer).toBe(w.buffer));
  });
});

it("what lies unread when a step begins is read first, so that the oldest groups are taken", async () => {
  /**
   * Both play in no time. What the first says is heard at once, what the second says when the event loop turns after
   * `speak`.
   */
  const unsaid: (() => void)[] = [];
  const speak = (): void => void setImmediate(() => unsaid.splice(0).forEach((say) => say()));
  const start = (index: number, _: WorkerSetup, { receive }: WorkerEvents): ReturnType<RolloutWorkers["start"]> => {
    let version = -1;
    return {
      post(message) {
        if (message.kind === "policy") return void (version = message.policy.version);
        for (const job of message.jobs) {
          const trajectory = unplayed(job, [version]);
          const say = (): void => receive({ kind: "episode", id: job.id, trajectory });
          if (index === 0) queueMicrotask(say);
          else unsaid.push(say);
        }
      },
      terminate: () => Promise.resolve(),
    };
  };
  const objective = { ...toyObjective, advantage: reinforcePlusPlus() }; // for groups of one
  const options = {
    ...toyRlOptions(endingModel(device), { steps: 4, groups: 4, groupSize: 1, objective }),
    workers: { count: 2, start },
  };
  const ages: number[] = [];
  for await (const { step, metrics } of trainRlAsync({ ...options, maxStaleness: 2 })) {
    ages.push(metrics["async/staleness_mean"]!);
    if (step === 1) break;
    speak();
  }
  // Of the 12 groups that could be begun at first, step 0 takes four of the first worker's six, and step 1 those of the
  // second: with the two that are left and two that are begun in step 1 it could have had younger ones, and the others
  // would have aged.
  expect(ages).toEqual([0, 1]);
});
