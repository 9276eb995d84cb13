/**
 * `worldgrad/connect`: formats of other libraries: TRL's `GRPOConfig`, OpenEnv's roles.
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
