/** The settings of the main job. A run's `config.json` has all of them, so that a run can be repeated and resumed. */
import type { ModelConfig } from "../nn/index.ts";
import { checkPlay } from "../rl/tasks/play.ts";
import { checkOffPolicy } from "../rl/methods/objective.ts";
import { dataSettings, temperatureOf } from "./data.ts";
import { dataFor } from "./dataOptions.ts";
import { checkTasks, checkThoughts, type EnvironmentSettings, environmentSettings, tasksOf } from "./environments.ts";
import { taskOptions, WORLDS } from "./worlds.ts";
import { type Earlier, loopOf, methodOf, worldOf } from "./from.ts";
import { checkLoop, type LoopSettings, loopSettings } from "./loop.ts";
import { methodSettings, objectiveFor } from "./methods.ts";
import { PLUGINS } from "./plugins.ts";
import type { Preset, PretrainedSettings } from "./preset.ts";
import { usage, UsageError } from "./usage.ts";
import type { ModelSize, StartOptions } from "./startOptions.ts";
import type { RunStore } from "./runStore.ts";
import { ADAPTER, EVALUATION, only } from "./parts.ts";
import { withRecipe } from "./recipes.ts";
import { checkCritic, checkRewards } from "./rewards.ts";
import { savedSettings } from "./savedSettings.ts";
import { parseSettings } from "./settings.ts";
import { longestCompletion } from "./template.ts";
import { checkSelfPlay } from "../rl/selfplay/options.ts";
import { checkCount, checkRoom } from "../rl/async/count.ts";

/**
 * The models by size. Initial weights are about 1/√hiddenSize, because with the usual 0.02 models this narrow hardly
 * start to learn. With many narrow heads and fast rotations (the usual theta is 10,000), models learn to copy names a
 * thousand steps earlier (docs/log.md).
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

/** The settings in a run's `config.json`. @throws UsageError if the main job did not write the file */
export function presetOf(folder: Pick<RunStore, "path" | "config">): Preset {
  const preset = savedSettings(folder.path, folder.config["preset"]);
  // Programs that play have loaded the environment's file before; others, such as export, do not need it.
  if (!Object.hasOwn(WORLDS, preset.env) && preset.environmentFile === undefined) {
    const known = Object.keys(WORLDS).join(", ");
    throw new UsageError(`${folder.path}: its config.json names the environment "${preset.env}", expected ${known}`);
  }
  checkPreset(preset);
  return preset;
}

/** A model to begin with: its part of a run's settings, and its sizes. */
export interface Source {
  readonly settings: PretrainedSettings;
  readonly config: ModelConfig;
}

/**
 * The settings of a run from its flags.
 * @param source the model of `--model-path`
 * @param earlier the run of `--from`
 * @throws UsageError if a name is unknown or the flags contradict each other
 */
export function presetFor(given: StartOptions, source?: Source, earlier?: Earlier): Preset {
  const options = withRecipe(given);
  const before = earlier?.preset;
  const { env = before?.env ?? "home" } = options;
  if (options.modelPath !== undefined && source === undefined)
    throw new UsageError("--model-path: only npm start for one agent reads a model from a folder");
  if (options.from !== undefined && earlier === undefined)
    throw new UsageError("--from: only npm start for one agent begins with another run");
  const set = parseSettings(options.set ?? []);
  const isSameWorld = before?.env === env;
  const own = before && isSameWorld ? worldOf(before) : environmentSettings(env, set["sft"]?.["thoughts"] === true);
  const { limits, tokenizer = {}, sft = {}, rl = {} } = own;
  const trl = options.grpoConfig;
  const loop = loopSettings(set, trl?.training);
  const { maxTokens, ...sampling } = loop.rollout;
  const temperature = temperatureOf(options, set);
  if (temperature !== undefined && sampling.temperature !== undefined) {
    throw new UsageError("--grpo-config says what --temperature says; give one of them");
  }
  const saidData = dataSettings(options, set);
  const isNamed = options.method !== undefined || trl !== undefined;
  const kept = earlier && !isNamed ? methodOf(earlier, options, set, saidData) : undefined;
  const data = kept ? kept.data : saidData;
  const method = options.method ?? (data?.selfPlay && METHOD_OF_SELF_PLAY[data.selfPlay.name]);
  const room = data?.selfPlay ? { maxActionTokens: PROPOSAL_TOKENS } : {};
  const full: Preset = {
    env,
    ...(options.environmentFile ? { environmentFile: options.environmentFile } : {}),
    ...tasksOf(env, own, set, options.seed),
    seed: options.seed,
    tokenizer: { vocabSize: 352, corpusEpisodes: 2000, ...tokenizer, ...loop.tokenizer },
    ...(earlier ? { from: earlier.settings } : {}),
    model: before ? { ...before.model, ...roomOf(before, maxTokens) } : modelFor(options.model, own, maxTokens),
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
      ...before?.sft,
      ...(source ? { lr: WHOLE_RATE } : {}),
      ...(source || before ? { steps: 0, warmup: 0 } : {}), // if steps are asked for, they train all weights
      ...loop.sft,
    },
    rl: {
      steps: 160,
      groups: 24,
      groupSize: 8,
      lr: 3e-4,
      warmup: 5,
      ...rl,
      ...(source ? { groups: 4, lr: rateOf(set), gradEvery: 0 } : {}),
      ...(options.steps === undefined ? {} : { steps: options.steps }),
      ...(kept?.method ?? methodSettings({ ...options, method }, set, trl?.choice)),
      betas: [0.9, 0.95],
      clipNorm: 1,
      weightDecay: 0.01,
      ...(before && isSameWorld ? loopOf(before) : {}),
      ...(before && options.steps !== undefined ? { steps: options.steps } : {}),
      ...loop.rl,
    },
    rollout: {
      temperature: typeof temperature === "number" ? temperature : (before?.rollout.temperature ?? 1),
      ...limits,
      ...room,
      ...sampling,
    },
    ...(set["lora"] || before?.lora ? { lora: set["lora"] ?? before?.lora } : {}),
    ...(data ? { data } : {}),
    ...asyncOf(options),
    evaluation: { ...(source ? FEW_EVALUATIONS : EVALUATIONS), ...before?.evaluation, ...set["evaluation"] },
    checkpointEvery: before?.checkpointEvery ?? 20,
  };
  const said = { ...full, ...(source ? pretrainedPart(full, source, own, maxTokens) : {}) };
  const short = options.quick ? quick(said, options, loop, set) : said;
  if (loop.rl.warmup !== undefined && loop.rl.warmup >= short.rl.steps)
    throw new UsageError(
      `--set rl.warmup: expected less than the ${short.rl.steps} steps of the run, as the rate only rises until ` +
        `then, got ${loop.rl.warmup}`,
    );
  const every = set["rl"]?.["checkpointEvery"] as number | undefined;
  const preset = { ...short, ...(every === undefined ? {} : { checkpointEvery: every }) };
  checkPreset(preset);
  return preset;
}

/** The default methods of self-play: Absolute Zero has an advantage of its own, with a baseline per task and role. */
const METHOD_OF_SELF_PLAY = { "absolute-zero": "trr++", "r-zero": "grpo_token" } as const;
/** The largest number of tokens of a proposal: room for four lists of three numbers. */
const PROPOSAL_TOKENS = 40;

const EVALUATIONS = { every: 20, episodes: 120, finalEpisodes: 300 };
/** Pretrained models are a hundred times as large, so that fewer tasks have to do. */
const FEW_EVALUATIONS = { every: 20, episodes: 16, finalEpisodes: 32 };

/** The learning rate for all weights of a pretrained model; an adapter's is ten times as high. */
const WHOLE_RATE = 1e-5;
const rateOf = (set: ReturnType<typeof parseSettings>): number => (set["lora"] ? 10 : 1) * WHOLE_RATE;

/** The model's own sizes. An episode may have as many tokens as the environment needs, up to the model's positions. */
function pretrainedPart(
  { lora, sft }: Preset,
  { settings, config }: Source,
  { maxPositions = ROOM }: EnvironmentSettings,
  maxTokens: number | undefined,
): Pick<Preset, "pretrained" | "model" | "tokenizer"> {
  const { hiddenSize, layers, heads, intermediateSize, ropeTheta, initializerRange } = config;
  if (maxTokens !== undefined && maxTokens > config.maxPositions)
    throw new UsageError(`--set rollout.maxTokens: the model has ${config.maxPositions} positions, got ${maxTokens}`);
  if (settings.storage !== "f32" && (lora === undefined || sft.steps > 0)) {
    const what = lora === undefined ? "add an adapter, as with --set lora.r=16" : "leave --set sft.… out";
    throw new UsageError(`--storage ${settings.storage}: weights in this form cannot be trained; ${what}`);
  }
  const positions = Math.min(config.maxPositions, maxTokens ?? Math.max(ROOM, maxPositions));
  return {
    pretrained: settings,
    tokenizer: { vocabSize: config.vocabSize, corpusEpisodes: 0 },
    model: { hiddenSize, layers, heads, intermediateSize, maxPositions: positions, ropeTheta, initializerRange },
  };
}

/** How long episodes may be under the model of an earlier run, which has learnt no further positions. */
function roomOf({ model }: Preset, maxTokens = model.maxPositions): Pick<Preset["model"], "maxPositions"> {
  if (maxTokens <= model.maxPositions) return { maxPositions: maxTokens };
  throw new UsageError(`--set rollout.maxTokens: the run's episodes had ${model.maxPositions}, got ${maxTokens}`);
}

/** The largest number of tokens of an episode, unless the environment needs more. */
const ROOM = 1024;

/** The settings of workers. @throws UsageError if there is a bound on staleness but no workers */
function asyncOf({ workers, maxStaleness = 0 }: StartOptions): Pick<Preset, "async"> {
  if (workers !== undefined) return { async: { workers, maxStaleness } };
  if (maxStaleness === 0) return {};
  throw new UsageError("--max-staleness is for threads that play ahead of the learner; add --workers N");
}

/** Makes everything that the settings name once, so that contradictions are reported before anything is written. */
function checkPreset(preset: Preset): void {
  const { sft, rl, rollout, data = {}, env } = preset;
  const world = WORLDS[env];
  if (world) checkTasks(world, preset);
  if (world && sft.thoughts) checkThoughts(env);
  const objective = objectiveFor(rl, longestCompletion(preset));
  // A run without a warm start, or without a tokenizer of its own, does not use their numbers, so they are not checked.
  const { steps: _, warmup: __, ...unused } = sft;
  checkLoop(objective, {
    rl,
    rollout,
    sft: sft.steps === 0 ? unused : sft,
    tokenizer: preset.pretrained ? {} : preset.tokenizer,
  });
  usage(() => EVALUATION.read(only(preset.evaluation, EVALUATION.fields)));
  const { workers } = preset.async ?? {};
  usage(() => typeof workers === "number" && checkCount("--workers", workers));
  usage(() => {
    const most = world?.atOnce?.(taskOptions(preset, "train")) ?? Infinity;
    if (typeof workers === "number") checkRoom("--workers", workers, { name: preset.env, most });
  });
  const { maxStaleness = 0 } = preset.async ?? {};
  const { iterations = 1 } = rl;
  const loss = flagOf(rl, "loss");
  between(loss, "--max-staleness", () => checkOffPolicy(objective, { maxStaleness }));
  between(loss, "--set rl.iterations", () => checkOffPolicy(objective, { iterations }));
  const { selfPlay } = data;
  usage(() => preset.lora && ADAPTER.read(preset.lora));
  usage(() => rl.reward && checkRewards(rl.reward, preset));
  usage(() => selfPlay && checkSelfPlay(selfPlay, { groups: rl.groups, objective }));
  if (objective.tokenWeights?.name === "outcome_critic") usage(() => checkCritic(preset));
  if (selfPlay) checkAlone(preset);
  if (rl.method === "sft" && sft.labelled !== undefined)
    throw new UsageError(
      "--set sft.labelled takes the actions of most demonstrations away, and --method sft imitates them all; " +
        "leave one of them out",
    );
  usage(() => {
    if (!world) return;
    const { options } = dataFor(data, preset);
    for (const plugin of options.plugins ?? []) {
      const { flag, against = "advantage" } = PLUGINS.find(({ name }) => name === plugin.name)!;
      const other = against === "groupSize" ? "--set rl.groupSize" : flagOf(rl, against);
      between(other, `--${flag.name}`, () => plugin.check?.({ objective, groupSize: rl.groupSize }));
    }
    checkPlay({ ...options, groups: rl.groups, groupSize: rl.groupSize, rollout: {} });
  });
}

/** The flag that says what the loss or the advantage is: its own, or that of the method. */
const flagOf = (rl: Preset["rl"], part: "advantage" | "loss"): string =>
  rl[part] === undefined ? `--method ${rl.method}` : `--${part} ${rl[part]}`;

/** Throws a UsageError that names both flags if the library refuses what they say together. */
function between(flag: string, other: string, make: () => unknown): void {
  try {
    usage(make);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    throw new UsageError(`${flag} and ${other}: ${error.message.replace(/^(objective|trainRl): /, "")}`);
  }
}

/** Throws a UsageError if self-play, which makes its own tasks and rewards, is combined with what does one of these. */
function checkAlone({ env, rl, async, data = {} }: Preset): void {
  if (env !== "code")
    throw new UsageError(`--self-play makes tasks about programs, which --env code measures; got --env ${env}`);
  const { selfPlay: _, ...others } = data;
  const other = Object.keys(others)[0];
  if (other !== undefined) {
    const flag = PLUGINS.find(({ name }) => name === other)?.flag.name ?? other;
    throw new UsageError(`--self-play makes its own tasks and plays them once; leave --${flag} out`);
  }
  if (rl.reward) {
    const own = rl.method.startsWith("gdpo") || rl.advantage === "gdpo";
    const whose = own ? "the advantage gdpo, which compares components of a reward," : "--reward and --set reward.…";
    throw new UsageError(`--self-play has rewards of its own; leave ${whose} out`);
  }
  if (async)
    throw new UsageError("--self-play proposes and solves in turn, and nobody can play ahead; leave --workers out");
}

function modelFor(
  size: ModelSize,
  { maxPositions = 0, small = {} }: EnvironmentSettings,
  maxTokens: number | undefined,
): Preset["model"] {
  const model = { ...MODELS[size], ...(size === "small" ? small : {}) };
  return { ...model, maxPositions: maxTokens ?? Math.max(model.maxPositions, maxPositions) };
}

/** Small settings that go through every part of the main job in a few seconds; the agent learns nothing. */
function quick(full: Preset, options: StartOptions, said: LoopSettings, set: ReturnType<typeof parseSettings>): Preset {
  const short = {
    ...full,
    rl: { ...full.rl, steps: options.steps ?? 4, groups: 3, groupSize: 4, ...said.rl },
    evaluation: { every: 2, episodes: 15, finalEpisodes: 15, ...set["evaluation"] },
    checkpointEvery: 2,
  };
  if (full.pretrained || full.from) return short;
  return {
    ...short,
    tokenizer: { ...full.tokenizer, vocabSize: 320, corpusEpisodes: 100, ...said.tokenizer },
    model: modelFor("tiny", environmentSettings(full.env, full.sft.thoughts), said.rollout.maxTokens),
    sft: { ...full.sft, demonstrations: 60, steps: 12, batchSize: 8, warmup: 2, checkpointEvery: 6, ...said.sft },
  };
}
