/**
 * `worldgrad/rl`: reinforcement learning for language agents that act, observe and learn a model of their world. This
 * file only exports names; the definitions, with their formulas and sources, are in the files that each line names.
 */

// Episodes: tokens with roles
export {
  append,
  type AppendOptions,
  emptyStream,
  isAgentToken,
  isCutShort,
  isTruncated,
  type Role,
  ROLES,
} from "./episode/stream.ts";
export { policyMask, sampledCount, STOP_REASONS, type StopReason, type TokenStream } from "./episode/stream.ts";
export { type Rollout, rolloutsOf, type TokenPlace, type Trajectory, turnCount } from "./episode/stream.ts";
export { type EpisodeFormat, SPECIAL_TOKENS, Template, type TemplateOptions } from "./episode/template.ts";

// Playing episodes
export { demonstrate, playScripted, type DemonstrationOptions } from "./play/demonstrations.ts";
export { type EpisodeRequest, rollout, type RolloutOptions } from "./play/rollout.ts";
export { completeSteps, type CompletionOptions, type StepTries } from "./play/completions.ts";

// Rewards in addition to the outcome
export * from "./rewards/index.ts";

// Methods: by name, or put together from parts
export { type KlChoice } from "./methods/losses/kl.ts";
export { listMethods, objectiveOf } from "./methods/presets.ts";
export { METHODS, type MethodChoice } from "./methods/choice.ts";
export { type GrpoConfigLike, methodFromGrpoConfig, objectiveFromGrpoConfig } from "./interop/grpoConfig.ts";
export {
  fromTokenRoles,
  TOKEN_ROLES,
  type TokenRole,
  type TokenRoleRecord,
  toTokenRoles,
  type WorldLossTarget,
  type WorldModelConfig,
  worldModelObjective,
} from "./interop/openEnvRoles.ts";
export { type Entry, type Table } from "./methods/names.ts";
export { type CriticOptions, type KlOptions, type Objective } from "./methods/objective.ts";
export { type ColumnName, COLUMNS, type Columns, rowOf, type TokenRow, withColumns } from "./methods/columns.ts";
export { type TermColumnsByName } from "./methods/columns.ts";
export {
  isOfReference,
  type PerToken,
  type TokenStatistic,
  TOKEN_STATISTICS,
  type TokenStatistics,
} from "./methods/tokenStatistics.ts";
export { type Aggregation, AGGREGATIONS, aggregationByName, aggregationWeights } from "./methods/aggregation.ts";

// Advantages
export { type AdvantageEstimator, ADVANTAGES, type Advantages, groupEstimator } from "./methods/advantages/index.ts";
export {
  biLevelGae,
  centred,
  gae,
  type GaeOptions,
  gigpo,
  type GigpoOptions,
  gpg,
  grpo,
} from "./methods/advantages/index.ts";
export {
  type GrpoOptions,
  maxRl,
  milestone,
  type MilestoneOptions,
  none,
  opo,
  optimalTokenBaseline,
} from "./methods/advantages/index.ts";
export { gdpo, type GdpoOptions, rae, rft } from "./methods/advantages/index.ts";
export {
  passAtK,
  reinforcePlusPlus,
  reinforcePlusPlusBaseline,
  remax,
  rloo,
  vapo,
  vtrace,
} from "./methods/advantages/index.ts";
export type { BiLevelOptions, PassAtKOptions, VtraceOptions } from "./methods/advantages/index.ts";

// Policy losses, penalties, corrections
export {
  POLICY_LOSSES,
  type PolicyLoss,
  type Segments,
  type StepView,
  type TokenColumns,
} from "./methods/losses/index.ts";
export {
  cispo,
  type CispoOptions,
  type DroOptions,
  type GmpoOptions,
  type GspoOptions,
  clipCov,
  dft,
  dppoKl,
  dppoTv,
  dpo,
  type DpoOptions,
  dro,
} from "./methods/losses/index.ts";
export {
  gmpo,
  gspo,
  m2po,
  type M2poOptions,
  importanceSampling,
  klCov,
  ppoClip,
  type PpoClipOptions,
  primeRl,
  reinforce,
} from "./methods/losses/index.ts";
export { sapo, type SapoOptions, sft, vespo, type VespoOptions } from "./methods/losses/index.ts";
export { webrl, type WebrlOptions } from "./methods/losses/index.ts";
export { AdaptiveEntropy, type AdaptiveEntropyOptions } from "./methods/losses/index.ts";
export { DecayingKl, type DecayingKlOptions, type KlController } from "./methods/losses/index.ts";
export { AdaptiveKl, type AdaptiveKlOptions, KL_ESTIMATORS, type KlEstimator } from "./methods/losses/index.ts";
export { klEstimatorByName, klPenalty, PREFERENCE_LOSSES, type PreferenceLoss } from "./methods/losses/index.ts";
export type { ClipCovOptions, DppoOptions, KlCovOptions, PrimeOptions } from "./methods/losses/index.ts";
export {
  importanceCorrection,
  type ImportanceCorrectionOptions,
  type RejectionOptions,
} from "./methods/importanceCorrection.ts";
export type { ImportanceCorrection } from "./methods/weighting.ts";
export { actFocus, type ActFocusOptions, UNCERTAINTIES, topEntropy } from "./methods/tokenWeights.ts";
export type { TokenWeighting } from "./methods/weighting.ts";

// World models
export {
  constantLambda,
  echo,
  ECHO_NORMALIZATIONS,
  type EchoNormalization,
  type EchoOptions,
} from "./methods/world/echo.ts";
export { type LambdaSchedule, linearLambda, stepLambda, type WorldObjective } from "./methods/world/echo.ts";
export { paw, type PawOptions } from "./methods/world/paw.ts";

// Further terms of the loss
export { type HeadTraining, type LossTerm, type TermColumns, type TermTokens } from "./methods/terms.ts";
export { type WeighedStep } from "./methods/terms.ts";
export { returnPrediction, type ReturnPredictionOptions } from "./methods/returnPrediction.ts";

// Data: rewards, temperatures, and plug-ins, which change which episodes a step has; filtered rollouts
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
export {
  exploration,
  type ExplorationOptions,
  temperatureSchedule,
  type TemperatureOptions,
} from "./tasks/exploration.ts";
export { type ToolChooser } from "./tasks/exploration.ts";
export { dynamicSampling, type DynamicSamplingOptions } from "./tasks/dynamic.ts";
export { expertPrefix, type ExpertPrefixOptions } from "./tasks/expertPrefix.ts";
export { predictions, type PredictionOptions } from "./tasks/predictions.ts";
export { hindsight, type HindsightOptions } from "./tasks/hindsight.ts";
export { imitateExpert, type ImitateExpertOptions } from "./tasks/imitateExpert.ts";
export { armsOf, type Curriculum, Learnability, type LearnabilityOptions } from "./tasks/curriculum.ts";
export { DifficultyPools, type DifficultyPool, type DifficultyPoolsOptions } from "./tasks/pools.ts";
export { FailedTasks, type FailedTasksOptions } from "./tasks/pools.ts";
export { ReplayBuffer, type ReplayedGroup, type ReplayOptions } from "./tasks/replay.ts";
export { filterRollouts, type FilterOptions } from "./methods/filter.ts";
export { succeeded, type Success, successRate } from "./episode/outcomes.ts";

// Training: steps and loops
export { type PreferencePair, preferenceRows, type PreferenceRowOptions } from "./methods/preference.ts";
export { sftRows } from "./methods/sft.ts";
export type { SftRowOptions } from "./methods/sft.ts";
export { optimizerStep, type OptimizerStepOptions } from "./train/step.ts";
export { type StepOptions, type TrainerOptions, trainStep } from "./train/step.ts";
export { type EpisodeSource } from "./train/episodes.ts";
export { type Ratios, score, type Scores } from "./train/score.ts";
export { advantagesOf, type StepAdvantages } from "./train/advantages.ts";
export { weigh } from "./train/weights.ts";
export { type Heads } from "./train/loss.ts";
export { type TrainedHead } from "./train/update.ts";
export { type PreferenceOptions, trainPreference } from "./methods/preference.ts";
export { type RlOptions, trainRl } from "./train/loop.ts";
export { type SftOptions, trainSft } from "./methods/sft.ts";

// Preferences: from searches in clones of an environment, and from judges
export {
  treeSearch,
  treeSearches,
  type SearchOptions,
  type SearchResult,
  type SearchStats,
} from "./preferences/search/mcts.ts";
export { nodesOf, principalLine, type SearchNode } from "./preferences/search/tree.ts";
export { type DrawnAction, type Position, type SearchStart, startEpisode } from "./preferences/search/position.ts";
export { type Actor, modelActor, type ModelActorOptions } from "./preferences/search/actor.ts";
export {
  type ActionCritic,
  headLeafValue,
  judgeCritic,
  type LeafValue,
  rankCritic,
} from "./preferences/search/critic.ts";
export { type SearchPair, type SearchPairOptions, searchPairs } from "./preferences/search/pairs.ts";
export { type AgentQOptions, type AgentQReport, trainAgentQ } from "./preferences/search/agentQ.ts";
export { type IterationReport, type PreferenceLoopOptions } from "./preferences/loop.ts";
export {
  approvalJudge,
  type ApprovalOptions,
  type EpisodeJudge,
  judgeEpisodes,
  type Judgement,
} from "./preferences/judges.ts";
export { type Ensemble, verifierJudge, votingJudge, worldModelJudge } from "./preferences/judges.ts";
export {
  judgedPairs,
  type SelfRewardOptions,
  type SelfRewardReport,
  trainSelfRewarding,
} from "./preferences/selfReward.ts";

// Evaluation and metrics
export { evaluate, type Evaluation, worldModelLoss } from "./evaluate.ts";
export { GRAD_EVERY, type GradientOptions } from "./train/gradients.ts";
export { type Metrics, rolloutMetrics } from "./episode/metrics.ts";
export { type PassResult, type StepReport, updateMetrics } from "./train/report.ts";

// Asynchronous training: rollout workers, and a queue between them and the learner
export { type AsyncOptions, type AsyncRlOptions, SCHEDULES, trainRlAsync } from "./async/train.ts";
export { localWorkers, type MessageTarget, messageWorkers, type RolloutWorker } from "./async/workers.ts";
export type { RolloutWorkers, WebWorkerLike, WorkerEvents, WorkerSetup } from "./async/workers.ts";
export { type ServeOptions, serveRollouts } from "./async/serve.ts";
export { type Finished, type QueueOptions, StalenessQueue } from "./async/queue.ts";
export type { FromWorker, Job, Policy, ToWorker, WireRequest } from "./async/messages.ts";
