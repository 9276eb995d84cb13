/**
 * `npm run bench -- --report`: docs/performance.md with its plots, from the file of results. Only the newest line of
 * each case and contender counts. Nothing is measured here.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { UsageError } from "../run/usage.ts";
import { GROWTH, nameOf, SIZES } from "./cases/model.ts";
import { gpuTables } from "./gpu/tables.ts";
import { barPlot, linePlot } from "./plots.ts";
import { readResults, type ResultLine } from "./results.ts";
import { fittedExponent, ratio } from "./statistics.ts";
import { markdownTable, showMemory, showMs, showRate } from "./table.ts";

const PLOTS = "docs/plots";

/** Results of one machine, the newest by case and contender. WebGPU on two adapters is two contenders. */
export interface MachineResults {
  readonly name: string;
  readonly lines: readonly ResultLine[];
}

const isWebgpu = ({ result }: ResultLine): boolean => result.contender.endsWith("webgpu");
const contenderOf = (line: ResultLine): string =>
  isWebgpu(line) ? `${line.result.contender} (${adapterWord(line.adapter)})` : line.result.contender;
const adapterWord = (adapter: string): string =>
  /swiftshader/i.test(adapter) ? "SwiftShader" : /llvmpipe/i.test(adapter) ? "lavapipe" : adapter.split(" ")[0]!;

/** Whether a GPU computed the line, not a software adapter. */
const onGpu = ({ adapter, result }: ResultLine): boolean =>
  result.contender.startsWith("torch-cuda") ||
  (result.contender.endsWith("webgpu") && !/swiftshader|llvmpipe|lavapipe|^none$/i.test(adapter));

/** Newest lines by machine, case and contender; machines in order of first appearance. */
export function newest(lines: readonly ResultLine[]): MachineResults[] {
  const machines = new Map<string, Map<string, ResultLine>>();
  for (const line of lines) {
    const { cpu, cores, node, os } = line.machine;
    const name = `${cpu}, ${cores} cores, ${os}, Node ${node}`;
    const ofMachine = machines.get(name) ?? new Map<string, ResultLine>();
    machines.set(name, ofMachine);
    ofMachine.set(`${line.case} ${contenderOf(line)}`, line); // later lines are newer
  }
  return [...machines].map(([name, ofMachine]) => ({ name, lines: [...ofMachine.values()] }));
}

const SHORT_CASES = [
  "matmul/NN:512x512x512",
  "matmul/NN:1024x1024x1024",
  "softmax/1024x1024",
  "block/B4-T64-C128-H4",
  ...SIZES.map((shape) => `step/${nameOf(shape)}`),
];
const SHORT_CONTENDERS = ["worldgrad", "worldgrad-threads", "jax-js", "tfjs", "torch"];

/** Table of a few cases: times in milliseconds. */
export function shortTable({ name, lines }: MachineResults): string {
  const cell = (test: string, contender: string): string => {
    const line = lines.find((l) => l.case === test && contenderOf(l) === contender);
    return line?.result.ms === undefined ? "–" : showMs(line.result.ms.median);
  };
  const tests = SHORT_CASES.filter((test) => lines.some((l) => l.case === test));
  const contenders = SHORT_CONTENDERS.filter((c) => lines.some((l) => l.result.contender === c && l.result.ms));
  const dates = lines.map(({ time }) => time.slice(0, 10)).toSorted();
  const threads = lines.find((l) => l.result.contender === "worldgrad-threads")?.threads ?? "all";
  return [
    markdownTable(
      ["milliseconds, median", ...contenders],
      tests.map((test) => [`\`${test}\``, ...contenders.map((c) => cell(test, c))]),
    ),
    "",
    `${name}; ${dates.at(-1)}. One thread each; \`worldgrad-threads\` has ${threads}.`,
  ].join("\n");
}

function family(test: string): string {
  return test.split("/")[0]!;
}

function familyTable(name: string, lines: readonly ResultLine[]): string {
  const tests = [...new Set(lines.filter((l) => family(l.case) === name).map((l) => l.case))];
  const alone = ["step", "block", "decode", "forward", "rl", "grpo"].includes(name);
  // Older lines have no seconds of the processor.
  const processor = lines.some((l) => family(l.case) === name && l.result.processorMs !== undefined);
  const head = [
    "",
    "contender",
    "ms",
    "min–max",
    ...(processor ? ["processor ms"] : []),
    "rate",
    "of the roofline",
    ...(alone ? ["peak RSS (tensors)"] : []),
  ];
  const rows = tests.flatMap((test) =>
    lines
      .filter((l) => l.case === test)
      .map((line, i) => {
        const { ms, reason, processorMs } = line.result;
        const used = processorMs === undefined ? "" : showMs(processorMs);
        const ofProcessor = processor ? [used] : [];
        const first = i === 0 ? `\`${test.slice(name.length + 1)}\`` : "";
        const none = alone ? [""] : [];
        if (ms === undefined) return [first, contenderOf(line), "–", "", ...ofProcessor, reason ?? "", "", ...none];
        const share = line.roofline === undefined ? "" : `${(100 * line.roofline).toFixed(0)} %`;
        const memory = alone ? [showMemory(line.result)] : [];
        return [
          first,
          contenderOf(line),
          showMs(ms.median),
          `${showMs(ms.min)}–${showMs(ms.max)}`,
          ...ofProcessor,
          showRate(line, ms.median),
          share,
          ...memory,
        ];
      }),
  );
  return markdownTable(head, rows, 2);
}

function barsOf(
  title: string,
  unit: string,
  tests: readonly string[],
  lines: readonly ResultLine[],
  value: (line: ResultLine, ms: number) => number,
): string | undefined {
  const groups = tests
    .map((test) => ({
      name: test,
      bars: lines
        .filter((l) => l.case === test && l.result.ms !== undefined)
        .map((line) => ({ name: contenderOf(line), value: value(line, line.result.ms!.median) })),
    }))
    .filter(({ bars }) => bars.length > 0);
  return groups.length === 0 ? undefined : barPlot({ title, unit, groups });
}

interface Growth {
  readonly dimension: string;
  readonly exponent: number;
  readonly points: readonly (readonly [number, number])[];
}

/** Time per step against each dimension, from the fastest round, with the exponent of the best power law. */
export function growthOf(lines: readonly ResultLine[]): Growth[] {
  return Object.entries(GROWTH).flatMap(([dimension, { shapes, x }]) => {
    const points = shapes.flatMap((shape): [number, number][] => {
      const line = lines.find((l) => l.case === `growth/${dimension}/${nameOf(shape)}-V${shape.V}`);
      return line?.result.ms === undefined ? [] : [[x(shape), line.result.ms.min]];
    });
    return points.length < 3 ? [] : [{ dimension, exponent: fittedExponent(points), points }];
  });
}

const FAMILIES: readonly (readonly [name: string, about: string])[] = [
  [
    "step",
    "Training step: loss, gradient, AdamW. All contenders begin with equal weights and batches, and their first four " +
      "losses must agree.",
  ],
  ["block", "One transformer block, forward and backward."],
  ["forward", "Forward pass of the model."],
  ["decode", "Sampling with a cache: prompts of 8 tokens, 56 more each."],
  ["rl", "One step of reinforcement learning in the terminal, settings of `npm start`."],
  [
    "grpo",
    "A step of one GRPO job in worldgrad and in TRL 1.13 (transformers 5.18, PyTorch 2.13), one thread each: " +
      "playing, rewards, gradient and update of all weights. Models of 27,000, 260,000 and 857,000 parameters with 8 " +
      "groups of 8 episodes of 48 tokens, and with one group of 8, which is TRL's default batch; " +
      "one of the shape of SmolLM2-135M with 2 groups of 4 episodes of 32.",
  ],
  ["matmul", "Matrix products, layout:M×K×N. T marks a transposed operand; NT is a linear layer's forward pass."],
  ["packed", "A linear layer with frozen weights in f32, 16 or 8 bits, form:rows×in×out. One row: drawing a token."],
  ["softmax", "Softmax over rows."],
  ["norm", "LayerNorm over rows."],
  ["attention", "Causal attention."],
  ["logProbs", "Log-probabilities of given tokens, from logits [rows, V]."],
  ["ladder", "Rungs of the ladder of WGSL matrix products."],
];

/** Remarks on the results of a family, computed from them. */
const REMARKS: Readonly<Record<string, (lines: readonly ResultLine[]) => string>> = { grpo: besideTrl };

/**
 * TRL's time over ours in each case, in three ways, which differ on a busy machine: two rounds side by side had an
 * equally busy machine, the medians of a column may come from different rounds, and processor time contains no waiting.
 */
function besideTrl(lines: readonly ResultLine[]): string {
  const tests = [...new Set(lines.filter((l) => family(l.case) === "grpo").map((l) => l.case))];
  const of = (test: string, contender: string): ResultLine | undefined =>
    lines.find((l) => l.case === test && l.result.contender === contender);
  const pairs = tests.flatMap((test) => {
    const [ours, trl] = [of(test, "worldgrad"), of(test, "trl")];
    return ours?.result.ms && trl?.result.ms ? [{ ours: ours.result, trl: trl.result, roofline: ours.roofline }] : [];
  });
  if (pairs.length === 0) return "";
  // Older lines have no seconds of the processor.
  const list = (value: (pair: (typeof pairs)[number]) => number): string =>
    pairs.map((pair) => (Number.isFinite(value(pair)) ? value(pair).toFixed(2) : "–")).join(", ");
  const least = list(({ ours, trl, roofline }) => ratio(trl.rounds!, ours.rounds!) / (roofline ?? NaN));
  return (
    "Goal: five times TRL's speed up to a million parameters, and equal speed at 135 million. TRL's time over ours, " +
    `in the order of the table: ${list(({ ours, trl }) => ratio(trl.rounds!, ours.rounds!))} (median over rounds of ` +
    "the ratio within a round), " +
    `${list(({ ours, trl }) => trl.ms!.median / ours.ms!.median)} (ratio of the medians in the table), ` +
    `${list(({ ours, trl }) => trl.processorMs! / ours.processorMs!)} (ratio of processor times). A step that did ` +
    `only its multiplications, at the roofline, would reach ${least}. So no program with vectors of four numbers can ` +
    "reach five times with a step of 64 episodes and 260,000 parameters or more, nor one with 135 million: " +
    "PyTorch's products have wider vectors and fused multiply-add. In small steps the cost of calling an op " +
    "dominates, as their share of the roofline shows."
  );
}

/** docs/performance.md for all machines, and its plots by file name. */
export function performancePage(machines: readonly MachineResults[]): { page: string; plots: Record<string, string> } {
  const plots: Record<string, string> = {};
  const gpus = machines.flatMap(({ name, lines }) => {
    const measured = lines.filter(onGpu);
    if (measured.length === 0) return [];
    const commits = [...new Set(measured.map(({ commit }) => commit))].join(", ");
    const adapters = [...new Set(measured.filter(isWebgpu).map(({ adapter }) => adapter))].join("; ");
    return [`## ${adapters}`, "", `In ${name}. Commits ${commits}.`, "", gpuTables(measured), ""];
  });
  const computed = machines.map(({ name, lines }) => ({ name, lines: lines.filter((line) => !onGpu(line)) }));
  const sections = computed
    .filter(({ lines }) => lines.length > 0)
    .flatMap(({ name, lines }, i) => {
      const plot = (file: string, alt: string, svg: string | undefined): string[] => {
        if (svg === undefined) return [];
        plots[`${file}-${i + 1}.svg`] = svg;
        return [`![${alt}](plots/${file}-${i + 1}.svg)`, ""];
      };
      const steps = SIZES.map((shape) => `step/${nameOf(shape)}`);
      const products = [
        "matmul/NN:256x256x256",
        "matmul/NN:512x512x512",
        "matmul/NN:1024x1024x1024",
        "matmul/NT:64x128x512",
      ];
      const growth = growthOf(lines);
      const growthPlot =
        growth.length === 0
          ? undefined
          : linePlot({
              title: "Cost of a training step as one dimension grows (one thread)",
              x: "size of the dimension",
              y: "ms",
              lines: growth.map(({ dimension, exponent, points }) => ({
                name: `${dimension}: ${exponent.toFixed(2)}`,
                points,
              })),
            });
      const commits = [...new Set(lines.map(({ commit }) => commit))].join(", ");
      const adapters = [...new Set(lines.filter(isWebgpu).map(({ adapter }) => adapter))].join("; ");
      return [
        `## ${name}`,
        "",
        `Commits ${commits}. WebGPU adapters: ${adapters || "none"}.`,
        "",
        shortTable({ name, lines }),
        "",
        ...plot(
          "step",
          "training step, tokens per second",
          barsOf("Training step, tokens per second", "tok/s", steps, lines, (l, ms) => (1000 * l.work!.amount) / ms),
        ),
        ...plot(
          "matmul",
          "matrix products, GFLOP/s",
          barsOf("Matrix products", "GFLOP/s", products, lines, (l, ms) => l.flops / ms / 1e6),
        ),
        ...plot("growth", "growth of a step's cost", growthPlot),
        ...FAMILIES.filter(([family_]) => lines.some((l) => family(l.case) === family_)).flatMap(([name, about]) => [
          `### \`${name}\``,
          "",
          about,
          "",
          REMARKS[name]?.(lines) ?? "",
          "",
          familyTable(name, lines),
          "",
        ]),
        ...growthSection(growth),
        ...profileSection(lines),
        ...rlSection(lines),
      ];
    });
  return { page: [HEAD, ...sections, ...gpus].join("\n").replaceAll(/\n{3,}/g, "\n\n"), plots };
}

const HEAD = `# Performance

Written by \`npm run bench -- --report\` from \`bench/results.jsonl\`; do not edit by hand. Every contender runs in a
process of its own and does equal work on equal numbers. Its results are compared before anything is timed; a contender
with wrong results is shown as wrong, without a time. Rounds alternate between the contenders. A figure is the median of
the rounds, with the smallest and the largest beside it. The roofline is the least time that this machine needs for a
case in WebAssembly: for its multiplications and additions at the rate of a loop of 128-bit SIMD that touches no memory,
or for its bytes at the rate of a loop that only adds arrays, whichever is more. Native code (PyTorch) has wider vectors
and fused multiply-add, so it has no share of the roofline.

The contenders are as fair as we could make them. \`jax-js\` has everything under \`jit\`, embeddings as products with
one-hot matrices (their gradient does not work under \`jit\` otherwise), and one thread (it looks for a \`Worker\`
global, which Node does not have). \`tfjs\` is tidied, uses its own Adam and its fused product with bias, transposes
matrices before a product (its own transposed product is up to 20 times slower on WebAssembly), and has one thread.
\`torch\` is PyTorch on the CPU, eager.

The first sections are of CPUs. Their \`webgpu\` is a software adapter: it shows how many kernels of which size run, and
nothing about a GPU. Later sections are of GPUs, measured with \`npm run gpu\`
([bench/gpu.md](../bench/gpu.md)). Times of small kernels there are those of the host's calls, and differ between two
machines with equal GPUs by up to a half.
`;

function growthSection(growth: readonly Growth[]): string[] {
  if (growth.length === 0) return [];
  const rows = growth.map(({ dimension, exponent, points }) => [
    dimension,
    exponent.toFixed(2),
    points.map(([x, ms]) => `${x}: ${showMs(ms)}`).join(", "),
  ]);
  return [
    "### Growth",
    "",
    "Milliseconds per step as one dimension grows and the others stay; p is the exponent of the best fit ms ∝ xᵖ.",
    "",
    markdownTable(["dimension", "p", "x: ms"], rows),
    "",
  ];
}

function profileSection(lines: readonly ResultLine[]): string[] {
  return lines
    .filter((l) => family(l.case) === "profile" && l.result.figures !== undefined)
    .flatMap((line) => {
      const figures = Object.entries(line.result.figures!);
      const total = figures.reduce((sum, [, ms]) => sum + ms, 0);
      const rows = figures
        .slice(0, 12)
        .map(([name, ms]) => [name.replace(/ ms$/, ""), showMs(ms), `${((100 * ms) / total).toFixed(0)} %`]);
      return [
        `### Where a step's time goes: ${contenderOf(line)}`,
        "",
        `\`${line.case.slice(8)}\`, each program run alone many times, summed by op: ` +
          `${showMs(total)} ms in all; the twelve largest.`,
        "",
        markdownTable(["op", "ms", "share"], rows),
        "",
      ];
    });
}

function rlSection(lines: readonly ResultLine[]): string[] {
  const found = lines.filter((l) => family(l.case) === "rl" && l.result.figures !== undefined);
  if (found.length === 0) return [];
  const names = Object.keys(found[0]!.result.figures!);
  const rows = found.map((l) => [contenderOf(l), ...names.map((name) => showMs(l.result.figures![name]!))]);
  return ["### The parts of an RL step", "", markdownTable(["", ...names], rows), ""];
}

/** @returns the exit code */
export async function writeReport({
  results = "bench/results.jsonl",
}: {
  readonly results: string | undefined;
}): Promise<number> {
  const machines = newest(readResults(results));
  if (machines.length === 0)
    throw new UsageError(`--report: there are no results in ${results}; run npm run bench first`);
  const { page, plots } = performancePage(machines);
  mkdirSync(PLOTS, { recursive: true });
  for (const [file, svg] of Object.entries(plots)) writeFileSync(`${PLOTS}/${file}`, svg);
  const { format, resolveConfig } = await import("prettier");
  const tidy = async (text: string): Promise<string> =>
    format(text, { ...(await resolveConfig("docs/performance.md")), parser: "markdown" });
  // Results of scripts that are run by hand.
  const byHand = ["dispatches", "pretrained"].map((name) => readFileSync(`bench/${name}.md`, "utf8"));
  writeFileSync("docs/performance.md", await tidy([page.trimEnd(), ...byHand].join("\n\n")));
  console.log(`wrote docs/performance.md and ${Object.keys(plots).length} plots in ${PLOTS}`);
  return 0;
}
