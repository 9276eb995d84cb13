/** Small runs in the toy world, for tests of the training loops: GRPO + ECHO, and any objective. */
import type { Device } from "../../engine/device.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { Rng } from "../../engine/random.ts";
import { addLora, type LoraModel } from "../../pretrained/lora.ts";
import { AdamW, schedule } from "../../nn/optimizer.ts";
import { type PackedFormat, packModel } from "../../pretrained/packed/matrix.ts";
import { type Model, trainableOf } from "../../nn/transformer.ts";
import { initValueHead } from "../../nn/valueHead.ts";
import { grpo } from "../../rl/objective/grpo.ts";
import { echo } from "../../rl/objective/echo.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import type { RlOptions } from "../../rl/train/loop.ts";
import type { StepReport } from "../../rl/train/report.ts";
import { readAll } from "./rlExecutors.ts";
import { endingModel, letters, toySpec, toyTemplate } from "./rlToy.ts";

export const toyObjective: Objective = {
  advantage: grpo(),
  policyLoss: ppoClip(),
  aggregation: "token-mean",
  world: echo(),
};

export function toyRlOptions(model: Model, overrides: Partial<RlOptions> = {}): RlOptions {
  return {
    model,
    template: toyTemplate,
    optimizer: new AdamW(trainableOf(model).params, { clipNorm: 1 }),
    lr: schedule({ lr: 0.01, warmup: 2 }),
    objective: toyObjective,
    env: toySpec(letters(2)),
    envOptions: {},
    groups: 2,
    groupSize: 3,
    rollout: { maxActionTokens: 5, maxTurns: 3 },
    steps: 3,
    rng: new Rng(5),
    maxBatchTokens: 40,
    ...overrides,
  };
}

/** Options of a run with any objective: there is a reference model and a critic, whether it asks for them or not. */
export function fullRlOptions(model: Model, objective: Objective, overrides: Partial<RlOptions> = {}): RlOptions {
  const { device } = model.params.embedding;
  const head = initValueHead(model.config, device);
  const { maxBatchTokens: _, ...plain } = toyRlOptions(model, { objective, steps: 2, lr: () => 0.01 });
  const reference = endingModel(device);
  return { ...plain, reference, heads: { value: { head, optimizer: new AdamW(head) } }, ...overrides };
}

/** The toy world's model in fewer bits, with an adapter, which alone is trained. */
export const packedAdapter = async (device: Device, format: PackedFormat): Promise<LoraModel> =>
  addLora(
    await packModel(endingModel(device), format),
    { r: 2, loraAlpha: 8, targetModules: "all-linear" },
    new Rng(1),
  );

/** Every report of a training loop. */
export async function reportsOf(steps: AsyncGenerator<StepReport, void, void>): Promise<StepReport[]> {
  const reports: StepReport[] = [];
  for await (const report of steps) reports.push(report);
  return reports;
}

export const paramsOf = (model: Model): Promise<number[][]> => readAll(treeLeaves(model.params));
