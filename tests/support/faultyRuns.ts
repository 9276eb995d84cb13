/**
 * Runs that are broken on purpose: a tiny experiment (a transformer of a few thousand parameters, a game of two turns)
 * that really warm-starts, plays and learns in seconds and writes a run folder, with one fault planted. What is planted
 * is data or one function that a user could have written wrong; the code under it is the library's.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { createRun, type RunFolder } from "../../run/node/runFolder.ts";
import { describeEpisodes, pickEpisodes } from "../../run/transcripts.ts";
import type { Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { modelConfig } from "../../nn/config.ts";
import { AdamW, schedule } from "../../nn/optimizer.ts";
import { initParams } from "../../nn/parameters.ts";
import { byteTokenizer, type Tokenizer } from "../../nn/tokenizer.ts";
import type { Model } from "../../nn/transformer.ts";
import type { AdvantageEstimator } from "../../rl/objective/estimator.ts";
import { grpo } from "../../rl/objective/grpo.ts";
import { ReplayBuffer, type ReplayOptions } from "../../data/replay.ts";
import { demonstrate } from "../../data/demonstrations.ts";
import { type EnvironmentSpec, SingleUseEnvironment, type StepResult } from "../../rl/environment.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import type { RolloutOptions } from "../../rl/play/rollout.ts";
import type { TokenStream } from "../../rl/episode/stream.ts";
import { SPECIAL_TOKENS, Template } from "../../rl/episode/template.ts";
import { trainRl } from "../../rl/train/loop.ts";
import { trainSft } from "../../methods/sft.ts";

/** What an environment pays for the letters that were said in an episode, and what it answers to one. */
export interface Rules {
  readonly turns?: number;
  /** The reward of an episode; `right` are the letters that were asked for. */
  readonly reward?: (said: readonly string[], right: readonly string[]) => number;
  readonly answer?: (said: string, next: string) => string;
  readonly expert?: (right: string) => string;
}

/** What is wrong with a run; nothing: a healthy one. */
export interface Fault extends Rules {
  readonly warmStart?: number;
  readonly steps?: number;
  readonly lr?: number;
  readonly rollout?: RolloutOptions;
  /** KL penalty towards the warm start. */
  readonly beta?: number;
  readonly aggregation?: Objective["aggregation"];
  readonly advantage?: AdvantageEstimator;
  /** Earlier groups beside the new ones. */
  readonly replay?: ReplayOptions;
  /** Passes over each batch. */
  readonly iterations?: number;
  /** What happens to the stream of an episode of RL each time that the world has answered. */
  readonly tamper?: (stream: TokenStream) => unknown;
}

const isRight = (said: readonly string[], right: readonly string[]): boolean => said.every((s, i) => s === right[i]);

/** The game: say the letter of the task, then the letter that the world answers. */
function game({ turns = 2, reward, answer, expert }: Rules): EnvironmentSpec {
  class Relay extends SingleUseEnvironment {
    readonly name = "relay";
    readonly said: string[] = [];
    right: readonly string[] = [];
    protected begin(seed: number): string {
      const rng = new Rng(seed);
      this.right = Array.from({ length: turns }, () => rng.choice(["a", "b", "c", "d"]));
      return this.right[0]!;
    }
    protected act(action: string): StepResult {
      this.said.push(action);
      const done = this.said.length === turns;
      const success = done && isRight(this.said, this.right);
      const pay = reward ?? ((): number => this.said.filter((s, i) => s === this.right[i]).length / turns);
      const next = this.right[this.said.length] ?? "";
      const observation = answer ? answer(action, next) : next;
      return { observation, reward: done ? pay(this.said, this.right) : 0, done, info: { success } };
    }
  }
  return {
    name: "relay",
    description: "say the letter that you read",
    families: [],
    make: () => new Relay(),
    expert: (env) => {
      const right = env instanceof Relay ? env.right[env.said.length]! : "";
      return expert ? expert(right) : right;
    },
    random: (rng) => rng.choice(["a", "b", "c", "d"]),
  };
}

/** A template under which something happens to the stream each time that the world has answered. */
class TamperedTemplate extends Template {
  readonly #tamper: (stream: TokenStream) => unknown;
  constructor(tokenizer: Tokenizer, tamper: (stream: TokenStream) => unknown) {
    super(tokenizer);
    this.#tamper = tamper;
  }
  override appendObservation(...args: Parameters<Template["appendObservation"]>): void {
    super.appendObservation(...args);
    this.#tamper(args[0]);
  }
}

/** Runs the experiment in `folder`/`name`, anew, and returns the folder that it wrote. */
export async function faultyRun(device: Device, folder: string, name: string, fault: Fault = {}): Promise<RunFolder> {
  const { warmStart = 60, steps = 24, lr = 3e-3, beta, advantage = grpo(), aggregation = "token-mean" } = fault;
  const rolloutOptions: RolloutOptions = { maxTurns: 4, maxActionTokens: 4, maxTokens: 64, ...fault.rollout };
  const path = join(folder, name);
  rmSync(path, { recursive: true, force: true });
  const run = createRun(path, { preset: { rl: { lr }, rollout: { temperature: rolloutOptions.temperature ?? 1 } } });
  const rng = new Rng(7);
  const template = new Template(byteTokenizer({ specials: SPECIAL_TOKENS }));
  const config = modelConfig({
    vocabSize: template.tokenizer.vocabSize,
    hiddenSize: 16,
    layers: 2,
    heads: 2,
    maxPositions: 64,
    initializerRange: 0.25,
  });
  const model: Model = { config, params: initParams(config, rng.split("init"), device) };
  const reference: Model = { config, params: initParams(config, rng.split("init"), device) };
  const env = game(fault);
  const optimizerOf = (m: Model): AdamW<Model["params"]> => new AdamW(m.params, { clipNorm: 1 });
  const demonstrations = await Promise.all([...Array(24).keys()].map((seed) => demonstrate(env, {}, seed, template)));
  // Both models learn the same, bit for bit: the reference is what RL starts from.
  for (const m of beta === undefined ? [model] : [model, reference]) {
    const optimizer = optimizerOf(m);
    const options = {
      model: m,
      template,
      optimizer,
      lr: schedule({ lr: 1e-2 }),
      demonstrations,
      batchSize: 8,
      steps: warmStart,
      rng: rng.split("sft"),
    };
    for await (const { step, metrics } of trainSft(options)) {
      if (m === model) run.appendMetrics({ step, phase: "sft", ...metrics });
    }
    optimizer.dispose();
  }
  const objective: Objective = {
    advantage,
    policyLoss: ppoClip(),
    aggregation,
    ...(beta === undefined ? {} : { kl: { beta, estimator: "k3" } }),
  };
  const optimizer = optimizerOf(model);
  const played = fault.tamper ? new TamperedTemplate(template.tokenizer, fault.tamper) : template;
  const options = {
    model,
    template: played,
    optimizer,
    reference,
    objective,
    env,
    envOptions: {},
    groups: 6,
    groupSize: 8,
    steps,
    rollout: rolloutOptions,
    lr: schedule({ lr }),
    rng: rng.split("rl"),
    iterations: fault.iterations ?? 1,
  };
  for await (const report of trainRl(
    fault.replay ? { ...options, plugins: [new ReplayBuffer(fault.replay)] } : options,
  )) {
    const step = warmStart + report.step;
    run.appendMetrics({ step, phase: "rl", ...report.metrics });
    const chosen = pickEpisodes(report.rows);
    for (const record of await describeEpisodes(model, template, chosen, "rl", step)) run.appendTranscript(record);
  }
  optimizer.dispose();
  for (const m of [model, reference]) for (const x of treeLeaves(m.params)) x.dispose();
  return run;
}
