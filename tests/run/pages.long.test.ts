/**
 * The worlds with pages and with a screen in the main job, small: warm start, 20 steps of RL, evaluation, on
 * WebAssembly and on WebGPU; everything stays finite, and the policy is trained.
 */
import { describe, it } from "vitest";
import { gpuEnabled } from "../support/gpu.ts";
import { wasm, webgpu } from "../support/rlExecutors.ts";
import { smokePreset, smokeRun } from "../support/smokeRun.ts";

const CASES = [
  ["web", "env.levels=1-4"],
  ["screen", "env.levels=1-4"],
  ["screen", "env.coordinates=bins"],
] as const;

describe.each(gpuEnabled ? [wasm, webgpu] : [wasm])("on $name", (executor) => {
  it.each(CASES)("%s, %s", { timeout: 600_000 }, async (env, setting) => {
    await smokeRun(executor, smokePreset("--env", env, "--set", setting));
  });
});
