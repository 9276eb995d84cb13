/** The memory of a whole step of reinforcement learning: playing, scores, gradient, update. */
import { check } from "../../engine/errors.ts";
import {
  checkSizes,
  countedModel,
  doesNotFit,
  type Place,
  type StepMemory,
  trainedModel,
  type Trains,
} from "../../pretrained/fit.ts";
import type { ModelConfig } from "../../nn/index.ts";
import { promptSteps, type PromptTask } from "./promptSteps.ts";

/** A step of reinforcement learning whose memory is counted. */
export interface RlStepSize extends Place, Omit<PromptTask, "reward" | "lr"> {
  readonly trains: Trains;
}

/**
 * The memory of a step, which is run on an executor that only counts. Every drawn token is 0 there, so every episode
 * has its full length; rewards are 0 and 1 by turns, so that each group of two or more has spread.
 * @returns null if it does not fit into `limit`
 */
export async function rlStepMemory(config: ModelConfig, size: RlStepSize): Promise<StepMemory | null> {
  const { groups, groupSize, prompt, completion, trains } = size;
  checkSizes("rlStepMemory", { groups, groupSize, prompt, completion });
  check(groupSize >= 2, () => `rlStepMemory: groupSize must be at least 2, got ${groupSize}`);
  try {
    const counted = countedModel(config, size);
    const model = trainedModel(counted.model, trains);
    let played = 0;
    const steps = promptSteps(model, { ...size, reward: () => played++ % 2 });
    await steps.next();
    return counted.memory(counted.live());
  } catch (error) {
    return doesNotFit(error);
  }
}
