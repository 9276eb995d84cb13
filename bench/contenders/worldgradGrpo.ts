/**
 * The task "grpo" of `cases/task.ts`: GRPO with a reward that is a function of the completion, as in a script for TRL.
 */
import type { TaskOf } from "../cases/task.ts";
import { type Device, Rng } from "../../engine/index.ts";
import { initParams, modelConfig, type Model } from "../../nn/index.ts";
import type { StepReport } from "../../rl/index.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { promptSteps } from "../../run/fit/promptSteps.ts";
import type { Prepared } from "./engine.ts";

export function grpoTask(on: Device, task: TaskOf<"grpo">): Prepared {
  const { C, H, kvHeads, F, L, V } = task;
  const config = modelConfig({
    vocabSize: V,
    hiddenSize: C,
    layers: L,
    heads: H,
    kvHeads,
    intermediateSize: F,
  });
  const model: Model = { config, params: initParams(config, new Rng(0), on) };
  const steps = promptSteps(model, task);
  const rewards: number[] = [];
  const step = async (): Promise<StepReport> => {
    const { value } = await steps.next();
    const report = value as StepReport;
    rewards.push(report.metrics["reward"]!);
    return report;
  };
  const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;
  return {
    async check() {
      const { rows } = await step();
      const prompts = rows.map(({ trajectory }) => trajectory.stream.roles.indexOf("action"));
      const parameters = treeLeaves(model.params).reduce((total, x) => total + x.size, 0);
      return [rows.length, Math.max(...prompts), parameters];
    },
    run: async () => void (await step()),
    figures: () =>
      Promise.resolve({
        steps: rewards.length,
        "reward of the first 3 steps": mean(rewards.slice(0, 3)),
        "reward of the last 3 steps": mean(rewards.slice(-3)),
      }),
    dispose: () => undefined,
  };
}
