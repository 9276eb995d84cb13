/**
 * Whole runs through a real server, with workers in this process; the faults of other processes are in
 * faults.long.test.ts.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { natsWorkers, type NatsWorkersOptions } from "../../nats/learner.ts";
import { type ServeNatsOptions, serveNats } from "../../nats/serve.ts";
import { trainRlAsync } from "../../rl/async/train.ts";
import { trainRl } from "../../rl/train/loop.ts";
import { common } from "../support/rlAsync.ts";
import { type NatsServer, natsServer } from "../support/natsServer.ts";
import { paramsOf, reportsOf, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel } from "../support/rlToy.ts";
import { rollouts } from "../support/toyRollouts.ts";

let device: Device;
let server: NatsServer;
beforeAll(async () => {
  device = await makeDevice("wasm");
  server = await natsServer();
});
afterAll(async () => {
  await server.close();
  device.dispose();
});

/** Workers in this process, until `stop`. */
function workers(queue: string, count: number, more: Partial<ServeNatsOptions> = {}) {
  const stop = new AbortController();
  const notes: string[] = [];
  const served = Array.from({ length: count }, (_, i) =>
    serveNats({
      server: `${server.url}/${queue}`,
      ...rollouts,
      name: `w${i}`,
      signal: stop.signal,
      note: (line) => void notes.push(line),
      ...more,
    }),
  );
  const ended = (): Promise<readonly { readonly episodes: number }[]> => {
    stop.abort();
    return Promise.all(served);
  };
  return { ended, notes };
}

const learner = (queue: string, more: Partial<NatsWorkersOptions> = {}) =>
  natsWorkers({ server: `${server.url}/${queue}`, ...more });

describe("a run with workers behind a server", () => {
  it("staleness 0 is the synchronous run, bit for bit, with any number of workers", async () => {
    const one = endingModel(device);
    const sync = await reportsOf(trainRl(toyRlOptions(one)));
    for (const count of [1, 3]) {
      const other = endingModel(device);
      const { ended } = workers(`sync${count}`, count);
      const fleet = await learner(`sync${count}`);
      const reports = await reportsOf(trainRlAsync({ ...toyRlOptions(other), workers: fleet, maxStaleness: 0 }));
      const served = await ended();
      expect(reports.map(common)).toEqual(sync.map((r) => r.metrics));
      expect(reports.map((r) => r.rows)).toEqual(sync.map((r) => r.rows));
      expect(await paramsOf(other)).toEqual(await paramsOf(one));
      expect(served.reduce((sum, { episodes }) => sum + episodes, 0)).toBe(18);
    }
  });
});
