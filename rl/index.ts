/**
 * `worldgrad/rl`: reinforcement learning for language agents that act, observe and learn a model of their world. Only names are
 * handed on here; the definitions, with the formulas and where they come from, are in the files that each line names.
 */

// What happened: tokens with roles
export { append, type AppendOptions, emptyStream, isAgentToken, isTruncated, type Role, ROLES } from "./stream.ts";
export { policyMask, sampledCount, STOP_REASONS, type StopReason, type TokenStream } from "./stream.ts";
export { type Rollout, rolloutsOf, type TokenPlace, type Trajectory, turnCount } from "./stream.ts";
export { SPECIAL_TOKENS, Template, type TemplateOptions } from "./template.ts";

// Where it happens
export {
  type CallOptions,
  type Environment,
  type EnvironmentOptions,
  type EnvironmentSpec,
} from "./environments/environment.ts";
export { type FamilyInfo, SingleUseEnvironment, type StepInfo, type StepResult } from "./environments/environment.ts";
export { ENVIRONMENTS } from "./environments/index.ts";
export { type GameOptions } from "./environments/game.ts";
export { achievedTask, household, type HouseholdOptions } from "./environments/household/index.ts";
export { castle, type CastleOptions } from "./environments/castle/index.ts";
export { home, type HomeOptions } from "./environments/home/index.ts";
export { search } from "./environments/search/index.ts";
export { shop, type ShopOptions } from "./environments/shop/index.ts";
export { terminal, TerminalEnvironment, type TerminalOptions } from "./environments/terminal/index.ts";
export { gridworld, GridworldEnvironment, type GridworldOptions } from "./environments/gridworld/index.ts";
export { sokoban, SokobanEnvironment, type SokobanOptions } from "./environments/sokoban/index.ts";
export { calculator, CalculatorEnvironment, type CalculatorOptions } from "./environments/calculator/index.ts";
export {
  connect,
  type ConnectOptions,
  observationText,
  openEnv,
  OpenEnvEnvironment,
  OpenEnvError,
  type OpenEnvOptions,
  OpenEnvSession,
  type ReconnectOptions,
  type SocketLike,
} from "./environments/openenv/index.ts";
export {
  fromTokenRoles,
  TOKEN_ROLES,
  type TokenRole,
  type TokenRoleRecord,
  toTokenRoles,
  type WorldLossTarget,
  type WorldModelConfig,
  worldModelObjective,
} from "./environments/openenv/index.ts";
export { demonstrate, playScripted, type DemonstrationOptions } from "./demonstrations.ts";
export { type EpisodeRequest, rollout, type RolloutOptions } from "./rollout.ts";

// What it is worth beyond the outcome
export * from "./rewards/index.ts";

// What is learnt from it: a method by name, or put together from its parts
export { type KlChoice, listMethods, METHODS, type MethodChoice, objectiveOf } from "./methods.ts";
export { type GrpoConfigLike, methodFromGrpoConfig, objectiveFromGrpoConfig } from "./grpoConfig.ts";
export { type Entry, type Table } from "./names.ts";
export { type CriticOptions, type KlOptions, type Objective, type StepPlan, type TokenPlan } from "./objective.ts";
export { isReferenceSignal, type PerToken, type Signal, SIGNALS, type Signals } from "./signals.ts";
export { type Aggregation, AGGREGATIONS, aggregationByName, aggregationWeights } from "./aggregation.ts";

// Advantages
export { type AdvantageEstimator, ADVANTAGES, type Advantages, groupEstimator } from "./advantages.ts";
export { biLevelGae, centred, gae, type GaeOptions, gigpo, type GigpoOptions, gpg, grpo } from "./advantages.ts";
export {
  type GrpoOptions,
  maxRl,
  milestone,
  type MilestoneOptions,
  none,
  opo,
  optimalTokenBaseline,
} from "./advantages.ts";
export { gdpo, type GdpoOptions, rae, rft } from "./advantages.ts";
export { passAtK, reinforcePlusPlus, reinforcePlusPlusBaseline, remax, rloo, vapo, vtrace } from "./advantages.ts";
export type { BiLevelOptions, PassAtKOptions, VtraceOptions } from "./advantages.ts";

// Policy losses, penalties, corrections
export { POLICY_LOSSES, type PolicyLoss, type Segments, type StepView, type TokenColumns } from "./losses.ts";
export { cispo, type CispoOptions, clipCov, dft, dppoKl, dppoTv, dpo, type DpoOptions, dro } from "./losses.ts";
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
} from "./losses.ts";
export { sapo, type SapoOptions, sft, vespo, type VespoOptions } from "./losses.ts";
export { AdaptiveEntropy, type AdaptiveEntropyOptions } from "./losses.ts";
export { AdaptiveKl, type AdaptiveKlOptions, KL_ESTIMATORS, type KlEstimator } from "./losses.ts";
export { klEstimatorByName, klPenalty, PREFERENCE_LOSSES, type PreferenceLoss } from "./losses.ts";
export type { ClipCovOptions, DppoOptions, KlCovOptions, PrimeOptions } from "./losses.ts";
export { correction, type Correction, type CorrectionOptions, type RejectionOptions } from "./correction.ts";
export { actFocus, type ActFocusOptions, FOCUS_SIGNALS, type TokenFocus, topEntropy } from "./focus.ts";

// The world model
export { constantLambda, echo, ECHO_NORMALIZATIONS, type EchoNormalization, type EchoOptions } from "./echo.ts";
export { type LambdaSchedule, linearLambda, stepLambda, type WorldObjective } from "./echo.ts";
export { paw, type PawOptions } from "./paw.ts";

// Which data it is learnt from: temperatures, exploration, refills, help, predictions, curricula, replay, filtered rollouts
export { type DataOptions, type PlayOptions } from "./data/play.ts";
export { Exploration, type ExplorationOptions, temperatureSchedule, type TemperatureOptions } from "./data/sampling.ts";
export { type ToolChooser } from "./data/sampling.ts";
export { type DynamicSamplingOptions } from "./data/dynamic.ts";
export { type GuideOptions } from "./data/guide.ts";
export { type PredictionOptions } from "./data/predictions.ts";
export { armsOf, type Curriculum, Learnability, type LearnabilityOptions } from "./data/curriculum.ts";
export { type TaskChoice, type TaskOutcome } from "./data/curriculum.ts";
export { DifficultyPools, type DifficultyPool, type DifficultyPoolsOptions } from "./data/pools.ts";
export { FailedTasks, type FailedTasksOptions } from "./data/pools.ts";
export { ReplayBuffer, type ReplayedGroup, type ReplayOptions } from "./data/replay.ts";
export { filterRollouts, type FilterOptions } from "./data/filter.ts";
export { succeeded, type Success, successRate } from "./data/outcomes.ts";

// How: steps and loops
export { planPreference, planSft, type PreferencePair, type PreferencePlanOptions } from "./planSupervised.ts";
export { type SftPlanOptions } from "./planSupervised.ts";
export { planStep } from "./plan.ts";
export { type Critic, score, type Scores, update, type UpdateOptions, type UpdateResult } from "./learner.ts";
export { learn, type LearnOptions, type Learner, type PreparedStep, prepareStep, type StepReport } from "./learn.ts";
export {
  type PreferenceOptions,
  type RlOptions,
  type SftOptions,
  trainPreference,
  trainRl,
  trainSft,
} from "./trainer.ts";

// Preferences that nobody has to write down: from searches in clones of an environment, and from judges
export { treeSearch, treeSearches, type SearchOptions, type SearchResult, type SearchStats } from "./search/mcts.ts";
export { nodesOf, principalLine, type SearchNode } from "./search/tree.ts";
export { type DrawnAction, type Position, type SearchStart, startEpisode } from "./search/position.ts";
export { type Actor, modelActor, type ModelActorOptions } from "./search/actor.ts";
export { type ActionCritic, headLeafValue, judgeCritic, type LeafValue, rankCritic } from "./search/critic.ts";
export { type SearchPair, type SearchPairOptions, searchPairs } from "./search/pairs.ts";
export { type AgentQOptions, type AgentQReport, trainAgentQ } from "./search/agentQ.ts";
export { type IterationReport, type PreferenceLoopOptions } from "./preferenceLoop.ts";
export { approvalJudge, type ApprovalOptions, type EpisodeJudge, judgeEpisodes, type Judgement } from "./judges.ts";
export { type Ensemble, verifierJudge, votingJudge, worldModelJudge } from "./judges.ts";
export { judgedPairs, type SelfRewardOptions, type SelfRewardReport, trainSelfRewarding } from "./selfReward.ts";

// How well it is done
export { evaluate, type Evaluation, worldModelLoss } from "./evaluate.ts";
export { GRAD_EVERY, type GradientOptions } from "./gradients.ts";
export { type Metrics, rolloutMetrics, updateMetrics } from "./metrics.ts";

// Playing while learning: rollout workers, and a queue between them and the learner
export { type AsyncOptions, type AsyncRlOptions, SCHEDULES, trainRlAsync } from "./async/train.ts";
export { localWorkers, type MessageTarget, messageWorkers, type RolloutWorker } from "./async/workers.ts";
export type { RolloutWorkers, WebWorkerLike, WorkerEvents, WorkerSetup } from "./async/workers.ts";
export { type ServeOptions, serveRollouts } from "./async/serve.ts";
export { type Finished, type QueueOptions, StalenessQueue } from "./async/queue.ts";
export type { FromWorker, Job, Policy, ToWorker, WireRequest } from "./async/messages.ts";
