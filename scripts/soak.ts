/**
 * `npm run soak -- [--device wasm|webgpu] [--steps N]`: trains a tiny model for 10,000 steps of RL and prints what the
 * process held meanwhile. Ends with 1 if that has grown. `npx tsx scripts/with-adapter.ts npm run soak -- --device
 * webgpu` takes the adapter of the tests.
 */
import process from "node:process";
import { parseArgs } from "node:util";
import { device as makeDevice } from "../engine/device.ts";
import { gpuOptions } from "../tests/support/gpu.ts";
import { growth, type Sample, soak } from "./soak/soak.ts";

const { values } = parseArgs({
  options: { device: { type: "string", default: "wasm" }, steps: { type: "string", default: "10000" } },
});
const steps = Number(values.steps);
const isKnown = values.device === "wasm" || values.device === "webgpu";
if (!isKnown || !Number.isInteger(steps) || steps < 100)
  throw new Error("soak: expected --device wasm or webgpu, and --steps N of at least 100");

const cells = ({ step, rss, heap, buffers, held }: Sample): string[] => [
  String(step),
  ...[rss, heap, buffers, held["liveBytes"]!, held["reservedBytes"]!].map((bytes) => (bytes / 1e6).toFixed(2)),
];
const device = await makeDevice(values.device as "wasm" | "webgpu", { webgpu: gpuOptions });
console.log(`${device.description}\n`);
console.log("| Step | rss | heap | array buffers | engine's live | engine's reserved (MB) |");
console.log("| --- | --- | --- | --- | --- | --- |");
const result = await soak(device, steps, (sample) => {
  if (sample.step % Math.ceil(steps / 10) === 0) console.log(`| ${cells(sample).join(" | ")} |`);
});
const grown = growth(result);
console.log(`\n${steps} steps in ${result.seconds.toFixed(0)} s; ${grown.length === 0 ? "nothing grew" : "grown:"}`);
for (const line of grown) console.error(line);
process.exit(grown.length === 0 ? 0 : 1);
