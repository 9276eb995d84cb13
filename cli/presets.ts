/** The settings of the main job, in one place. A run's `config.json` holds them all, so a run can be repeated and resumed. */
import { nearest } from "../engine/options.ts";
import { checkStaleness } from "../rl/async/train.ts";
import { checkPlay } from "../rl/data/play.ts";
import type { EnvironmentOptions } from "../rl/environments/environment.ts";
import { ENVIRONMENTS } from "../rl/environments/index.ts";
import { dataFor, type DataSettings, dataSettings, temperatureOf } from "./data.ts";
import { checkLoop, type LoopSettings, loopSettings } from "./loop.ts";
import { DEFAULT_METHOD, type MethodSettings, methodSettings, objectiveFor, readGrpoConfig, usage } from "./methods.ts";
import { type ModelSize, type StartOptions, UsageError } from "./options.ts";
import type { RunFolder } from "./runFolder.ts";
import { checkRewards } from "./rewards.ts";
import { parseSettings } from "./settings.ts";
import { threadWorkers } from "./threads.ts";

export interface Preset {
  readonly env: string;
  /** Which of its tasks; none: all. */
  readonly tasks?: Pick<EnvironmentOptions, "levels">;
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

/** What an environment is after, and what its episodes need. */
interface EnvironmentSettings {
  readonly source: string;
  readonly tasks?: Preset["tasks"];
  readonly limits: Omit<Preset["rollout"], "temperature">;
  /** Tokens of an episode, where they are more than the model's size has by itself. */
  readonly maxPositions?: number;
  /** Where the warm start and RL differ from `terminal`'s; docs/log.md has what was tried. */
  readonly sft?: Partial<Preset["sft"]>;
  readonly rl?: Partial<Pick<Preset["rl"], "steps" | "groups" | "lr">>;
}

/**
 * Room for the expert's longest episodes and a few turns more. A board is a token for every cell and for every space between cells,
 * and comes again in every turn: the harder levels of the two worlds with boards would need contexts of a thousand tokens.
 */
const ENVIRONMENT_SETTINGS: Readonly<Record<string, EnvironmentSettings>> = {
  terminal: {
    source: "made for this project; the setting is ECHO's, arXiv 2605.24517",
    limits: { maxTurns: 5, maxActionTokens: 32, maxObservationTokens: 48 },
  },
  gridworld: {
    source: "after FrozenLake, Gym, arXiv 1606.01540",
    tasks: { levels: [1, 2] },
    limits: { maxTurns: 12, maxActionTokens: 8, maxObservationTokens: 48 },
    maxPositions: 512,
  },
  sokoban: {
    source: "after the game by H. Imabayashi, 1982",
    tasks: { levels: [1, 1] },
    limits: { maxTurns: 8, maxActionTokens: 8, maxObservationTokens: 48 },
    maxPositions: 384,
  },
  calculator: {
    source: "after GSM8K with its calculator, arXiv 2110.14168",
    tasks: { levels: [1, 3] },
    limits: { maxTurns: 6, maxActionTokens: 24, maxObservationTokens: 32 },
    maxPositions: 256,
    sft: { steps: 600 },
    rl: { steps: 60 },
  },
  search: {
    source: "after HotpotQA, arXiv 1809.09600, and Search-R1, arXiv 2503.09516",
    limits: { maxTurns: 8, maxActionTokens: 24, maxObservationTokens: 64 },
    maxPositions: 512,
  },
  shop: {
    source: "after WebShop, arXiv 2207.01206",
    limits: { maxTurns: 10, maxActionTokens: 24, maxObservationTokens: 64 },
    maxPositions: 640,
  },
  home: {
    source: "made for this project; the setting is ECHO's, arXiv 2605.24517",
    tasks: { levels: [2, 2] },
    limits: { maxTurns: 2, maxActionTokens: 32, maxObservationTokens: 60 },
  },
  household: {
    source: "after ALFWorld, arXiv 2010.03768",
    limits: { maxTurns: 16, maxActionTokens: 16, maxObservationTokens: 48 },
    maxPositions: 512,
  },
};

/** One line for each environment, for `--list`. */
export function listEnvironments(): string {
  const lines = Object.entries(ENVIRONMENT_SETTINGS).map(
    ([name, { source }]) => `  ${name.padEnd(24)}${ENVIRONMENTS[name]!.description} (${source})`,
  );
  return ["Environments (--env)", ...lines].join("\n");
}

function settingsOf(env: string): EnvironmentSettings {
  if (Object.hasOwn(ENVIRONMENT_SETTINGS, env)) return ENVIRONMENT_SETTINGS[env]!;
  const known = Object.keys(ENVIRONMENT_SETTINGS);
  const near = nearest(env, known);
  const hint = near === undefined ? `expected ${known.join(", ")}` : `did you mean "${near}"?`;
  throw new UsageError(`--env: unknown name "${env}"; ${hint}`);
}

/** Options of the environment of a run. */
export const taskOptions = ({ tasks }: Preset, split: "train" | "heldout"): EnvironmentOptions => ({ split, ...tasks });

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
  const { env = "terminal" } = options;
  const { tasks, limits, sft = {}, rl = {} } = settingsOf(env);
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
    ...(tasks === undefined ? {} : { tasks }),
    seed: options.seed,
    tokenizer: { vocabSize: 352, corpusEpisodes: 2000 },
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
  const objective = objectiveFor(rl, longestCompletion(preset));
  checkLoop(objective, { rl, rollout, sft });
  usage(() => {
    if (preset.async === undefined) return;
    threadWorkers(preset.async.workers);
    checkStaleness(objective, preset.async.maxStaleness);
  });
  usage(() => rl.reward && checkRewards(rl.reward));
  usage(() => {
    const { options } = dataFor(data, { env: ENVIRONMENTS[env]!, envOptions: taskOptions(preset, "train"), seed });
    checkPlay({ ...options, groups: rl.groups, groupSize: rl.groupSize, rollout: {} });
  });
}

function modelFor(size: ModelSize, env: string): Preset["model"] {
  const model = MODELS[size];
  return { ...model, maxPositions: Math.max(model.maxPositions, settingsOf(env).maxPositions ?? 0) };
}

/** Every part of the main job in a few seconds; nothing is learnt. */
function quick(full: Preset, options: StartOptions, said: LoopSettings): Preset {
  return {
    ...full,
    tokenizer: { vocabSize: 320, corpusEpisodes: 100 },
    model: modelFor("tiny", full.env),
    sft: { ...full.sft, demonstrations: 60, steps: 12, batchSize: 8, warmup: 2, checkpointEvery: 6, ...said.sft },
    rl: { ...full.rl, steps: options.steps ?? 4, groups: 3, groupSize: 4, ...said.rl },
    evaluation: { every: 2, episodes: 15, finalEpisodes: 15 },
    checkpointEvery: 2,
  };
}
