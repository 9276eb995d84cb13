/**
 * The training loops. Each is a generator that does one step and reports it. The caller decides what to show, when to
 * evaluate, when to save and when to stop: `for await (const step of trainRl(options)) …`.
 *
 * All randomness of step n comes from `rng.split(n)`: a run that is resumed at step n continues on the same executor
 * bit for bit as if it had never stopped.
 */
import { check } from "../../engine/errors.ts";
import type { Rng } from "../../engine/index.ts";
import { checkKeys } from "../../engine/options.ts";
import { type Model, trainableOf } from "../../nn/index.ts";
import type { Trajectory } from "../episode/stream.ts";
import { withColumns } from "../methods/columns.ts";
import type { PolicyLoss } from "../methods/losses/policyLoss.ts";
import { dft } from "../methods/losses/supervised.ts";
import { NO_POLICY } from "../methods/losses/policyLoss.ts";
import {
  checkGroupSize,
  checkObjective,
  checkOffPolicy,
  checkPolicyLoss,
  type Objective,
} from "../methods/objective.ts";
import { checkVocabulary, rollout } from "../play/rollout.ts";
import { checkPlay, DATA_KEYS, finishStep, type PlayEpisodes, type PlayOptions, playPart } from "../tasks/play.ts";
import { checkPlugins } from "../tasks/plugin.ts";
import { RewardWatch } from "../tasks/scoring.ts";
import { checkHeadsOf, checkMemories, checkOptimizer, checkReference } from "./checks.ts";
import { beginWatch } from "./watch.ts";
import { type EpisodeSource, withBaseline } from "./episodes.ts";
import { checkGradEvery } from "./gradients.ts";
import { lossIn, type StepReport } from "./report.ts";
import { tokenStatistics } from "./score.ts";
import { checkEnv, checkHeads, checkModel, checkTrainer } from "./trainerChecks.ts";
import { optimizerStep, packingOf, type StepOptions, type TrainerOptions, trainStep } from "./step.ts";
import {
  imitationLoss,
  mixedRows,
  type MixturePart,
  preferenceMetrics,
  type PreferencePair,
  type PreferenceRowOptions,
  preferenceRows,
  SFT_ROWS,
  type SftRowOptions,
  sftRows,
} from "./supervised.ts";

/**
 * Options of `trainSft`: the demonstrations, of which `batchSize` are drawn in each step, with replacement, and the
 * steps from `startStep` (default 0) up to `steps`.
 */
export interface SftOptions extends TrainerOptions, SftRowOptions {
  /** Episodes to imitate, as `demonstrate` makes them. */
  readonly demonstrations: readonly Trajectory[];
  /**
   * Other texts, of which as many are drawn, and their weight in the loss, 1 − η of AgentTuning; the demonstrations
   * have η. Default: there are none.
   */
  readonly general?: MixturePart;
  /** Demonstrations in a step. */
  readonly batchSize: number;
  /** Up to which step it trains. */
  readonly steps: number;
  /** The first step, of a run that goes on. Default 0. */
  readonly startStep?: number;
  /** All randomness of step n comes from `rng.split(n)`. */
  readonly rng: Rng;
}

const TRAINER_KEYS = [
  "model",
  "template",
  "optimizer",
  "lr",
  "maxBatchTokens",
  "gradientCheckpointing",
  "steps",
  "startStep",
  "rng",
] as const;
const SFT_KEYS = [
  ...TRAINER_KEYS,
  "demonstrations",
  "general",
  "observationWeight",
  "loss",
  "imitate",
  "batchSize",
] as const;
const RL_KEYS = [
  ...TRAINER_KEYS,
  "objective",
  "env",
  "envOptions",
  "groups",
  "groupSize",
  "rollout",
  "iterations",
  "reference",
  "heads",
  "offPolicy",
  "gradEvery",
  "gradWorld",
  "gradShares",
  "warn",
  "mixedGroups",
  ...DATA_KEYS,
] as const;
const PREFERENCE_KEYS = [...TRAINER_KEYS, "pairs", "policyLoss", "reference", "batchSize", "imitation"] as const;

/** Supervised fine-tuning on demonstrations: −lp of the agent's tokens, a fresh random batch each step. */
export async function* trainSft(options: SftOptions): AsyncGenerator<StepReport, void, void> {
  checkKeys("trainSft", options, SFT_KEYS);
  checkTrainer("trainSft", options);
  const { model, optimizer, lr, demonstrations, batchSize, steps, startStep = 0, rng } = options;
  checkCount("trainSft", "batchSize", batchSize);
  check(demonstrations.length > 0, () => "trainSft: there are no demonstrations");
  const { observationWeight, loss, imitate, general } = options;
  const isWeight = general === undefined || (general.weight > 0 && general.weight < 1 && general.episodes.length > 0);
  check(isWeight, () => "trainSft: general needs texts and a weight between 0 and 1");
  const target = SFT_ROWS.read({ observationWeight, loss, imitate });
  const policyLoss = target.loss === "dft" ? dft() : NO_POLICY;
  const packing = packingOf(options);
  for (let step = startStep; step < steps; step++) {
    const draw = rng.split(step);
    const batch = Array.from({ length: batchSize }, () => draw.choice(demonstrations));
    const others = general ? Array.from({ length: batchSize }, () => draw.choice(general.episodes)) : [];
    const rows = general
      ? mixedRows(
          [
            { episodes: batch, weight: 1 - general.weight },
            { episodes: others, weight: general.weight },
          ],
          target,
        )
      : sftRows(batch, target);
    const result = await optimizerStep(
      model,
      optimizer,
      rows,
      { policyLoss },
      { ...packing, lr: lr(step), dropout: draw.split("dropout") },
    );
    const metrics = {
      loss: lossIn(result),
      ...(general ? { general_loss: imitationLoss(rows.slice(batchSize), result.logProbs.slice(batchSize)) } : {}),
      grad_norm: result.gradNorm,
      learning_rate: lr(step),
      step_tokens: tokensIn([...batch, ...others]),
    };
    yield { step, metrics, rows, scores: result };
  }
}

/**
 * Options of `trainPreference`: the pairs, of which `batchSize` are drawn in each step, with replacement, their loss,
 * and the steps from `startStep` (default 0) up to `steps`.
 */
export interface PreferenceOptions extends TrainerOptions, PreferenceRowOptions {
  /** Two answers to the same task each, of which one was preferred. */
  readonly pairs: readonly PreferencePair[];
  /** One of the pair losses: `dpo({ loss: "sigmoid" | "ipo" | "hinge" })`. */
  readonly policyLoss: PolicyLoss;
  /** The policy that the log-ratios refer to, frozen. Default for a model with an adapter: the model without it. */
  readonly reference?: Model;
  /** Pairs in a step. */
  readonly batchSize: number;
  /** Up to which step it trains. */
  readonly steps: number;
  /** The first step, of a run that goes on. Default 0. */
  readonly startStep?: number;
  /** All randomness of step n comes from `rng.split(n)`. */
  readonly rng: Rng;
}

/** Preference optimisation (DPO and its relatives): a fresh random batch of pairs each step. */
export async function* trainPreference(options: PreferenceOptions): AsyncGenerator<StepReport, void, void> {
  checkKeys("trainPreference", options, PREFERENCE_KEYS);
  checkTrainer("trainPreference", options);
  const { model, optimizer, lr, pairs, policyLoss, batchSize, steps, startStep = 0, rng } = options;
  const { reference = trainableOf(model).base } = options;
  check(pairs.length > 0, () => "trainPreference: there are no pairs");
  checkCount("trainPreference", "batchSize", batchSize);
  checkPolicyLoss("trainPreference", policyLoss);
  const isOverPairs = policyLoss.name.startsWith("dpo");
  check(isOverPairs, () => `trainPreference: "${policyLoss.name}" is no loss over pairs; use dpo()`);
  check(reference !== undefined, () => "trainPreference: needs a reference model");
  checkReference(model, reference);
  const packing = packingOf(options);
  for (let step = startStep; step < steps; step++) {
    const draw = rng.split(step);
    const batch = Array.from({ length: batchSize }, () => draw.choice(pairs));
    const unscored = preferenceRows(batch, { imitation: options.imitation });
    const trajectories = unscored.map((row) => row.trajectory);
    const { refLogProbs } = await tokenStatistics({ model, reference }, ["refLogProbs"], trajectories, packing);
    const rows = withColumns(unscored, { refLogProbs: refLogProbs! });
    const result = await optimizerStep(
      model,
      optimizer,
      rows,
      { policyLoss },
      { ...packing, lr: lr(step), dropout: draw.split("dropout") },
    );
    const metrics = {
      loss: lossIn(result),
      ...preferenceMetrics(rows, result.logProbs, policyLoss.beta ?? 1),
      grad_norm: result.gradNorm,
      learning_rate: lr(step),
      step_tokens: tokensIn(trajectories),
    };
    yield { step, metrics, rows, scores: result };
  }
}

/** What is played (`PlayOptions`), and how it is trained on. */
export interface RlOptions extends StepOptions, PlayOptions {
  readonly objective: Objective;
  /** Up to which step it trains: TRL's `max_steps`. */
  readonly steps: number;
  /** The first step, of a run that goes on. Default 0. */
  readonly startStep?: number;
  /** All randomness of step n comes from `rng.split(n)`. */
  readonly rng: Rng;
}

/** Reinforcement learning: what a step does is in step.ts. */
export async function* trainRl(options: RlOptions): AsyncGenerator<StepReport, void, void> {
  checkRl(options);
  const { model, template, rollout: sampling } = options;
  const playEpisodes: PlayEpisodes = (requests, how) => rollout(model, template, requests, how);
  yield* trainFrom(options, {
    async play(step) {
      // Every task is tried by a group of episodes.
      const part = await playPart(options, step);
      if (sampling.signal?.aborted) return null;
      const trajectories = await withBaseline(options, part, playEpisodes);
      // A baseline that was stopped is no baseline.
      return sampling.signal?.aborted ? null : finishStep(options, step, [{ ...part, trajectories }]);
    },
  });
}

/** @throws one clear line if the options do not fit together */
export function checkRl(options: RlOptions): void {
  checkKeys("trainRl", options, RL_KEYS);
  checkTrainer("trainRl", options);
  checkEnv("trainRl", options.env);
  if (options.reference !== undefined) checkModel("trainRl", "reference", options.reference);
  if (options.heads !== undefined) checkHeads("trainRl", options.heads);
  const { objective, iterations = 1, reference = trainableOf(options.model).base } = options;
  checkObjective(objective);
  check(objective.kl === undefined || reference !== undefined, () => "trainRl: a KL penalty needs a reference model");
  checkPlugins(options.plugins ?? [], options);
  checkHeadsOf(objective, options.heads);
  checkCount("trainRl", "iterations", iterations);
  checkOffPolicy(objective, options);
  checkGradEvery(options);
  checkPlay(options);
  checkGroupSize(objective.advantage, options.groupSize);
  checkOptimizer(options.optimizer, trainableOf(options.model).params);
  checkReference(options.model, options.reference);
  checkVocabulary(options.model, options.template, "trainRl");
}

/** The loop of `trainRl`, wherever the episodes come from. The options have been checked. */
export async function* trainFrom(options: RlOptions, source: EpisodeSource): AsyncGenerator<StepReport, void, void> {
  const { steps, startStep = 0 } = options;
  checkMemories(options.objective, options.optimizer, startStep === 0);
  if (startStep === 0) beginWatch(options.optimizer);
  const watch = options.reward ? new RewardWatch(options) : undefined;
  const watched: EpisodeSource = {
    async play(step) {
      const played = await source.play(step);
      if (played) watch?.see(played.trajectories, step);
      return played;
    },
  };
  for (let step = startStep; step < steps; step++) {
    const report = await trainStep(options, watched, step);
    if (report === null) return;
    yield source.updated ? await source.updated(report) : report;
  }
}

function checkCount(where: string, name: string, value: number): void {
  check(Number.isInteger(value) && value >= 1, () => `${where}: ${name} must be an integer ≥ 1, got ${value}`);
}

const tokensIn = (trajectories: readonly Trajectory[]): number =>
  trajectories.reduce((n, t) => n + t.stream.ids.length, 0);
