/**
 * `npm run gpu`: tests and benchmarks on a GPU in about eight minutes, the most important first. Each part is a process
 * of its own with a time limit; a part that fails or hangs is reported and skipped. Each result is in the folder of
 * results at once.
 *
 *     npm run gpu                        on a machine with Node and the project
 *     npm run gpu -- --pack gpu-folder   a folder for a machine with neither (`pack.ts`)
 */
import { spawn, spawnSync } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { ADAPTERS, type AdapterName, provisionAdapter } from "../../tests/support/adapter.ts";
import { parse, report } from "../../run/node/flags.ts";
import { numberFrom, oneOf, UsageError } from "../../run/usage.ts";
import { findAdapter } from "../machine.ts";
import { readResults } from "../results.ts";
import { gpuTables, testSummary } from "./tables.ts";

const HELP = `worldgrad on a GPU: tests of all WGSL kernels, then training steps, products, ops and decoding,
beside jax-js on WebGPU and PyTorch on CUDA where they are installed

  npm run gpu                      measures; the most important first, each result written at once
  npm run gpu -- --pack FOLDER     a folder for a Linux machine without Node and network; there: sh FOLDER/run.sh

  --minutes N     time limit; parts that do not fit are left out and listed           (default 8)
  --parts A,B     some of the parts: PARTS
  --out FOLDER    a new folder for the results                                        (default gpu-results)
  --adapter NAME  ADAPTERS; a software adapter is a rehearsal    (default hardware)
  --help          this text
`;

/** A part: the tests, or a run of `npm run bench`. */
interface Part {
  readonly name: string;
  /** Environment variables of its process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Whether its output goes to a file NAME.txt and not to the terminal. */
  readonly kept?: true;
  /** Time limit in seconds. */
  readonly seconds: number;
  readonly command: (setting: Setting) => readonly string[];
}

interface Setting {
  readonly out: string;
  readonly results: string;
}

const NODE = ["--import", "tsx"];
/**
 * A run of `npm run bench`, with half the warm-up and fewer rounds than on a CPU: no compiler has to become idle first.
 */
const bench =
  (words: readonly string[], contenders: readonly string[], rounds = 5, warmMs = 600) =>
  ({ results }: Setting): readonly string[] => [
    ...NODE,
    "bench/main.ts",
    ...words,
    // A contender that compiles for too long must not take the figures of the others with it.
    ...`--contenders ${contenders.join(",")} --rounds ${rounds} --warm ${warmMs} --patience 30`.split(" "),
    "--results",
    results,
  ];

const ALL = ["worldgrad-webgpu", "jax-js-webgpu", "torch-cuda"];
const OWN = ["worldgrad-webgpu"];

/** Rungs of the ladder that may win on a GPU, and `matmul`, which chooses one by a table. */
const LADDER = ["ladder/matmul/", "ladder/matmulTiled", "ladder/matmulSplit", "ladder/matmulSubgroup"];

/** Times of kernels by the GPU's own clock. */
const kernels = (name: string, test: string, seconds: number): Part => ({
  name,
  seconds,
  env: { WORLDGRAD_DEBUG: "1" },
  kept: true,
  command: () => [...NODE, "bench/gpu/kernelTimes.ts", test],
});

export const PARTS: readonly Part[] = [
  {
    name: "tests",
    seconds: 150,
    kept: true,
    env: { NO_COLOR: "1" },
    // The files that CI runs a second time on SwiftShader, and every op at its special points.
    command: () =>
      ["node_modules/vitest/vitest.mjs", "run", "--project", "unit", "--reporter=verbose"].concat(
        ["--maxWorkers", "6", "--testTimeout", "60000"],
        ["wgsl", "webgpu", "tests/ops"],
      ),
  },
  kernels("kernels-124M", "gpt2/B8-T512", 40),
  { name: "steps", seconds: 70, command: bench(["step"], ALL) },
  // jax-js is left out: it looks tokens up by one-hot products, and its first step here takes over a minute.
  { name: "steps-124M", seconds: 60, command: bench(["gpt2"], ["worldgrad-webgpu", "torch-cuda"], 3) },
  {
    name: "products",
    seconds: 60,
    command: bench(["NN:512x512x512", "NN:1024x1024x1024", "NN:2048x2048x2048", "NN:4096x4096x4096"], ALL),
  },
  { name: "schedules-products", seconds: 90, command: bench(LADDER, OWN, 3, 100) },
  { name: "schedules-attention", seconds: 120, command: bench(["ladderAttention"], OWN, 3, 100) },
  kernels("kernels-0.4M", "step/B4-T64-C128-L2", 20),
  { name: "ops", seconds: 90, command: bench(["softmax", "norm", "attention", "logProbs"], ALL, 3) },
  { name: "decoding", seconds: 30, command: bench(["decode"], OWN, 3) },
  { name: "grpo", seconds: 40, command: bench(["grpo/27K", "grpo/1M"], OWN, 3) },
  { name: "shapes", seconds: 60, command: bench(["matmul", "packed"], [...OWN, "torch-cuda"], 3) },
  { name: "compiled", seconds: 120, command: bench(["step", "gpt2"], ["torch-cuda-compiled"], 3) },
];

/** Runs a part and shows its output as it comes. @returns its outcome, for the table of parts */
async function runPart(part: Part, setting: Setting, env: object, limit: number): Promise<string> {
  const child = spawn(process.execPath, part.command(setting), {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...env, ...part.env },
    detached: true, // so that its children can be ended with it
  });
  const show = (text: Buffer): void => {
    if (part.kept) appendFileSync(join(setting.out, `${part.name}.txt`), text);
    else process.stdout.write(text);
  };
  child.stdout.on("data", show);
  child.stderr.on("data", show);
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    process.kill(-child.pid!, "SIGKILL");
  }, limit * 1000);
  const code = await new Promise<number | null>((done) => child.once("close", done));
  clearTimeout(timer);
  return late ? `stopped after ${limit.toFixed(0)} s` : code === 0 ? "done" : `ended with ${code}`;
}

/** @throws UsageError if the adapter is not there */
function opened(name: AdapterName): ReturnType<typeof provisionAdapter> {
  try {
    return provisionAdapter();
  } catch {
    throw new UsageError(
      `--adapter ${name}: this machine has none that WebGPU can use` +
        (name === "hardware" ? " (a GPU with its driver for Vulkan, Metal or D3D12)" : ""),
    );
  }
}

async function main(args: readonly string[]): Promise<number> {
  const values = parse(args, {
    pack: { type: "string" },
    minutes: { type: "string" },
    parts: { type: "string" },
    out: { type: "string" },
    adapter: { type: "string" },
    help: { type: "boolean" },
  });
  const names = PARTS.map(({ name }) => name);
  if (values["help"]) {
    console.log(HELP.replace("PARTS", names.join(" ")).replace("ADAPTERS", ADAPTERS.join(" ")));
    return 0;
  }
  if (typeof values["pack"] === "string") {
    (await import("./pack.ts")).pack(values["pack"]);
    return 0;
  }
  const minutes = numberFrom("minutes", String(values["minutes"] ?? 8));
  const wanted = (values["parts"] as string | undefined)?.split(",").map((name) => oneOf("parts", name, names));
  const adapterName = oneOf("adapter", String(values["adapter"] ?? "hardware"), ADAPTERS) as AdapterName;
  const out = resolve(String(values["out"] ?? "gpu-results"));
  if (existsSync(out)) throw new UsageError(`--out: ${out} exists already`);
  const setting: Setting = { out, results: join(out, "results.jsonl") };

  const begin = performance.now();
  const spent = (): number => (performance.now() - begin) / 1000;
  process.env["WORLDGRAD_ADAPTER"] = adapterName;
  const { env } = opened(adapterName);
  mkdirSync(out, { recursive: true });
  const adapter = findAdapter(adapterName);
  console.log(`WebGPU adapter: ${adapter.description}`);
  const smi = spawnSync("nvidia-smi", ["--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]);
  const about = { adapter: adapter.description, driver: smi.status === 0 ? smi.stdout.toString().trim() : "" };
  writeFileSync(join(out, "machine.json"), JSON.stringify(about));

  const rows: string[] = [];
  for (const part of PARTS) {
    if (wanted !== undefined && !wanted.includes(part.name)) continue;
    const [before, left] = [spent(), 60 * minutes - spent()];
    console.log(`\n=== ${part.name}, after ${before.toFixed(0)} s`);
    const verdict = left < 10 ? "left out: no time" : await runPart(part, setting, env, Math.min(part.seconds, left));
    rows.push(`| ${part.name} | ${verdict} | ${(spent() - before).toFixed(0)} |`);
    // Written after each part, so that an interrupted run leaves tables of what was measured.
    const tests = join(out, "tests.txt");
    const failures = existsSync(tests) ? testSummary(readFileSync(tests, "utf8")) : "";
    const parts = ["| part | | seconds |", "| --- | --- | --: |", ...rows].join("\n");
    writeFileSync(join(out, "tables.md"), [parts, failures, gpuTables(readResults(setting.results))].join("\n\n"));
  }
  console.log(`\n${readFileSync(join(out, "tables.md"), "utf8")}`);
  return 0;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  process.exitCode = report(error);
}
