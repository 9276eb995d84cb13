/**
 * One step of reinforcement learning, from top to bottom:
 *
 *     play → scoreTokens → advantagesOf → weigh → (pack → gradientOf(lossOf) → update) once per pass → reportOf
 *
 *     play        groups of episodes; the episodes of a group try the same task
 *     score       numbers per token that later stages need: log-probabilities, entropies, values. GRPO + ECHO with one
 *                 use of each batch needs none: ρ = p(token now) / p(token when it was drawn) is then 1
 *     advantages  rewards → a number A for each of the agent's tokens; GRPO: (R − mean) / (std + 1e-4) within a group
 *     weights     how much each token counts in each term of the loss. GRPO gives an action token the weight
 *                 1 / (episodes · action tokens of its episode), `grpo_token` 1 / (action tokens of all episodes); ECHO
 *                 gives an answer token the weight λ / (episodes with an answer · answer tokens of its episode)
 *     loss        Σ wPolicy·ℓ_policy + Σ wWorld·(−log p) + …, where PPO's ℓ_policy is −min(ρA, clip(ρ)·A)
 *
 * A pass is one use of the same episodes. The stages are functions, each imported from its file. A trajectory is an
 * episode as tokens. `weigh` makes it a row, whose columns (rl/objective/columns.ts) have one number for each token;
 * the loss sees nothing else of an episode. Denominators count the tokens and episodes of the whole step and are part
 * of the weights. So the loss is a plain weighted sum, which may be split into micro-batches anywhere between
 * sequences. `trainRl` (loop.ts) repeats this step.
 */
import { check } from "../../engine/errors.ts";
import { type Rng, scope, type Tree } from "../../engine/index.ts";
import { type AdamW, type Model, type Schedule, trainableOf } from "../../nn/index.ts";
import type { Metrics } from "../episode/metrics.ts";
import { rolloutsOf, type Trajectory } from "../episode/stream.ts";
import type { Template } from "../episode/template.ts";
import { rowOf, type TokenRow } from "../objective/columns.ts";
import { checkOffPolicy, type Objective } from "../objective/objective.ts";
import type { TokenStatistics } from "../objective/tokenStatistics.ts";
import type { DataOptions } from "../tasks/play.ts";
import { checkPlugins } from "../tasks/plugin.ts";
import { advantagesOf } from "./advantages.ts";
import { checkHeadsOf, checkOptimizer, checkReference } from "./checks.ts";
import { type EpisodeSource, play } from "./episodes.ts";
import { type Heads, headsFor, headTraining, lossOf, type LossParts, type Trained } from "./loss.ts";
import { hasScored, type MicroBatch, pack, type PackOptions } from "./pack.ts";
import { type PassResult, readPass, reportOf, type StepReport } from "./report.ts";
import { passingOf, type PassingOptions, type Ratios, ratiosOf, scoreTokens, tokenStatistics } from "./score.ts";
import { mixedRows } from "./imitation.ts";
import { gradientOf, type TrainedHead, update } from "./update.ts";
import { headObjective, isValuePretraining, monteCarloReturns } from "./valuePretraining.ts";
import { watchOf, type WatchOptions } from "./watch.ts";
import { weigh, withPrepared } from "./weights.ts";

/** Options of every training loop. */
export interface TrainerOptions {
  /** The policy. All of its parameters are trained, or its adapter if it has one (`trainableOf`). */
  readonly model: Model;
  /** The chat template: an episode becomes the tokens `<|task|> … <|end|> <|act|> … <|end|> <|obs|> … <|end|>`. */
  readonly template: Template;
  /** The optimiser of `trainableOf(model).params`: of all parameters, or of the adapter. */
  readonly optimizer: AdamW<Tree>;
  /** The learning rate at step n. */
  readonly lr: Schedule;
  /** The largest number of tokens in a micro-batch, padding included. */
  readonly maxBatchTokens?: number;
  /**
   * Whether each block keeps only its input and runs again in the backward pass: the same bits, less memory, more time
   * (see `ForwardOptions`). `npm run fit` says how much. Default false.
   */
  readonly gradientCheckpointing?: boolean;
}

/** A step whose tokens have their weights, before its first update. */
export interface WeightedStep {
  readonly step: number;
  readonly model: Model;
  readonly objective: Objective;
  /** The rows of the step's episodes, without those that are only imitated. */
  readonly rows: readonly TokenRow[];
  readonly statistics: TokenStatistics;
  /** Which log-probabilities are `old` in ρ = e^(lp − old). */
  readonly ratios: Ratios;
  /** Options of packing rows and of the forward pass. */
  readonly packing: PackOptions & PassingOptions;
  /** The heads of the terms that have one. */
  readonly heads?: Heads | undefined;
}

/** A measurement of a step before its update. Its numbers go into the step's report; training does not read them. */
export interface StepProbe {
  readonly name: string;
  measure(before: WeightedStep): Promise<Metrics>;
}

/** Options of a step of reinforcement learning. */
export interface StepOptions extends TrainerOptions, DataOptions, WatchOptions {
  /** The method: the advantage estimator, the policy loss, world losses, penalties (rl/objective/objective.ts). */
  readonly objective: Objective;
  /** Passes over each batch of episodes; default 1. In later ones the policy has moved: the loss must have a ratio. */
  readonly iterations?: number;
  /**
   * The frozen policy that a KL penalty compares with; some token statistics are read from it, too. Default for a model
   * with an adapter: the model without it.
   */
  readonly reference?: Model;
  /**
   * Heads, each with its optimiser, by the name of their term of the loss: small networks on the hidden state. GRPO +
   * ECHO has none. `value` is PPO's critic, which predicts returns.
   */
  readonly heads?: Heads<TrainedHead>;
  /**
   * Whether an older policy played the episodes; default false. If so, the objective needs an importance correction,
   * V-trace, or a loss with a ratio; that ratio then divides by the sampler's recorded probability, in the first pass
   * too.
   */
  readonly offPolicy?: boolean;
  /** Measurements before the update of a step in which the policy learns. Default: none. */
  readonly probes?: readonly StepProbe[];
  /** All randomness of step n comes from `rng.split(n)`. */
  readonly rng: Rng;
}

/**
 * One step: plays episodes and trains on them.
 * @param step the number of the step, from 0, for schedules and random choices
 * @returns `null` if the source was stopped
 */
export async function trainStep(options: StepOptions, source: EpisodeSource, step: number): Promise<StepReport | null> {
  const {
    model,
    optimizer,
    reference = trainableOf(model).base,
    heads,
    plugins = [],
    probes = [],
    iterations = 1,
    offPolicy = false,
  } = options;
  const isCount = Number.isInteger(iterations) && iterations >= 1;
  check(isCount, () => `trainStep: iterations must be an integer ≥ 1, got ${iterations}`);
  checkOffPolicy(options.objective, options);
  checkPlugins(plugins, options);
  checkReference(model, options.reference);
  checkHeadsOf(options.objective, heads);
  const withPlugins = plugins.reduce(
    (objective, plugin) => plugin.objective?.(objective) ?? objective,
    options.objective,
  );
  // VAPO's value pre-training: in the first `critic.pretrain` steps only the critic's value head is trained.
  const isHeadOnly = isValuePretraining(withPlugins, step);
  const objective = isHeadOnly ? headObjective(withPlugins) : withPlugins;
  const packing = packingOf(options);
  const learningRate = options.lr(step);

  const episodes = await play(options, source, step, packing);
  if (episodes === null) return null;
  // `own`: the episodes that this policy has played in this step, alone. `trajectories`: these, and those that plug-ins
  // add (rl/tasks/plugin.ts), such as successes of earlier steps. Without plug-ins the two are the same list.
  const { trajectories, own } = episodes;
  // Warns of environments that fail, and ends a run that trains on nothing.
  watchOf(optimizer).see(own, step, objective, options, episodes.imitated.length > 0);
  // `old` in ρ = e^(lp − old): "exact", lp itself (ρ = 1); "before", the policy's before the first pass; "recorded",
  // the sampler's (score.ts).
  const ratios = ratiosOf(objective, { iterations, offPolicy: offPolicy || episodes.isOffPolicy });
  const played = { ...episodes, objective, ratios, learningRate }; // what the report needs of the stages until here
  // An episode is masked if its environment failed: none of its tokens is trained.
  if (trajectories.every((t) => t.masked)) return reportOf(step, { ...played, ...untrained(trajectories) });

  const models = { model, reference, head: heads?.["value"]?.head };
  const statistics = await scoreTokens(models, objective, trajectories, ratios, packing);
  const estimated = advantagesOf(objective, trajectories, step, statistics);
  const advantages = isHeadOnly ? { ...estimated, returns: monteCarloReturns(trajectories) } : estimated;
  const weighed = weigh(objective, trajectories, advantages, step, statistics, ratios);
  // Behind them the episodes to imitate, whose weights sum to the plug-in's `weight`. They have no advantage.
  const rows = [...weighed, ...(isHeadOnly ? [] : mixedRows(episodes.imitated))];

  // If no token has a weight, nothing is trained: there is no world-model loss, and the method leaves out groups whose
  // rewards are all equal (`dapo`). GRPO keeps them, with A = 0.
  const passCount = rows.some((row) => hasScored(row)) ? iterations : 0;
  const measured: Metrics = {};
  if (passCount > 0 && !isHeadOnly) {
    const rest = { statistics, ratios, packing, heads: heads && untrainedHeads(heads) };
    for (const probe of probes)
      Object.assign(measured, await probe.measure({ step, model, objective, rows: weighed, ...rest }));
  }
  const passes: PassResult[] = [];
  for (let pass = 0; pass < passCount; pass++) {
    const current = pass === 0 ? rows : await preparedAgain({ ...options, objective }, rows, step);
    const dropout = options.rng.split(step).split("dropout").split(pass);
    const passOptions = { ...packing, lr: learningRate, ratios, dropout, heads, isHeadOnly };
    passes.push(await optimizerStep(model, optimizer, current, objective, passOptions));
  }
  watchOf(optimizer).trained(
    passes.map(({ gradNorm }) => gradNorm),
    step,
    own,
    options,
  );

  const report = reportOf(step, { ...played, statistics, advantages, rows, measured, passes });
  if (passCount > 0) adaptCoefficients(objective, report.metrics, trajectories);
  objective.advantage.observe?.(own); // for estimators that remember rewards of earlier steps
  return report;
}

/**
 * Options of `optimizerStep`: the learning rate, the packing of rows into micro-batches, the choice of `old` in ratios,
 * and the heads that are trained with the policy.
 */
export interface OptimizerStepOptions extends PackOptions, PassingOptions {
  readonly lr: number;
  /** Which log-probabilities are `old` in ρ. Default `exact`, lp itself: own samples, in one pass over them. */
  readonly ratios?: Ratios;
  /** The heads. Those of the objective's terms are trained with the policy, each at `lr` times its `rate`. */
  readonly heads?: Heads<TrainedHead> | undefined;
  /** Whether only the heads are trained. Default false. */
  readonly isHeadOnly?: boolean;
}

/** One pass over weighted rows, in micro-batches, and one step of the optimiser. Parameters change in place. */
export async function optimizerStep(
  model: Model,
  optimizer: AdamW<Tree>,
  rows: readonly TokenRow[],
  objective: LossParts,
  options: OptimizerStepOptions,
): Promise<PassResult> {
  const { lr, ratios = "exact", heads = {}, dropout, isHeadOnly = false } = options;
  const { params } = trainableOf(model);
  checkOptimizer(optimizer, params);
  const ofTerms = untrainedHeads(headsFor(objective, heads));
  const trained: Trained = { policy: params, ...(Object.keys(ofTerms).length > 0 ? { heads: ofTerms } : {}) };
  const loss = (tree: Trained, batch: MicroBatch, n: number) =>
    lossOf(tree, model, batch, objective, ratios, { ...options, dropout: dropout?.split(n) });
  const optimizers = { optimizer, heads };
  const training = headTraining(objective);
  const { parts, norm } = scope(() => {
    const { gradient, parts } = gradientOf(trained, pack(rows, options), loss);
    return { parts, norm: update(optimizers, gradient, lr, { training, alone: isHeadOnly }) };
  }, "update");
  return readPass(rows, parts, norm);
}

/** The heads without their optimisers. */
const untrainedHeads = (heads: Heads<TrainedHead>): Heads =>
  Object.fromEntries(Object.entries(heads).map(([name, { head }]) => [name, head]));

/** The options of packing and of the forward pass, out of those of a training loop. */
export const packingOf = ({ template, maxBatchTokens, ...passing }: TrainerOptions): PackOptions & PassingOptions => ({
  padId: template.padId,
  ...passingOf(passing),
  ...(maxBatchTokens === undefined ? {} : { maxTokens: maxBatchTokens }),
});

/** The facts for `reportOf` if every environment failed: nothing was scored, weighed or trained. */
const untrained = (trajectories: readonly Trajectory[]) => ({
  statistics: {},
  advantages: { perToken: [], fracRewardZeroStd: 1 },
  rows: trajectories.map((trajectory) => rowOf(trajectory)),
  measured: {},
  passes: [],
});

/**
 * The rows of a later pass. Some policy losses choose tokens by comparing all of a step (Clip-Cov, KL-Cov, M2PO): the
 * current policy makes that choice, the column `prepared`, anew. All other columns stay.
 */
async function preparedAgain(
  options: StepOptions,
  rows: readonly TokenRow[],
  step: number,
): Promise<readonly TokenRow[]> {
  const { model, objective } = options;
  if (!objective.policyLoss.prepare) return rows;
  const trajectories = rows.map((row) => row.trajectory);
  const { logProbs } = await tokenStatistics({ model }, ["logProbs"], trajectories, packingOf(options));
  return withPrepared(objective.policyLoss, rows, step, logProbs);
}

/** Updates the adaptive coefficients of the entropy bonus and the KL penalty with the measurements of this step. */
function adaptCoefficients({ kl, entropy }: Objective, metrics: Metrics, trajectories: readonly Trajectory[]): void {
  if (typeof entropy === "object") entropy.update(metrics["entropy"] ?? NaN);
  if (typeof kl?.beta === "object" && metrics["kl"] !== undefined) {
    kl.beta.update(metrics["kl"], rolloutsOf(trajectories).length);
  }
}
