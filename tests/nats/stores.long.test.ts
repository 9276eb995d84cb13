/** What a long run leaves at a real server while it runs: no more after many turns than after a few. */
import { connect } from "@nats-io/transport-node";
import { jetstreamManager } from "@nats-io/jetstream";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { natsLearners } from "../../nats/learners.ts";
import { serveLearner } from "../../nats/serve.ts";
import { trainRl } from "../../rl/train/loop.ts";
import { type NatsServer, natsServer } from "../support/natsServer.ts";
import { toyObjective, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel } from "../support/rlToy.ts";

vi.setConfig({ testTimeout: 120_000 });

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

it("the store of gradients holds two turns and the setup, however many there were", async () => {
  const stop = new AbortController();
  const url = `${server.url}/long`;
  const other = serveLearner({ server: url, objective: toyObjective, name: "other", signal: stop.signal });
  const learners = await natsLearners({ server: url });
  const connection = await connect({ servers: server.url });
  const manager = await jetstreamManager(connection);
  const stateOf = async (stream: string): Promise<{ messages: number; bytes: number }> =>
    (await manager.streams.info(stream)).state;
  const steps = 40;
  const states: { messages: number; bytes: number }[] = [];
  for await (const report of trainRl({ ...toyRlOptions(endingModel(device), { steps }), learners })) {
    if (report.step % 4 === 3) states.push(await stateOf("OBJ_long_gradients"));
  }
  const most = (part: typeof states, of: "messages" | "bytes"): number => Math.max(...part.map((state) => state[of]));
  const [early, late] = [states.slice(1, 4), states.slice(-3)];
  console.info(JSON.stringify(states.map(({ messages, bytes }) => [messages, bytes])));
  expect(states).toHaveLength(steps / 4);
  expect(most(early, "messages")).toBeGreaterThan(4);
  // What is deleted is deleted while the next turn runs, so that a turn more or less may be there.
  expect(most(late, "messages")).toBeLessThanOrEqual(1.5 * most(early, "messages"));
  expect(most(late, "bytes")).toBeLessThanOrEqual(1.5 * most(early, "bytes"));
  expect((await stateOf("KV_long_learners")).messages).toBeLessThan(10);
  await learners.close();
  stop.abort();
  const { microBatches } = await other;
  expect(microBatches).toBeGreaterThan(steps / 2);
  await connection.close();
});
