/**
 * Writes a checkpoint of random weights in bf16, loads it in a fresh process and prints how much its resident memory
 * grew at most, in MiB: in f32 and in 16 bits. `pretrained.test.ts` runs it; with a number, that many layers.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { device } from "../../../engine/device.ts";
import { configToHuggingFace, type WeightStorage } from "../../../pretrained/index.ts";
import { huggingFaceName, modelConfig } from "../../../nn/index.ts";
import { parameterShapes } from "../../../nn/parameters.ts";
import { type SafeTensorInput, writeSafetensors } from "../../../nn/safetensors.ts";
import { loadPretrained } from "../../../run/node/index.ts";

const MIB = 2 ** 20;

if (process.argv[2] === "--load") {
  const on = await device("wasm");
  const before = process.memoryUsage().rss;
  await loadPretrained(process.argv[3]!, on, { storage: process.argv[4] as WeightStorage });
  // maxRSS is in KiB, of the whole life of the process.
  console.log((process.resourceUsage().maxRSS * 1024 - before) / MIB);
  on.dispose();
} else {
  const config = modelConfig({
    vocabSize: 16384,
    hiddenSize: 512,
    intermediateSize: 2048,
    layers: Number(process.argv[2] ?? 4),
    heads: 8,
  });
  const shapes = parameterShapes(config).map(([path, shape]) => ({
    path,
    shape,
    size: shape.reduce((a, b) => a * b),
  }));
  const named = shapes.map(({ path, shape, size }): [string, SafeTensorInput] => [
    huggingFaceName(config, path),
    { dtype: "BF16", shape: [...shape], data: new Float32Array(size).fill(0.5) },
  ]);
  const folder = mkdtempSync(join(tmpdir(), "worldgrad-memory-"));
  try {
    writeFileSync(join(folder, "model.safetensors"), writeSafetensors(named));
    writeFileSync(join(folder, "config.json"), JSON.stringify(configToHuggingFace(config, "bfloat16")));
    const own = fileURLToPath(import.meta.url);
    const [peak, packed] = ["f32", "bf16"].map((storage) => {
      const args = ["--import", "tsx", own, "--load", folder, storage];
      const run = spawnSync(process.execPath, args, { encoding: "utf8" });
      if (run.status !== 0) throw new Error(run.stderr);
      return Number(run.stdout);
    });
    const sizes = shapes.map(({ size }) => (4 * size) / MIB);
    const weights = sizes.reduce((a, b) => a + b);
    console.log(JSON.stringify({ weights, largest: Math.max(...sizes), peak, packed }));
  } finally {
    rmSync(folder, { recursive: true });
  }
}
