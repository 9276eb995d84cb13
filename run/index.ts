/**
 * `worldgrad/run`: the main job of one agent, wherever it runs: from settings as plain data through warm start,
 * evaluation and RL to a summary. `npm start`, the live page and the programs that the page exports are made of it.
 *
 * @example
 * const preset = presetFor(startOptions({ quick: true, method: "grpo_token+echo" }));
 * const store = new MemoryStore("a run", { preset });
 * const run = new Run(store, preset, await device("wasm"), observer, new AbortController().signal);
 * const summary = await run.run(false);
 */
export { MemoryStore } from "./memoryStore.ts";
export type { Observer } from "./observer.ts";
export type { Preset } from "./preset.ts";
export { type OwnReward, rewardFunction, type ScoredEpisode } from "./ownReward.ts";
export { presetFor } from "./presets.ts";
export { encodeMetrics, type Evaluation, type MetricsRecord, type Summary, type Transcript } from "./records.ts";
export { Run } from "./run.ts";
export type { Checkpoint, RunConfig, RunStore } from "./runStore.ts";
export { describeEpisodes, pickEpisodes } from "./transcripts.ts";
export { type StartOptions, startOptions } from "./startOptions.ts";
