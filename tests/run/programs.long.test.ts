/**
 * The worlds with programs in the main job, small: warm start, 20 steps of RL, evaluation, on WebAssembly and on
 * WebGPU, each with an outcome of its own; everything stays finite, and what failed is counted.
 */
import { describe, expect, it } from "vitest";
import { gpuEnabled } from "../support/gpu.ts";
import { wasm, webgpu } from "../support/rlExecutors.ts";
import { smokePreset, smokeRun } from "../support/smokeRun.ts";

const CASES = [
  ["code", "coderl", "coderl"],
  ["patch", "swerl", "swerl"],
  ["code", "ppocoder", "ppocoder"],
  ["code", "judges", "judge/verifier"],
  ["patch", "coderl", "coderl"],
] as const;

describe.each(gpuEnabled ? [wasm, webgpu] : [wasm])("on $name", (executor) => {
  it.each(CASES)("%s by %s", { timeout: 600_000 }, async (env, reward, part) => {
    const steps = await smokeRun(executor, smokePreset("--env", env, "--reward", reward));
    for (const numbers of steps) {
      expect(numbers["rewards/failed"]).toBe(0);
      expect(numbers).toHaveProperty([`rewards/${part}/mean`]);
    }
  });
});
