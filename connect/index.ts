/**
 * `worldgrad/connect`: formats of other libraries (TRL's `GRPOConfig`, OpenEnv's roles), and weights of a world-model
 * loss by the tool that answered.
 */
export { type GrpoConfigLike, methodFromGrpoConfig, objectiveFromGrpoConfig } from "./grpoConfig.ts";
export {
  fromTokenRoles,
  TOKEN_ROLES,
  type TokenRole,
  type TokenRoleRecord,
  toTokenRoles,
  type WorldLossTarget,
  type WorldModelConfig,
  worldModelObjective,
} from "./openEnvRoles.ts";
export {
  toolsCalled,
  toolsOfTokens,
  type ToolWeighting,
  type ToolWeights,
  weighByTool,
  worldLossByTool,
} from "./toolWeights.ts";
