/**
 * `npm run soak`: trains a tiny model and prints the memory that the process holds meanwhile, and the slope of each
 * measure. `npx tsx scripts/with-adapter.ts npm run soak -- --device webgpu` takes the adapter of the tests.
 */
import process from "node:process";
import { device as makeDevice } from "../engine/device.ts";
import { parse, report } from "../run/node/flags.ts";
import { UsageError } from "../run/usage.ts";
import { gpuOptions } from "../tests/support/gpu.ts";
import { growth, MEASURES, type Sample, slopeOf, soak } from "./soak/soak.ts";

const HELP = `npm run soak -- [flags]: trains a tiny model by RL; exit code 1 if a measure of its memory has grown

  --device NAME  wasm | webgpu      (default wasm)
  --steps N      100 or more        (default 10000)
`;
const FLAGS = { device: { type: "string" }, steps: { type: "string" }, help: { type: "boolean" } } as const;

/** Number as text: in megabytes, except for open files. */
const scaled = (name: string, n: number): string => (name === "open files" ? n.toFixed(2) : (n / 1e6).toFixed(3));
const cells = (sample: Sample): string[] => [
  String(sample.step),
  ...Object.entries(MEASURES).map(([name, of]) => scaled(name, of(sample))),
];
async function main(): Promise<number> {
  const { device: chosen = "wasm", steps: count = "10000", help } = parse(process.argv.slice(2), FLAGS);
  if (help) {
    process.stdout.write(HELP);
    return 0;
  }
  const steps = Number(count);
  if (chosen !== "wasm" && chosen !== "webgpu")
    throw new UsageError(`--device: expected wasm or webgpu, got "${String(chosen)}"`);
  if (!Number.isSafeInteger(steps) || steps < 100)
    throw new UsageError(`--steps: expected a whole number of at least 100, got "${String(count)}"`);
  const device = await makeDevice(chosen, { webgpu: gpuOptions });
  console.log(`${device.description}\n`);
  console.log(`| Step | ${Object.keys(MEASURES).join(" | ")} |`);
  console.log(`|${" --- |".repeat(1 + Object.keys(MEASURES).length)}`);
  const result = await soak(device, steps, (sample) => {
    if (sample.step % Math.ceil(steps / 10) === 0) console.log(`| ${cells(sample).join(" | ")} |`);
  });
  console.log("\nGrowth in 1,000 steps, after the first third (MB; files), ± two standard errors:");
  for (const [name, of] of Object.entries(MEASURES)) {
    const { perThousand, standardError } = slopeOf(result, of);
    const refuted = perThousand > 2 * standardError ? ": not constant" : "";
    console.log(`  ${name}: ${scaled(name, perThousand)} ± ${scaled(name, 2 * standardError)}${refuted}`);
  }
  const grown = growth(result);
  console.log(`\n${steps} steps in ${result.seconds.toFixed(0)} s; ${grown.length === 0 ? "nothing grew" : "grown:"}`);
  for (const line of grown) console.error(line);
  return grown.length === 0 ? 0 : 1;
}

process.exit(await main().catch(report));
