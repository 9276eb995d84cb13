/**
 * The worlds with pages and with a screen in the main job, small: warm start, 20 steps of RL, evaluation, on
 * WebAssembly and on WebGPU; everything stays finite, and the policy is trained.
 */
import { describe, it } from "vitest";
import { gpuEnabled } from "../support/gpu.ts";
import { wasm, webgpu } from "../support/rlExecutors.ts";
import { smokePreset, smokeRun } from "../support/smokeRun.ts";

type Case = readonly [env: string, flag: string, value: string];
const CASES: readonly Case[] = [
  ["web", "--set", "env.levels=1-4"],
  ["screen", "--set", "env.levels=1-4"],
  ["screen", "--set", "env.coordinates=bins"],
];

const SHORT: readonly Case[] = [
  ["web", "--set", "rollout.maxTurns=2"],
  ["screen", "--set", "rollout.maxTurns=2"],
];

describe.each(gpuEnabled ? [wasm, webgpu] : [wasm])("on $name", (executor) => {
  // A software adapter takes minutes for whole episodes of an untrained model: it has each world once, with short ones.
  it.each(executor === wasm ? CASES : SHORT)("%s, %s %s", { timeout: 600_000 }, async (env, ...flags) => {
    await smokeRun(executor, smokePreset("--env", env, ...flags));
  });
});
