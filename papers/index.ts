/** `worldgrad/papers`: methods that are more than a loss: rewards and judges, self-play, search, preferences. */
export * from "./rewards/index.ts"; // with the headings of that file

// Rewards of steps
export { completeSteps, type CompletionOptions, type StepTries } from "./completions.ts";

// Search
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
export { type Beam, beamSearch, type BeamSearchOptions } from "./beamSearch.ts";

// Preferences and self-rewarding
export type { IterationReport, PreferenceLoopOptions } from "./preferences/loop.ts";
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
