/**
 * `worldgrad/rl`: reinforcement learning for language agents that act, observe and learn a model of their world. Only names are
 * handed on here; the definitions, with the formulas and where they come from, are in the files that each line names.
 */

// What happened: tokens with roles
export { append, type AppendOptions, emptyStream, isAgentToken, type Role, ROLES } from "./stream.ts";
export { policyMask, sampledCount, STOP_REASONS, type StopReason, type TokenStream } from "./stream.ts";
export { type Trajectory, turnCount } from "./stream.ts";
export { SPECIAL_TOKENS, Template } from "./template.ts";

// Where it happens
export {
  type CallOptions,
  type Environment,
  type EnvironmentOptions,
  type EnvironmentSpec,
} from "./environments/environment.ts";
export { type FamilyInfo, SingleUseEnvironment, type StepInfo, type StepResult } from "./environments/environment.ts";
export { ENVIRONMENTS } from "./environments/index.ts";
export { terminal, TerminalEnvironment, type TerminalOptions } from "./environments/terminal/index.ts";
export { demonstrate, playScripted, type DemonstrationOptions } from "./demonstrations.ts";
export { type EpisodeRequest, rollout, type RolloutOptions } from "./rollout.ts";

// What is learnt from it: advantages, losses, the world model
export {
  type AdvantageEstimator,
  ADVANTAGES,
  type Advantages,
  centred,
  grpo,
  type GrpoOptions,
  none,
} from "./advantages.ts";
export { type Aggregation, AGGREGATIONS, aggregationByName, aggregationWeights } from "./aggregation.ts";
export { KL_ESTIMATORS, type KlEstimator, klPenalty, POLICY_LOSSES, type PolicyLoss } from "./losses.ts";
export { ppoClip, type PpoClipOptions, reinforce, type TokenColumns } from "./losses.ts";
export { constantLambda, echo, ECHO_NORMALIZATIONS, type EchoNormalization, type EchoOptions } from "./echo.ts";
export { type LambdaSchedule, linearLambda, stepLambda, type WorldObjective } from "./echo.ts";
export {
  type KlOptions,
  type Objective,
  planSft,
  planStep,
  type SftPlanOptions,
  type StepPlan,
  type TokenPlan,
} from "./objective.ts";

// How: steps and loops
export { score, type Scores, update, type UpdateOptions, type UpdateResult } from "./learner.ts";
export { type Learner, type RlOptions, type SftOptions, type StepReport, trainRl, trainSft } from "./trainer.ts";
export { evaluate, type Evaluation, worldModelLoss } from "./evaluate.ts";
export { type Metrics, rolloutMetrics, updateMetrics } from "./metrics.ts";
