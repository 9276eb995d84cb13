/**
 * `npm run fit -- --model DIR` prints the memory that a model needs, before it is loaded. It reads `config.json` and
 * the headers of the safetensors files, and no weights.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { oneOf, UsageError, wholeNumber } from "../usage.ts";
import { configFromHuggingFace, WEIGHT_STORAGES } from "../../pretrained/index.ts";
import { estimateParameters } from "../../nn/index.ts";
import { parse, report } from "../node/flags.ts";
import { endWithOutput } from "../node/output.ts";
import { hasWeights, withWeights } from "../node/pretrained.ts";
import { fitReport } from "./report.ts";

const HELP = `worldgrad: the memory that a model needs, before it is loaded

  npm run fit -- --model DIR [flags]

  --model DIR    folder with config.json, and perhaps *.safetensors (their headers are read)
  --rows N       rows of a micro-batch                       (default 1)
  --tokens N     tokens of each row                          (default 256)
  --rank N       LoRA's rank, on all linear layers           (default 16)
  --storage FORM f32 | bf16 | f16 | q8: how the matrices under LoRA are stored
                                                             (default f32)
  --episodes N   of a step of RL, one group                  (default 2)
  --prompt N     tokens of the prompt of each                (default 64)
  --completion N tokens of its completion                    (default 16)
  --gpu GIB      a GPU's memory; without it, one WebAssembly memory, 4 GiB, and weights
                 that are not trained outside of it
  --help         this text
`;

/** The flags that are whole numbers, with what they are by default and at least. */
const NUMBERS = {
  rows: [1, 1],
  tokens: [256, 1],
  rank: [16, 1],
  episodes: [2, 2],
  prompt: [64, 1],
  completion: [16, 1],
};
const TEXT = { type: "string" } as const;
const FLAGS = {
  ...Object.fromEntries(Object.keys(NUMBERS).map((name) => [name, TEXT])),
  model: TEXT,
  storage: TEXT,
  gpu: TEXT,
  help: { type: "boolean" } as const,
};

/** Elements of all tensors of a folder's weights, and their bytes by element type; undefined if it has none. */
async function stored(folder: string): Promise<{ elements: number; bytes: Record<string, number> } | undefined> {
  if (!hasWeights(folder)) return undefined;
  return withWeights(folder, ({ tensors }) => {
    const bytes: Record<string, number> = {};
    for (const { dtype, begin, end } of tensors) bytes[dtype] = (bytes[dtype] ?? 0) + end - begin;
    const sizes = tensors.map(({ shape }) => shape.reduce((product, n) => product * n, 1));
    return { elements: sizes.reduce((sum, n) => sum + n, 0), bytes };
  });
}

async function main(): Promise<number> {
  endWithOutput();
  const values = parse(process.argv.slice(2), FLAGS);
  if (values["help"]) {
    process.stdout.write(HELP);
    return 0;
  }
  const { model, gpu, storage } = values;
  if (typeof model !== "string") throw new UsageError("--model: expected a folder with a config.json");
  const path = join(model, "config.json");
  if (!existsSync(path)) throw new UsageError(`--model: ${path} does not exist`);
  const config = configFromHuggingFace(JSON.parse(readFileSync(path, "utf8")));
  const files = await stored(model);
  if (files !== undefined) {
    const forms = Object.entries(files.bytes).map(([dtype, bytes]) => `${(bytes / 2 ** 20).toFixed(1)} MiB ${dtype}`);
    process.stdout.write(`on disk: ${files.elements.toLocaleString("en")} numbers, ${forms.join(", ")}\n`);
    const expected = estimateParameters(config);
    if (files.elements < expected) {
      process.stdout.write(`  (config.json describes ${expected.toLocaleString("en")}: a file seems to be missing)\n`);
    }
  }
  const numbers = Object.fromEntries(
    Object.entries(NUMBERS).map(([name, [fallback, least]]) => {
      const most = name === "tokens" ? config.maxPositions : Infinity;
      return [name, wholeNumber(name, String(values[name] ?? Math.min(fallback!, most)), least!)];
    }),
  ) as Record<keyof typeof NUMBERS, number>;
  const bytes = typeof gpu === "string" ? wholeNumber("gpu", gpu, 1) * 2 ** 30 : undefined;
  const form = oneOf("storage", typeof storage === "string" ? storage : "f32", WEIGHT_STORAGES);
  process.stdout.write(await fitReport(config, { ...numbers, storage: form, gpu: bytes }));
  return 0;
}

process.exitCode = await main().catch(report);
