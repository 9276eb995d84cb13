/** Whole runs through a real server, with workers in this process; faults are in faults.long.test.ts. */
import { jetstream } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../../engine/device.ts";
import { Rng } from "../../../engine/random.ts";
import { treeLeaves } from "../../../engine/tree.ts";
import { addLora } from "../../../pretrained/lora.ts";
import { type Model, trainableOf } from "../../../nn/transformer.ts";
import { natsWorkers, type NatsWorkersOptions } from "../../../distribute/nats/learner.ts";
import { ticketFromJson, ticketToJson } from "../../../distribute/nats/protocol.ts";
import { type ServeNatsOptions, serveNats } from "../../../distribute/nats/serve.ts";
import { trainRlAsync } from "../../../distribute/async/train.ts";
import { trainRl } from "../../../rl/train/loop.ts";
import type { StepReport } from "../../../rl/train/report.ts";
import { common } from "../../support/rlAsync.ts";
import { type NatsServer, natsServer } from "../../support/natsServer.ts";
import { readAll } from "../../support/rlExecutors.ts";
import { packedAdapter, paramsOf, reportsOf, toyRlOptions } from "../../support/rlRuns.ts";
import { endingModel } from "../../support/rlToy.ts";
import { rollouts } from "../../support/toyRollouts.ts";

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

const adapterOf = (model: Model): Promise<number[][]> => readAll(treeLeaves(trainableOf(model).params));

const learner = (queue: string, more: Partial<NatsWorkersOptions> = {}) =>
  natsWorkers({ server: `${server.url}/${queue}`, ...more });

describe("a run with workers behind a server", () => {
  it("staleness 0 is the synchronous run, bit for bit, with workers that join, leave and send objects", async () => {
    const one = endingModel(device);
    const sync = await reportsOf(trainRl(toyRlOptions(one)));
    const other = endingModel(device);
    const first = workers("sync", 2);
    const fleet = await learner("sync");
    const reports: StepReport[] = [];
    let later: ReturnType<typeof workers> | undefined;
    let served: readonly { readonly episodes: number }[] = [];
    for await (const report of trainRlAsync({ ...toyRlOptions(other), workers: fleet, maxStaleness: 0 })) {
      reports.push(report);
      if (report.step > 0) continue;
      later = workers("sync", 1, { inline: 0 }); // every episode travels as an object
      served = await first.ended();
    }
    served = [...served, ...(await later!.ended())];
    expect(reports.map(common)).toEqual(sync.map((r) => r.metrics));
    expect(reports.map((r) => r.rows)).toEqual(sync.map((r) => r.rows));
    expect(await paramsOf(other)).toEqual(await paramsOf(one));
    expect(served.map(({ episodes }) => episodes).reduce((a, b) => a + b)).toBe(18);
    expect(served[2]!.episodes).toBeGreaterThan(0);
    expect(reports.reduce((sum, { metrics }) => sum + metrics["async/rejected_messages"]!, 0)).toBe(0);
  });

  it("an adapter: the workers get what is frozen once, and then the adapter alone", async () => {
    const how = { r: 2, loraAlpha: 8, targetModules: "all-linear" } as const;
    const [one, other] = [1, 2].map(() => addLora(endingModel(device), how, new Rng(1)));
    const sync = await reportsOf(trainRl(toyRlOptions(one!)));
    const players = workers("adapter", 1);
    const fleet = await learner("adapter");
    const reports = await reportsOf(trainRlAsync({ ...toyRlOptions(other!), workers: fleet, maxStaleness: 0 }));
    expect(reports.map(common)).toEqual(sync.map((r) => r.metrics));
    expect(await adapterOf(other!)).toEqual(await adapterOf(one!));
    expect((await players.ended())[0]!.episodes).toBeGreaterThan(0);
  });

  it.each(["bf16", "q8"] as const)("an adapter on a model in %s, which the workers get as it is", async (format) => {
    const [one, other] = [await packedAdapter(device, format), await packedAdapter(device, format)];
    const sync = await reportsOf(trainRl(toyRlOptions(one)));
    const players = workers(format, 2);
    const fleet = await learner(format);
    const reports = await reportsOf(trainRlAsync({ ...toyRlOptions(other), workers: fleet, maxStaleness: 0 }));
    expect(reports.map(common)).toEqual(sync.map((r) => r.metrics));
    expect(await adapterOf(other)).toEqual(await adapterOf(one));
    const served = await players.ended();
    expect(served.reduce((sum, { episodes }) => sum + episodes, 0)).toBe(18);
  });

  it("plays ahead within the bound, free and fixed", async () => {
    for (const schedule of ["free", "fixed"] as const) {
      const queue = `ahead-${schedule}`;
      const { ended } = workers(queue, 2);
      const how = { workers: await learner(queue), maxStaleness: 1, schedule };
      const reports = await reportsOf(trainRlAsync({ ...toyRlOptions(endingModel(device)), ...how }));
      expect(reports.map(({ metrics }) => metrics["async/staleness_max"]! <= 1)).toEqual([true, true, true]);
      await ended();
    }
  });

  it("a worker refuses an environment that it was not given, and the learner is told", async () => {
    const { ended, notes } = workers("refusal", 1, { environments: {} });
    const said: string[] = [];
    const stop = new AbortController();
    const note = (line: string): void => {
      said.push(line);
      if (line.includes("refuses")) stop.abort();
    };
    const fleet = await learner("refusal", { note });
    const options = toyRlOptions(endingModel(device), { rollout: { maxTurns: 2, signal: stop.signal } });
    await reportsOf(trainRlAsync({ ...options, workers: fleet, maxStaleness: 0 }));
    await ended();
    expect(notes.join()).toContain('refuses: unknown environment "toy"');
    expect(said.join()).toMatch(/worker w0 [0-9a-f]{12} refuses: unknown environment "toy"/);
  });

  it("a worker refuses a ticket for another configuration, and plays the others to the same bits", async () => {
    const one = endingModel(device);
    const sync = await reportsOf(trainRl(toyRlOptions(one)));
    const { ended, notes } = workers("other", 1);
    const said: string[] = [];
    const fleet = await learner("other", { maxDeliveries: 3, note: (line) => void said.push(line) });
    const connection = await connect({ servers: server.url });
    const js = jetstream(connection);
    let forged = 0;
    connection.subscribe("other.tickets", {
      callback: (_, message) => {
        const ticket = ticketFromJson(message.string());
        const configuration = "0".repeat(64);
        if (ticket.configuration === configuration || forged++ > 0) return;
        void js.publish("other.tickets", ticketToJson({ ...ticket, configuration }));
      },
    });
    const other = endingModel(device);
    const reports = await reportsOf(trainRlAsync({ ...toyRlOptions(other), workers: fleet, maxStaleness: 0 }));
    await connection.close();
    await ended();
    expect(notes).toContain("refuses: the ticket is for another configuration");
    expect(said.join()).toMatch(/worker w0 [0-9a-f]{12} refuses: the ticket is for another configuration/);
    expect(reports.map(common)).toEqual(sync.map((r) => r.metrics));
    expect(await paramsOf(other)).toEqual(await paramsOf(one));
  });

  it("a second run is refused while the first one lives", async () => {
    const { ended } = workers("taken", 1);
    const run = trainRlAsync({
      ...toyRlOptions(endingModel(device)),
      workers: await learner("taken"),
      maxStaleness: 0,
    });
    await run.next();
    const second = { ...toyRlOptions(endingModel(device)), workers: await learner("taken"), maxStaleness: 0 };
    await expect(reportsOf(trainRlAsync(second))).rejects.toThrow('another run learns with the queue "taken"');
    await run.return();
    await ended();
  });
});

describe("what cannot work is one line within seconds", () => {
  it("no server, no JetStream, no right password", async () => {
    await expect(natsWorkers({ server: "nats://127.0.0.1:9" })).rejects.toThrow(
      "nats: no connection to nats://127.0.0.1:9: ",
    );
    await expect(serveNats({ server: "nats://127.0.0.1:9", environments: {} })).rejects.toThrow("nats: no connection");
    await expect(natsWorkers({ server: server.url, creds: "/nowhere/creds" })).rejects.toThrow("nats: creds: ENOENT");
    const locked = await natsServer({ config: 'authorization: { user: "u", password: "p" }' });
    const address = locked.url.replace("//", "//u:wrong@");
    await expect(natsWorkers({ server: address })).rejects.toThrow(/no connection to nats:\/\/127.*Authorization/i);
    const right = await natsWorkers({ server: locked.url, user: "u", password: "p" });
    await right.close();
    await locked.close();
  });
});
