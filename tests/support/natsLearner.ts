/**
 * A learner of the toy world as a process of its own, which tests kill: natsLearner.ts URL FOLDER STEPS. It saves a
 * checkpoint after every second step, and goes on from the last one.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { deserialize, serialize } from "node:v8";
import { device as makeDevice } from "../../engine/device.ts";
import { tensor } from "../../engine/ops/create.ts";
import { assign } from "../../engine/state.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { natsWorkers } from "../../distribute/nats/learner.ts";
import { type FromWorker, type ToWorker, toWire } from "../../distribute/async/messages.ts";
import { trainRlAsync } from "../../distribute/async/train.ts";
import type { RolloutWorkers } from "../../distribute/async/workers.ts";
import type { TokenStream } from "../../rl/episode/stream.ts";
import { toyRlOptions } from "./rlRuns.ts";
import { endingModel } from "./rlToy.ts";

interface Saved {
  readonly steps: number;
  readonly memory: unknown;
  readonly tensors: readonly Float32Array[];
  readonly optimizerStep: number;
}

const [, , server, folder, steps] = process.argv;
const file = join(folder!, "checkpoint");
const device = await makeDevice("wasm");
const model = endingModel(device);
const options = toyRlOptions(model, { steps: Number(steps) });
const { optimizer } = options;
const state = (): ReturnType<typeof treeLeaves> => [
  ...treeLeaves(model.params),
  ...treeLeaves(optimizer.state.m),
  ...treeLeaves(optimizer.state.v),
];
/** The requests of the episodes that were asked for since the last line, and those that were learnt from. */
const asked: string[] = [];
const keys = new Map<number, string>();
const keyOf = new WeakMap<TokenStream, string>();
const fleet = await natsWorkers({ server: server!, note: (line) => console.error(line), ackWait: 4, recheck: 2 });
const workers: RolloutWorkers = {
  ...fleet,
  start(index, setup, events) {
    const receive = (message: FromWorker): void => {
      if (message.kind === "episode") keyOf.set(message.trajectory.stream, keys.get(message.id)!);
      events.receive(message);
    };
    const one = fleet.start(index, setup, { ...events, receive });
    const post = (message: ToWorker): void => {
      for (const job of message.kind === "play" ? message.jobs : []) {
        const key = JSON.stringify(toWire(job).request);
        keys.set(job.id, key);
        asked.push(key);
      }
      one.post(message);
    };
    return { post, terminate: () => one.terminate() };
  },
};
let startStep = 0;
if (existsSync(file)) {
  const saved = deserialize(readFileSync(file)) as Saved;
  state().forEach((leaf, i) => assign(leaf, tensor(saved.tensors[i]!, { device, shape: leaf.shape })));
  optimizer.resume(saved.optimizerStep);
  fleet.memory.restore(saved.memory);
  startStep = saved.steps;
}
const save = async (done: number): Promise<void> => {
  const tensors = await Promise.all(state().map((x) => x.read()));
  const saved = { steps: done, memory: fleet.memory.state(), tensors, optimizerStep: optimizer.state.step };
  writeFileSync(`${file}.new`, serialize(saved));
  renameSync(`${file}.new`, file);
};
for await (const { step, metrics, rows } of trainRlAsync({ ...options, startStep, workers, maxStaleness: 0 })) {
  const { loss, reward } = metrics;
  if (step % 2 === 1) await save(step + 1);
  const learnt = rows.map(({ trajectory }) => keyOf.get(trajectory.stream));
  const stored = metrics["async/stored_episodes"];
  console.log(JSON.stringify({ step, loss, reward, stored, asked: asked.splice(0), learnt }));
}
await save(Number(steps));
process.exit();
