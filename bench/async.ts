/**
 * Speed-up of playing while learning: seconds of an RL step of `npm start` when playing and learning take turns, and
 * when threads play meanwhile. Every arm begins with the same warm start, on the texts of the case `rl/terminal`
 * (bench/contenders/worldgradRl.ts).
 *
 *     npx tsx bench/async.ts [--steps 12] [--arms sync1,sync2,1x0,1x1,2x1] [--warmup 150] [--quick]
 *
 * `syncN` plays and learns in turn with N threads of the executor. `WxK` has W playing threads, staleness K and a
 * learner of one thread. The first steps of an arm fill its queue and are not counted. Nothing else should run at the
 * same time. Arms play episodes of different lengths, so compare tokens per second.
 */
import { parseArgs } from "node:util";
import { threadWorkers } from "../run/node/threads.ts";
import { trainRlAsync } from "../distribute/async/train.ts";
import { Experiment } from "../run/experiment.ts";
import { parseStart } from "../run/node/commandLine.ts";
import type { StartOptions } from "../run/startOptions.ts";
import type { Preset } from "../run/preset.ts";
import { presetFor } from "../run/presets.ts";
import { fail } from "../engine/errors.ts";
import { device as makeDevice } from "../engine/index.ts";
import { installPolicy } from "../distribute/async/messages.ts";
import { type WarmStart, warmStart } from "./warmStart.ts";

interface Arm {
  readonly name: string;
  /** Threads of the executor that learns. */
  readonly threads: number;
  readonly async?: { readonly workers: number; readonly maxStaleness: number };
}

const ARMS: readonly Arm[] = [
  { name: "sync1", threads: 1 },
  { name: "sync2", threads: 2 },
  { name: "1x0", threads: 1, async: { workers: 1, maxStaleness: 0 } },
  { name: "1x1", threads: 1, async: { workers: 1, maxStaleness: 1 } },
  { name: "2x1", threads: 1, async: { workers: 2, maxStaleness: 1 } },
];

/** Uncounted first steps, which fill the queue and compile what a step needs. */
const FILL = 3;

interface Measured {
  readonly seconds: number;
  readonly tokens: number;
  readonly learnerIdle: number;
  readonly workerIdle: number;
  readonly staleness: number;
}

/** Means over the counted steps. */
async function measure(
  { threads, async }: Arm,
  { template, policy }: WarmStart,
  preset: Preset,
  steps: number,
): Promise<Measured> {
  const settings = { ...preset, rl: { ...preset.rl, steps: steps + FILL }, ...(async ? { async } : {}) };
  const playAhead = { startWorkers: threadWorkers, train: trainRlAsync };
  const experiment = await Experiment.of(settings, playAhead);
  const device = await makeDevice("wasm", { threads });
  const model = experiment.newModel(template.tokenizer, device);
  installPolicy(model, policy);
  const total = { tokens: 0, learnerIdle: 0, workerIdle: 0, staleness: 0 };
  let began = 0;
  let ended = 0;
  for await (const { step, metrics } of experiment.rl({ model, template, optimizer: experiment.rlOptimizer(model) })) {
    ended = performance.now();
    if (step === FILL - 1) began = ended;
    if (step < FILL) continue;
    total.tokens += metrics["step_tokens"]!;
    total.learnerIdle += metrics["async/learner_idle"] ?? NaN;
    total.workerIdle += metrics["async/worker_idle"] ?? NaN;
    total.staleness += metrics["async/staleness_mean"] ?? NaN;
  }
  device.dispose();
  const tokens = total.tokens / steps;
  const learnerIdle = total.learnerIdle / steps;
  const workerIdle = total.workerIdle / steps;
  const staleness = total.staleness / steps;
  return { seconds: (ended - began) / 1000 / steps, tokens, learnerIdle, workerIdle, staleness };
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      steps: { type: "string", default: "12" },
      warmup: { type: "string", default: "150" },
      arms: { type: "string" },
      quick: { type: "boolean", default: false },
    },
  });
  const [steps, warmup] = [Number(values.steps), Number(values.warmup)];
  const names = values.arms?.split(",") ?? ARMS.map(({ name }) => name);
  const arms = names.map(
    (name) =>
      ARMS.find((arm) => arm.name === name) ??
      fail(`--arms: expected ${ARMS.map((a) => a.name).join()}, got "${name}"`),
  );
  if (!(Number.isInteger(steps) && steps >= 1 && Number.isInteger(warmup) && warmup >= 1))
    fail("--steps and --warmup must be integers ≥ 1");

  const full = presetFor(parseStart(values.quick ? ["--quick"] : []) as StartOptions);
  // Fewer texts and demonstrations than in a real run save time and do not change the cost of a step.
  const preset: Preset = {
    ...full,
    tokenizer: { ...full.tokenizer, corpusEpisodes: Math.min(300, full.tokenizer.corpusEpisodes) },
    sft: { ...full.sft, demonstrations: Math.min(400, full.sft.demonstrations), steps: warmup },
  };
  const start = await warmStart(preset);
  console.log("arm      s/step   tokens/s   speed-up   learner waits s   workers idle   age");
  let first: number | undefined;
  for (const arm of arms) {
    const { seconds, tokens, learnerIdle, workerIdle, staleness } = await measure(arm, start, preset, steps);
    const rate = tokens / seconds;
    first ??= rate;
    const shown = (value: number, digits: number): string => (Number.isNaN(value) ? "–" : value.toFixed(digits));
    console.log(
      [
        arm.name.padEnd(6),
        seconds.toFixed(2).padStart(8),
        rate.toFixed(0).padStart(10),
        `${(rate / first).toFixed(2)}×`.padStart(10),
        shown(learnerIdle, 2).padStart(17),
        shown(workerIdle, 2).padStart(14),
        shown(staleness, 2).padStart(5),
      ].join(" "),
    );
  }
}

await main();
