/**
 * `worldgrad/node`: everything that needs Node. It has models in Hugging Face's folder format, run folders that survive
 * a kill, and threads that play while the learner learns.
 *
 * The other entry points run in browsers too; this is the only one that imports `node:`.
 */
export {
  loadPretrained,
  type LoadPretrainedOptions,
  loadTokenizer,
  type Pretrained,
  savePretrained,
  type SavePretrainedOptions,
} from "./pretrained.ts";
export { episodeFormatFor, type EpisodeTextOptions, type ModelFolder, openModelFolder } from "./modelFolder.ts";
export { createRun, openRun, RunFolder } from "./runFolder.ts";
export { lockFolder, type LockOptions } from "./lock.ts";
export type { Checkpoint, RunConfig } from "../runStore.ts";
export { type ThreadOptions, threadWorkers } from "./threads.ts";
export type { MetricsRecord, Transcript } from "../records.ts";
export { codeReward, type CodeRewardOptions } from "./sandbox/codeReward.ts";
export { javascriptRunner, type SandboxOptions } from "./sandbox/runner.ts";
