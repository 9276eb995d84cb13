/** Settings of the main job for runs of a second or so. */
import type { Preset } from "../../run/preset.ts";
import { presetOfFlags } from "./presetOfFlags.ts";

/** `--quick`, smaller still. */
export function small(preset: Preset): Preset {
  return {
    ...preset,
    tokenizer: { vocabSize: 300, corpusEpisodes: 40 },
    model: { ...preset.model, hiddenSize: 16, layers: 1, heads: 2, intermediateSize: 32 },
    sft: { ...preset.sft, demonstrations: 24, steps: 30, checkpointEvery: 30, warmup: 2, lr: 1e-2 },
    rl: { ...preset.rl, steps: 2, groups: 2, groupSize: 3 },
    evaluation: { every: 2, episodes: 4, finalEpisodes: 4 },
    checkpointEvery: 2,
  };
}

/** A few steps to the goal, learnt just well enough that some episodes of a group succeed and some fail. */
export function lake(...flags: string[]): Preset {
  const preset = small(presetOfFlags("--quick", "--env", "gridworld", ...flags));
  return {
    ...preset,
    tasks: { levels: [1, 1] },
    model: { ...preset.model, hiddenSize: 32, layers: 1, heads: 4, intermediateSize: 64 },
    sft: { ...preset.sft, noviceShare: 0, observationWeight: 0, steps: 100, lr: 2e-2 },
    rl: { ...preset.rl, groups: 3, groupSize: 4 },
  };
}
