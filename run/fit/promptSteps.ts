/**
 * Reinforcement learning on prompts of random tokens, with a reward that is a function of the completion: a whole step,
 * to be measured (bench/) or counted (`rlStepMemory`). A token is a number, so that texts have the lengths that are
 * asked for.
 */
import { check } from "../../engine/errors.ts";
import { Rng } from "../../engine/index.ts";
import { type EnvironmentSpec, SingleUseEnvironment, type StepResult } from "../../environments/index.ts";
import { MAX_BATCH_TOKENS } from "../experiment.ts";
import { AdamW, type Model, type ModelConfig, type Tokenizer, trainableOf } from "../../nn/index.ts";
import * as fit from "../../pretrained/fit.ts";
import { objectiveOf } from "../../methods/index.ts";
import { SPECIAL_TOKENS, Template, trainRl } from "../../rl/index.ts";

/** Sizes of a step. */
export interface PromptTask {
  readonly groups: number;
  readonly groupSize: number;
  /** The numbers of tokens of a prompt and of a completion. */
  readonly prompt: number;
  readonly completion: number;
  readonly lr?: number;
  readonly maxBatchTokens?: number;
  readonly gradientCheckpointing?: boolean;
  /** The reward of a completion; by default the share of tokens in the lower half of the vocabulary. */
  readonly reward?: (ids: readonly number[]) => number;
}

/** A text is numbers with a space behind each; the last ids are the template's special tokens. */
function idTokenizer(vocabSize: number): Tokenizer {
  const decode = (ids: ArrayLike<number>): string => Array.from(ids, (id) => `${id} `).join("");
  return {
    vocabSize,
    special: Object.fromEntries(SPECIAL_TOKENS.map((name, i) => [name, vocabSize - SPECIAL_TOKENS.length + i])),
    encode: (text) => (text.match(/\d+/g) ?? []).map(Number),
    decode,
    decodeBytes: (ids) => new TextEncoder().encode(decode(ids)),
    toJSON: () => ({}),
  };
}

/** The number of tokens that the template adds: one opens the task, one ends it, one asks for the answer. */
const AROUND = 3;

/** One prompt, one completion. */
function promptOnly(vocabSize: number, prompt: number): EnvironmentSpec {
  class PromptOnly extends SingleUseEnvironment {
    readonly name = "prompt-only";
    protected begin(seed: number): string {
      const rng = new Rng(seed);
      return Array.from({ length: prompt - AROUND }, () => rng.int(vocabSize - SPECIAL_TOKENS.length)).join(" ");
    }
    protected act(): StepResult {
      return { observation: "", reward: 0, done: true, info: { success: false } };
    }
  }
  const description = "one prompt, one completion";
  const make = (): PromptOnly => new PromptOnly();
  return { name: "prompt-only", description, families: [], make, expert: () => "0", random: () => "0" };
}

/** The steps, one after the other, on the trained part of a model. */
export function promptSteps(model: Model, task: PromptTask): ReturnType<typeof trainRl> {
  const { vocabSize } = model.config;
  const { groups, groupSize, prompt, completion, lr = 1e-4, maxBatchTokens = MAX_BATCH_TOKENS } = task;
  const { reward = (ids) => ids.filter((id) => id < vocabSize / 2).length / ids.length } = task;
  return trainRl({
    model,
    template: new Template(idTokenizer(vocabSize)),
    optimizer: new AdamW(trainableOf(model).params, { clipNorm: 1, weightDecay: 0 }),
    lr: () => lr,
    objective: objectiveOf({ method: "grpo", maxLength: completion }),
    env: promptOnly(vocabSize, prompt),
    envOptions: {},
    groups,
    groupSize,
    reward: ({ stream }) => ({ reward: reward(stream.ids.filter((_, t) => stream.roles[t] === "action")), parts: {} }),
    // The cache has room for an episode, and not for all positions of a model.
    rollout: { maxActionTokens: completion, maxTurns: 1, maxTokens: prompt + completion + 1 },
    steps: 1_000_000,
    rng: new Rng(0),
    maxBatchTokens,
    ...(task.gradientCheckpointing === undefined ? {} : { gradientCheckpointing: task.gradientCheckpointing }),
  });
}

/**
 * Memory of a step: playing, scores, gradient, update. It is run on an executor that only counts. There every token
 * that is drawn is 0, so every episode has its full length; rewards are 0 and 1 by turns, so that there is something to
 * learn in each group of two or more.
 * @returns null if it does not fit into `limit`
 */
export async function rlStepMemory(
  config: ModelConfig,
  size: fit.Place & Omit<PromptTask, "reward" | "lr"> & { readonly trains: fit.Trains },
): Promise<fit.StepMemory | null> {
  const { groups, groupSize, prompt, completion, trains } = size;
  fit.checkSizes("rlStepMemory", { groups, groupSize, prompt, completion });
  check(groupSize >= 2, () => `rlStepMemory: groupSize must be at least 2, got ${groupSize}`);
  try {
    const counted = fit.countedModel(config, size);
    let played = 0;
    await promptSteps(fit.trainedModel(counted.model, trains), { ...size, reward: () => played++ % 2 }).next();
    return counted.memory(counted.live());
  } catch (error) {
    return fit.doesNotFit(error);
  }
}
