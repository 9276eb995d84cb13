/**
 * `npm run soak -- [--device wasm|webgpu] [--steps N]`: trains a tiny model for 10,000 steps of RL and prints the
 * memory that the process holds meanwhile, and the slope of each measure. The exit code is 1 if a measure has grown.
 * `npx tsx scripts/with-adapter.ts npm run soak -- --device webgpu` takes the adapter of the tests.
 */
import process from "node:process";
import { parseArgs } from "node:util";
import { device as makeDevice } from "../engine/device.ts";
import { gpuOptions } from "../tests/support/gpu.ts";
import { growth, MEASURES, type Sample, slopeOf, soak } from "./soak/soak.ts";

const { values } = parseArgs({
  options: { device: { type: "string", default: "wasm" }, steps: { type: "string", default: "10000" } },
});
const steps = Number(values.steps);
const isKnown = values.device === "wasm" || values.device === "webgpu";
if (!isKnown || !Number.isInteger(steps) || steps < 100)
  throw new Error("soak: expected --device wasm or webgpu, and --steps N of at least 100");

/** Number as text: in megabytes, except for open files. */
const scaled = (name: string, n: number): string => (name === "open files" ? n.toFixed(2) : (n / 1e6).toFixed(3));
const cells = (sample: Sample): string[] => [
  String(sample.step),
  ...Object.entries(MEASURES).map(([name, of]) => scaled(name, of(sample))),
];
const device = await makeDevice(values.device as "wasm" | "webgpu", { webgpu: gpuOptions });
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
process.exit(grown.length === 0 ? 0 : 1);
