/**
 * `npx tsx bench/scale.ts --measure`: a real nats-server, a learner in this process, and 1, 2 and 4 processes that
 * play. Nothing else should run at the same time; on a machine with fewer processors than processes they share them,
 * and the page says so.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { cpus } from "node:os";
import process from "node:process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { connect } from "@nats-io/transport-node";
import { device as makeDevice } from "../../engine/index.ts";
import { Experiment } from "../../run/experiment.ts";
import type { Preset } from "../../run/preset.ts";
import { presetFor } from "../../run/presets.ts";
import type { StartOptions } from "../../run/startOptions.ts";
import { parseStart } from "../../run/node/commandLine.ts";
import { CONNECTION, connectTo } from "../../distribute/nats/connection.ts";
import { episodeFromBytes } from "../../distribute/nats/episodes.ts";
import { natsWorkers } from "../../distribute/nats/index.ts";
import { Policies } from "../../distribute/nats/policies.ts";
import { weightsFromBytes, weightsToBytes } from "../../distribute/nats/protocol.ts";
import { makeQueue, objectOf } from "../../distribute/nats/queue.ts";
import { installPolicy } from "../../distribute/async/messages.ts";
import { trainRlAsync } from "../../distribute/async/train.ts";
import { natsServer } from "../../tests/support/natsServer.ts";
import { commit, load, machine } from "../machine.ts";
import { type WarmStart, warmStart } from "../warmStart.ts";
import { lineThrough, type Measured, type MeasuredRun, type Setting, type Transfer } from "./measured.ts";
import type { Line } from "./worker.ts";

/** How much is measured. */
export interface MeasureHow {
  readonly workers: readonly number[];
  /** Steps that count, and steps before them, which fill the queue and compile what a step needs. */
  readonly steps: number;
  readonly fill: number;
  readonly staleness: number;
  /** Seconds that each answer takes in the second setting. */
  readonly wait: number;
  /** Bytes of the objects that are stored and read. */
  readonly sizes: readonly number[];
  readonly preset: Preset;
  readonly places: number;
  readonly say: (line: string) => void;
}

/** What a run of the bench measures: the terminal, the model of `npm start`, after a short warm start. */
export function benchPreset(): Preset {
  const full = presetFor(parseStart(["--env", "terminal"]) as StartOptions);
  return {
    ...full,
    tokenizer: { ...full.tokenizer, corpusEpisodes: 300 },
    sft: { ...full.sft, demonstrations: 400, steps: 150 },
    rl: { ...full.rl, groups: 8, groupSize: 8 },
  };
}

/** A process that plays, and what it has said. */
class Playing {
  readonly child: ChildProcess;
  readonly connected: Promise<void>;
  readonly seconds: number[] = [];
  #processor = 0;
  #before = 0;

  constructor(url: string, name: string, places: number, wait: number) {
    const file = fileURLToPath(new URL("worker.ts", import.meta.url));
    this.child = spawn(process.execPath, ["--import", "tsx", file, url, name, String(places), String(wait)], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.connected = new Promise((resolve, reject) => {
      this.child.once("exit", (code) => reject(new Error(`a process that plays ended with ${code}`)));
      createInterface({ input: this.child.stdout! }).on("line", (text) => {
        const line = JSON.parse(text) as Line;
        if ("connected" in line) return resolve();
        this.seconds.push(line.seconds);
        this.#processor = line.processor;
      });
    });
    this.connected.catch(() => {}); // whoever waits hears of it
  }

  /** Begins to count. */
  begin(): void {
    this.seconds.length = 0;
    this.#before = this.#processor;
  }

  /** Seconds of the processor since `begin`, up to the last episode. */
  get processor(): number {
    return this.#processor - this.#before;
  }

  end(): void {
    this.child.kill("SIGKILL");
  }
}

const processorSeconds = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};

/** Seconds of the processors in which the machine did something. */
const machineSeconds = (): number =>
  cpus().reduce((sum, { times: { user, nice, sys, irq } }) => sum + user + nice + sys + irq, 0) / 1000;

interface RunHow extends MeasureHow {
  readonly url: string;
  readonly start: WarmStart;
}

/** One run with so many processes, whose answers take `wait` seconds. */
async function measureRun(how: RunHow, count: number, wait: number): Promise<MeasuredRun> {
  const { url, steps, fill, staleness, places, preset, start } = how;
  const queue = `run${randomBytes(4).toString("hex")}`;
  const players = Array.from({ length: count }, (_, i) => new Playing(`${url}/${queue}`, `w${i}`, places, wait));
  const observer = await connect({ servers: url });
  const device = await makeDevice("wasm", { threads: 1 });
  try {
    await Promise.all(players.map(({ connected }) => connected));
    const episodes: (readonly [number, number])[] = [];
    observer.subscribe(`${queue}.episodes`, {
      callback: (_, { data }) => {
        const message = episodeFromBytes(new Uint8Array(data));
        if (message.kind === "episode") episodes.push([message.trajectory.stream.ids.length, data.length]);
      },
    });
    const workers = await natsWorkers({ server: `${url}/${queue}` });
    const async = { workers: 1, maxStaleness: staleness };
    const settings = { ...preset, rl: { ...preset.rl, steps: fill + steps }, async };
    const playAhead = { startWorkers: () => workers, train: trainRlAsync };
    const experiment = await Experiment.of(settings, playAhead);
    const { template, policy } = start;
    const model = experiment.newModel(template.tokenizer, device);
    installPolicy(model, policy);
    const learnt: (readonly [number, number])[] = [];
    const total = { idle: 0, stale: 0 };
    let [began, last, own, all] = [0, performance.now(), 0, 0];
    const optimizer = experiment.rlOptimizer(model);
    for await (const { step, metrics } of experiment.rl({ model, template, optimizer })) {
      const now = performance.now();
      const idle = metrics["async/learner_idle"]!;
      if (step >= fill) {
        learnt.push([(now - last) / 1000 - idle, metrics["step_tokens"]!]);
        total.idle += idle;
        total.stale += metrics["async/staleness_mean"]!;
      } else if (step === fill - 1) {
        for (const player of players) player.begin();
        episodes.length = 0;
        [began, own, all] = [now, processorSeconds(), machineSeconds()];
      }
      last = now;
    }
    const seconds = (last - began) / 1000;
    const played = players.flatMap((player) => player.seconds);
    const used = { learner: processorSeconds() - own, all: machineSeconds() - all };
    const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
    const playing = sum(players.map((player) => player.processor));
    return {
      workers: count,
      tokensPerSecond: sum(learnt.map(([, tokens]) => tokens)) / seconds,
      secondsPerStep: seconds / steps,
      learner: 1 - total.idle / seconds,
      places: sum(played) / (seconds * count * places),
      staleness: total.stale / steps,
      processors: {
        learner: used.learner / seconds,
        workers: playing / seconds,
        others: Math.max(0, used.all - used.learner - playing) / seconds,
      },
      seconds: sample(played).map(short),
      episodes: sample(episodes),
      steps: learnt.map(([took, tokens]) => [short(took), tokens]),
    };
  } finally {
    for (const player of players) player.end();
    device.dispose();
    await observer.close();
  }
}

/** So many values say what a distribution is. */
const MOST = 300;
const sample = <T>(values: readonly T[]): readonly T[] =>
  values.length <= MOST
    ? values
    : Array.from({ length: MOST }, (_, i) => values[Math.floor((i * values.length) / MOST)]!);
const short = (seconds: number): number => Number(seconds.toPrecision(4));

/** Seconds in which objects are stored as a policy, and read and checked as a worker does. */
async function measureTransfers(url: string, sizes: readonly number[]): Promise<Transfer[]> {
  const link = await connectTo(CONNECTION.read({ server: `${url}/transfers` }), "scale", () => {});
  const limits = { quotaBytes: 2 ** 28, quotaEpisodes: 1000, ackWait: 15, maxDeliveries: 20 };
  const queue = await makeQueue(link, limits);
  const policies = new Policies();
  const learner = { run: "scale", life: 1, configuration: "0".repeat(64), setup: "setup" };
  const transfers: Transfer[] = [];
  let version = 0;
  for (const bytes of sizes) {
    const weights = [new Float32Array(Math.ceil(bytes / 4)).map((_, i) => i)];
    const size = weightsToBytes({ version: 0, weights }).length;
    const [publish, fetch]: number[][] = [[], []];
    for (let round = 0; round < 6; round++) {
      const begin = performance.now();
      await policies.publish(link, queue, { version, weights }, learner);
      const middle = performance.now();
      const { object, sha256: hash } = policies.find(version);
      const read = await objectOf(queue.weights, object, { most: 2 ** 32, hash });
      weightsFromBytes(version, read);
      const end = performance.now();
      await queue.weights.delete(object);
      version++;
      if (round === 0) continue; // opens what the others use
      publish!.push(short((middle - begin) / 1000));
      fetch!.push(short((end - middle) / 1000));
    }
    transfers.push({ bytes: size, publish: publish!, fetch: fetch! });
  }
  await link.connection.close();
  return transfers;
}

/** Measures everything. @throws if there is no nats-server */
export async function measureAll(how: MeasureHow): Promise<Measured> {
  const { preset, say, staleness, places, wait, workers } = how;
  const busy = load();
  const server = await natsServer();
  try {
    const transfers = await measureTransfers(server.url, how.sizes);
    const link = lineThrough(transfers);
    say(`transfers: ${(link.bytesPerSecond / 1e6).toFixed(0)} MB/s, ${(1000 * link.latency).toFixed(1)} ms`);
    const start = await warmStart(preset);
    say("warm start: done");
    const settings: Setting[] = [];
    for (const [name, seconds] of [
      ["the environment answers at once", 0],
      [`each answer takes ${wait} s`, wait],
    ] as const) {
      const runs: MeasuredRun[] = [];
      for (const count of workers) {
        const run = await measureRun({ ...how, url: server.url, start }, count, seconds);
        say(`${name}, ${count} processes: ${run.tokensPerSecond.toFixed(0)} tokens/s`);
        runs.push(run);
      }
      const { groups, groupSize } = preset.rl;
      settings.push({ name, wait: seconds, plan: { groups, groupSize, places }, staleness, runs });
    }
    const bytes = start.policy.weights.reduce((sum, { byteLength }) => sum + byteLength, 0);
    const parameters = start.policy.weights.reduce((sum, { length }) => sum + length, 0);
    const said = spawnSync(process.env["WORLDGRAD_NATS_SERVER"] ?? "nats-server", ["--version"], { encoding: "utf8" });
    return {
      time: new Date().toISOString(),
      commit: commit(),
      machine: machine(),
      load: busy,
      server: said.stdout.trim(),
      model: { parameters, bytes },
      transfers,
      link: { bytesPerSecond: Math.round(link.bytesPerSecond), latency: short(link.latency) },
      settings,
    };
  } finally {
    await server.close();
  }
}
