/** What a long run leaves at a real server while it runs: no more after many steps than after a few. */
import { connect } from "@nats-io/transport-node";
import { jetstreamManager } from "@nats-io/jetstream";
import { afterAll, beforeAll, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../../engine/device.ts";
import { natsWorkers } from "../../../distribute/nats/learner.ts";
import { serveNats } from "../../../distribute/nats/serve.ts";
import { trainRlAsync } from "../../../distribute/async/train.ts";
import { type NatsServer, natsServer } from "../../support/natsServer.ts";
import { toyRlOptions } from "../../support/rlRuns.ts";
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

it("the stores hold a few versions and no episode that was read, however many there were", async () => {
  const stop = new AbortController();
  const url = `${server.url}/long`;
  const worker = serveNats({ server: url, ...rollouts, inline: 0, signal: stop.signal }); // every episode is an object
  const workers = await natsWorkers({ server: url });
  const connection = await connect({ servers: server.url });
  const manager = await jetstreamManager(connection);
  const messages = async (store: string): Promise<number> => (await manager.streams.info(store)).state.messages;
  const steps = 40;
  const seen: { weights: number; large: number }[] = [];
  const options = { ...toyRlOptions(endingModel(device), { steps }), workers, maxStaleness: 0 };
  for await (const { step } of trainRlAsync(options)) {
    if (step % 4 !== 3) continue;
    seen.push({ weights: await messages("OBJ_long_weights"), large: await messages("OBJ_long_large") });
  }
  stop.abort();
  expect((await worker).episodes).toBeGreaterThan(steps);
  await connection.close();
  expect(seen).toHaveLength(steps / 4);
  // An object is two messages. What is deleted is deleted while the next step runs: three versions and the setup at
  // most, and the six episodes of a step.
  expect(Math.max(...seen.map(({ weights }) => weights))).toBeLessThanOrEqual(8);
  expect(Math.max(...seen.map(({ large }) => large))).toBeLessThanOrEqual(12);
});
