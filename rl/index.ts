/**
 * `worldgrad/rl`: reinforcement learning for language agents that act, observe and learn a model of their world:
 * episodes, group advantages, PPO's clip, ECHO, the terms of a loss, the loop. Only names are handed on here; the
 * definitions, with their formulas and sources, are in the files that each line names.
 */

// Episodes: tokens with roles
export {
  append,
  type AppendOptions,
  type Context,
  emptyStream,
  isAgentToken,
  isCutShort,
  isTruncated,
  longestRead,
  readBefore,
  type Role,
  ROLES,
} from "./episode/stream.ts";
export { policyMask, sampledCount, STOP_REASONS, type StopReason, type TokenStream } from "./episode/stream.ts";
export { type Rollout, rolloutsOf, type TokenPlace, type Trajectory, turnCount } from "./episode/stream.ts";
export { type EpisodeFormat, SPECIAL_TOKENS, Template, type TemplateOptions } from "./episode/template.ts";

// Playing episodes
export { type EpisodeRequest, rollout, type RolloutOptions } from "./play/rollout.ts";

// The objective and its parts
export type { Entry, Table } from "./objective/names.ts";
export type { CriticOptions, EntropyController, KlOptions, Objective } from "./objective/objective.ts";
export { type ColumnName, COLUMNS, type Columns, rowOf, type TokenRow, withColumns } from "./objective/columns.ts";
export type { TermColumnsByName } from "./objective/columns.ts";
export {
  isOfReference,
  type PerToken,
  type TokenStatistic,
  TOKEN_STATISTICS,
  type TokenStatistics,
} from "./objective/tokenStatistics.ts";
export { type Aggregation, AGGREGATIONS, aggregationWeights } from "./objective/aggregation.ts";

// Advantages
export { type AdvantageEstimator, type Advantages, groupEstimator } from "./objective/estimator.ts";
export { centred, grpo } from "./objective/grpo.ts";
export { type GrpoOptions, none } from "./objective/grpo.ts";

// Policy losses and penalties
export type { PolicyLoss, Segments, StepView, TokenColumns } from "./objective/policyLoss.ts";
export { ppoClip, type PpoClipOptions } from "./objective/clipped.ts";
export { KL_ESTIMATORS, type KlController, type KlEstimator, klPenalty } from "./objective/kl.ts";
export type { ImportanceCorrection, RolloutFilter, TokenWeighting } from "./objective/weighting.ts";

// World models
export {
  constantLambda,
  echo,
  ECHO_NORMALIZATIONS,
  type EchoNormalization,
  type EchoOptions,
} from "./objective/echo.ts";
export { type LambdaSchedule, linearLambda, stepLambda, type WorldObjective } from "./objective/echo.ts";

// Further terms of the loss
export type { HeadTraining, LossTerm, TermColumns, TermTokens, WeighedStep } from "./objective/terms.ts";

// The data of a step: rewards, temperatures, plug-ins
export { type DataOptions, type PlayOptions } from "./tasks/play.ts";
export { type EpisodeReward, type RewardFunction, type RewardLimits, type RewardOptions } from "./tasks/scoring.ts";
export { type TruncatedReward, withTruncatedReward } from "./tasks/truncated.ts";
export {
  type EpisodePlugin,
  type Extension,
  isHelped,
  type PlayedGroups,
  type PlayGroups,
  type PlayTools,
  type StepSoFar,
  type TaskChoice,
  type TaskOutcome,
} from "./tasks/plugin.ts";
export { succeeded, type Success, successRate } from "./episode/outcomes.ts";

// Training: steps and the loop
export { optimizerStep, type OptimizerStepOptions } from "./train/step.ts";
export { type StepOptions, type StepProbe, type TrainerOptions, trainStep, type WeightedStep } from "./train/step.ts";
export { type EpisodeSource } from "./train/episodes.ts";
export { type Ratios, score, type Scores } from "./train/score.ts";
export { advantagesOf, type StepAdvantages } from "./train/advantages.ts";
export { weigh } from "./train/weights.ts";
export { type Heads } from "./train/loss.ts";
export { type TrainedHead } from "./train/update.ts";
export { type RlOptions, trainRl } from "./train/loop.ts";

// Evaluation and metrics
export { evaluate, type EvaluateOptions, type Evaluation, worldModelLoss } from "./evaluate.ts";
export { type Metrics, rolloutMetrics } from "./episode/metrics.ts";
export { type PassResult, type StepReport, updateMetrics } from "./train/report.ts";
