/**
 * `npm run stories`: reinforcement learning on stories260K, a pretrained model of 260 thousand parameters (A.
 * Karpathy's TinyStories models). The task is a story about a given word that ends and does not repeat itself
 * (stories/tell.ts); stories/arms.ts has the methods and the control.
 *
 * OUT/report.md has the tables of the finished runs.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { device as makeDevice } from "../engine/index.ts";
import { type Interval, mean, meanOver, pairedDifference } from "../run/figures/statistics.ts";
import { wholeNumber } from "../run/usage.ts";
import { parse, report } from "../run/node/flags.ts";
import { ARMS, CONTROL, runArm, type RunRecord, type Settings, SETTINGS, START } from "./stories/arms.ts";
import { heldOutTexts, startModel } from "./stories/tell.ts";

const HELP = `worldgrad: reinforcement learning on a pretrained model of 260 thousand parameters

  npm run stories -- [flags]

  --seeds LIST   whole numbers, separated by commas         (default 0,1,2,3,4)
  --quick        two steps of two groups of two: a trial run
  --out DIR      folder of report.md                        (default runs/stories)
  --help         this text
`;
const FLAGS = {
  seeds: { type: "string" },
  quick: { type: "boolean" },
  out: { type: "string" },
  help: { type: "boolean" },
} as const;
const QUICK: Settings = { steps: 2, groups: 2, groupSize: 2, times: 1 };
const NAMES = [START, ...Object.keys(ARMS)];

const digits = (x: number): string => x.toFixed(Math.abs(x) >= 10 ? 1 : 2).replace(/^-/, "−");
const signed = (x: number): string => (x > 0 ? "+" : "") + digits(x);
const cell = ({ value, low, high }: Interval, show: (x: number) => string = digits): string =>
  Number.isNaN(low) ? show(value) : `${show(value)} [${show(low)}, ${show(high)}]`;
const row = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [row(head), row(head.map((_, i) => (i === 0 ? "---" : "--:"))), ...rows.map(row)].join("\n");

/** The report in Markdown; intervals are 95 % bootstraps over seeds. */
export function reportOf(runs: readonly RunRecord[]): string {
  const { steps, groups, groupSize } = runs[0]!.settings;
  const seeds = [...new Set(runs.map(({ seed }) => seed))];
  const arms = NAMES.filter((name) => runs.some(({ arm }) => arm === name));
  const runOf = (arm: string, seed: number): RunRecord | undefined =>
    runs.find((run) => run.arm === arm && run.seed === seed);
  const valuesOf = (arm: string, value: (run: RunRecord) => number): string =>
    cell(meanOver(runs.filter((run) => run.arm === arm).map(value)));
  /** `arm` − `other` over their common seeds, and the number of seeds in which it is above 0. */
  const difference = (arm: string, other: string): string => {
    const pairs = seeds.flatMap((seed) => {
      const [a, b] = [runOf(arm, seed), runOf(other, seed)];
      return a && b ? [a.figures["reward"]! - b.figures["reward"]!] : [];
    });
    const found = pairedDifference([pairs]);
    return found === null || arm === other ? "" : `${cell(found, signed)}, ${found.higher} of ${found.seeds}`;
  };
  /** Mean reward of the episodes in training, in five stretches. */
  const bounds = Array.from({ length: 6 }, (_, i) => Math.round((i * steps) / 5));
  const stretches = bounds.slice(1).flatMap((to, i) => (to > bounds[i]! ? [[bounds[i]!, to] as const] : []));
  const trained = arms.filter((arm) => arm !== START);
  const first = arms.flatMap((arm) => runOf(arm, Math.min(...seeds)) ?? []);
  const samples = first[0]!.samples.map(({ task }, i) => {
    const texts = first.map(
      ({ arm, samples }) => `- ${arm}: ${samples[i]!.text.trim().replaceAll(/\s*\n\s*/g, " / ")}`,
    );
    return `*${task}*\n\n${texts.join("\n")}`;
  });
  const parts = [
    `${seeds.length} seeds, ${steps} steps of ${groups} × ${groupSize} episodes; mean [95 % bootstrap over seeds].`,
    table(
      ["after training", ...arms],
      Object.keys(runs[0]!.figures).map((name) => [name, ...arms.map((a) => valuesOf(a, (run) => run.figures[name]!))]),
    ),
    table(
      ["held-out reward", "against before", "against the control"],
      trained.map((arm) => [arm, difference(arm, START), difference(arm, CONTROL)]),
    ),
    table(
      ["reward in training", ...stretches.map(([from, to]) => `steps ${from + 1}–${to}`)],
      trained.map((arm) => [arm, ...stretches.map(([a, b]) => valuesOf(arm, ({ curve }) => mean(curve.slice(a, b))))]),
    ),
    ...samples,
  ];
  return `${parts.join("\n\n")}\n`;
}

async function main(args: readonly string[]): Promise<number> {
  const values = parse(args, FLAGS);
  if (values["help"]) {
    process.stdout.write(HELP);
    return 0;
  }
  const settings = values["quick"] ? QUICK : SETTINGS;
  const { seeds = "0,1,2,3,4", out = `runs/stories${values["quick"] ? "-quick" : ""}` } = values as Partial<
    Record<string, string>
  >;
  const device = await makeDevice("wasm");
  const start = startModel(device);
  const common = { device, start, texts: await heldOutTexts(start) };
  const runs: RunRecord[] = [];
  mkdirSync(out, { recursive: true });
  for (const seed of seeds.split(",").map((text) => wholeNumber("seeds", text, 0)))
    for (const arm of NAMES) {
      const run = await runArm(common, arm, seed, settings);
      runs.push(run);
      const shown = Object.entries(run.figures).map(([figure, value]) => `${figure} ${value.toFixed(3)}`);
      console.log(`seed ${seed}, ${arm}: ${shown.join(", ")} (${run.seconds.toFixed(0)} s)`);
      writeFileSync(join(out, "report.md"), reportOf(runs));
    }
  console.log(`\n${reportOf(runs)}\n${join(out, "report.md")}`);
  return 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    process.exitCode = await main(process.argv.slice(2));
  } catch (error) {
    process.exitCode = report(error);
  }
}
