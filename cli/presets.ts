/** The settings of the main job, in one place. A run's `config.json` holds them all, so a run can be repeated and resumed. */
import type { Aggregation } from "../rl/aggregation.ts";
import { ENVIRONMENTS } from "../rl/environments/index.ts";
import { type ModelSize, type StartOptions, UsageError } from "./options.ts";
import type { RunFolder } from "./runFolder.ts";

export interface Preset {
  readonly env: string;
  readonly seed: number;
  readonly tokenizer: { readonly vocabSize: number; readonly corpusEpisodes: number };
  readonly model: {
    readonly hiddenSize: number;
    readonly layers: number;
    readonly heads: number;
    readonly intermediateSize: number;
    readonly maxPositions: number;
    readonly ropeTheta: number;
    readonly initializerRange: number;
  };
  /** Warm start: supervised fine-tuning on a limited set of demonstrations. */
  readonly sft: {
    readonly demonstrations: number;
    /**
     * Share of the demonstrations that a novice plays (random commands with names of the task), the rest is the expert's: a mixture
     * as in the `medium-expert` sets of D4RL (Fu et al. 2020, arXiv 2004.07219). Imitation copies both; which of them pays is for
     * RL to find out. And the model reads what a terminal answers to mistakes, of which an expert makes none.
     */
    readonly noviceShare: number;
    /** The model has read nothing before: it also reads the terminal's answers in the demonstrations, at this weight. */
    readonly observationWeight: number;
    readonly steps: number;
    readonly batchSize: number;
    readonly lr: number;
    readonly warmup: number;
    readonly checkpointEvery: number;
  };
  /** GRPO + ECHO. */
  readonly rl: {
    readonly steps: number;
    readonly groups: number;
    readonly groupSize: number;
    readonly lr: number;
    readonly warmup: number;
    readonly epsilon: number;
    readonly epsilonHigh: number;
    readonly aggregation: Aggregation;
    readonly lambda: number;
    readonly betas: readonly [number, number];
    readonly clipNorm: number;
    readonly weightDecay: number;
  };
  readonly rollout: {
    readonly temperature: number;
    readonly maxTurns: number;
    readonly maxActionTokens: number;
    readonly maxObservationTokens: number;
  };
  /** Held-out tasks: `episodes` at every evaluation during training, `finalEpisodes` before and after. */
  readonly evaluation: { readonly every: number; readonly episodes: number; readonly finalEpisodes: number };
  readonly checkpointEvery: number;
}

/**
 * Initial weights of about 1/√hiddenSize: with the usual 0.02 models this narrow hardly start to learn. Many narrow heads and fast
 * rotations (the usual theta is 10,000) bring the copying of names forward by a thousand steps (docs/log.md).
 */
const MODELS: Readonly<Record<ModelSize, Preset["model"]>> = {
  tiny: {
    hiddenSize: 32,
    layers: 2,
    heads: 4,
    intermediateSize: 96,
    maxPositions: 192,
    ropeTheta: 100,
    initializerRange: 0.1,
  },
  small: {
    hiddenSize: 64,
    layers: 3,
    heads: 8,
    intermediateSize: 192,
    maxPositions: 192,
    ropeTheta: 100,
    initializerRange: 0.1,
  },
  base: {
    hiddenSize: 128,
    layers: 4,
    heads: 8,
    intermediateSize: 384,
    maxPositions: 256,
    ropeTheta: 100,
    initializerRange: 0.07,
  },
};

/** The settings that a run's `config.json` holds. @throws UsageError if it is not one that the main job wrote */
export function presetOf(folder: RunFolder): Preset {
  const preset = folder.config["preset"] as Partial<Preset> | undefined;
  const parts = ["tokenizer", "model", "sft", "rl", "rollout", "evaluation"] as const;
  const missing = parts.find((part) => typeof preset?.[part] !== "object");
  if (missing !== undefined)
    throw new UsageError(`${folder.path}: its config.json has no settings "${missing}" of the main job`);
  if (!Object.hasOwn(ENVIRONMENTS, preset?.env ?? "")) {
    throw new UsageError(
      `${folder.path}: its config.json names the environment "${preset?.env}", expected ${Object.keys(ENVIRONMENTS).join(", ")}`,
    );
  }
  return preset as Preset;
}

/** The settings of a run from its flags. */
export function presetFor(options: StartOptions): Preset {
  const full: Preset = {
    env: "terminal",
    seed: options.seed,
    tokenizer: { vocabSize: 352, corpusEpisodes: 2000 },
    model: MODELS[options.model],
    sft: {
      demonstrations: 8000,
      noviceShare: 0.2,
      observationWeight: 0.1,
      steps: 900,
      batchSize: 32,
      lr: 4e-3,
      warmup: 50,
      checkpointEvery: 300,
    },
    rl: {
      steps: options.steps ?? 160,
      groups: 24,
      groupSize: 8,
      lr: 3e-4,
      warmup: 5,
      epsilon: 0.2,
      epsilonHigh: 0.28,
      aggregation: "token-mean",
      lambda: options.lambda,
      betas: [0.9, 0.95],
      clipNorm: 1,
      weightDecay: 0.01,
    },
    rollout: { temperature: 1, maxTurns: 5, maxActionTokens: 32, maxObservationTokens: 48 },
    evaluation: { every: 20, episodes: 120, finalEpisodes: 300 },
    checkpointEvery: 20,
  };
  return options.quick ? quick(full, options) : full;
}

/** Every part of the main job in a few seconds; nothing is learnt. */
function quick(full: Preset, options: StartOptions): Preset {
  return {
    ...full,
    tokenizer: { vocabSize: 320, corpusEpisodes: 100 },
    model: MODELS.tiny,
    sft: { ...full.sft, demonstrations: 60, steps: 12, batchSize: 8, warmup: 2, checkpointEvery: 6 },
    rl: { ...full.rl, steps: options.steps ?? 4, groups: 3, groupSize: 4 },
    evaluation: { every: 2, episodes: 15, finalEpisodes: 15 },
    checkpointEvery: 2,
  };
}
