/**
 * GRPO with a reward that is a function of the completion, as a script for TRL would do it: the task "grpo" of
 * `cases/task.ts`. A token is a number, so that texts have the lengths that the task names.
 */
import type { TaskOf } from "../cases/task.ts";
import { type Device, Rng } from "../../engine/index.ts";
import { AdamW, initParams, modelConfig, type Model, type Tokenizer, trainableOf } from "../../nn/index.ts";
import { type EnvironmentSpec, SingleUseEnvironment, type StepResult } from "../../environments/index.ts";
import { objectiveOf, SPECIAL_TOKENS, type StepReport, Template, trainRl } from "../../rl/index.ts";
import { MAX_BATCH_TOKENS } from "../../job/experiment.ts";
import { treeLeaves } from "../../engine/tree.ts";
import type { Prepared } from "./engine.ts";

const numbersIn = (text: string): number[] => (text.match(/\d+/g) ?? []).map(Number);

/** A text is numbers with a space behind each; the last ids are the template's special tokens. */
function idTokenizer(vocabSize: number): Tokenizer {
  const encode = (text: string): number[] => numbersIn(text);
  const decode = (ids: ArrayLike<number>): string => Array.from(ids, (id) => `${id} `).join("");
  return {
    vocabSize,
    special: Object.fromEntries(SPECIAL_TOKENS.map((name, i) => [name, vocabSize - SPECIAL_TOKENS.length + i])),
    encode,
    decode,
    decodeBytes: (ids) => new TextEncoder().encode(decode(ids)),
    toJSON: () => ({}),
  };
}

/** One prompt, one completion. */
function promptOnly({ V, prompt }: TaskOf<"grpo">): EnvironmentSpec {
  // The template adds three tokens: one opens the task, one ends it, one asks for the answer.
  const length = prompt - 3;
  class PromptOnly extends SingleUseEnvironment {
    readonly name = "prompt-only";
    protected begin(seed: number): string {
      const rng = new Rng(seed);
      return Array.from({ length }, () => rng.int(V - SPECIAL_TOKENS.length)).join(" ");
    }
    protected act(): StepResult {
      return { observation: "", reward: 0, done: true, info: { success: false } };
    }
  }
  return {
    name: "prompt-only",
    description: "one prompt, one completion",
    families: [],
    make: () => new PromptOnly(),
    expert: () => "0",
    random: () => "0",
  };
}

/** The steps of the task with a model. */
export function grpoSteps(model: Model, task: TaskOf<"grpo">): ReturnType<typeof trainRl> {
  const { V, groups, groupSize, prompt, completion, lr } = task;
  return trainRl({
    model,
    template: new Template(idTokenizer(V)),
    optimizer: new AdamW(trainableOf(model).params, { clipNorm: 1, weightDecay: 0 }),
    lr: () => lr,
    objective: objectiveOf({ method: "grpo", maxLength: completion }),
    env: promptOnly(task),
    envOptions: {},
    groups,
    groupSize,
    reward: ({ stream }) => {
      const ids = stream.ids.filter((_, t) => stream.roles[t] === "action");
      return { reward: ids.filter((id) => id < V / 2).length / ids.length, parts: {} };
    },
    // The cache has room for an episode, and not for all positions of a model.
    rollout: { maxActionTokens: completion, maxTurns: 1, maxTokens: prompt + completion + 1 },
    steps: 1_000_000,
    rng: new Rng(0),
    maxBatchTokens: MAX_BATCH_TOKENS,
  });
}

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
  const steps = grpoSteps(model, task);
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
