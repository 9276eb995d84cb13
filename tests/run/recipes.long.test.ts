/**
 * One name for a paper's method with its data and rewards, and labels of a model, in the main job: warm start, 20 steps
 * of RL, evaluation, on WebAssembly, few steps on WebGPU; everything stays finite, and what the name promises happens.
 */
import { describe, expect, it } from "vitest";
import { gpuEnabled } from "../support/gpu.ts";
import { wasm, webgpu } from "../support/rlExecutors.ts";
import { smokePreset, smokeRun } from "../support/smokeRun.ts";

type Numbers = Readonly<Record<string, unknown>>;
const all = (steps: readonly Numbers[], name: string): number[] => steps.map((numbers) => Number(numbers[name]));

/** Pages with links, of which so small a model clicks a right one now and then. */
const WEB = ["--env", "web", "--set", "env.families=click", "--set", "sft.noviceShare=0.2"];

describe.each(gpuEnabled ? [wasm, webgpu] : [wasm])("on $name", { timeout: 600_000 }, (executor) => {
  it("dapo_full plays groups again that have no spread", async () => {
    const own = ["--env", "gridworld", "--method", "dapo_full", "--set", "dynamicSampling.exhausted=train"];
    const steps = await smokeRun(executor, smokePreset(...own));
    if (executor !== wasm) return; // too few steps for what happens now and then
    expect(Math.max(...all(steps, "dynamic_sampling/refills"))).toBeGreaterThan(0);
  });

  it("webrl_full remembers failed tasks and has groups to replay", async () => {
    const own = [...WEB, "--method", "webrl_full", "--set", "replay.minProbability=0.01"];
    const steps = await smokeRun(executor, smokePreset(...own));
    if (executor !== wasm) return; // too few steps for what happens now and then
    expect(Math.max(...all(steps, "curriculum/failed_tasks"))).toBeGreaterThan(0);
    expect(Math.max(...all(steps, "replay/groups"))).toBeGreaterThan(0);
  });

  it("starpo_s makes malformed actions cost", async () => {
    const steps = await smokeRun(executor, smokePreset("--env", "web", "--method", "starpo_s"));
    if (executor !== wasm) return; // too few steps for what happens now and then
    expect(Math.min(...all(steps, "rewards/malformed/mean"))).toBeLessThan(0);
  });

  it("vapo_full trains a critic", async () => {
    const own = [...WEB, "--method", "vapo_full", "--set", "critic.pretrain=5"];
    const steps = await smokeRun(executor, smokePreset(...own));
    if (executor !== wasm) return; // too few steps for what happens now and then
    // tests/methods/valuePretraining.test.ts holds that the first steps leave the policy alone.
    expect(Math.max(...all(steps, "value_loss"))).toBeGreaterThan(0);
  });

  it("inverse dynamics labels, then RL", async () => {
    const own = ["--env", "web", "--set", "env.families=enter", "--set", "sft.labelled=20"];
    await smokeRun(executor, smokePreset(...own));
  });
});
