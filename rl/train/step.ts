/**
 * What a learner does with a batch of finished episodes, wherever they came from: score what the objective asks about, plan, update,
 * report. `trainRl` calls it after every rollout; an asynchronous run calls it with what its queue holds.
 */
import { check } from "../../engine/errors.ts";
import type { AdamW, Model, Schedule, TransformerParams } from "../../nn/index.ts";
import { hasScored } from "./pack.ts";
import { offPolicyMetrics } from "../methods/importanceCorrection.ts";
import { type GradientOptions, gradientMetrics } from "./gradients.ts";
import { type Critic, type Scores, update, type UpdateOptions, type UpdateResult } from "./loss.ts";
import { type Metrics, rolloutMetrics } from "../episode/metrics.ts";
import { criticMetrics, updateMetrics } from "./metrics.ts";
import { checkOffPolicy, type Objective, signalsOf, type StepPlan } from "../methods/objective.ts";
import { planStep } from "./plan.ts";
import { collectSignals, type SignalSources } from "./scores.ts";
import { type PerToken, type Signal, SIGNALS, type Signals } from "../methods/tokenStatistics.ts";
import { rolloutsOf, type Trajectory } from "../episode/stream.ts";
import type { Template } from "../episode/template.ts";

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

export interface LearnOptions extends Learner, GradientOptions {
  readonly objective: Objective;
  /** Passes over each batch of episodes; default 1, exactly on-policy. More need a loss with a ratio. */
  readonly iterations?: number;
  /** The frozen policy that KL penalties and reference signals refer to. */
  readonly reference?: Model;
  /** Of objectives whose estimator needs values. */
  readonly critic?: Critic;
  /**
   * The episodes were played by an older policy: unless the objective has a `correction` or V-trace, ratios refer to what the sampler
   * recorded, also in the first pass; a loss without a ratio needs one of the two. Default false.
   */
  readonly offPolicy?: boolean;
}

/** A step that is scored and planned, and what `update` is to be told. */
export interface PreparedStep {
  readonly plan: StepPlan;
  readonly signals: Signals;
  readonly update: UpdateOptions;
}

/** Scores and plans one batch of episodes. @param step counts from 0, for schedules and random choices */
export async function prepareStep(
  options: LearnOptions,
  trajectories: readonly Trajectory[],
  step: number,
): Promise<PreparedStep> {
  const { template, lr, objective, iterations = 1, offPolicy = false, critic, maxBatchTokens } = options;
  const packing = { padId: template.padId, ...(maxBatchTokens === undefined ? {} : { maxTokens: maxBatchTokens }) };
  // Only what somebody asked for. A second pass needs to know what the policy was before the first one.
  const recorded = offPolicy && !objective.correction && !objective.advantage.offPolicy;
  const again: Signal[] = iterations > 1 && !recorded ? ["logProbs"] : [];
  const wanted = new Set([...signalsOf(objective), ...again]);
  const names = SIGNALS.filter((name) => wanted.has(name));
  const signals = names.length === 0 ? {} : await collectSignals(sourcesOf(options), names, trajectories, packing);
  const plan = planStep(objective, trajectories, step, signals);
  const useRecordedOld = iterations > 1 || recorded;
  const prepared = prepare(objective, plan, signals.logProbs, recorded ? undefined : signals.logProbs, step);
  const update: UpdateOptions = {
    ...packing,
    lr: lr(step),
    useRecordedOld,
    ...(useRecordedOld && !recorded && signals.logProbs ? { oldLogProbs: signals.logProbs } : {}),
    ...(signals.refLogProbs ? { refLogProbs: signals.refLogProbs } : {}),
    ...(signals.values ? { oldValues: signals.values } : {}),
    ...(prepared ? { prepared } : {}),
    ...(critic ? { critic } : {}),
  };
  return { plan, signals, update };
}

const sourcesOf = ({ model, reference, critic }: LearnOptions): SignalSources => ({
  model,
  reference,
  head: critic?.head,
});

/**
 * Learns from one batch of episodes.
 * @param step counts from 0, for schedules and random choices
 * @param own those among them that the policy has just played, without help: what an estimator that remembers is told. Default: all
 */
export async function learn(
  options: LearnOptions,
  trajectories: readonly Trajectory[],
  step: number,
  own: readonly Trajectory[] = trajectories,
): Promise<StepReport> {
  const { model, optimizer, lr, objective, iterations = 1 } = options;
  check(Number.isInteger(iterations) && iterations >= 1, () => `learn: iterations must be an integer ≥ 1, got ${iterations}`); // prettier-ignore
  checkOffPolicy(objective, options);
  const idle = (plan: StepPlan): StepReport => {
    const metrics = { ...rolloutMetrics(trajectories), frac_reward_zero_std: plan.fracRewardZeroStd };
    return { step, metrics, plan, scores: { logProbs: [], entropy: [] } };
  };
  // Every environment failed: nothing to learn, and nothing to score.
  if (trajectories.every((t) => t.masked)) return idle(planStep(withoutSignals(objective), trajectories, step));
  const prepared = await prepareStep(options, trajectories, step);
  const { plan, signals, update: first } = prepared;
  // Only groups without spread, and they are left out.
  if (!plan.episodes.some((episode) => hasScored(episode))) {
    objective.advantage.observe?.(own);
    return idle(plan);
  }
  const gradients = await gradientMetrics(model, objective, prepared, step, options);
  const passes: UpdateResult[] = [];
  for (let pass = 0; pass < iterations; pass++) {
    passes.push(await update(model, optimizer, plan, objective, pass === 0 ? first : await again(options, plan, first, trajectories, step))); // prettier-ignore
  }
  const recorded = trajectories.map((t) => Float64Array.from(t.stream.oldLogProbs));
  const metrics: Metrics = {
    ...rolloutMetrics(trajectories),
    ...updateMetrics(plan, objective, passes, first.useRecordedOld ? (first.oldLogProbs ?? recorded) : undefined),
    ...(objective.correction && signals.logProbs ? offPolicyMetrics(trajectories, signals.logProbs) : {}),
    ...(signals.values ? criticMetrics(plan, signals.values) : {}),
    ...gradients,
    learning_rate: lr(step),
  };
  const { kl, entropy } = objective;
  if (entropy !== undefined && typeof entropy !== "number") {
    metrics["entropy_coef"] = entropy.coefficient;
    entropy.update(metrics["entropy"] ?? NaN);
  }
  if (kl && typeof kl.beta !== "number" && metrics["kl"] !== undefined) {
    kl.beta.update(metrics["kl"], rolloutsOf(trajectories).length);
  }
  objective.advantage.observe?.(own);
  return { step, metrics, plan, scores: passes[0]! };
}

/** A later pass over the same episodes: statistics of the policy loss are those of the policy as it is now. */
async function again(
  options: LearnOptions,
  plan: StepPlan,
  first: UpdateOptions,
  trajectories: readonly Trajectory[],
  step: number,
): Promise<UpdateOptions> {
  if (!options.objective.policyLoss.prepare) return first;
  const { logProbs } = await collectSignals(sourcesOf(options), ["logProbs"], trajectories, first);
  return { ...first, prepared: prepare(options.objective, plan, logProbs, first.oldLogProbs, step)! };
}

/** The policy loss's own column, from the policy as it is now. */
function prepare(
  { policyLoss }: Objective,
  plan: StepPlan,
  logProbs: PerToken | undefined,
  oldLogProbs: PerToken | undefined,
  step: number,
): Float64Array[] | undefined {
  if (!policyLoss.prepare) return undefined;
  return policyLoss.prepare({
    logProbs: logProbs!,
    oldLogProbs: oldLogProbs ?? plan.episodes.map((e) => Float64Array.from(e.trajectory.stream.oldLogProbs)),
    advantages: plan.episodes.map((e) => e.advantages),
    masks: plan.episodes.map((e) => e.mask!),
    step,
  });
}

/** For a step in which every episode is masked: no part may read signals, because there is nothing to score. */
function withoutSignals({ advantage, policyLoss, aggregation, maxLength = 1 }: Objective): Objective {
  const nothing: Objective["advantage"] = {
    name: advantage.name,
    estimate: (trajectories) => ({
      perToken: trajectories.map(({ stream }) => new Float64Array(stream.ids.length)),
      fracRewardZeroStd: 1,
    }),
  };
  return { advantage: nothing, policyLoss, aggregation, maxLength };
}
