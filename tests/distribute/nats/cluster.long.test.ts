/**
 * The server of examples/nats/kubernetes.yaml, with its own configuration and a real nats-server: what its two users
 * may do. Containers are not run.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import { connect } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { device as makeDevice } from "../../../engine/device.ts";
import { natsWorkers } from "../../../distribute/nats/learner.ts";
import { serveNats, type ServeNatsOptions } from "../../../distribute/nats/serve.ts";
import { trainRlAsync } from "../../../distribute/async/train.ts";
import { type NatsServer, natsServer } from "../../support/natsServer.ts";
import { reportsOf, toyRlOptions } from "../../support/rlRuns.ts";
import { endingModel } from "../../support/rlToy.ts";
import { rollouts } from "../../support/toyRollouts.ts";

const PASSWORDS = { LEARNER_PASSWORD: "l-s3cret", WORKER_PASSWORD: "w-s3cret" };
const learner = { user: "learner", password: PASSWORDS.LEARNER_PASSWORD };
const worker = { user: "worker", password: PASSWORDS.WORKER_PASSWORD };

let server: NatsServer;
beforeAll(async () => {
  const objects = parseAllDocuments(readFileSync("examples/nats/kubernetes.yaml", "utf8")).map(
    (document) => document.toJS() as { readonly kind: string; readonly data?: Readonly<Record<string, string>> },
  );
  const config = objects.find(({ kind }) => kind === "ConfigMap")!.data!["nats.conf"]!;
  // Ports and folder are the test's own.
  const rest = config.replaceAll(/^(port|http_port|jetstream):.*$/gm, "");
  Object.assign(process.env, PASSWORDS);
  server = await natsServer({ config: rest });
});
afterAll(async () => {
  for (const name of Object.keys(PASSWORDS)) delete process.env[name];
  await server.close();
});

/** Steps of a run in the queue `first`, whose episodes one worker plays. */
async function run(how: Pick<ServeNatsOptions, "inline"> = {}): Promise<{ rewards: unknown[]; episodes: number }> {
  const device = await makeDevice("wasm");
  const stop = new AbortController();
  const lines: string[] = [];
  const note = (line: string): void => void lines.push(line);
  const url = `${server.url}/first`;
  const served = serveNats({ server: url, ...worker, ...rollouts, ...how, note, signal: stop.signal });
  const workers = await natsWorkers({ server: url, ...learner, note });
  const options = { ...toyRlOptions(endingModel(device), { steps: 3 }), workers, maxStaleness: 0 };
  const reports = await reportsOf(trainRlAsync(options));
  stop.abort();
  device.dispose();
  expect(lines.filter((line) => /violation|permission|refuses/i.test(line))).toEqual([]);
  return { rewards: reports.map(({ metrics }) => metrics["reward"]), episodes: (await served).episodes };
}

it("the worker's rights are enough to play", async () => {
  const { rewards, episodes } = await run();
  expect([rewards.length, episodes]).toEqual([3, 18]);
  // Episodes that are larger than a message travel as objects.
  expect(await run({ inline: 0 })).toEqual({ rewards, episodes });
});

it("and not enough for anything else", async () => {
  const connection = await connect({ servers: server.url, user: worker.user, pass: worker.password });
  const [js, manager] = [jetstream(connection), await jetstreamManager(connection, { checkAPI: false, timeout: 1000 })];
  const denied = /permission|violation|timeout/i;
  const opened = new Kvm(connection).open("first_policy");
  await expect(opened.then((kv) => kv.put("policy", "{}"))).rejects.toThrow(denied);
  await expect(js.publish("first.tickets", "{}", { timeout: 1000 })).rejects.toThrow(denied);
  await expect(manager.streams.purge("first_episodes")).rejects.toThrow(denied);
  await expect(manager.streams.delete("first_tickets")).rejects.toThrow(denied);
  await expect(manager.streams.add({ name: "own", subjects: ["own"] })).rejects.toThrow(denied);
  await connection.close();
  const other = serveNats({ server: `${server.url}/second`, ...worker, ...rollouts, patience: 1 });
  await expect(other).rejects.toThrow(/^nats: [^\n]*(permission|violation|timeout)/i);
});

it("a worker's process says in a file that it was let in, and only then", async () => {
  const folder = mkdtempSync(join(tmpdir(), "worldgrad-ready-"));
  const start = (name: string, password: string): ChildProcess => {
    const flags = ["--server", `${server.url}/first`, "--ready", join(folder, name)];
    return spawn(process.execPath, ["--import", "tsx", "run/cli/worker.ts", ...flags], {
      env: { ...process.env, NATS_USER: "worker", NATS_PASSWORD: password },
      stdio: "ignore",
    });
  };
  const ended = (child: ChildProcess): Promise<number | null> => new Promise((done) => child.once("exit", done));
  const [good, bad] = [start("good", worker.password), start("bad", "wrong")];
  const codes = [good, bad].map(ended);
  try {
    expect(await codes[1]).toBe(1);
    expect(existsSync(join(folder, "bad"))).toBe(false);
    while (!existsSync(join(folder, "good"))) {
      expect(good.exitCode).toBe(null);
      await new Promise((next) => setTimeout(next, 100));
    }
    expect(readFileSync(join(folder, "good"), "utf8")).toMatch(/connected to nats:\/\/.*, queue "first"/);
    good.kill("SIGTERM");
    expect(await codes[0]).toBe(0);
  } finally {
    for (const child of [good, bad]) child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  }
});
