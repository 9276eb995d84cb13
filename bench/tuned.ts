/**
 * Schedules that choose themselves (`worldgrad/tune`) against the tables', on the adapter at hand:
 * what is chosen and how long the choice takes, then training steps and decoding in turn with both, and the dispatches
 * of each. The tables stand there twice: what the second pair differs by is chance.
 *
 *     npx tsx scripts/with-adapter.ts npx tsx bench/tuned.ts [--rounds 15]
 *
 * A table for docs/log.md. The machine must be idle.
 */
import { parseArgs } from "node:util";
import { type Device, device, matmul, scope, tensor } from "../engine/index.ts";
import type { WebgpuBackend } from "../engine/backends/webgpu.ts";
import { tunedDevice } from "../tune/index.ts";
import type { Task } from "./cases/task.ts";
import { noise } from "./data.ts";
import { WEBGPU } from "./contenders/worldgrad.ts";
import { prepareModelTask } from "./contenders/worldgradModel.ts";

const { values } = parseArgs({ options: { rounds: { type: "string", default: "15" } } });
const rounds = Number(values.rounds);

const TASKS: Readonly<Record<string, Task>> = {
  "training step, B4 T64 C128 L2": { op: "step", B: 4, T: 64, C: 128, H: 4, L: 2, V: 65 },
  "training step, B8 T128 C64 L2": { op: "step", B: 8, T: 128, C: 64, H: 4, L: 2, V: 65 },
  "decoding, 1 row": { op: "decode", B: 1, prompt: 8, tokens: 56, T: 64, C: 128, H: 4, L: 2, V: 65 },
  "decoding, 8 rows": { op: "decode", B: 8, prompt: 8, tokens: 56, T: 64, C: 128, H: 4, L: 2, V: 65 },
};

/** Products that are not measured for the choice: rows, columns, terms. */
const PRODUCTS = [
  [1, 384, 384],
  [3, 384, 192],
  [12, 192, 192],
  [24, 512, 128],
  [40, 160, 192],
  [160, 48, 192],
  [96, 192, 192],
] as const;

const start = performance.now();
const tuned = await tunedDevice({ webgpu: WEBGPU });
const seconds = (performance.now() - start) / 1000;
const [table, again] = [await device("webgpu", { webgpu: WEBGPU }), await device("webgpu", { webgpu: WEBGPU })];
console.log(`${tuned.description}\nmeasured in ${seconds.toFixed(1)} s\n${JSON.stringify(tuned.schedules)}\n`);

const DEVICES: readonly Device[] = [table, tuned, again];
const dispatches = (on: Device): number => (on.backend as WebgpuBackend).stats().dispatches;
const median = (times: readonly number[]): number => times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)]!;
const range = (times: readonly number[]): string =>
  `${median(times).toFixed(1)} (${Math.min(...times).toFixed(1)}–${Math.max(...times).toFixed(1)})`;

console.log("| task | tables, ms | tuned, ms | tuned / tables | tables again / tables | dispatches |");
console.log("| --- | ---: | ---: | ---: | ---: | ---: |");
for (const [name, task] of Object.entries(TASKS)) {
  const prepared = await Promise.all(DEVICES.map((on) => prepareModelTask(on, task)));
  const runs = prepared.map((one) => {
    if (typeof one === "string") throw new Error(one);
    return one;
  });
  for (const one of runs) await one.check();
  await compare(name, async (i) => {
    await runs[i]!.run();
    await runs[i]!.finish?.();
  });
  for (const one of runs) one.dispose();
}
for (const [m, n, k] of PRODUCTS) {
  const operands = DEVICES.map((on) => [
    tensor(noise(1, m * k), { device: on, shape: [m, k] }),
    tensor(noise(2, n * k), { device: on, shape: [n, k] }),
  ]);
  await compare(`20 products ${m} × ${k} · ${k} × ${n}`, async (i) => {
    const [a, b] = operands[i]!;
    scope(() => {
      for (let n = 0; n < 20; n++) matmul(a!, b!, { transB: true });
    });
    await DEVICES[i]!.synchronize();
  });
}

/** Runs `work` for each device in turn, each `rounds` times after once for the compiler, and prints a row. */
async function compare(name: string, work: (device: number) => Promise<void>): Promise<void> {
  const times: number[][] = DEVICES.map(() => []);
  const counts = DEVICES.map(() => 0);
  for (let round = 0; round <= rounds; round++) {
    // The first of a round differs, so that none has a better place.
    for (const place of DEVICES.keys()) {
      const i = (place + round) % DEVICES.length;
      const [before, begun] = [dispatches(DEVICES[i]!), performance.now()];
      await work(i);
      if (round > 0) times[i]!.push(performance.now() - begun);
      counts[i] = dispatches(DEVICES[i]!) - before;
    }
  }
  const [first, second, third] = times as [number[], number[], number[]];
  const ratio = (of: readonly number[]): string => (median(of) / median(first)).toFixed(2);
  const cells = [name, range(first), range(second), ratio(second), ratio(third), [...new Set(counts)].join(", ")];
  console.log(`| ${cells.join(" | ")} |`);
}

process.exit();
