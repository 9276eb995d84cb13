/**
 * The training loop: a generator that does one step and reports it. The caller decides what to show, when to evaluate,
 * when to save and when to stop: `for await (const step of trainRl(options)) …`.
 *
 * All randomness of step n comes from `rng.split(n)`: a run that is resumed at step n continues on the same executor
 * bit for bit as if it had never stopped.
 */
import { check } from "../../engine/errors.ts";
import type { Rng } from "../../engine/index.ts";
import { checkKeys } from "../../engine/options.ts";
import { trainableOf } from "../../nn/index.ts";
import type { EnvironmentOptions } from "../environment.ts";
import { checkGroupSize, checkObjective, checkOffPolicy, type Objective } from "../objective/objective.ts";
import { checkVocabulary, rollout } from "../play/rollout.ts";
import { checkPlay, DATA_KEYS, finishStep, type PlayEpisodes, type PlayOptions, playPart } from "../tasks/play.ts";
import { checkPlugins } from "../tasks/plugin.ts";
import { checkHeadsOf, checkMemories, checkOptimizer, checkReference } from "./checks.ts";
import { beginWatch } from "./watch.ts";
import { type EpisodeSource, withBaseline } from "./episodes.ts";
import type { StepReport } from "./report.ts";
import { checkCount, checkEnv, checkHeads, checkModel, checkProbes, checkTrainer } from "./trainerChecks.ts";
import { type StepOptions, trainStep } from "./step.ts";

/** Keys of the options of every training loop. */
export const TRAINER_KEYS = [
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
  "probes",
  "warn",
  "mixedGroups",
  ...DATA_KEYS,
] as const;
/** Options of `trainRl`: those of playing (`PlayOptions`) and of training. */
export interface RlOptions<Own extends EnvironmentOptions = EnvironmentOptions> extends StepOptions, PlayOptions<Own> {
  readonly objective: Objective;
  /** The number of the step before which training ends: TRL's `max_steps`. */
  readonly steps: number;
  /** The first step of a continued run. Default 0. */
  readonly startStep?: number;
  /** All randomness of step n comes from `rng.split(n)`. */
  readonly rng: Rng;
}

/** Reinforcement learning: a loop over the steps of step.ts. */
export async function* trainRl<Own extends EnvironmentOptions>(
  options: RlOptions<Own>,
): AsyncGenerator<StepReport, void, void> {
  checkRl(options);
  const { model, template, rollout: sampling } = options;
  const playEpisodes: PlayEpisodes = (requests, how) => rollout(model, template, requests, how);
  yield* trainFrom(options, {
    async play(step) {
      // A group of episodes tries each task.
      const part = await playPart(options, step);
      if (sampling.signal?.aborted) return null;
      const trajectories = await withBaseline(options, part, playEpisodes);
      // A baseline that was interrupted cannot be used.
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
  checkProbes("trainRl", options.probes ?? []);
  checkPlay(options);
  checkGroupSize(objective.advantage, options.groupSize);
  checkOptimizer(options.optimizer, trainableOf(options.model).params);
  checkReference(options.model, options.reference);
  checkVocabulary(options.model.config, options.template, "trainRl");
}

/** The loop of `trainRl` for episodes from any source. The options have been checked. */
export async function* trainFrom(options: RlOptions, source: EpisodeSource): AsyncGenerator<StepReport, void, void> {
  const { steps, startStep = 0 } = options;
  checkMemories(options.objective, options.optimizer, startStep === 0);
  if (startStep === 0) beginWatch(options.optimizer);
  for (let step = startStep; step < steps; step++) {
    const report = await trainStep(options, source, step);
    if (report === null) return;
    yield source.updated ? await source.updated(report) : report;
  }
}
