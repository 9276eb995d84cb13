/**
 * Asynchronous training with threads of Node: the synchronous run at staleness 0, also when threads are killed; no
 * finished episode is lost; threads play while the learner computes. Programs: asyncPrograms.long.test.ts.
 */
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import type { Worker } from "node:worker_threads";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { trainRlAsync } from "../../distribute/async/train.ts";
import { serveRollouts } from "../../distribute/async/serve.ts";
import { messageWorkers, type RolloutWorkers } from "../../distribute/async/workers.ts";
import type { TokenStream } from "../../rl/episode/stream.ts";
import { trainRl } from "../../rl/train/loop.ts";
import { programAt } from "../support/programs.ts";
import { common } from "../support/rlAsync.ts";
import { readAll } from "../support/rlExecutors.ts";
import { packedAdapter, paramsOf, reportsOf, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel, letters, toySpec } from "../support/rlToy.ts";
import { rollouts } from "../support/toyRollouts.ts";
import { some } from "../support/tries.ts";

// Compiled: a thread that compiles the sources for itself takes about a second to start.
const compiled = (path: string): string => pathToFileURL(programAt(path)).href;
const { threadWorkers } = (await import(compiled("run/node/threads.ts"))) as typeof import("../../run/node/threads.ts");
const module = compiled("tests/support/toyRollouts.ts");
const TIMEOUT = 300_000;

let device: Device;
beforeAll(async () => {
  device = await makeDevice("wasm");
});
afterAll(() => device.dispose());

/** Threads of which one is killed whenever as many episodes have arrived as the list says. */
function mortalThreads(
  count: number,
  deaths: readonly number[],
  seed: number,
): { readonly workers: RolloutWorkers; readonly arrived: TokenStream[]; readonly killed: () => number } {
  const rng = new Rng(seed);
  const threads = new Map<number, Worker>();
  const inner = threadWorkers(count, { module, onStart: (thread, index) => void threads.set(index, thread) });
  const arrived: TokenStream[] = [];
  let killed = 0;
  let started = 0;
  const kill = (): void => {
    killed++;
    void threads.get(rng.int(count))!.terminate();
  };
  const workers: RolloutWorkers = {
    ...inner,
    start(index, setup, events) {
      const worker = inner.start(index, setup, {
        ...events,
        receive(message) {
          if (message.kind === "episode") {
            arrived.push(message.trajectory.stream);
            if (deaths.includes(arrived.length)) kill();
          }
          events.receive(message);
        },
      });
      if (deaths.includes(-1) && started++ === 0) setTimeout(kill, 5); // while they start
      return worker;
    },
  };
  return { workers, arrived, killed: () => killed };
}

describe("threads", () => {
  it(
    "staleness 0 is the synchronous run, bitwise, whoever is killed and when; no finished episode is lost",
    { timeout: TIMEOUT },
    async () => {
      const one = endingModel(device);
      const sync = await reportsOf(trainRl(toyRlOptions(one, { steps: 5 })));
      for (const [n, deaths] of some([[-1, 4, 17], [1, 2, 29], []]).entries()) {
        const other = endingModel(device);
        const { workers, arrived, killed } = mortalThreads(2, deaths, n);
        const reports = await reportsOf(
          trainRlAsync({ ...toyRlOptions(other, { steps: 5 }), workers, maxStaleness: 0, maxRestarts: 20 }),
        );
        expect(reports.map(common)).toEqual(sync.map((r) => r.metrics));
        expect(reports.map((r) => r.rows)).toEqual(sync.map((r) => r.rows));
        expect(await paramsOf(other)).toEqual(await paramsOf(one));
        expect(killed()).toBe(deaths.length);
        const restarts = reports.reduce((sum, { metrics }) => sum + metrics["async/restarts"]!, 0);
        expect(restarts).toBeGreaterThanOrEqual(Math.min(1, deaths.length));
        const learnt = new Set(reports.flatMap((r) => r.rows.map((e) => e.trajectory.stream)));
        expect(arrived.every((stream) => learnt.has(stream))).toBe(true);
        expect(arrived.length).toBe(5 * 6);
      }
    },
  );

  it(
    "with staleness, killed at random: every group whole, every finished episode learnt from or too old",
    { timeout: TIMEOUT },
    async () => {
      const model = endingModel(device);
      const { workers, arrived, killed } = mortalThreads(2, [3, 11, 20], 7);
      const reports = await reportsOf(
        trainRlAsync({ ...toyRlOptions(model, { steps: 6 }), workers, maxStaleness: 2, maxRestarts: 20 }),
      );
      expect(reports.length).toBe(6);
      expect(killed()).toBe(3);
      const dropped = reports.reduce((sum, { metrics }) => sum + metrics["async/dropped_episodes"]!, 0);
      const learnt = new Set<TokenStream>();
      const tasks = new Set<number>();
      for (const { step, rows, metrics } of reports) {
        const played = rows.map((row) => row.trajectory);
        for (const group of [0, 1]) {
          const members = played.filter((t) => t.group === group);
          expect(members.length).toBe(3);
          expect(new Set(members.map((t) => t.seed)).size).toBe(1);
          tasks.add(members[0]!.seed);
        }
        for (const { stream } of played) {
          learnt.add(stream);
          for (const version of stream.versions) if (version >= 0) expect(step - version).toBeLessThanOrEqual(2);
        }
        expect(metrics["async/staleness_max"]).toBeLessThanOrEqual(2);
      }
      expect(tasks.size).toBe(12);
      expect(learnt.size).toBe(36);
      expect(arrived.filter((stream) => !learnt.has(stream)).length).toBe(dropped);
      expect(arrived.length).toBe(36 + dropped);
    },
  );

  it.each(["bf16", "q8"] as const)("an adapter on a model in %s", { timeout: TIMEOUT }, async (format) => {
    const [one, other] = [await packedAdapter(device, format), await packedAdapter(device, format)];
    const sync = await reportsOf(trainRl(toyRlOptions(one)));
    const options = { ...toyRlOptions(other), workers: threadWorkers(2, { module }), maxStaleness: 0 };
    const reports = await reportsOf(trainRlAsync(options));
    expect(reports.map(common)).toEqual(sync.map((r) => r.metrics));
    const [a, b] = await Promise.all([one, other].map((model) => readAll(treeLeaves(model.trainable.params))));
    expect(b).toEqual(a);
  });

  it("threads play while the learner's thread is busy", { timeout: TIMEOUT }, async () => {
    const env = { ...toySpec(letters(2)), name: "waiting" };
    const workers = threadWorkers(1, { module });
    const sampling = { maxActionTokens: 5, maxTurns: 3, timeout: TIMEOUT };
    const options = { ...toyRlOptions(endingModel(device), { steps: 3, env, rollout: sampling }), workers };
    const folder = mkdtempSync(join(tmpdir(), "worldgrad-threads-"));
    process.env["WORLDGRAD_TEST_FOLDER"] = folder; // threads have a copy
    const answers = join(folder, "answers");
    for await (const { step } of trainRlAsync({ ...options, maxStaleness: 2 })) {
      if (step > 0) continue;
      // What was played so far is step 0. From here on the thread may play; this one lets nothing else run until it
      // has.
      expect(existsSync(answers)).toBe(false);
      writeFileSync(join(folder, "go"), "");
      const until = performance.now() + 100_000;
      while (!(existsSync(answers) && statSync(answers).size >= 6) && performance.now() < until);
      expect(statSync(answers).size).toBeGreaterThanOrEqual(6);
    }
    delete process.env["WORLDGRAD_TEST_FOLDER"];
    rmSync(folder, { recursive: true });
  });
});

it("message workers: the same over the ports of a page's workers", { timeout: TIMEOUT }, async () => {
  const [one, other] = [endingModel(device), endingModel(device)];
  const sync = await reportsOf(trainRl(toyRlOptions(one)));
  const stops: (() => Promise<void>)[] = [];
  const workers = messageWorkers(2, () => {
    const { port1, port2 } = new MessageChannel();
    port2.start();
    port1.start();
    stops.push(serveRollouts(port2, rollouts));
    // Unlike a port, a worker has no start, and tells of its errors.
    return {
      postMessage: (message: unknown) => port1.postMessage(message),
      addEventListener: (type: string, listener: (event: never) => void) =>
        port1.addEventListener(type, listener as (event: Event) => void),
      terminate: () => port1.close(),
    };
  });
  const reports = await reportsOf(trainRlAsync({ ...toyRlOptions(other), workers, maxStaleness: 0 }));
  expect(reports.map(common)).toEqual(sync.map((r) => r.metrics));
  expect(await paramsOf(other)).toEqual(await paramsOf(one));
  const failing = messageWorkers(1, () => ({
    postMessage: () => {},
    addEventListener: (type: string, listener: (event: never) => void) =>
      void (type === "error" && queueMicrotask(() => listener({ message: "404 rollouts.js" } as never))),
    terminate: () => {},
  }));
  const options = { ...toyRlOptions(other), workers: failing, maxStaleness: 0, maxRestarts: 1 };
  await expect(reportsOf(trainRlAsync(options))).rejects.toThrow("after 1 restarts; the last one: 404 rollouts.js");
  await Promise.all(stops.map((stop) => stop()));
});

it("bad numbers of threads are said in one line", () => {
  expect(() => threadWorkers(0)).toThrow("threadWorkers: expected 1 to 64 workers, got 0");
  expect(() => threadWorkers(1.5)).toThrow("got 1.5");
});
