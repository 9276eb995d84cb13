/**
 * The training loops. Each is a generator that does one step and reports it, so whoever drives it decides what to show, when to
 * evaluate, when to save and when to stop: `for await (const step of trainRl(options)) …`.
 *
 * All randomness of step n comes from `rng.split(n)`: a run that is resumed at step n continues bitwise as if it had never
 * stopped, on the same executor.
 */
import { check } from "../engine/errors.ts";
import { checkKeys } from "../engine/options.ts";
import type { Rng } from "../engine/random.ts";
import type { AdamW, Schedule } from "../nn/optimizer.ts";
import type { TransformerParams } from "../nn/parameters.ts";
import type { Model } from "../nn/transformer.ts";
import type { EnvironmentOptions, EnvironmentSpec } from "./environments/environment.ts";
import { type Scores, score, update, type UpdateResult } from "./learner.ts";
import { type Metrics, rolloutMetrics, updateMetrics } from "./metrics.ts";
import { type Objective, planSft, planStep, type StepPlan } from "./objective.ts";
import { type EpisodeRequest, rollout, type RolloutOptions } from "./rollout.ts";
import type { Trajectory } from "./stream.ts";
import type { Template } from "./template.ts";

/** What a learner works on. */
export interface Learner {
  readonly model: Model;
  readonly template: Template;
  readonly optimizer: AdamW<TransformerParams>;
  readonly lr: Schedule;
  /** Padded tokens at most in one micro-batch. */
  readonly maxBatchTokens?: number;
}

/** One finished step. `metrics` are complete; the rest is for transcripts and studies. */
export interface StepReport {
  readonly step: number;
  readonly metrics: Metrics;
  readonly plan: StepPlan;
  readonly scores: Scores;
}

export interface SftOptions extends Learner {
  readonly demonstrations: readonly Trajectory[];
  /** See `SftPlanOptions`; default 0. */
  readonly observationWeight?: number;
  readonly batchSize: number;
  readonly steps: number;
  readonly startStep?: number;
  readonly rng: Rng;
}

const LEARNER_KEYS: readonly string[] = ["model", "template", "optimizer", "lr", "maxBatchTokens", "steps", "startStep", "rng"]; // prettier-ignore
const SFT_KEYS: readonly string[] = [...LEARNER_KEYS, "demonstrations", "observationWeight", "batchSize"];
const RL_KEYS: readonly string[] = [...LEARNER_KEYS, "objective", "env", "envOptions", "groups", "groupSize", "rollout", "iterations", "reference"]; // prettier-ignore

/** Supervised fine-tuning on demonstrations: −lp of the agent's tokens, a fresh random batch each step. */
export async function* trainSft(options: SftOptions): AsyncGenerator<StepReport, void, void> {
  const {
    model,
    template,
    optimizer,
    lr,
    demonstrations,
    observationWeight = 0,
    batchSize,
    steps,
    startStep = 0,
    rng,
    maxBatchTokens,
  } = options;
  checkKeys("trainSft", options, SFT_KEYS);
  check(Number.isInteger(batchSize) && batchSize >= 1, () => `trainSft: batchSize must be an integer ≥ 1, got ${batchSize}`); // prettier-ignore
  check(demonstrations.length > 0, () => "trainSft: there are no demonstrations");
  for (let step = startStep; step < steps; step++) {
    const draw = rng.split(step);
    const batch = Array.from({ length: batchSize }, () => draw.choice(demonstrations));
    const plan = planSft(batch, { observationWeight });
    const result = await update(
      model,
      optimizer,
      plan,
      { policyLoss: NO_POLICY },
      updateOptions(template, lr(step), maxBatchTokens),
    );
    const metrics = {
      loss: result.worldLoss,
      grad_norm: result.gradNorm,
      learning_rate: lr(step),
      num_tokens: tokensIn(batch),
    };
    yield { step, metrics, plan, scores: result };
  }
}

/** Stands where a plan has no policy weights. */
const NO_POLICY: Objective["policyLoss"] = { name: "none", clip: null, tokenLoss: ({ advantages }) => advantages };

export interface RlOptions extends Learner {
  readonly objective: Objective;
  readonly env: EnvironmentSpec;
  readonly envOptions: EnvironmentOptions;
  /** Tasks per step. */
  readonly groups: number;
  /** Episodes per task, compared with each other; at least 2 for a group baseline. */
  readonly groupSize: number;
  readonly rollout: RolloutOptions;
  /** Passes over each batch of episodes; default 1, exactly on-policy. */
  readonly iterations?: number;
  /** The policy that a KL penalty refers to. */
  readonly reference?: Model;
  readonly steps: number;
  readonly startStep?: number;
  readonly rng: Rng;
}

/** Reinforcement learning: play, compare, update. */
export async function* trainRl(options: RlOptions): AsyncGenerator<StepReport, void, void> {
  const {
    model,
    template,
    optimizer,
    lr,
    objective,
    steps,
    startStep = 0,
    iterations = 1,
    reference,
    maxBatchTokens,
  } = options;
  checkKeys("trainRl", options, RL_KEYS);
  check(objective.kl === undefined || reference !== undefined, () => "trainRl: a KL penalty needs a reference model");
  check(Number.isInteger(iterations) && iterations >= 1, () => `trainRl: iterations must be an integer ≥ 1, got ${iterations}`); // prettier-ignore
  check(options.groupSize >= 1 && options.groups >= 1, () => `trainRl: groups and groupSize must be ≥ 1, got ${options.groups} and ${options.groupSize}`); // prettier-ignore
  for (let step = startStep; step < steps; step++) {
    // 1. Play: every task is tried by a group of episodes.
    const trajectories = await rollout(model, template, episodeRequests(options, step), options.rollout);
    if (options.rollout.signal?.aborted) return;

    // 2. Compare: advantages within groups, weights and denominators of the whole step.
    const plan = planStep(objective, trajectories, step);
    if (plan.episodes.every((e) => e.trajectory.masked)) {
      yield { step, metrics: rolloutMetrics(trajectories), plan, scores: { logProbs: [], entropy: [] } };
      continue;
    }

    // 3. Update. Only a second pass over the same episodes needs ratios against what the policy was before the first.
    const packing = updateOptions(template, lr(step), maxBatchTokens);
    const refLogProbs =
      objective.kl && reference ? (await score(reference, plan.episodes, packing)).logProbs : undefined;
    const oldLogProbs = iterations > 1 ? (await score(model, plan.episodes, packing)).logProbs : undefined;
    const recorded = { ...(refLogProbs ? { refLogProbs } : {}), ...(oldLogProbs ? { oldLogProbs } : {}) };
    const passes: UpdateResult[] = [];
    for (let pass = 0; pass < iterations; pass++) {
      const options = { ...packing, ...recorded, useRecordedOld: iterations > 1 };
      passes.push(await update(model, optimizer, plan, objective, options));
    }
    const metrics = {
      ...rolloutMetrics(trajectories),
      ...updateMetrics(plan, objective, passes, oldLogProbs),
      learning_rate: lr(step),
    };
    yield { step, metrics, plan, scores: passes[0]! };
  }
}

/** The episodes of a step: `groups` tasks drawn from the step's stream, each `groupSize` times with streams of their own. */
function episodeRequests({ env, envOptions, groups, groupSize, rng }: RlOptions, step: number): EpisodeRequest[] {
  const draw = rng.split(step);
  return Array.from({ length: groups * groupSize }, (_, e) => {
    const group = Math.floor(e / groupSize);
    const seed = draw
      .split("task")
      .split(group)
      .int(2 ** 31);
    return { spec: env, options: envOptions, seed, group, rng: draw.split("episode").split(e) };
  });
}

function updateOptions(
  template: Template,
  lr: number,
  maxTokens: number | undefined,
): { lr: number; padId: number; maxTokens?: number } {
  return { lr, padId: template.padId, ...(maxTokens === undefined ? {} : { maxTokens }) };
}

const tokensIn = (trajectories: readonly Trajectory[]): number =>
  trajectories.reduce((n, t) => n + t.stream.ids.length, 0);
