/**
 * `npm run fit -- --model DIR`: what memory a model needs, before it is loaded. Reads `config.json` and the headers of
 * the safetensors files, no weights.
 */
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync, statSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { check } from "../../engine/errors.ts";
import { UsageError, wholeNumber } from "../../job/usage.ts";
import { configFromHuggingFace, estimateParameters } from "../../nn/index.ts";
import { parse, report } from "../../node/flags.ts";
import { fitReport } from "./report.ts";

const HELP = `worldgrad: what memory a model needs, before it is loaded

  npm run fit -- --model DIR [flags]

  --model DIR    folder with config.json, and perhaps *.safetensors (their headers are read)
  --rows N       rows of a micro-batch                       (default 1)
  --tokens N     tokens of each                              (default 256)
  --rank N       of LoRA, on all linear layers               (default 16)
  --gpu GIB      a GPU's memory; without it, one WebAssembly memory, 4 GiB
  --help         this text
`;

const FLAGS = {
  model: { type: "string" },
  rows: { type: "string" },
  tokens: { type: "string" },
  rank: { type: "string" },
  gpu: { type: "string" },
  help: { type: "boolean" },
} as const;

/** Elements of all tensors in a folder's safetensors files, and their bytes by element type. */
function stored(folder: string): { elements: number; bytes: Record<string, number> } | undefined {
  const files = readdirSync(folder).filter((name) => name.endsWith(".safetensors"));
  if (files.length === 0) return undefined;
  const bytes: Record<string, number> = {};
  let elements = 0;
  for (const name of files) {
    for (const {
      dtype,
      shape,
      data_offsets: [begin, end],
    } of headerOf(join(folder, name))) {
      elements += shape.reduce((product, n) => product * n, 1);
      bytes[dtype] = (bytes[dtype] ?? 0) + end - begin;
    }
  }
  return { elements, bytes };
}

interface Entry {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data_offsets: readonly [number, number];
}

/** The tensors that a file's header lists; nothing behind it is read. */
function headerOf(path: string): Entry[] {
  const file = openSync(path, "r");
  try {
    const length = Buffer.alloc(8);
    const isLong = readSync(file, length, 0, 8, 0) === 8 && length.readBigUInt64LE() <= BigInt(statSync(path).size - 8);
    check(isLong, () => `fit: ${path} is no safetensors file, or is cut off`);
    const text = Buffer.alloc(Number(length.readBigUInt64LE()));
    readSync(file, text, 0, text.length, 8);
    const header = JSON.parse(text.toString("utf8")) as Record<string, Entry>;
    const entries = Object.entries(header).filter(([name]) => name !== "__metadata__");
    return entries.map(([name, entry]) => {
      const fits = typeof entry.dtype === "string" && Array.isArray(entry.shape) && entry.data_offsets?.length === 2;
      check(fits, () => `fit: ${path}: "${name}" has no dtype, shape and data_offsets`);
      return entry;
    });
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new UsageError(`--model: the header of ${path} is not valid JSON`);
  } finally {
    closeSync(file);
  }
}

function main(): number {
  const values = parse(process.argv.slice(2), FLAGS);
  if (values["help"]) {
    process.stdout.write(HELP);
    return 0;
  }
  const { model, gpu } = values;
  if (typeof model !== "string") throw new UsageError("--model: expected a folder with a config.json");
  const path = join(model, "config.json");
  if (!existsSync(path)) throw new UsageError(`--model: ${path} does not exist`);
  const number = (name: string, fallback: number): number =>
    wholeNumber(name, (values as Record<string, string | undefined>)[name] ?? String(fallback), 1);
  const config = configFromHuggingFace(JSON.parse(readFileSync(path, "utf8")));
  const files = stored(model);
  if (files !== undefined) {
    const forms = Object.entries(files.bytes).map(([dtype, bytes]) => `${(bytes / 2 ** 20).toFixed(1)} MiB ${dtype}`);
    process.stdout.write(`on disk: ${files.elements.toLocaleString("en")} numbers, ${forms.join(", ")}\n`);
    const expected = estimateParameters(config);
    if (files.elements < expected) {
      process.stdout.write(`  (config.json describes ${expected.toLocaleString("en")}: a file seems to be missing)\n`);
    }
  }
  const question = { rows: number("rows", 1), tokens: number("tokens", Math.min(256, config.maxPositions)) };
  const bytes = typeof gpu === "string" ? wholeNumber("gpu", gpu, 1) * 2 ** 30 : undefined;
  process.stdout.write(fitReport(config, { ...question, rank: number("rank", 16), gpu: bytes }));
  return 0;
}

try {
  process.exitCode = main();
} catch (error) {
  process.exitCode = report(error);
}
