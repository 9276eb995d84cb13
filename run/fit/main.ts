/**
 * `npm run fit -- --model DIR`: the memory that a model needs, before it is loaded. It reads `config.json` and the
 * headers of the safetensors files, no weights.
 */
import { join } from "node:path";
import process from "node:process";
import { oneOf, UsageError, wholeNumber } from "../usage.ts";
import { estimateParameters } from "../../nn/index.ts";
import { configFromHuggingFace, WEIGHT_STORAGES } from "../../pretrained/index.ts";
import { parse, report } from "../node/flags.ts";
import { ofFlag } from "../node/modelFolder.ts";
import { endWithOutput } from "../node/output.ts";
import { hasWeights, parseJson, readText, withWeights } from "../node/pretrained.ts";
import { fitReport, SIZES } from "./report.ts";

const HELP = `worldgrad: the memory that a model needs, before it is loaded

  npm run fit -- --model DIR [flags]

  --model DIR    folder with config.json, and perhaps *.safetensors (their headers are read)
  --rows N       rows of a micro-batch                       (default ${SIZES.rows})
  --tokens N     tokens of each row                          (default ${SIZES.tokens})
  --rank N       LoRA's rank, on all linear layers           (default ${SIZES.rank})
  --storage FORM f32 | bf16 | f16 | q8: storage of the matrices under LoRA (default f32)
  --episodes N   of a step of RL, one group                  (default ${SIZES.episodes})
  --prompt N     tokens of the prompt of each                (default ${SIZES.prompt})
  --completion N tokens of its completion                    (default ${SIZES.completion})
  --gpu GIB      a GPU's memory (default: one WebAssembly memory, 4 GiB, and frozen weights outside of it)
  --help         this text
`;
const VALUES = ["model", "storage", "gpu", ...Object.keys(SIZES)].map((name) => [name, { type: "string" }] as const);

async function main(): Promise<void> {
  endWithOutput();
  const given = parse(process.argv.slice(2), { ...Object.fromEntries(VALUES), help: { type: "boolean" } });
  if (given["help"]) return void process.stdout.write(HELP);
  const { model, gpu, storage = "f32", ...sizes } = given as Readonly<Record<string, string>>;
  if (model === undefined) throw new UsageError("--model: expected a folder with a config.json");
  const path = join(model, "config.json");
  const config = await ofFlag("--model", async () => configFromHuggingFace(parseJson(path, await readText(path))));
  const least = (name: string): number => (name === "episodes" ? 2 : 1);
  const numbers = Object.entries(sizes).map(([name, text]) => [name, wholeNumber(name, text, least(name))] as const);
  const lines = await fitReport(config, {
    tokens: Math.min(SIZES.tokens, config.maxPositions),
    ...Object.fromEntries(numbers),
    storage: oneOf("storage", storage, WEIGHT_STORAGES),
    ...(gpu === undefined ? {} : { gpu: wholeNumber("gpu", gpu, 1) * 2 ** 30 }),
  });
  if (hasWeights(model)) {
    const tensors = await withWeights(model, (source) => source.tensors);
    const bytes: Record<string, number> = {};
    for (const { dtype, begin, end } of tensors) bytes[dtype] = (bytes[dtype] ?? 0) + end - begin;
    const forms = Object.entries(bytes).map(([dtype, n]) => `${(n / 2 ** 20).toFixed(1)} MiB ${dtype}`);
    const elements = tensors.reduce((sum, { shape }) => sum + shape.reduce((product, n) => product * n, 1), 0);
    const missing = estimateParameters(config) - elements;
    const warning = missing > 0 ? `; ${missing.toLocaleString("en")} are missing: perhaps a file is` : "";
    process.stdout.write(`on disk: ${elements.toLocaleString("en")} numbers, ${forms.join(", ")}${warning}\n`);
  }
  process.stdout.write(lines);
}

process.exitCode = await main().then(() => 0, report);
