/**
 * The main job without its display: tokenizer, demonstrations, model, learner, evaluation. `run.ts` drives it; studies over
 * seeds call the same functions.
 */
import type { Device } from "../engine/device.ts";
import { Rng } from "../engine/random.ts";
import { modelConfig } from "../nn/config.ts";
import { AdamW, schedule } from "../nn/optimizer.ts";
import { initParams, type TransformerParams } from "../nn/parameters.ts";
import { type Tokenizer, trainBpe } from "../nn/tokenizer.ts";
import type { Model } from "../nn/transformer.ts";
import type { ValueHead } from "../nn/valueHead.ts";
import { demonstrate, playScripted } from "../rl/demonstrations.ts";
import { trainRlAsync } from "../rl/async/train.ts";
import type { EnvironmentOptions, EnvironmentSpec } from "../rl/environments/environment.ts";
import { ENVIRONMENTS } from "../rl/environments/index.ts";
import { echo } from "../rl/echo.ts";
import { evaluate, type Evaluation, worldModelLoss } from "../rl/evaluate.ts";
import type { DataOptions } from "../rl/data/play.ts";
import { AdaptiveEntropy, AdaptiveKl } from "../rl/losses.ts";
import type { Objective } from "../rl/objective.ts";
import type { RolloutOptions } from "../rl/rollout.ts";
import type { Trajectory } from "../rl/stream.ts";
import { SPECIAL_TOKENS, Template } from "../rl/template.ts";
import { type RlOptions, type SftOptions, type StepReport, trainRl, trainSft } from "../rl/trainer.ts";
import { threadWorkers } from "./threads.ts";
import { dataFor, type Memory } from "./data.ts";
import { learnsWorld, objectiveFor } from "./methods.ts";
import { longestCompletion, type Preset, taskOptions } from "./presets.ts";
import { rewardOf } from "./rewards.ts";

/** Seeds of held-out tasks start here; training draws below 2^31. */
const HELD_OUT_SEEDS = 2 ** 40;

/**
 * Words without the space before them, single digits, runs of punctuation: a name is the same tokens wherever it stands (in a
 * question, in a path, at the start of an answer), so that copying it is copying.
 */
const PATTERN = "[A-Za-z]+|[0-9]|\\s|[^\\sA-Za-z0-9]+";

/** Small micro-batches of rows of like length: a third of the work would otherwise be padding. */
export const MAX_BATCH_TOKENS = 1200;

export interface HeldOutScore extends Evaluation {
  /** −lp per observation token, in nats, on fixed episodes of held-out tasks: half the expert's, half of random play. */
  readonly worldLoss: number;
}

export class Experiment {
  readonly preset: Preset;
  readonly env: EnvironmentSpec;
  readonly #train: EnvironmentOptions;
  readonly #heldOut: EnvironmentOptions;
  readonly #objective: Objective;
  readonly #data: ReturnType<typeof dataFor>;
  readonly #rng: Rng;
  readonly #heldOutEpisodes = new Map<Template, Promise<Trajectory[]>>();

  constructor(preset: Preset) {
    this.preset = preset;
    this.env = ENVIRONMENTS[preset.env]!;
    this.#train = taskOptions(preset, "train");
    this.#heldOut = taskOptions(preset, "heldout");
    this.#objective = objectiveFor(preset.rl, longestCompletion(preset));
    this.#data = dataFor(preset.data ?? {}, { env: this.env, envOptions: this.#train, seed: preset.seed });
    this.#rng = new Rng(preset.seed);
  }

  /** A byte-level BPE learnt from expert episodes of training tasks. */
  async trainTokenizer(): Promise<Tokenizer> {
    const { vocabSize, corpusEpisodes } = this.preset.tokenizer;
    const texts: string[] = [];
    const seeds = this.#rng.split("corpus");
    for (let i = 0; i < corpusEpisodes; i++) {
      const env = this.env.make(this.#train);
      texts.push(await env.reset(seeds.split(i).int(2 ** 31)));
      for (let done = false; !done;) {
        const action = this.env.expert(env);
        const result = await env.step(action);
        texts.push(action, result.observation);
        done = result.done;
      }
    }
    return trainBpe(texts, { vocabSize, specials: SPECIAL_TOKENS, pattern: PATTERN });
  }

  /** The limited set of episodes that the warm start sees: the expert's and, on a share of the tasks, a novice's. */
  async demonstrations(template: Template): Promise<Trajectory[]> {
    const { demonstrations, noviceShare } = this.preset.sft;
    const draw = this.#rng.split("demonstrations");
    const episodes: Trajectory[] = [];
    for (let i = 0; i < demonstrations; i++) {
      const rng = draw.split(i);
      const seed = rng.int(2 ** 31);
      const isNovice = rng.uniform() < noviceShare;
      const novice = (task: string): string => this.env.random(rng, task);
      episodes.push(
        await (isNovice
          ? this.#random(template, this.#train, seed, novice)
          : this.#expert(template, this.#train, seed)),
      );
    }
    return episodes.filter(({ stream }) => stream.ids.length <= this.preset.model.maxPositions);
  }

  #expert(template: Template, options: EnvironmentOptions, seed: number): Promise<Trajectory> {
    const { maxObservationTokens } = this.preset.rollout;
    return demonstrate(this.env, options, seed, template, { maxObservationTokens });
  }

  /** Two random actions, for which `play` may read the task. */
  #random(
    template: Template,
    options: EnvironmentOptions,
    seed: number,
    play: (task: string) => string,
  ): Promise<Trajectory> {
    const limits = { maxTurns: 2, maxObservationTokens: this.preset.rollout.maxObservationTokens };
    return playScripted(this.env, options, seed, template, (_env, _turn, task) => play(task), limits);
  }

  newModel(tokenizer: Tokenizer, device: Device): Model {
    // What ends an action is told, so that `generate` of `transformers` stops there, too.
    const { endId, padId } = new Template(tokenizer);
    const config = modelConfig({
      ...this.preset.model,
      vocabSize: tokenizer.vocabSize,
      family: "llama",
      eosIds: [endId],
      padId,
    });
    return { config, params: initParams(config, this.#rng.split("init"), device) };
  }

  sftOptimizer(model: Model): AdamW<TransformerParams> {
    return new AdamW(model.params, { betas: [0.9, 0.98], weightDecay: 0.05, clipNorm: 1 });
  }

  rlOptimizer(model: Model): AdamW<TransformerParams> {
    const { betas, clipNorm, weightDecay } = this.preset.rl;
    return new AdamW(model.params, { betas, clipNorm, weightDecay });
  }

  criticOptimizer(head: ValueHead): AdamW<ValueHead> {
    const { betas, clipNorm, weightDecay } = this.preset.rl;
    return new AdamW(head, { betas, clipNorm, weightDecay });
  }

  sft(
    options: Pick<SftOptions, "model" | "template" | "optimizer" | "demonstrations" | "startStep">,
  ): AsyncGenerator<StepReport> {
    const { steps, batchSize, lr, warmup, observationWeight, loss = "sft" } = this.preset.sft;
    const rate = schedule({ lr, warmup, decay: "cosine", steps, minRatio: 0.1 });
    return trainSft({
      ...options,
      observationWeight,
      loss,
      steps,
      batchSize,
      lr: rate,
      rng: this.#rng.split("sft"),
      maxBatchTokens: MAX_BATCH_TOKENS,
    });
  }

  /** `reference` and `critic`: what the method needs of them (companions.ts). */
  rl(
    options: Pick<RlOptions, "model" | "template" | "optimizer" | "startStep" | "reference" | "critic"> & {
      readonly signal?: AbortSignal;
    },
  ): AsyncGenerator<StepReport> {
    const { steps, groups, groupSize, lr, warmup, iterations = 1, gradEvery } = this.preset.rl;
    const { signal, ...rest } = options;
    const data = this.#dataOptions(options.template);
    const { temperature, ...sampling } = this.rolloutOptions();
    const run: RlOptions = {
      ...rest,
      ...data,
      iterations,
      ...(gradEvery === undefined ? {} : { gradEvery }),
      // A run that predicts nothing is compared with what ECHO would add to it, so that arms with and without can be laid side by side.
      ...(learnsWorld(this.preset.rl, this.#objective) ? {} : { gradWorld: echo({ lambda: 1 }) }),
      objective: this.objective(),
      env: this.env,
      envOptions: this.#train,
      groups,
      groupSize,
      steps,
      lr: schedule({ lr, warmup }),
      maxBatchTokens: MAX_BATCH_TOKENS,
      // A schedule takes the temperature's place.
      rollout: {
        ...sampling,
        ...(data.temperature ? {} : { temperature: temperature! }),
        ...(signal ? { signal } : {}),
      },
      rng: this.#rng.split("rl"),
    };
    const { async } = this.preset;
    return async ? trainRlAsync({ ...run, ...async, workers: threadWorkers(async.workers) }) : trainRl(run);
  }

  /** What is played, and what it is worth. */
  #dataOptions(template: Template): DataOptions {
    const { reward } = this.preset.rl;
    const { options } = this.#data;
    return reward ? { ...options, reward: rewardOf(reward, template, longestCompletion(this.preset)) } : options;
  }

  /** Parts of the run that remember earlier steps, under the names of their files in a checkpoint. */
  memories(): Readonly<Record<string, Memory>> {
    const { advantage, kl, entropy } = this.#objective;
    const beta = kl?.beta instanceof AdaptiveKl ? kl.beta : undefined;
    return {
      ...(beta ? { kl: { state: () => ({ beta: beta.beta }), restore: (saved) => beta.resume((saved as { beta: number }).beta) } } : {}), // prettier-ignore
      ...(entropy instanceof AdaptiveEntropy ? { entropy: { state: () => entropy.state(), restore: (saved) => entropy.restore(saved as ReturnType<AdaptiveEntropy["state"]>) } } : {}), // prettier-ignore
      ...(advantage.state ? { advantage: { state: () => advantage.state!(), restore: (saved) => advantage.restore!(saved) } } : {}), // prettier-ignore
      ...this.#data.memories,
    };
  }

  /** Always the same one: a KL coefficient that follows the KL is part of it. */
  objective(): Objective {
    return this.#objective;
  }

  rolloutOptions(): RolloutOptions {
    return { ...this.preset.rollout, maxTokens: this.preset.model.maxPositions };
  }

  /**
   * What a world model is judged by: answers to the expert's commands and, in turn, to random ones, most of which are mistakes.
   * The episodes are fixed, so that losses before and after compare; names in unread files cannot be predicted by anyone.
   */
  async #fixedEpisodes(template: Template): Promise<Trajectory[]> {
    const mixed: Trajectory[] = [];
    for (let i = 0; i < Math.ceil(this.preset.evaluation.finalEpisodes / 2); i++) {
      const rng = this.#rng.split("random play").split(i);
      mixed.push(await this.#expert(template, this.#heldOut, HELD_OUT_SEEDS + i));
      mixed.push(await this.#random(template, this.#heldOut, HELD_OUT_SEEDS + i, () => this.env.random(rng)));
    }
    return mixed.filter(({ stream }) => stream.ids.length <= this.preset.model.maxPositions);
  }

  /** Success on held-out tasks (the first `episodes` of a fixed list, sampled as in training), and the world-model loss there. */
  async evaluate(model: Model, template: Template, episodes: number, signal?: AbortSignal): Promise<HeldOutScore> {
    const seeds = Array.from({ length: episodes }, (_, i) => HELD_OUT_SEEDS + i);
    const options = { ...this.rolloutOptions(), ...(signal ? { signal } : {}) };
    const result = await evaluate(
      model,
      template,
      this.env,
      this.#heldOut,
      seeds,
      this.#rng.split("evaluation"),
      options,
    );
    let fixed = this.#heldOutEpisodes.get(template);
    if (fixed === undefined) this.#heldOutEpisodes.set(template, (fixed = this.#fixedEpisodes(template)));
    return { ...result, worldLoss: await worldModelLoss(model, template, (await fixed).slice(0, episodes)) };
  }
}
