/**
 * The training loops. Each is a generator that does one step and reports it, so whoever drives it decides what to show, when to
 * evaluate, when to save and when to stop: `for await (const step of trainRl(options)) …`.
 *
 * All randomness of step n comes from `rng.split(n)`: a run that is resumed at step n continues bitwise as if it had never
 * stopped, on the same executor.
 */
import { check } from "../../engine/errors.ts";
import { checkKeys } from "../../engine/options.ts";
import type { Rng } from "../../engine/index.ts";
import { batchOf, reportOf } from "./batch.ts";
import { checkPlay, DATA_KEYS, finishStep, type PlayedStep, type PlayEpisodes, type PlayOptions, playPart, rewarded } from "../tasks/play.ts"; // prettier-ignore
import { learn, type LearnOptions, type Learner, type StepReport } from "./step.ts";
import { update } from "./loss.ts";
import { checkGradEvery } from "./gradients.ts";
import { dft, type PolicyLoss } from "../methods/losses/index.ts";
import { NO_POLICY } from "../methods/losses/policyLoss.ts";
import { preferenceMetrics } from "./metrics.ts";
import { checkObjective, checkOffPolicy } from "../methods/objective.ts";
import {
  planPreference,
  planSft,
  type PreferencePair,
  type PreferencePlanOptions,
  type SftPlanOptions,
} from "./supervised.ts";
import { checkPredictions, predictAnswers, type Predictions } from "../tasks/predictions.ts";
import { rollout } from "../play/rollout.ts";
import { collectSignals } from "./scores.ts";
import type { Trajectory } from "../episode/stream.ts";
import type { Model } from "../../nn/index.ts";

export type { LearnOptions, Learner, StepReport } from "./step.ts";

export interface SftOptions extends Learner, SftPlanOptions {
  readonly demonstrations: readonly Trajectory[];
  readonly batchSize: number;
  readonly steps: number;
  readonly startStep?: number;
  readonly rng: Rng;
}

const LEARNER_KEYS: readonly string[] = ["model", "template", "optimizer", "lr", "maxBatchTokens", "steps", "startStep", "rng"]; // prettier-ignore
const SFT_KEYS: readonly string[] = [...LEARNER_KEYS, "demonstrations", "observationWeight", "loss", "imitate", "batchSize"]; // prettier-ignore
const RL_KEYS: readonly string[] = [...LEARNER_KEYS, "objective", "env", "envOptions", "groups", "groupSize", "rollout", "iterations", "reference", "critic", "offPolicy", "gradEvery", "gradWorld", ...DATA_KEYS]; // prettier-ignore
const PREFERENCE_KEYS: readonly string[] = [
  ...LEARNER_KEYS,
  "pairs",
  "policyLoss",
  "reference",
  "batchSize",
  "imitation",
];

/** Supervised fine-tuning on demonstrations: −lp of the agent's tokens, a fresh random batch each step. */
export async function* trainSft(options: SftOptions): AsyncGenerator<StepReport, void, void> {
  const { model, optimizer, lr, demonstrations, batchSize, steps, startStep = 0, rng } = options;
  checkKeys("trainSft", options, SFT_KEYS);
  check(Number.isInteger(batchSize) && batchSize >= 1, () => `trainSft: batchSize must be an integer ≥ 1, got ${batchSize}`); // prettier-ignore
  check(demonstrations.length > 0, () => "trainSft: there are no demonstrations");
  const { observationWeight = 0, loss = "sft", imitate } = options;
  const policyLoss = loss === "dft" ? dft() : NO_POLICY;
  for (let step = startStep; step < steps; step++) {
    const draw = rng.split(step);
    const batch = Array.from({ length: batchSize }, () => draw.choice(demonstrations));
    const plan = planSft(batch, { observationWeight, loss, ...(imitate ? { imitate } : {}) });
    const result = await update(model, optimizer, plan, { policyLoss }, updateOptions(options, step));
    const metrics = {
      loss: result.worldLoss + result.policyLoss,
      grad_norm: result.gradNorm,
      learning_rate: lr(step),
      num_tokens: tokensIn(batch),
    };
    yield { step, metrics, plan, scores: result };
  }
}

export interface PreferenceOptions extends Learner, PreferencePlanOptions {
  readonly pairs: readonly PreferencePair[];
  /** One of the pair losses: `dpo({ loss: "sigmoid" | "ipo" | "hinge" })`. */
  readonly policyLoss: PolicyLoss;
  /** The policy that the log-ratios refer to, frozen. */
  readonly reference: Model;
  readonly batchSize: number;
  readonly steps: number;
  readonly startStep?: number;
  readonly rng: Rng;
}

/** Preference optimisation (DPO and its relatives): a fresh random batch of pairs each step. */
export async function* trainPreference(options: PreferenceOptions): AsyncGenerator<StepReport, void, void> {
  const {
    model,
    optimizer,
    template,
    lr,
    pairs,
    policyLoss,
    reference,
    batchSize,
    steps,
    startStep = 0,
    rng,
    imitation,
  } = options;
  checkKeys("trainPreference", options, PREFERENCE_KEYS);
  check(pairs.length > 0, () => "trainPreference: there are no pairs");
  check(Number.isInteger(batchSize) && batchSize >= 1, () => `trainPreference: batchSize must be an integer ≥ 1, got ${batchSize}`); // prettier-ignore
  check(
    policyLoss.name.startsWith("dpo"),
    () => `trainPreference: "${policyLoss.name}" is no loss over pairs; use dpo()`,
  );
  check(reference !== undefined, () => "trainPreference: needs a reference model");
  for (let step = startStep; step < steps; step++) {
    const draw = rng.split(step);
    const batch = Array.from({ length: batchSize }, () => draw.choice(pairs));
    const plan = planPreference(batch, imitation === undefined ? {} : { imitation });
    const trajectories = plan.episodes.map((e) => e.trajectory);
    const packing = updateOptions(options, step);
    const signals = await collectSignals({ model, reference }, ["refLogProbs"], trajectories, {
      padId: template.padId,
    });
    const refLogProbs = signals.refLogProbs!;
    const result = await update(model, optimizer, plan, { policyLoss }, { ...packing, refLogProbs });
    const metrics = {
      loss: result.policyLoss + result.worldLoss,
      ...preferenceMetrics(plan, result.logProbs, refLogProbs, policyLoss.beta ?? 1),
      grad_norm: result.gradNorm,
      learning_rate: lr(step),
      num_tokens: tokensIn(trajectories),
    };
    yield { step, metrics, plan, scores: result };
  }
}

/** What is played (`PlayOptions`), and how it is learnt from. */
export interface RlOptions extends LearnOptions, PlayOptions {
  readonly steps: number;
  readonly startStep?: number;
  readonly rng: Rng;
}

/** Where the episodes of a step come from. */
export interface EpisodeSource {
  /** The episodes that step `step` learns from; `null` if the run was stopped. */
  next(step: number): Promise<PlayedStep | null>;
  /** The model has learnt from step `step`, the report of which may be added to. */
  learnt?(report: StepReport): Promise<StepReport>;
}

/** Reinforcement learning: play, compare, update. */
export async function* trainRl(options: RlOptions): AsyncGenerator<StepReport, void, void> {
  const { model, template, rollout: sampling } = options;
  checkRl(options);
  const play: PlayEpisodes = (requests, how) => rollout(model, template, requests, how);
  yield* learnFrom(options, {
    async next(step) {
      // Every task is tried by a group of episodes.
      const part = await playPart(options, step);
      if (sampling.signal?.aborted) return null;
      const trajectories = await withBaseline(options, part, play);
      // A baseline that was stopped is no baseline.
      return sampling.signal?.aborted ? null : finishStep(options, step, [{ ...part, trajectories }]);
    },
  });
}

/** @throws one clear line if the options do not fit together */
export function checkRl(options: RlOptions): void {
  const { objective, iterations = 1, reference, critic } = options;
  checkKeys("trainRl", options, RL_KEYS);
  checkObjective(objective);
  check(objective.kl === undefined || reference !== undefined, () => "trainRl: a KL penalty needs a reference model");
  if (options.predictions) checkPredictions(options.predictions, objective);
  check(objective.critic === undefined || critic !== undefined, () => `trainRl: the advantage "${objective.advantage.name}" needs a critic: a value head and its optimiser`); // prettier-ignore
  check(Number.isInteger(iterations) && iterations >= 1, () => `trainRl: iterations must be an integer ≥ 1, got ${iterations}`); // prettier-ignore
  checkOffPolicy(objective, options);
  checkGradEvery(options);
  checkPlay(options);
}

/** The loop of `trainRl`, wherever the episodes come from. The options have been checked. */
export async function* learnFrom(options: RlOptions, source: EpisodeSource): AsyncGenerator<StepReport, void, void> {
  const { steps, startStep = 0 } = options;
  for (let step = startStep; step < steps; step++) {
    const played = await source.next(step);
    if (played === null) return;
    // Compare and update, together with what is replayed.
    const guessed = await guessesOf(options, played.trajectories, step);
    const batch = batchOf(options, played.trajectories, step, guessed);
    const report = reportOf(await learn(batch.learn, batch.trajectories, step, batch.own), played.metrics, batch);
    yield source.learnt ? await source.learnt(report) : report;
  }
}

/** Where the options ask for them. */
const guessesOf = async (
  { model, template, predictions, rng }: RlOptions,
  trajectories: readonly Trajectory[],
  step: number,
): Promise<Predictions | undefined> =>
  predictions && predictAnswers(model, template, trajectories, predictions, rng.split(step).split("predictions"), step);

/** With an estimator that asks for it, each task is played once more without chance; its return is the baseline of the group (ReMax): NaN if its environment fails. */
export async function withBaseline(
  loop: RlOptions,
  { requests, trajectories }: Pick<PlayedStep, "requests" | "trajectories">,
  play: PlayEpisodes,
): Promise<readonly Trajectory[]> {
  const { objective, groupSize, rollout: options } = loop;
  if (!objective.advantage.greedyBaseline) return trajectories;
  const first = requests.filter((_, e) => e % groupSize === 0);
  const fresh = first.map((request) => ({ ...request, rng: request.rng.split("greedy") }));
  const greedy = rewarded(loop, await play(fresh, { ...options, temperature: 0 }));
  const rewardOf = new Map(greedy.map((t) => [t.group, t.masked ? NaN : t.reward]));
  return trajectories.map((t) => ({ ...t, greedyReward: rewardOf.get(t.group)! }));
}

function updateOptions(
  { template, lr, maxBatchTokens }: Learner,
  step: number,
): { lr: number; padId: number; maxTokens?: number } {
  const maxTokens = maxBatchTokens === undefined ? {} : { maxTokens: maxBatchTokens };
  return { lr: lr(step), padId: template.padId, ...maxTokens };
}

const tokensIn = (trajectories: readonly Trajectory[]): number =>
  trajectories.reduce((n, t) => n + t.stream.ids.length, 0);
