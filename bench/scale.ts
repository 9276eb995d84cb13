/**
 * `npx tsx bench/scale.ts`: tokens per second with a real nats-server, a learner in this process and 1, 2 and 4 playing
 * processes (scale/worker.ts) on one machine, as a table in Markdown for docs/scale.md. Nothing else should run at the
 * same time.
 */
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { cpus } from "node:os";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { device as makeDevice } from "../engine/index.ts";
import { Experiment } from "../run/experiment.ts";
import type { Preset } from "../run/preset.ts";
import { presetFor } from "../run/presets.ts";
import type { StartOptions } from "../run/startOptions.ts";
import { parseStart } from "../run/node/commandLine.ts";
import { report } from "../run/node/flags.ts";
import { natsWorkers } from "../distribute/nats/index.ts";
import { installPolicy } from "../distribute/async/messages.ts";
import { trainRlAsync } from "../distribute/async/train.ts";
import { natsServer } from "../tests/support/natsServer.ts";
import { load, machine } from "./machine.ts";
import { warmStart } from "./warmStart.ts";

/** Extent of the measurement. */
interface How {
  readonly workers: readonly number[];
  /** Seconds that each answer of the environment takes; there is a run for each. */
  readonly waits: readonly number[];
  /** Counted steps, and the steps before them, which fill the queue and compile what a step needs. */
  readonly steps: number;
  readonly fill: number;
  readonly staleness: number;
  readonly places: number;
  readonly preset: Preset;
}

/** Figures of a run. */
interface Run {
  /** Tokens of learnt episodes per second of the clock. */
  readonly tokensPerSecond: number;
  /** Share of the time in which the learner does not wait. */
  readonly learner: number;
  readonly staleness: number;
  /** Processor seconds per second of the clock: of the learner, and of everything else on the machine. */
  readonly processors: { readonly learner: number; readonly others: number };
}

/** Processor seconds of this process and of the whole machine. */
function processorSeconds(): { learner: number; all: number } {
  const { user, system } = process.cpuUsage();
  const all = cpus().reduce((sum, { times: { user, nice, sys, irq } }) => sum + user + nice + sys + irq, 0);
  return { learner: (user + system) / 1e6, all: all / 1000 };
}

async function measureRun(
  how: How,
  { template, policy }: Awaited<ReturnType<typeof warmStart>>,
  [url, count, wait]: readonly [string, number, number],
): Promise<Run> {
  const { steps, fill, staleness, places, preset } = how;
  const server = `${url}/run${randomBytes(4).toString("hex")}`;
  const file = fileURLToPath(new URL("scale/worker.ts", import.meta.url));
  const players = Array.from({ length: count }, (_, i) =>
    spawn(process.execPath, ["--import", "tsx", file, server, `w${i}`, String(places), String(wait)], {
      stdio: ["ignore", "pipe", "inherit"],
    }),
  );
  const device = await makeDevice("wasm", { threads: 1 });
  try {
    await Promise.all(players.map(({ stdout }) => once(stdout, "data")));
    const workers = await natsWorkers({ server });
    const async = { workers: 1, maxStaleness: staleness };
    const settings = { ...preset, rl: { ...preset.rl, steps: fill + steps }, async };
    const experiment = await Experiment.of(settings, { startWorkers: () => workers, train: trainRlAsync });
    const model = experiment.newModel(template.tokenizer, device);
    installPolicy(model, policy);
    let [began, last, tokens, idle, stale] = [0, 0, 0, 0, 0];
    let before = processorSeconds();
    for await (const { step, metrics } of experiment.rl({
      model,
      template,
      optimizer: experiment.rlOptimizer(model),
    })) {
      last = performance.now();
      if (step === fill - 1) [began, before] = [last, processorSeconds()];
      if (step < fill) continue;
      tokens += metrics["step_tokens"]!;
      idle += metrics["async/learner_idle"]!;
      stale += metrics["async/staleness_mean"]!;
    }
    const seconds = (last - began) / 1000;
    const after = processorSeconds();
    const [learner, all] = [after.learner - before.learner, after.all - before.all];
    return {
      tokensPerSecond: tokens / seconds,
      learner: 1 - idle / seconds,
      staleness: stale / steps,
      processors: { learner: learner / seconds, others: Math.max(0, all - learner) / seconds },
    };
  } finally {
    for (const player of players) player.kill("SIGKILL");
    device.dispose();
  }
}

/** Measures all runs and writes the table line by line. @throws if there is no nats-server */
export async function measureAll(how: How, write: (line: string) => void): Promise<void> {
  const server = await natsServer();
  try {
    const start = await warmStart(how.preset);
    write("| answers | processes that play | tokens/s | learner busy | staleness | processors: learner | all else |");
    write("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (const wait of how.waits)
      for (const count of how.workers) {
        const run = await measureRun(how, start, [server.url, count, wait]);
        const { tokensPerSecond, learner, staleness, processors } = run;
        const share = `${(100 * learner).toFixed(1)} %`;
        const numbers = [staleness, processors.learner, processors.others].map((x) => x.toFixed(2));
        const cells = [`in ${wait} s`, count, Math.round(tokensPerSecond), share, ...numbers];
        write(`| ${cells.join(" | ")} |`);
      }
  } finally {
    await server.close();
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    // Executors of the learner and of the playing processes have one thread each.
    process.env["WORLDGRAD_THREADS"] = "1";
    const { cpu, cores } = machine();
    console.log(`${cpu}, ${cores} processors, load before ${load()}`);
    const full = presetFor(parseStart(["--env", "terminal"]) as StartOptions);
    // Settings of `npm start` in the terminal, with a short warm start.
    const preset = {
      ...full,
      tokenizer: { ...full.tokenizer, corpusEpisodes: 300 },
      sft: { ...full.sft, demonstrations: 400, steps: 150 },
      rl: { ...full.rl, groups: 8, groupSize: 8 },
    };
    const how = { workers: [1, 2, 4], waits: [0, 0.25], steps: 16, fill: 3, staleness: 2, places: 16 };
    await measureAll({ ...how, preset }, console.log);
  } catch (error) {
    process.exitCode = report(error);
  }
  process.exit();
}
