/** The settings of the main job, in one place. A run's `config.json` holds them all, so a run can be repeated and resumed. */
import { checkPlay } from "../rl/data/play.ts";
import { ENVIRONMENTS } from "../rl/environments/index.ts";
import { checkOffPolicy } from "../rl/objective.ts";
import { dataFor, type DataSettings, dataSettings, temperatureOf } from "./data.ts";
import { checkTasks, environmentSettings, taskOptions, type Tasks, tasksOf } from "./environments.ts";
import { checkLoop, type LoopSettings, loopSettings } from "./loop.ts";
import { DEFAULT_METHOD, type MethodSettings, methodSettings, objectiveFor, readGrpoConfig, usage } from "./methods.ts";
import { type ModelSize, type StartOptions, UsageError } from "./options.ts";
import type { RunFolder } from "./runFolder.ts";
import { checkRewards } from "./rewards.ts";
import { parseSettings } from "./settings.ts";
import { threadWorkers } from "./threads.ts";

export interface Preset extends Tasks {
  readonly env: string;
  readonly seed: number;
  readonly tokenizer: {
    readonly vocabSize: number;
    readonly corpusEpisodes: number;
    /** Whether a novice plays its share of them, as of the demonstrations; none: no. */
    readonly novices?: boolean;
  };
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
    /** Whether what the novice guesses is imitated, too, and not only read; none: yes. */
    readonly imitateNovices?: boolean;
    /** The model has read nothing before: it also reads the terminal's answers in the demonstrations, at this weight. */
    readonly observationWeight: number;
    /** −log p, or DFT's −p·log p; none: the first. */
    readonly loss?: "sft" | "dft";
    readonly steps: number;
    readonly batchSize: number;
    readonly lr: number;
    readonly warmup: number;
    readonly checkpointEvery: number;
  };
  /** The method (methods.ts), and how it is run. */
  readonly rl: MethodSettings & {
    readonly steps: number;
    readonly groups: number;
    readonly groupSize: number;
    readonly lr: number;
    readonly warmup: number;
    readonly betas: readonly [number, number];
    readonly clipNorm: number;
    readonly weightDecay: number;
    /** Passes over each batch of episodes; none: one. */
    readonly iterations?: number;
    /** Steps between two comparisons of the world model's gradient with the policy's (rl/gradients.ts); none: the library's. */
    readonly gradEvery?: number;
  };
  readonly rollout: {
    readonly temperature: number;
    readonly topK?: number;
    readonly topP?: number;
    readonly minP?: number;
    readonly maxTurns: number;
    readonly maxActionTokens: number;
    readonly maxObservationTokens: number;
  };
  /** What is played beside new tasks, and how (data.ts); none: nothing. */
  readonly data?: DataSettings;
  /** Threads that play while the learner learns (rl/async); none: play and learn in turn. */
  readonly async?: { readonly workers: number; readonly maxStaleness: number };
  /** Held-out tasks: `episodes` at every evaluation during training, `finalEpisodes` before and after. */
  readonly evaluation: {
    readonly every: number;
    readonly episodes: number;
    readonly finalEpisodes: number;
    /** Episodes of each task before and after, for pass@k; none: one. */
    readonly tries?: number;
  };
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

/** Tokens at most that the agent writes in an episode. */
export const longestCompletion = ({ rollout, model }: Preset): number =>
  Math.min(model.maxPositions, rollout.maxTurns * rollout.maxActionTokens);

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
  // Runs from before methods had names.
  const known = { ...preset, rl: { method: DEFAULT_METHOD, ...preset!.rl } } as Preset;
  checkPreset(known);
  return known;
}

/** The settings of a run from its flags. @throws UsageError if a name is unknown or the flags contradict each other */
export function presetFor(options: StartOptions): Preset {
  const { env = "home" } = options;
  const { limits, tokenizer = {}, sft = {}, rl = {} } = environmentSettings(env);
  const set = parseSettings(options.set ?? []);
  const trl = options.grpoConfig === undefined ? undefined : readGrpoConfig(options.grpoConfig);
  const loop = loopSettings(set, trl?.training);
  const temperature = temperatureOf(options, set);
  if (temperature !== undefined && loop.rollout.temperature !== undefined) {
    throw new UsageError("--grpo-config says what --temperature says; give one of them");
  }
  const data = dataSettings(options, set);
  const full: Preset = {
    env,
    ...tasksOf(env, set, options.seed),
    seed: options.seed,
    tokenizer: { vocabSize: 352, corpusEpisodes: 2000, ...tokenizer, ...loop.tokenizer },
    model: modelFor(options.model, env),
    sft: {
      demonstrations: 8000,
      noviceShare: 0.2,
      observationWeight: 0.1,
      steps: 900,
      batchSize: 32,
      lr: 4e-3,
      warmup: 50,
      checkpointEvery: 300,
      ...sft,
      ...loop.sft,
    },
    rl: {
      steps: 160,
      groups: 24,
      groupSize: 8,
      lr: 3e-4,
      warmup: 5,
      ...rl,
      ...(options.steps === undefined ? {} : { steps: options.steps }),
      ...methodSettings(options, set, trl?.choice),
      betas: [0.9, 0.95],
      clipNorm: 1,
      weightDecay: 0.01,
      ...loop.rl,
    },
    rollout: { temperature: typeof temperature === "number" ? temperature : 1, ...limits, ...loop.rollout },
    ...(data ? { data } : {}),
    ...asyncOf(options),
    evaluation: { every: 20, episodes: 120, finalEpisodes: 300 },
    checkpointEvery: 20,
  };
  const preset = options.quick ? quick(full, options, loop) : full;
  checkPreset(preset);
  return preset;
}

/** @throws UsageError if there is a bound on staleness and nobody who could play ahead */
function asyncOf({ workers, maxStaleness = 0 }: StartOptions): Pick<Preset, "async"> {
  if (workers !== undefined) return { async: { workers, maxStaleness } };
  if (maxStaleness === 0) return {};
  throw new UsageError("--max-staleness is for threads that play ahead of the learner; add --workers N");
}

/** Makes everything that the settings name, once, so that what does not fit together is said before anything is written. */
function checkPreset(preset: Preset): void {
  const { sft, rl, rollout, data = {}, env, seed } = preset;
  checkTasks(ENVIRONMENTS[env]!, preset);
  const objective = objectiveFor(rl, longestCompletion(preset));
  checkLoop(objective, { rl, rollout, sft, tokenizer: preset.tokenizer });
  usage(() => preset.async && threadWorkers(preset.async.workers));
  usage(() => checkOffPolicy(objective, { ...preset.async, replay: data.replay, iterations: rl.iterations ?? 1 }));
  usage(() => rl.reward && checkRewards(rl.reward));
  usage(() => {
    const { options } = dataFor(data, { env: ENVIRONMENTS[env]!, envOptions: taskOptions(preset, "train"), seed });
    checkPlay({ ...options, groups: rl.groups, groupSize: rl.groupSize, rollout: {} });
  });
}

function modelFor(size: ModelSize, env: string): Preset["model"] {
  const { maxPositions = 0, small = {} } = environmentSettings(env);
  const model = { ...MODELS[size], ...(size === "small" ? small : {}) };
  return { ...model, maxPositions: Math.max(model.maxPositions, maxPositions) };
}

/** Every part of the main job in a few seconds; nothing is learnt. */
function quick(full: Preset, options: StartOptions, said: LoopSettings): Preset {
  return {
    ...full,
    tokenizer: { ...full.tokenizer, vocabSize: 320, corpusEpisodes: 100, ...said.tokenizer },
    model: modelFor("tiny", full.env),
    sft: { ...full.sft, demonstrations: 60, steps: 12, batchSize: 8, warmup: 2, checkpointEvery: 6, ...said.sft },
    rl: { ...full.rl, steps: options.steps ?? 4, groups: 3, groupSize: 4, ...said.rl },
    evaluation: { every: 2, episodes: 15, finalEpisodes: 15 },
    checkpointEvery: 2,
  };
}
