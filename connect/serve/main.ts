/**
 * `npm run serve -- --run runs/<name>` serves the policy of a run with the OpenAI API (server.ts lists the addresses);
 * with `--model-path` it serves a model from a folder. Episodes that agents play through it can be written to a file, a
 * line for each row of tokens.
 */
import process from "node:process";
import { STOP_SIGNALS } from "../../run/node/interrupt.ts";
import { device } from "../../engine/index.ts";
import { oneOf, UsageError, wholeNumber } from "../../run/usage.ts";
import { WEIGHT_STORAGES } from "../../pretrained/index.ts";
import { parse, report } from "../../run/node/flags.ts";
import { outliveOutput, outputTaken } from "../../run/node/output.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { appendWhole } from "./appendWhole.ts";
import { isOrigin } from "./http.ts";
import { servePolicy } from "./server.ts";
import { folderSubject, runSubject } from "./subjects.ts";

const HELP = `worldgrad: a trained policy, or a model from a folder, behind the OpenAI API

  npm run serve -- --run runs/NAME [flags]
  npm run serve -- --model-path DIR [flags]

  --run PATH          run folder whose checkpoint is served
  --checkpoint NAME   newest | best (on held-out tasks) | a step
                                                           (default newest)
  --model-path DIR    folder with a model, as transformers or llama2.c write it; its chat template formats conversations
                      and tools
  --adapter DIR       an adapter for it, in PEFT's format
  --storage FORM      f32 | bf16 | f16 | q8: how its matrices are stored in memory
                                                           (default f32)
  --max-context N     largest number of tokens of a conversation
                                                           (default: the model's positions, at most 4096)
  --host ADDRESS      where to listen                      (default 127.0.0.1: this machine alone)
  --port N            the port                             (default 8000)
  --api-key KEY       a key that requests must bring; better in the variable WORLDGRAD_API_KEY
  --allowed-origins LIST
                      pages that may use it from a browser: https://example.com,http://localhost:5173; * for all
                                                           (default: none)
  --name NAME         the model's name in the API          (default: the folder's)
  --rows N            answers that are drawn at a time     (default 8)
  --device NAME       auto | wasm | webgpu | reference     (default auto)
  --watch N           looks for a newer checkpoint every N seconds, and serves it from the next token on
                                                           (default: only when /update_weights_from_disk is called)
  --trajectories FILE appends the episodes that agents play, as JSON lines
  --logprobs-mode M   raw_logprobs | processed_logprobs    (default raw_logprobs, as vLLM)
  --seed N            seed of requests that have none      (default 0)
  --help              this text
`;

const TEXT = { type: "string" } as const;
const FLAGS = {
  run: TEXT,
  checkpoint: TEXT,
  "model-path": TEXT,
  adapter: TEXT,
  storage: TEXT,
  "max-context": TEXT,
  host: TEXT,
  port: TEXT,
  "api-key": TEXT,
  "allowed-origins": TEXT,
  name: TEXT,
  rows: TEXT,
  device: TEXT,
  watch: TEXT,
  trajectories: TEXT,
  "logprobs-mode": TEXT,
  seed: TEXT,
  help: { type: "boolean" },
} as const;

const lineOf = (trajectory: Trajectory): string => `${JSON.stringify(trajectory)}\n`;

async function main(): Promise<number> {
  outliveOutput();
  const values = parse(process.argv.slice(2), FLAGS) as Readonly<Record<string, string | undefined>>;
  if (values["help"]) {
    process.stdout.write(HELP);
    return 0;
  }
  const { run: path, "model-path": modelPath, adapter, "max-context": context } = values;
  if ((path === undefined) === (modelPath === undefined))
    throw new UsageError("expected --run with a run folder, or --model-path with a model's, and not both");
  for (const flag of ["adapter", "storage", "max-context"])
    if (values[flag] !== undefined && modelPath === undefined)
      throw new UsageError(`--${flag} is about the model of --model-path`);
  const count = (flag: string, fallback: number, least: number, most?: number): number =>
    wholeNumber(flag, values[flag] ?? String(fallback), least, most);
  const [port, rows, seed, watch] = [
    count("port", 8000, 0, 65_535),
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
  const allowedOrigins = (values["allowed-origins"] ?? "").split(",").filter(Boolean);
  const wrong = allowedOrigins.find((one) => one !== "*" && !isOrigin(one));
  if (wrong !== undefined)
    throw new UsageError(`--allowed-origins: expected origins as in https://example.com, or *, got "${wrong}"`);

  const storage = oneOf("storage", values["storage"] ?? "f32", WEIGHT_STORAGES);
  const maxContext = context === undefined ? undefined : count("max-context", 0, 2);
  const checkpoint = values["checkpoint"];
  if (checkpoint !== undefined && modelPath !== undefined)
    throw new UsageError("--checkpoint names a checkpoint of a run (--run)");
  if (watch > 0 && checkpoint !== undefined)
    throw new UsageError("--watch serves the newest checkpoint; leave --checkpoint out");
  if (watch > 0 && modelPath !== undefined) throw new UsageError("--watch looks for checkpoints of a run (--run)");
  const executor = await device(kind);
  const { served, options, run } =
    modelPath === undefined
      ? await runSubject(path!, executor, checkpoint)
      : await folderSubject({ path: modelPath, adapter, storage, maxContext, rows, note: console.log }, executor);
  const name = values["name"] ?? options.name;
  const server = await servePolicy(served, {
    ...options,
    name,
    port,
    rows,
    seed,
    logProbs,
    allowedOrigins,
    ...(values["host"] === undefined ? {} : { host: values["host"] }),
    ...(apiKey === undefined || apiKey === "" ? {} : { apiKey }),
    ...(file === undefined ? {} : { onTrajectories: (rows) => appendWhole(file, rows.map(lineOf).join("")) }),
  });
  console.log(`serving "${name}"${run ? ` after step ${options.version}` : ""} at ${server.url}/v1`);
  const watching =
    watch === 0
      ? undefined
      : setInterval(() => void serveNewest().catch((error: unknown) => report(error)), watch * 1000);

  async function serveNewest(): Promise<void> {
    const newest = run?.folder.listCheckpoints().at(-1);
    if (run === undefined || newest === undefined || newest === server.engine.version) return;
    let version = 0;
    await server.engine.replaceWeights(
      async () => void (version = await run.loadNewest()),
      () => version,
    );
    console.log(`serving the checkpoint after step ${version}`);
  }

  await new Promise<void>((resolve) => {
    for (const signal of STOP_SIGNALS) process.once(signal, () => resolve());
  });
  clearInterval(watching);
  await server.close();
  executor.dispose();
  return 0;
}

process.exitCode = await main().catch(report);
await outputTaken();
// Worker threads of the executor have ended by now, so nothing else keeps the process alive.
process.exit();
