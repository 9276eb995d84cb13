/**
 * The main job without its display: tokenizer, demonstrations, model, learner, evaluation. `run.ts` drives it; studies
 * over seeds call the same functions.
 */
import { type Device, Rng, type Tree } from "../engine/index.ts";
import { fail } from "../engine/errors.ts";
import {
  AdamW,
  initParams,
  type Model,
  modelConfig,
  schedule,
  type Tokenizer,
  trainableOf,
  type ValueHead,
} from "../nn/index.ts";
import type { RolloutWorkers } from "../distribute/async/workers.ts";
import type { EnvironmentOptions, FactWorld } from "../environments/index.ts";
import { probesOf } from "./probes.ts";
import type { DataOptions } from "../rl/tasks/play.ts";
import {
  evaluate,
  type Evaluation,
  evaluationOf,
  meanWorldLoss,
  type WorldLoss,
  worldModelLosses,
} from "../rl/evaluate.ts";
import type { Objective } from "../rl/objective/objective.ts";
import { type CompletionOptions, completeSteps, type StepTries } from "../papers/completions.ts";
import { rollout, type RolloutOptions } from "../rl/play/rollout.ts";
import type { Reader } from "../methods/reader.ts";
import { answerLoss, worldLossExcess } from "./losses.ts";
import { longestRead, type Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import type { SelfPlayChoice } from "../papers/selfplay/options.ts";
import { type RlOptions, trainRl } from "../rl/train/loop.ts";
import { type SftOptions, trainSft } from "../methods/sft.ts";
import type { StepReport } from "../rl/train/report.ts";
import type { dataFor } from "./dataOptions.ts";
import { infoPlugin } from "./infoMetrics.ts";
import type { Memory } from "../distribute/worker/index.ts";
import { checkMeasured, playScripts } from "./failures.ts";
import { type EvaluateOptions, type HeldOutScore, passAtPowers, type PlayOptions } from "./heldOut.ts";
import type { PlayAhead } from "./runParts.ts";
import { learnsWorld, loadObjective } from "./objective.ts";
import { objectiveMemories } from "./savedState.ts";
import type { DataSettings, Preset } from "./preset.ts";
import type { KnownFact } from "./records.ts";
import { type FixedEpisode, HELD_OUT_SEEDS, rlNumbers, ScriptedPlayers } from "./scriptedPlayers.ts";
import { longestCompletion, templateFor } from "./template.ts";
import { isTrained } from "./trainedRewards.ts";
import { toolWeightsIn } from "./toolWeights.ts";
import { checkEnvironment, environmentOf, taskOptions } from "./worlds.ts";
import { isBaseline, type Baseline } from "./baselines.ts";

/** Micro-batches are small so that their rows have similar lengths; otherwise a third of the work would be padding. */
export const MAX_BATCH_TOKENS = 1200;

/** The part of a batch that is computed at a time. */
const memoryOf = ({
  rl: { maxBatchTokens = MAX_BATCH_TOKENS, gradientCheckpointing = false },
}: Pick<Preset, "rl">): Pick<RlOptions, "maxBatchTokens" | "gradientCheckpointing"> => ({
  maxBatchTokens,
  gradientCheckpointing,
});

/** The options of the loop for a run's data settings, and those of them with a memory. */
type RunData = ReturnType<typeof dataFor>;
const NO_DATA: RunData = { options: {}, memories: {}, buffer: undefined };

async function dataOf(preset: Preset, settings: DataSettings): Promise<RunData> {
  const { dataFor } = await import("./dataOptions.ts");
  return dataFor(settings, preset);
}

/** The parts of a run, made from its settings. */
export class Experiment {
  readonly preset: Preset;
  readonly env: FactWorld;
  readonly #train: EnvironmentOptions;
  readonly #heldOut: EnvironmentOptions;
  readonly #players: ScriptedPlayers;
  readonly #objective: Objective;
  readonly #data: RunData;
  readonly #rng: Rng;
  readonly #playAhead: PlayAhead | undefined;
  #workers: RolloutWorkers | undefined;
  readonly #fixed = new Map<Template, Promise<FixedEpisode[]>>();

  private constructor(preset: Preset, playAhead: PlayAhead | undefined, objective: Objective, data: RunData) {
    this.preset = preset;
    this.#playAhead = playAhead;
    this.env = environmentOf(preset);
    this.#train = taskOptions(preset, "train");
    this.#heldOut = taskOptions(preset, "heldout");
    this.#players = new ScriptedPlayers(preset);
    this.#objective = objective;
    this.#data = data;
    this.#rng = new Rng(preset.seed);
  }

  /**
   * The parts of a run with these settings. Parts that few runs have (methods, curricula, replay) are loaded only for
   * those.
   * @param playAhead needed if the settings ask for workers
   */
  static async of(preset: Preset, playAhead?: PlayAhead): Promise<Experiment> {
    await checkEnvironment(preset);
    const objective = await loadObjective(preset.rl, longestCompletion(preset));
    return new Experiment(preset, playAhead, objective, preset.data ? await dataOf(preset, preset.data) : NO_DATA);
  }

  trainTokenizer(signal?: AbortSignal): Promise<Tokenizer> {
    return this.#players.trainTokenizer(signal);
  }

  demonstrations(template: Template, signal?: AbortSignal): Promise<Trajectory[]> {
    return this.#players.demonstrations(template, signal);
  }

  longestLesson(template: Template, count: number): Promise<number> {
    return this.#players.longestLesson(template, count);
  }

  newModel(tokenizer: Tokenizer, device: Device): Model {
    // The configuration names the token that ends an action, so that `generate` of `transformers` stops there too.
    const { endId, padId } = templateFor(this.preset, tokenizer);
    const config = modelConfig({
      ...this.preset.model,
      vocabSize: tokenizer.vocabSize,
      family: "llama",
      eosIds: [endId],
      padId,
    });
    return { config, params: initParams(config, this.#rng.split("init"), device) };
  }

  /** The model that RL trains: the warm start, or an adapter on it. */
  async adapted(model: Model): Promise<Model> {
    const { lora } = this.preset;
    return lora ? (await import("./adapter.ts")).adapted(model, lora, this.#rng.split("lora")) : model;
  }

  /** @throws WorldgradError in one line if RL cannot train what the settings say */
  async checkAdapter(model: Model): Promise<void> {
    const { lora } = this.preset;
    if (lora) (await import("./adapter.ts")).checkAdapter(model, lora);
  }

  sftOptimizer(model: Model): AdamW<Tree> {
    return new AdamW(trainableOf(model).params, { betas: [0.9, 0.98], weightDecay: 0.05, clipNorm: 1 });
  }

  rlOptimizer(model: Model): AdamW<Tree> {
    const { betas, clipNorm, weightDecay } = this.preset.rl;
    return new AdamW(trainableOf(model).params, { betas, clipNorm, weightDecay });
  }

  headOptimizer(head: ValueHead): AdamW<ValueHead> {
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
      ...this.#players.imitated(),
      ...this.#players.general(options.template),
      steps,
      batchSize,
      lr: rate,
      rng: this.#rng.split("sft"),
      ...memoryOf(this.preset),
    });
  }

  /** The training of a baseline: as many steps as RL, with as many episodes in each, and RL's learning rate. */
  async *#imitate(
    method: Baseline,
    {
      signal,
      ...learner
    }: Pick<SftOptions, "model" | "template" | "optimizer" | "startStep"> & { signal?: AbortSignal | undefined },
  ): AsyncGenerator<StepReport> {
    if (method === "random") return;
    const { rl, sft } = this.preset;
    const { steps, groups, groupSize, lr, warmup, expertsOnly = false } = rl;
    const { observationWeight, loss = "sft" } = sft;
    const play = method === "expert" ? "lessons" : "demonstrations";
    const all = await this.#players[play](learner.template, signal);
    const demonstrations = all.filter((episode) => !expertsOnly || !this.#players.isNovice(episode));
    const loop = trainSft({
      ...learner,
      demonstrations,
      observationWeight,
      loss,
      ...this.#players.imitated(),
      ...this.#players.general(learner.template),
      steps,
      batchSize: groups * groupSize,
      lr: schedule({ lr, warmup }),
      rng: this.#rng.split("imitation"),
      ...memoryOf(this.preset),
    });
    for await (const report of loop) {
      yield report;
      if (signal?.aborted) return;
    }
  }

  /** The RL phase. `reference` and `heads` are there if the method needs them (trainingState.ts). */
  async *rl(
    options: Pick<RlOptions, "model" | "template" | "optimizer" | "startStep" | "reference" | "heads" | "warn"> & {
      readonly signal?: AbortSignal;
      readonly reader?: Reader | undefined;
    },
  ): AsyncGenerator<StepReport> {
    const { method, steps, groups, groupSize, lr, warmup, iterations = 1 } = this.preset.rl;
    const { truncatedReward, mixedGroups = false } = this.preset.rl;
    const { signal, reader, ...rest } = options;
    if (isBaseline(method)) {
      const { model, template, optimizer, startStep = 0 } = options;
      yield* this.#imitate(method, { model, template, optimizer, startStep, signal });
      return;
    }
    const data = await this.#dataOptions(options, reader);
    const { temperature, ...sampling } = this.rolloutOptions();
    const run: RlOptions = {
      ...rest,
      ...data,
      plugins: [...(data.plugins ?? []), infoPlugin],
      iterations,
      mixedGroups,
      truncatedReward,
      probes: probesOf(this.preset, learnsWorld(this.preset.rl, this.#objective)),
      objective: this.objective(),
      env: this.env,
      envOptions: this.#train,
      groups,
      groupSize,
      steps,
      lr: schedule({ lr, warmup }),
      ...memoryOf(this.preset),
      // A schedule replaces the temperature.
      rollout: {
        ...sampling,
        ...(data.temperature ? {} : { temperature: temperature! }),
        ...(signal ? { signal } : {}),
      },
      rng: rlNumbers(this.preset),
    };
    const weights = toolWeightsIn(this.preset.rl);
    if (weights === undefined) yield* this.#loop(run);
    else yield* (await import("./toolWeightedRun.ts")).weighedByTool(run, weights, (weighed) => this.#loop(weighed));
  }

  #loop(run: RlOptions): AsyncGenerator<StepReport> {
    const { async, data } = this.preset;
    if (data?.selfPlay) return this.#selfPlay(run, data.selfPlay);
    if (!async) return trainRl(run);
    return this.#ahead().train({ ...run, ...async, workers: this.#rolloutWorkers(async.workers) });
  }

  /** Loads self-play, whose code only runs that make their own tasks need. */
  async *#selfPlay(run: RlOptions, selfPlay: SelfPlayChoice): AsyncGenerator<StepReport> {
    const { trainSelfPlay } = await import("../papers/selfplay/train.ts");
    yield* trainSelfPlay({ ...run, selfPlay, buffer: this.#data.buffer! });
  }

  /** The workers of the run. They are made once, and start when training does. */
  #rolloutWorkers(workers: number | string): RolloutWorkers {
    return (this.#workers ??= this.#ahead().startWorkers(typeof workers === "number" ? workers : 1));
  }

  #ahead(): PlayAhead {
    return this.#playAhead ?? fail("this run has workers, but nothing was given that starts them");
  }

  /** The data options, with the rewards. Judges that ask a model ask the reference if there is one. */
  async #dataOptions(
    { template, model, reference = model }: Pick<RlOptions, "template" | "model" | "reference">,
    reader: Reader | undefined,
  ): Promise<DataOptions> {
    const { rl, seed, rewardFile } = this.preset;
    const { options } = this.#data;
    const isCriticised = this.#objective.tokenWeights?.name === "outcome_critic";
    if (!rl.reward && !isCriticised) return options;
    const { criticised, rewardOptionsOf } = await import("./rewards.ts");
    const maxLength = longestCompletion(this.preset);
    const context = { template, model: reference, reader, maxLength, seed, rewardFile };
    const rewards = rl.reward ? rewardOptionsOf(rl.reward, context) : {};
    if (!isCriticised) return { ...options, ...rewards };
    return { ...options, ...rewards, reward: criticised(rewards.reward, context, rl.outcomeCritic) };
  }

  /** The parts of the run that have a memory of earlier steps, under the names of their files in a checkpoint. */
  memories(): Readonly<Record<string, Memory>> {
    const { async } = this.preset;
    const workers =
      async && !isBaseline(this.preset.rl.method) ? this.#rolloutWorkers(async.workers).memory : undefined;
    return { ...objectiveMemories(this.#objective), ...this.#data.memories, ...(workers ? { workers } : {}) };
  }

  /** The objective of the run, always the same object, as it contains the adaptive KL coefficient. */
  objective(): Objective {
    return this.#objective;
  }

  rolloutOptions(): RolloutOptions {
    return { ...this.preset.rollout, maxTokens: this.preset.model.maxPositions };
  }

  /**
   * Evaluates on the first `episodes` of a fixed list of held-out tasks, sampled as in training: success and
   * world-model losses.
   * @returns null if the signal was aborted meanwhile, unless it rejects with the signal's reason
   */
  async evaluate(
    model: Model,
    template: Template,
    episodes: number,
    { signal, tries = 1, player = "model", reader }: EvaluateOptions = {},
  ): Promise<HeldOutScore | null> {
    const played = await this.play(model, template, episodes, { signal, tries, player });
    if (played === null) return null;
    const { first, all } = played;
    let fixed = this.#fixed.get(template);
    if (fixed === undefined) this.#fixed.set(template, (fixed = this.#players.fixedEpisodes(template, signal)));
    const judged = (await fixed).slice(0, episodes);
    const fixedEpisodes = judged.map(({ episode }) => episode);
    const readable = first.trajectories.filter(({ stream }) => longestRead(stream) <= this.preset.model.maxPositions);
    // The losses take as long as playing does; if the run is stopped meanwhile, they reject.
    const lossesOf = (episodes: readonly Trajectory[]): Promise<WorldLoss[] | null> =>
      worldModelLosses(model, template, episodes, { signal, ...this.#scoring() }).catch((error: unknown) => {
        if (signal?.aborted) return null;
        throw error;
      });
    const losses = await lossesOf(fixedEpisodes);
    const onPolicy = losses && (await lossesOf(readable));
    if (!losses || !onPolicy) return null;
    const excess = worldLossExcess(onPolicy, readable, this.preset.rollout.maxObservationTokens);
    const facts = player === "model" ? await this.#knowledge(model, template, signal) : undefined;
    if (signal?.aborted) return null;
    const { reward } = this.preset.rl;
    const chosen =
      tries > 1 && reader && isTrained(reward?.name)
        ? await (await import("./verification.ts")).verify(reward.name, reader, template, all, episodes)
        : undefined;
    const general = this.#players.heldOutGeneral(template);
    const generalLoss = general && (await answerLoss(model, template, general, this.#scoring()));
    return {
      ...first,
      worldLoss: meanWorldLoss(losses),
      worldLossRandom: meanWorldLoss(losses.filter((_, i) => judged[i]!.isRandom)),
      worldLossOnPolicy: meanWorldLoss(onPolicy),
      ...(excess === undefined ? {} : { worldLossExcess: excess }),
      ...(generalLoss === undefined ? {} : { generalLoss }),
      ...(tries === 1 ? {} : { passAt: passAtPowers(all, episodes, tries) }),
      ...(chosen === undefined ? {} : { chosen }),
      ...(facts === undefined ? {} : { facts }),
    };
  }

  /** What the model knows of its world; undefined if there is nothing to ask, or if the signal is aborted. */
  async #knowledge(model: Model, template: Template, signal?: AbortSignal): Promise<KnownFact[] | undefined> {
    if (this.env.facts === undefined) return undefined;
    const { knowledgeInRun } = await import("./knowledge.ts");
    return knowledgeInRun(this.preset, model, template, { signal, ...this.#scoring() }).catch((error: unknown) => {
      if (signal?.aborted) return undefined;
      throw error;
    });
  }

  /** Pretrained models compute in the micro-batches of their training, others in micro-batches of a fixed size. */
  #scoring(): { readonly maxTokens?: number } {
    const { pretrained, rl } = this.preset;
    const { maxBatchTokens = pretrained ? MAX_BATCH_TOKENS : undefined } = rl;
    return maxBatchTokens === undefined ? {} : { maxTokens: maxBatchTokens };
  }

  /** Episodes of the model on training tasks that RL does not play. */
  playTraining(
    model: Model,
    template: Template,
    count: number,
    { rng, signal }: Pick<RolloutOptions, "signal"> & { readonly rng: Rng },
  ): Promise<readonly Trajectory[]> {
    const requests = Array.from({ length: count }, (_, i) => {
      const draw = rng.split(i);
      return { spec: this.env, options: this.#train, seed: draw.int(2 ** 31), group: i, rng: draw.split("play") };
    });
    return rollout(model, template, requests, { ...this.rolloutOptions(), ...(signal ? { signal } : {}) });
  }

  /** The success rates of the model that plays on from each step of these episodes of `playTraining`. */
  completeTraining(
    model: Model,
    template: Template,
    episodes: readonly Trajectory[],
    { signal, ...how }: Pick<CompletionOptions, "samples" | "rng"> & Pick<RolloutOptions, "signal">,
  ): Promise<StepTries[][]> {
    const limits = { ...this.rolloutOptions(), ...(signal ? { signal } : {}) };
    const task = { spec: this.env, options: this.#train, rollout: limits };
    return completeSteps(model, template, episodes, { ...how, ...task });
  }

  /**
   * Plays the first `episodes` of a fixed list of tasks, sampled as in training.
   * @returns the evaluation of the first try of each, and the episodes of all tries, task after task in each; null if
   *   the signal was aborted meanwhile, unless it rejects with the signal's reason
   * @throws WorldgradError if fewer than half of them could be played
   */
  async play(
    model: Model,
    template: Template,
    episodes: number,
    { signal, tries = 1, player = "model", split = "heldout", temperature }: PlayOptions = {},
  ): Promise<{ readonly first: Evaluation; readonly all: readonly Trajectory[] } | null> {
    const tasks = Array.from({ length: episodes }, (_, i) => HELD_OUT_SEEDS + i);
    const seeds = repeated(tasks, tries);
    const options = split === "train" ? this.#train : this.#heldOut;
    const rng = this.#rng.split("evaluation");
    const ofModel = (): Promise<Evaluation> =>
      evaluate({
        model,
        template,
        env: this.env,
        envOptions: options,
        seeds,
        rng,
        warn: () => {}, // the run tells of them
        rollout: {
          ...this.rolloutOptions(),
          ...(temperature === undefined ? {} : { temperature }),
          ...(signal ? { signal } : {}),
        },
      });
    const play = (i: number): Promise<Trajectory> =>
      this.#players.randomEpisode(template, options, seeds[i]!, rng.split(i), signal);
    const atRandom = async (): Promise<Evaluation> =>
      evaluationOf(await playScripts(this.env, options, seeds.length, play, signal));
    const played = await (player === "model" ? ofModel() : atRandom());
    if (signal?.aborted) return null;
    checkMeasured(played.trajectories);
    // All numbers but pass@k come from the first try, as if there were no others.
    const first = tries === 1 ? played : evaluationOf(played.trajectories.slice(0, episodes));
    return { first, all: played.trajectories };
  }
}

/** The list, `times` times in a row. */
const repeated = <T>(values: readonly T[], times: number): T[] => Array.from({ length: times }, () => values).flat();
