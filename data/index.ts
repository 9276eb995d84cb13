/**
 * `worldgrad/data`: the episodes that a step learns from, as plug-ins choose or add them, and episodes of scripted
 * players.
 */
export { act, type ActOptions } from "./act.ts";
export { demonstrate, playScripted, type DemonstrationOptions } from "./demonstrations.ts";
export { exploration, type ExplorationOptions, temperatureSchedule, type TemperatureOptions } from "./exploration.ts";
export type { ToolChooser } from "./exploration.ts";
export { dynamicSampling, type DynamicSamplingOptions } from "./dynamic.ts";
export { expertPrefix, type ExpertPrefixOptions } from "./expertPrefix.ts";
export { predictions, type PredictionOptions } from "./predictions.ts";
export { type History, HistoryTemplate, type HistoryTemplateOptions } from "./history.ts";
export { hindsight, type HindsightOptions } from "./hindsight.ts";
export { imitateExpert, type ImitateExpertOptions } from "./imitateExpert.ts";
export { armsOf, type Curriculum, Learnability, type LearnabilityOptions } from "./curriculum.ts";
export { DifficultyPools, type DifficultyPool, type DifficultyPoolsOptions } from "./pools.ts";
export { FailedTasks, type FailedTasksOptions } from "./pools.ts";
export { ReplayBuffer, type ReplayedGroup, type ReplayOptions } from "./replay.ts";
