/** `npm run export -- --run runs/<name> --to DIR`: writes the trained model as a folder that `transformers` loads. */
import process from "node:process";
import { device } from "../../engine/index.ts";
import { oneOf, UsageError } from "../usage.ts";
import { exportMerged } from "../node/exportRun.ts";
import { openGiven, parse, report, runPath } from "../node/flags.ts";
import { outliveOutput, outputTaken } from "../node/output.ts";

const HELP = `worldgrad: write a trained model as a folder that transformers loads

  npm run export -- --run runs/NAME --to DIR [flags]

  --run PATH     run folder whose checkpoint is written; an adapter is merged into the weights
  --checkpoint NAME
                 newest | best (on held-out tasks) | a step   (default newest)
  --to DIR       the folder, which must not exist
  --dtype NAME   float32 | bfloat16 | float16: how the weights are stored
                                                              (default float32)
  --max-shard-size SIZE
                 largest size of a file of weights, as in 500MB or 2GB; more weights go to several files
                                                              (default 5GB)
  --help         this text
`;

const FLAGS = {
  run: { type: "string" },
  to: { type: "string" },
  checkpoint: { type: "string" },
  dtype: { type: "string" },
  "max-shard-size": { type: "string" },
  help: { type: "boolean" },
} as const;

/** A size as `transformers` writes it. */
function bytesOf(text: string): number {
  const [, number, unit] = /^(\d+(?:\.\d+)?)([KMG]B)?$/.exec(text) ?? [];
  const bytes = Number(number) * (unit === undefined ? 1 : 1000 ** (1 + "KMG".indexOf(unit[0]!)));
  if (bytes >= 1) return bytes;
  throw new UsageError(`--max-shard-size: expected bytes, or a size as in 500MB or 2GB, got "${text}"`);
}

async function main(): Promise<number> {
  outliveOutput();
  const values = parse(process.argv.slice(2), FLAGS);
  if (values["help"]) {
    process.stdout.write(HELP);
    return 0;
  }
  const { to } = values;
  const run = runPath(values);
  if (typeof to !== "string") throw new UsageError("--to: expected a folder to write");
  const dtype = oneOf("dtype", String(values["dtype"] ?? "float32"), ["float32", "bfloat16", "float16"]);
  const maxShardSize = bytesOf(String(values["max-shard-size"] ?? "5GB"));
  const folder = openGiven("run", run);
  const executor = await device("wasm");
  const how = { ...(dtype === "float32" ? {} : { dtype }), maxShardSize };
  const { path, what } = await exportMerged(folder, to, executor, how, values["checkpoint"] as string | undefined);
  process.stdout.write(`${what}: ${path}\n`);
  return 0;
}

process.exitCode = await main().catch(report);
await outputTaken();
// Worker threads of the executor keep the process alive.
process.exit();
