/**
 * Rewards and shaping: pure functions of episodes and texts. The environment's own reward is the outcome; these rewards
 * are added to it.
 */

// Rewards: how the agent writes
export { formatScore, malformedActions, repetitionPenalty, type RepetitionOptions, thinkFormat } from "./behaviour.ts";
export { toolEfficiency, type ToolEfficiencyOptions } from "./behaviour.ts";
export { cosineLength, type CosineLengthOptions, linearLength, sigmoidLength, softOverlong } from "./length.ts";
export { type ToolCall, type ToolCallOptions, toolCallReward, toolRlReward } from "./toolCalls.ts";
export { type Turn, turnsOf } from "../../rl/episode/turns.ts";

// Rewards: programs, patches, maths
export {
  type CodeFailure,
  type CodeGrade,
  type CodeGradeOptions,
  type CodeOutcome,
  type CodeRunner,
  type CodeTest,
  type CodeValue,
  extractCode,
  gradeCode,
  sameValue,
} from "./code.ts";
export { codeRlReward, ppoCoderReward, sweRlReward } from "./program.ts";
export { patchSimilarity, similarity, splitPatch } from "./similarity.ts";
export { finalAnswer, mathsReward, normalizeMaths, sameMaths } from "./maths.ts";

// Rewards: several components, judges
export { composite, type CompositeOptions, type CompositeReward, type RewardComponent } from "./composite.ts";
export { bothOrders, type Comparison, type EnsembleOptions, type Judge } from "./judge.ts";
export { judgesReward, majorityVote, type Verdict, verdictReward } from "./judge.ts";

// Rewards of steps
export { PROCESS_FORMS, processRewards, solutionScore, STEP_LABELS, stepLabels, weightedVote } from "./process.ts";
