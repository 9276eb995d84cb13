/**
 * The experiment of a page, from its address: the flags of `npm start`, without dashes (words.ts). The same words make
 * the same run in Node.
 */
import { type Arm, parseArms, presetOfArm } from "../run/arms.ts";
import type { Preset } from "../run/preset.ts";
import { presetFor } from "../run/presets.ts";
import { type StartOptions, startOptions } from "../run/startOptions.ts";
import { UsageError } from "../run/usage.ts";
import { addressOf, armText, checkShared, type ExperimentWords, saidBy, wordsOf } from "./words.ts";

export interface PageAgent {
  readonly arm: Arm;
  readonly preset: Preset;
}

export interface PageExperiment {
  readonly words: ExperimentWords;
  /** Whether it is the page's own experiment, with nothing changed. */
  readonly isUnchanged: boolean;
  readonly options: StartOptions;
  /** The settings of the warm start, which all agents share. */
  readonly warm: Preset;
  readonly agents: readonly PageAgent[];
}

/** Steps between two checkpoints: going back plays at most this many steps again. */
const CHECKPOINT_EVERY = 10;

/**
 * Steps between two measurements of the gradients for the live curves, unless the address says `set=rl.gradEvery=N`.
 * One measurement costs about a step.
 */
const GRAD_EVERY = 16;

/** @throws UsageError with one line that says what was expected and what came */
export const experimentOf = (address: URLSearchParams): PageExperiment => experimentOfWords(wordsOf(address));

/** The experiment of these words. @throws UsageError with one line */
export function experimentOfWords(words: ExperimentWords): PageExperiment {
  const { shared, agents } = words;
  for (const key of Object.keys(shared)) checkShared(key);
  const options = startOptions(saidBy(shared));
  if (options.device === "reference")
    throw new UsageError("device: expected auto, wasm or webgpu, which train here, got reference");
  const base: StartOptions = { ...options, env: options.env ?? "home" };
  const inPage = (preset: Preset): Preset => ({ ...preset, checkpointEvery: CHECKPOINT_EVERY });
  return {
    words,
    isUnchanged: addressOf(words).size === 0,
    options,
    warm: inPage(presetFor({ ...base, method: "grpo_token" })),
    agents: parseArms(agents.map(armText).join(",")).map((arm) => ({
      arm,
      preset: measured(inPage(presetOfArm(arm, base))),
    })),
  };
}

/** The preset with the gradients measured, which does not change training. */
const measured = (preset: Preset): Preset => ({
  ...preset,
  rl: { gradEvery: GRAD_EVERY, gradShares: true, ...preset.rl },
});
