/**
 * `npm run serve -- --run runs/<name>`: the policy of a run behind the OpenAI API (server.ts has the addresses).
 * Episodes that agents play through it are written to a file, a line for each row of tokens.
 */
import { appendFileSync } from "node:fs";
import process from "node:process";
import { check } from "../engine/errors.ts";
import { device, treeLeaves } from "../engine/index.ts";
import { templateFor, presetOf } from "../job/presets.ts";
import { modelFromCheckpoint } from "../job/modelFiles.ts";
import { oneOf, UsageError, wholeNumber } from "../job/usage.ts";
import { openGiven, parse, report } from "../node/flags.ts";
import type { RunFolder } from "../node/runFolder.ts";
import type { Device } from "../engine/index.ts";
import type { Model } from "../nn/index.ts";
import { installPolicy, policyOf } from "../rl/async/messages.ts";
import type { Trajectory } from "../rl/episode/stream.ts";
import { servePolicy } from "./server.ts";

const HELP = `worldgrad: a trained policy behind the OpenAI API

  npm run serve -- --run runs/NAME [flags]

  --run PATH          run folder whose newest checkpoint is served
  --host ADDRESS      where to listen                      (default 127.0.0.1: this machine alone)
  --port N            the port                             (default 8000)
  --api-key KEY       a key that requests must bring; better in the variable WORLDGRAD_API_KEY
  --name NAME         the model's name in the API          (default: the run folder's)
  --rows N            answers that are written at a time   (default 8)
  --device NAME       auto | wasm | webgpu | reference     (default auto)
  --watch N           looks every N seconds for a newer checkpoint, and serves it from the next token on
                                                           (default: only when /update_weights_from_disk is called)
  --trajectories FILE appends the episodes that agents play, as JSON lines
  --logprobs-mode M   raw_logprobs | processed_logprobs    (default raw_logprobs, as vLLM)
  --seed N            seed of requests that have none      (default 0)
  --help              this text
`;

const TEXT = { type: "string" } as const;
const FLAGS = {
  run: TEXT,
  host: TEXT,
  port: TEXT,
  "api-key": TEXT,
  name: TEXT,
  rows: TEXT,
  device: TEXT,
  watch: TEXT,
  trajectories: TEXT,
  "logprobs-mode": TEXT,
  seed: TEXT,
  help: { type: "boolean" },
} as const;

/** Puts the newest checkpoint of a run into a model. @returns its step */
async function loadNewest(folder: RunFolder, model: Model, executor: Device): Promise<number> {
  const checkpoint = folder.loadLatestCheckpoint();
  check(checkpoint !== null, () => `${folder.path} has no checkpoint any more`);
  const fresh = modelFromCheckpoint(checkpoint, executor).model;
  try {
    check(
      JSON.stringify(fresh.config) === JSON.stringify(model.config),
      () => `${checkpoint.path} has a model of another configuration; the server has to be started anew`,
    );
    installPolicy(model, await policyOf(fresh, checkpoint.step));
    return checkpoint.step;
  } finally {
    for (const leaf of treeLeaves(fresh.params)) leaf.dispose();
  }
}

const lineOf = (trajectory: Trajectory): string => `${JSON.stringify(trajectory)}\n`;

async function main(): Promise<number> {
  const values = parse(process.argv.slice(2), FLAGS) as Readonly<Record<string, string | undefined>>;
  if (values["help"]) {
    process.stdout.write(HELP);
    return 0;
  }
  const path = values["run"];
  if (path === undefined) throw new UsageError("--run: expected the path of a run folder, as in --run runs/NAME");
  const count = (flag: string, fallback: number, least: number): number =>
    wholeNumber(flag, values[flag] ?? String(fallback), least);
  const [port, rows, seed, watch] = [
    count("port", 8000, 0),
    count("rows", 8, 1),
    count("seed", 0, 0),
    count("watch", 0, 0),
  ];
  const kind = oneOf("device", values["device"] ?? "auto", ["auto", "wasm", "webgpu", "reference"]);
  const logProbs = oneOf("logprobs-mode", values["logprobs-mode"] ?? "raw_logprobs", [
    "raw_logprobs",
    "processed_logprobs",
  ] as const);
  const apiKey = values["api-key"] ?? process.env["WORLDGRAD_API_KEY"];
  const file = values["trajectories"];

  const folder = openGiven("run", path);
  const checkpoint = folder.loadLatestCheckpoint();
  if (checkpoint === null) throw new UsageError(`--run: ${path} has no checkpoint yet`);
  const executor = await device(kind);
  const { model, tokenizer } = modelFromCheckpoint(checkpoint, executor);
  const template = templateFor(presetOf(folder), tokenizer);
  const name = values["name"] ?? folder.path.split(/[\\/]/).findLast((part) => part !== "")!;
  const server = await servePolicy(
    { model, tokenizer, template },
    {
      name,
      port,
      rows,
      seed,
      logProbs,
      version: checkpoint.step,
      reload: ({ modelPath }) => {
        check(
          modelPath === undefined,
          () => "update_weights_from_disk: model_path must be left out: the run's are loaded",
        );
        return loadNewest(folder, model, executor);
      },
      ...(values["host"] === undefined ? {} : { host: values["host"] }),
      ...(apiKey === undefined || apiKey === "" ? {} : { apiKey }),
      ...(file === undefined ? {} : { onTrajectories: (rows) => appendFileSync(file, rows.map(lineOf).join("")) }),
    },
  );
  console.log(`serving "${name}" after step ${checkpoint.step} at ${server.url}/v1`);
  const watching =
    watch === 0
      ? undefined
      : setInterval(() => void serveNewest().catch((error: unknown) => report(error)), watch * 1000);

  async function serveNewest(): Promise<void> {
    const newest = folder.listCheckpoints().at(-1);
    if (newest === undefined || newest === server.engine.version) return;
    let version = 0;
    await server.engine.replaceWeights(
      async () => void (version = await loadNewest(folder, model, executor)),
      () => version,
    );
    console.log(`serving the checkpoint after step ${version}`);
  }

  await new Promise<void>((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => resolve());
  });
  clearInterval(watching);
  await server.close();
  executor.dispose();
  return 0;
}

process.exitCode = await main().catch(report);
// Worker threads of the executor have ended by now, so nothing else keeps the process alive.
process.exit();
