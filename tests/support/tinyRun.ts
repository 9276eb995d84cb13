/**
 * The main job with the smallest settings that go through every part of it: a warm start, evaluations, RL, checkpoints,
 * both logs. It takes a tenth of a second, so that a test can run it a thousand times.
 */
import type { Observer, Watch } from "../../run/observer.ts";
import type { Preset } from "../../run/preset.ts";
import { presetFor } from "../../run/presets.ts";
import { parseStart } from "../../run/node/commandLine.ts";
import type { StartOptions } from "../../run/startOptions.ts";
import { EventLoop } from "../../rl/play/eventLoop.ts";
import { definedOf } from "./mainJob.ts";

/** An observer that does nothing. */
export const QUIET: Observer = {
  phase: () => undefined,
  update: () => undefined,
  evaluation: () => undefined,
  transcript: () => undefined,
  note: () => undefined,
};

/** For a part of a run that nobody looks at and nobody stops. */
export const unwatched = (): Watch => ({
  observer: QUIET,
  eventLoop: new EventLoop(),
  signal: new AbortController().signal,
});

/** @param flags of `npm start`, on top of those of the smallest run */
export function tinyPreset(...flags: string[]): Preset {
  const world = flags.includes("--env") ? [] : ["--env", "gridworld"];
  const options = parseStart(["--quick", ...world, ...flags]) as StartOptions;
  const preset = presetFor(definedOf(options));
  return {
    ...preset,
    tokenizer: { vocabSize: 270, corpusEpisodes: 4 },
    model: { ...preset.model, hiddenSize: 8, layers: 1, heads: 2, intermediateSize: 8 },
    sft: { ...preset.sft, demonstrations: 4, steps: 2, batchSize: 2, warmup: 1, checkpointEvery: 2 },
    rl: { ...preset.rl, groups: 1, groupSize: 2, gradEvery: 0 },
    rollout: { ...preset.rollout, maxTurns: 2, maxActionTokens: 2 },
    evaluation: { every: 1, episodes: 1, finalEpisodes: 1 },
    checkpointEvery: 1,
  };
}
