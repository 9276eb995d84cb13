/**
 * Reinforcement learning on prompts of random tokens, with a reward that is a function of the completion: a whole step,
 * to be measured (bench/) or counted (`rlStepMemory`). A token is a number, so that texts have the requested lengths.
 */
import { type Device, Rng } from "../../engine/index.ts";
import type { Environment, EnvironmentSpec } from "../../environments/index.ts";
import { MAX_BATCH_TOKENS } from "../experiment.ts";
import { AdamW, type Model, type ModelConfig, type Tokenizer, trainableOf } from "../../nn/index.ts";
import * as fit from "../../pretrained/fit.ts";
import { objectiveOf } from "../../methods/index.ts";
import { SPECIAL_TOKENS, Template, trainRl } from "../../rl/index.ts";
import { rowsAtOnce } from "../../rl/play/rollout.ts";
import { loraOptionsOf } from "../adapter.ts";
import { memoryLine, placeOn } from "../node/modelMemory.ts";
import type { Preset } from "../preset.ts";

/** Sizes of a step. */
export interface PromptTask {
  readonly groups: number;
  readonly groupSize: number;
  /** Tokens of a prompt and of a completion. */
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

/** An environment with one prompt and one completion; of the prompt's tokens the template adds three. */
function promptOnly(plainTokens: number, prompt: number): EnvironmentSpec {
  const task = (rng: Rng): string => Array.from({ length: prompt - 3 }, () => rng.int(plainTokens)).join(" ");
  const make = (): Environment => ({
    name: "prompt-only",
    reset: (seed) => Promise.resolve(task(new Rng(seed))),
    step: () => Promise.resolve({ observation: "", reward: 0, done: true, info: { success: false } }),
  });
  return { name: "prompt-only", description: "", families: [], make, random: () => "0" };
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
    env: promptOnly(vocabSize - SPECIAL_TOKENS.length, prompt),
    envOptions: {},
    groups,
    groupSize,
    reward: ({ stream }) => ({ reward: reward(stream.ids.filter((_, t) => stream.roles[t] === "action")), parts: {} }),
    // The cache has room for an episode, and not for all positions of a model.
    rollout: { maxActionTokens: completion, maxTurns: 1, maxTokens: prompt + completion + 1 },
    steps: 1_000_000,
    rng: new Rng(0),
    maxBatchTokens,
    gradientCheckpointing: task.gradientCheckpointing ?? false,
  });
}

/**
 * Memory of a step (playing, scores, gradient, update), run on an executor that only counts. Every token that it draws
 * is 0, so every episode has its full length; rewards are 0 and 1 by turns, so that each group has advantages.
 * @returns null if it does not fit into `limit`
 */
export async function rlStepMemory(
  config: ModelConfig,
  size: fit.Place & Omit<PromptTask, "reward" | "lr"> & { readonly trains: fit.Trains },
): Promise<fit.StepMemory | null> {
  try {
    const counted = fit.countedModel(config, size);
    let played = 0;
    await promptSteps(fit.trainedModel(counted.model, size.trains), { ...size, reward: () => played++ % 2 }).next();
    return counted.memory(counted.live());
  } catch (error) {
    return fit.doesNotFit(error);
  }
}

/**
 * The line that `npm start` prints before it loads a model from a folder; none on the reference executor. It counts a
 * step on episodes of the largest length: as many as are played at once, at least those of two micro-batches. Each
 * drawn token takes as much memory as the last, so 16 are drawn and the rest is a prompt.
 */
export async function runMemory(config: ModelConfig, preset: Preset, { kind }: Device): Promise<string | undefined> {
  if (kind === "reference") return undefined;
  const { rl, lora, pretrained: { storage = "f32" } = {}, model } = preset;
  const { maxBatchTokens = MAX_BATCH_TOKENS, gradientCheckpointing } = rl;
  const room = model.maxPositions;
  const completion = Math.min(16, Math.floor(room / 4));
  const needed = Math.max(rowsAtOnce(config, room, 4), 2 * Math.ceil(maxBatchTokens / room));
  const groupSize = Math.max(2, Math.min(needed, rl.groups * rl.groupSize));
  const trains = lora === undefined ? "all" : { lora: loraOptionsOf(lora) };
  const sizes = { groups: 1, groupSize, prompt: room - completion - 1, completion, maxBatchTokens };
  const step = { ...sizes, gradientCheckpointing, trains, storage, ...placeOn(kind) } as const;
  const trained = lora === undefined ? "all weights" : `an adapter on weights in ${storage}`;
  const what = `a step on episodes of up to ${room.toLocaleString("en")} tokens that trains ${trained}`;
  return memoryLine(config, kind, what, await rlStepMemory(config, step));
}
