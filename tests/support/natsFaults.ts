/**
 * The faults of the kill matrix, each as a run of the toy world at staleness 0 that must end as the synchronous run
 * does, bit for bit: tests/distribute/nats/faults.long.test.ts asserts it, bench/faults.ts prints the table.
 */
import type { ChildProcess } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { deserialize } from "node:v8";
import type { Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import { natsWorkers, type NatsWorkersOptions } from "../../distribute/nats/learner.ts";
import type { FromWorker } from "../../distribute/async/messages.ts";
import { trainRlAsync } from "../../distribute/async/train.ts";
import type { RolloutWorkers } from "../../distribute/async/workers.ts";
import { trainRl } from "../../rl/train/loop.ts";
import { common } from "./rlAsync.ts";
import { type Field, type Happening, lies, malice, raw, repeats } from "./natsMalice.ts";
import type { Processes } from "./natsProcesses.ts";
import { natsServer } from "./natsServer.ts";
import { paramsOf, reportsOf, toyRlOptions } from "./rlRuns.ts";
import { endingModel } from "./rlToy.ts";

/** A line of the table. */
export interface Outcome {
  readonly fault: string;
  /** How often the fault happened. */
  readonly tries: number;
  /** Episodes that the learner asked for and never got, and those that it got more than once. */
  readonly lost: number;
  readonly twice: number;
  /** Whether metrics and parameters are those of the synchronous run. */
  readonly bitwise: boolean;
  readonly remark: string;
}

const STEPS = 5;
const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

interface Fault {
  readonly name: string;
  readonly options?: Partial<NatsWorkersOptions>;
  /** Workers at the beginning. */
  readonly workers: number;
  /** Begins with the run. @returns what ends it, with the number of times that the fault happened, and a remark */
  readonly begin: (field: Field, children: ChildProcess[]) => Promise<Happening>;
}
const killSome =
  (times: readonly number[], count: number): Fault["begin"] =>
  async (field, children) => {
    let tries = 0;
    return {
      arrived(n) {
        if (!times.includes(n)) return;
        for (let i = 0; i < count; i++) {
          const [victim] = children.splice(field.rng.int(children.length), 1);
          victim!.kill("SIGKILL");
          tries++;
        }
        for (let i = 0; i < count; i++) children.push(field.worker());
      },
      end: async () => ({ tries, remark: `others join at once` }),
    };
  };

/** A learner that stops for a while now and then. @param show of its stops, and how often workers waited for room */
const slowLearner =
  (show: (stops: number, waits: number) => Pick<Outcome, "tries" | "remark">): Fault["begin"] =>
  async (_, children) => {
    let [stops, waits] = [0, 0];
    for (const child of children)
      child.stdout!.on("data", (text: Buffer) => (waits += /is full/.test(text.toString()) ? 1 : 0));
    return {
      arrived(n) {
        if (n % 6 !== 1) return;
        stops++;
        const until = performance.now() + 1500;
        while (performance.now() < until);
      },
      end: async () => show(stops, waits),
    };
  };

const FAULTS: readonly Fault[] = [
  { name: "worker killed -9 in mid-episode", workers: 3, begin: killSome([4, 11, 17, 25], 1) },
  { name: "ten workers killed -9 at once", workers: 10, begin: killSome([9], 10) },
  {
    name: "server killed -9 and restarted",
    workers: 3,
    begin: async ({ server }) => {
      let tries = 0;
      let busy = Promise.resolve();
      return {
        arrived(n) {
          if (n !== 7 && n !== 20) return;
          tries++;
          busy = busy.then(async () => {
            await server.kill();
            await new Promise((next) => setTimeout(next, 500));
            await server.start();
          });
        },
        async end() {
          await busy;
          return { tries, remark: "file storage" };
        },
      };
    },
  },
  { name: "every episode published again", workers: 2, begin: repeats },
  {
    name: "slow learner, room for 4 episodes",
    workers: 3,
    options: { quotaEpisodes: 4 },
    begin: slowLearner((stops, waits) => ({ tries: stops, remark: `workers waited ${waits} times` })),
  },
  {
    name: "stream with a quota of 6,000 bytes",
    workers: 3,
    options: { quotaBytes: 6000 },
    // A quota that nothing meets is no fault: without a learner that stops now and then the stream is never full.
    begin: slowLearner((stops, waits) => ({ tries: waits, remark: `it was full; the learner stopped ${stops} times` })),
  },
  { name: "a malicious worker's noise", workers: 2, begin: malice },
  { name: "a malicious worker's lies", workers: 2, begin: lies },
];

/** The names of the faults that `provoke` knows, and of the one in which the learner dies. */
export const FAULT_NAMES: readonly string[] = FAULTS.map(({ name }) => name);

/** What a run ends with. */
export interface Synchronous {
  readonly metrics: readonly Readonly<Record<string, number>>[];
  readonly params: readonly (readonly number[])[];
}

/** The synchronous run that all are compared with. */
export async function synchronous(device: Device): Promise<Synchronous> {
  const model = endingModel(device);
  const reports = await reportsOf(trainRl(toyRlOptions(model, { steps: STEPS })));
  return { metrics: reports.map((r) => r.metrics), params: await paramsOf(model) };
}

/** A run with a fault. */
export async function provoke(
  name: string,
  device: Device,
  processes: Processes,
  expected: Synchronous,
): Promise<Outcome> {
  const fault = FAULTS.find((one) => one.name === name)!;
  const server = await natsServer();
  const url = `${server.url}/faults`;
  let number = 0;
  const worker = (pause = 60): ChildProcess => processes.start("natsWorker", [url, `w${number++}`, String(pause)]);
  const children = Array.from({ length: fault.workers }, () => worker());
  try {
    const workers = await natsWorkers({ server: url, ackWait: 4, recheck: 2, ...fault.options });
    const happening = await fault.begin({ server, url, worker, rng: new Rng(number) }, children);
    const got = new Map<number, number>();
    let asked = 0;
    const counted: RolloutWorkers = {
      ...workers,
      start(index, setup, events) {
        const receive = (message: FromWorker): void => {
          if (message.kind === "episode") {
            got.set(message.id, (got.get(message.id) ?? 0) + 1);
            happening.arrived?.(got.size);
          }
          events.receive(message);
        };
        const one = workers.start(index, setup, { ...events, receive });
        const post: typeof one.post = (message) => {
          if (message.kind === "play") asked += message.jobs.length;
          one.post(message);
        };
        return { ...one, post, terminate: () => one.terminate() };
      },
    };
    const model = endingModel(device);
    const options = { ...toyRlOptions(model, { steps: STEPS }), workers: counted, maxStaleness: 0 };
    const reports = await reportsOf(trainRlAsync(options));
    const { tries, remark } = await happening.end();
    const twice = [...got.values()].reduce((sum, n) => sum + n - 1, 0);
    const bitwise = same(reports.map(common), expected.metrics) && same(await paramsOf(model), expected.params);
    const rejected = reports.reduce((sum, { metrics }) => sum + metrics["async/rejected_messages"]!, 0);
    const more = rejected > 0 ? `${remark}; ${rejected} messages rejected` : remark;
    return { fault: name, tries, lost: asked - got.size, twice, bitwise, remark: more };
  } finally {
    for (const child of children) child.kill("SIGKILL");
    await server.close();
  }
}

type LearnerLine = { step: number; stored: number; loss: number; reward: number; asked: string[]; learnt: string[] };

/**
 * A run whose learner is killed three times and goes on from its last checkpoint. What counts is the last time that a
 * step was made: what an earlier session learnt after its last checkpoint is gone with it.
 */
export async function killLearner(processes: Processes, expected: Synchronous): Promise<Outcome> {
  const server = await natsServer();
  const url = `${server.url}/faults`;
  const folder = mkdtempSync(join(processes.folder, "run-"));
  const children = Array.from({ length: 2 }, (_, i) => processes.start("natsWorker", [url, `w${i}`, "60"]));
  const lines = new Map<number, LearnerLine>();
  let [tries, stored, said] = [0, 0, ""];
  const session = (killAfter: number): Promise<number | null> =>
    new Promise((done) => {
      const child = processes.start("natsLearner", [url, folder, String(STEPS)]);
      let text = "";
      child.stderr!.on("data", (chunk: Buffer) => (said += chunk.toString()));
      child.stdout!.on("data", (chunk: Buffer) => {
        text += chunk.toString();
        const whole = text.split("\n");
        text = whole.pop()!;
        for (const line of whole) {
          const made = JSON.parse(line) as LearnerLine;
          stored += made.stored;
          lines.set(made.step, made);
          // Then workers store episodes of the next step, and the learner dies when there are two.
          if (made.step === killAfter) onEpisodes(2, () => child.kill("SIGKILL"));
        }
      });
      child.once("exit", (code) => done(code));
    });
  const { connection, queue } = await raw(url);
  let [left, then] = [0, (): void => {}];
  const onEpisodes = (count: number, does: () => void): void => void ([left, then] = [count, does]);
  connection.subscribe(`${queue}.episodes`, { callback: () => (--left === 0 ? then() : undefined) });
  try {
    for (const killAfter of [0, 2, 3]) {
      await session(killAfter);
      tries++;
    }
    const code = await session(Infinity);
    if (code !== 0) throw new Error(`the learner ended with ${code}: ${said}`);
    const { tensors } = deserialize(readFileSync(join(folder, "checkpoint"))) as { tensors: Float32Array[] };
    const params = tensors.slice(0, expected.params.length).map((x) => [...x]);
    const steps = Array.from({ length: STEPS }, (_, step) => lines.get(step)!);
    const numbers = expected.metrics.map((m) => [m["loss"], m["reward"]]);
    const bitwise =
      same(params, expected.params) &&
      same(
        steps.map(({ loss, reward }) => [loss, reward]),
        numbers,
      );
    const learnt = steps.flatMap((step) => step.learnt);
    const lost = steps.flatMap((step) => step.asked).filter((key) => !learnt.includes(key)).length;
    const twice = learnt.length - new Set(learnt).size;
    const remark = `${stored} stored episodes used`;
    return { fault: "learner killed -9 and resumed", tries, lost, twice, bitwise, remark };
  } finally {
    await connection.close();
    for (const child of children) child.kill("SIGKILL");
    await server.close();
  }
}
