/** Learners that are killed, as real processes with a real server; and the programs. */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { natsLearners } from "../../nats/learners.ts";
import { trainRl } from "../../rl/train/loop.ts";
import { lastCheckpoint, metricsOf, ONE_AGENT, startIn, until } from "../support/mainJob.ts";
import { Processes } from "../support/natsProcesses.ts";
import { type NatsServer, natsServer } from "../support/natsServer.ts";
import { paramsOf, reportsOf, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel } from "../support/rlToy.ts";

const STEPS = 6;
const folder = mkdtempSync(join(tmpdir(), "worldgrad-learners-"));
let device: Device;
let processes: Processes;
let server: NatsServer;
beforeAll(async () => {
  device = await makeDevice("wasm");
  processes = await Processes.compile();
  server = await natsServer();
}, 120_000);
afterAll(async () => {
  processes.close();
  await server.close();
  device.dispose();
  rmSync(folder, { recursive: true, force: true });
});

const alone = async () => {
  const model = endingModel(device);
  const reports = await reportsOf(trainRl(toyRlOptions(model, { steps: STEPS })));
  return { metrics: reports.map((r) => r.metrics), params: await paramsOf(model) };
};

/** A run with two other learners. @param happens after each step */
async function shared(queue: string, happens: (step: number, victims: ReturnType<Processes["start"]>[]) => void) {
  const url = `${server.url}/${queue}`;
  const others = [0, 1].map((i) => processes.start("natsFollower", [url, `l${i}`]));
  const notes: string[] = [];
  const learners = await natsLearners({ server: url, silence: 2, note: (line) => void notes.push(line) });
  const model = endingModel(device);
  const metrics: unknown[] = [];
  for await (const report of trainRl({ ...toyRlOptions(model, { steps: STEPS }), learners })) {
    metrics.push(report.metrics);
    await holds(() => report.step > 0 || notes.filter((line) => line.endsWith("is here")).length === 2);
    happens(report.step, others);
  }
  await learners.close();
  for (const child of others) child.kill("SIGKILL");
  return { metrics, params: await paramsOf(model), notes };
}

async function holds(isThere: () => boolean): Promise<void> {
  for (let tries = 0; !isThere() && tries < 400; tries++) await new Promise((next) => setTimeout(next, 50));
  expect(isThere()).toBe(true);
}

describe("the run is that of one learner, to the last bit", () => {
  it("one of two others is killed -9, and another joins", async () => {
    const { notes, ...result } = await shared("killed", (step, others) => {
      if (step === 2) others.shift()!.kill("SIGKILL");
      if (step === 3) others.push(processes.start("natsFollower", [`${server.url}/killed`, "l2"]));
    });
    expect(result).toEqual(await alone());
    expect(notes.filter((line) => line.includes("is gone; its micro-batches are computed here"))).toHaveLength(1);
  });

  it("the server is killed -9 and comes back", async () => {
    let back: Promise<void> | undefined;
    const { notes: _, ...result } = await shared("server", (step) => {
      if (step === 2) back = server.kill().then(() => server.start());
    });
    await back;
    expect(result).toEqual(await alone());
  });

  it("npm start with npm run worker -- --learn, also when the learner is killed -9 and resumed", async () => {
    const url = `${server.url}/programs`;
    const start = (file: string, args: readonly string[]) => startIn(folder, file, args);
    const quick = [...ONE_AGENT, "--steps", "6", "--device", "wasm", "--set", "rl.groups=16"];
    const plain = start("cli/main.ts", [...quick, "--name", "plain"]);
    expect(await plain.done, plain.seen()).toBe(0);
    const other = start("cli/worker.ts", ["--learn", "--server", url]);
    const first = start("cli/main.ts", [...quick, "--name", "shared", "--learners", url]);
    await until(first, "is here");
    const path = join(folder, "runs/shared");
    await holds(() => metricsOf(path).filter((line) => line["phase"] === "rl").length >= 3);
    process.kill(-first.child.pid!, "SIGKILL");
    await first.done;
    const second = start("cli/main.ts", ["--resume", "runs/shared", "--device", "wasm"]);
    expect(await second.done, second.seen()).toBe(0);
    expect(metricsOf(path)).toEqual(metricsOf(join(folder, "runs/plain")));
    const model = (name: string) => lastCheckpoint(join(folder, "runs", name))["model.safetensors"]!;
    expect(model("shared").equals(model("plain"))).toBe(true);
    other.child.kill("SIGINT");
    if (other.child.exitCode === null) await once(other.child, "exit");
    expect(other.seen()).toMatch(/computed [1-9]\d* micro-batches, made [1-9]\d* steps/);
  });
});
