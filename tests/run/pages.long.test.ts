/**
 * The worlds with pages and with a screen in the main job, small: warm start, 20 steps of RL, evaluation, on
 * WebAssembly and on WebGPU; everything stays finite, and the policy is trained.
 */
import { describe, it } from "vitest";
import { screen } from "../../environments/screen/index.ts";
import { web } from "../../environments/web/index.ts";
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { gpuEnabled } from "../support/gpu.ts";
import { wasm, webgpu } from "../support/rlExecutors.ts";
import { smokePreset, smokeRun } from "../support/smokeRun.ts";

const all = ({ families }: EnvironmentSpec): string => `env.families=${families.map(({ name }) => name).join("+")}`;

const CASES = [
  ["web", all(web)],
  ["screen", all(screen)],
  ["screen", "env.coordinates=bins"],
] as const;

describe.each(gpuEnabled ? [wasm, webgpu] : [wasm])("on $name", (executor) => {
  it.each(CASES)("%s, %s", { timeout: 600_000 }, async (env, setting) => {
    await smokeRun(executor, smokePreset("--env", env, "--set", setting));
  });
});
