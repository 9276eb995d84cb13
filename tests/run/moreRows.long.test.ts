/**
 * Rows of docs/rows.md in the main job, small: warm start, 20 steps of RL and evaluation of each on WebAssembly, few
 * steps on WebGPU; everything stays finite, and what the row is about is there to be read.
 */
import { describe, expect, it } from "vitest";
import { gpuEnabled } from "../support/gpu.ts";
import { wasm, webgpu } from "../support/rlExecutors.ts";
import { smokePreset, smokeRun } from "../support/smokeRun.ts";

/** The flags of each, and metrics that its steps of RL have. */
const CASES: readonly (readonly [flags: string, ...metrics: string[]])[] = [
  [
    "--env calculator --set env.negatives=0.5 --set sft.general=0.5 --set sft.generalTexts=shuffled",
    "tools/false_call_frequency",
  ],
  ["--env tools --reward toolrl --set env.levels=1-3", "rewards/toolrl/mean"],
  ["--env tools --reward orm --set orm.episodes=24 --set orm.steps=4 --set orm.batchSize=4", "rewards/agreement/mean"],
  ["--env tools --reward prm --set prm.episodes=12 --set prm.steps=4 --set prm.samples=2", "rewards/prm/mean"],
  ["--env tools --kl 0.2 --set kl.decay=0.9995", "kl_beta"],
  ["--env code --method coderl+echo --set outcomeCritic.episodes=9 --set outcomeCritic.steps=4", "rewards/critic/mean"],
];
/** A software adapter takes minutes for what WebAssembly does in seconds. */
const SMALLER: readonly string[] = ["--set", "rl.groupSize=2", "--set", "evaluation.finalEpisodes=3"];

describe.each(gpuEnabled ? [wasm, webgpu] : [wasm])("on $name", (executor) => {
  it.each(CASES)("%s", { timeout: 600_000 }, async (flags, ...metrics) => {
    const all = [...flags.split(" "), ...(executor === wasm ? [] : SMALLER)];
    const steps = await smokeRun(executor, smokePreset(...all));
    for (const metric of metrics) expect(steps.some((numbers) => metric in numbers)).toBe(true);
  });
});
