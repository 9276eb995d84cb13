/** The settings of the main job. A run's `config.json` has all of them, so that a run can be repeated and resumed. */
import type { ModelConfig } from "../nn/index.ts";
import { checkHistory } from "../data/history.ts";
import { checkPlay } from "../rl/tasks/play.ts";
import { checkGroupSize, checkOffPolicy, statisticsOf } from "../rl/objective/objective.ts";
import { isOfReference } from "../rl/objective/tokenStatistics.ts";
import { dataFor } from "./dataOptions.ts";
import { checkTasks, checkThoughts, environmentSettings, tasksOf } from "./environments.ts";
import { taskOptions, worldNamed, WORLDS } from "./worlds.ts";
import type { EnvironmentSettings } from "./worldSettings.ts";
import { type Earlier, layerOf, worldOf } from "./from.ts";
import { type Layer, Settings } from "./layers.ts";
import { optionsIn, type Values } from "./layout.ts";
import { objectiveFor, settleMethod, withAddOns } from "./methods.ts";
import { PLUGINS } from "./plugins.ts";
import type { Preset, PretrainedSettings, TeacherSettings } from "./preset.ts";
import { usage, UsageError } from "./usage.ts";
import { flagOf, type ModelSize, type StartOptions, valuesOfFlags } from "./startOptions.ts";
import type { RunStore } from "./runStore.ts";
import { DEFAULTS } from "./parts.ts";
import { inWordsOf, recipeOf } from "./recipes.ts";
import { checkCritic, checkRewards } from "./rewards.ts";
import { checkSettings } from "./savedSettings.ts";
import { parseSettings } from "./settings.ts";
import { settingsOf } from "./settingsOf.ts";
import { longestCompletion } from "./template.ts";
import { checkSelfPlay } from "../papers/selfplay/options.ts";
import { checkCount, checkRoom } from "../distribute/async/count.ts";

/**
 * The models by size. Initial weights are about 1/√hiddenSize, because with the usual 0.02 models this narrow hardly
 * start to learn. With many narrow heads and fast rotations (the usual theta is 10,000) models learn to copy names a
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
  const preset: unknown = folder.config["preset"];
  checkSettings(preset, `${folder.path}: its config.json`);
  // Programs that play have loaded the environment's file before; others, such as export, do not need it.
  if (worldNamed(preset.env) === undefined && preset.environmentFile === undefined) {
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
 * @param teacher the model of `--teacher`
 * @throws UsageError if a name is unknown or the flags contradict each other
 */
export function presetFor(
  options: StartOptions,
  source?: Source,
  earlier?: Earlier,
  teacher?: TeacherSettings,
): Preset {
  const before = earlier?.preset;
  const { env = before?.env ?? "home", seed } = options;
  if (options.modelPath !== undefined && source === undefined)
    throw new UsageError("--model-path: only npm start for one agent reads a model from a folder");
  if (options.from !== undefined && earlier === undefined)
    throw new UsageError("--from: only npm start for one agent begins with another run");
  if (options.teacher !== undefined && teacher === undefined)
    throw new UsageError("--teacher: only npm start for one agent learns from a teacher");
  const { values, tasks } = parseSettings(options.set ?? []);
  const written = layersOf(options, values);
  const given = new Settings(written);
  const goesOn = { world: before?.env === env, method: !given.has("rl.method") };
  const world = before && goesOn.world ? worldOf(before) : environmentSettings(env, given.get("sft.thoughts") === true);
  const selfPlay = given.get("selfPlay.name");
  const recipe = recipeOf(given.get("rl.method") ?? "");
  const settings = new Settings([
    { values: DEFAULTS },
    { values: ofWorld(source ? { ...world, tokenizer: undefined } : world, options.model) },
    { values: source ? ofSource(source, world, given) : {} },
    earlier ? layerOf(earlier, goesOn) : { values: {} },
    { values: options.quick ? quick(env, given, before !== undefined || source !== undefined) : {} },
    { values: selfPlay === undefined ? {} : SELF_PLAY[selfPlay] },
    recipe?.layer ?? { values: {} },
    ...written,
  ]);
  if (recipe) settings.put("rl.method", recipe.method);
  if (recipe?.name === "opd" && teacher === undefined)
    throw new UsageError("--method opd learns from another model: name its folder, or its run, by --teacher PATH");
  inWordsOf(recipe, () => settleMethod(settings));
  checkSource(settings, source, before, teacher);
  if (settings.isWritten("rl.warmup") && settings.get("rl.warmup")! >= settings.get("rl.steps")!)
    throw new UsageError(
      `${settings.by("rl.warmup")}: expected less than the ${settings.get("rl.steps")!} steps of the run, as the ` +
        `rate only rises until then, got ${settings.get("rl.warmup")!}`,
    );
  const preset: unknown = {
    ...settingsOf(settings.parts()),
    ...tasksOf(env, world, tasks, seed),
    env,
    seed,
    environmentFile: options.environmentFile,
    rewardFile: options.rewardFile,
    pretrained: source?.settings,
    from: earlier?.settings,
    teacher,
  };
  checkSettings(preset);
  inWordsOf(recipe, () => checkPreset(preset, (key) => settings.by(key)));
  return preset;
}

/**
 * The layers that a person has written. @throws UsageError if `--method` beside `--grpo-config` is more than add-ons
 */
function layersOf(options: StartOptions, set: Values): Layer[] {
  const flags = { values: valuesOfFlags(options), by: flagOf, isWritten: true };
  const given = { values: set, by: (key: string) => `--set ${key}`, isWritten: true };
  if (!options.grpoConfig) return [flags, given];
  const { choice, training } = options.grpoConfig;
  const { learningRate: lr, rollout, ...loop } = training;
  const method = withAddOns(choice.method!, options.method);
  const values = optionsIn({ rl: { ...choice, method, ...loop, lr }, rollout });
  return [
    { values, by: () => "--grpo-config", isWritten: true },
    { ...flags, values: { ...flags.values, "rl.method": undefined } },
    given,
  ];
}

/**
 * The settings that self-play changes. Absolute Zero has its own advantage, with a baseline per task and role. A
 * proposal has room for four lists of three numbers.
 */
const SELF_PLAY = {
  "absolute-zero": { "rl.method": "trr++", "rollout.maxActionTokens": 40 },
  "r-zero": { "rl.method": "grpo_token", "rollout.maxActionTokens": 40 },
} as const;

/** The numbers of an environment, with a model of this size. */
function ofWorld(
  { limits, tokenizer, sft, rl, small, maxPositions = 0 }: EnvironmentSettings,
  size: ModelSize,
): Values {
  const model = { ...MODELS[size], ...(size === "small" ? small : undefined) };
  const room = { maxPositions: Math.max(model.maxPositions, maxPositions) };
  return optionsIn({ rollout: limits, tokenizer, sft, rl, model: { ...model, ...room } });
}

/**
 * The settings that a pretrained model changes. Its weights are all trained only in the steps of a warm start, if there
 * are any. Such models are a hundred times as large, so fewer tasks have to be enough. An adapter's rate is ten times
 * that of all weights. An episode may have as many tokens as the environment needs, up to the model's positions.
 */
function ofSource({ config }: Source, { maxPositions: needed = ROOM }: EnvironmentSettings, given: Settings): Values {
  const { vocabSize, hiddenSize, layers, heads, intermediateSize, ropeTheta, initializerRange } = config;
  const maxPositions = Math.min(config.maxPositions, Math.max(ROOM, needed));
  return optionsIn({
    tokenizer: { vocabSize, corpusEpisodes: 0 },
    model: { hiddenSize, layers, heads, intermediateSize, maxPositions, ropeTheta, initializerRange },
    sft: { lr: WHOLE_RATE, steps: 0, warmup: 0 },
    rl: { groups: 4, lr: (given.keys("lora").length > 0 ? 10 : 1) * WHOLE_RATE, gradEvery: 0 },
    evaluation: { episodes: 16, finalEpisodes: 32 },
  });
}

/** The learning rate for all weights of a pretrained model. */
const WHOLE_RATE = 1e-5;
/** The largest number of tokens of an episode, unless the environment needs more. */
const ROOM = 1024;

/** Small settings that go through every part of the main job in a few seconds; the agent learns nothing. */
function quick(env: string, given: Settings, hasModel: boolean): Values {
  const short = optionsIn({
    rl: { steps: 4, groups: 3, groupSize: 4 },
    evaluation: { every: 2, episodes: 15, finalEpisodes: 15 },
    checkpointEvery: 2,
  });
  if (hasModel) return short;
  const { maxPositions = 0 } = environmentSettings(env, given.get("sft.thoughts") === true);
  return {
    ...short,
    ...optionsIn({
      tokenizer: { vocabSize: 320, corpusEpisodes: 100 },
      model: { ...MODELS.tiny, maxPositions: Math.max(MODELS.tiny.maxPositions, maxPositions) },
      sft: { demonstrations: 60, steps: 12, batchSize: 8, warmup: 2, checkpointEvery: 6 },
    }),
  };
}

/** @throws UsageError if the model that the run begins with lacks a requested part */
function checkSource(
  settings: Settings,
  source: Source | undefined,
  before: Preset | undefined,
  teacher: TeacherSettings | undefined,
): void {
  const made = settings.keys("tokenizer").find((key) => settings.isWritten(key));
  if (made !== undefined && (source || before || teacher))
    throw new UsageError(`${settings.by(made)} is about a tokenizer that is made, and the run begins with another's`);
  const most = source?.config.maxPositions ?? before?.model.maxPositions ?? Infinity;
  const room = settings.get("model.maxPositions")!;
  if (room > most) {
    const has = source ? `the model has ${most} positions` : `the run's episodes had ${most}`;
    throw new UsageError(`${settings.by("model.maxPositions")}: ${has}, got ${room}`);
  }
  const isFrozen = settings.keys("lora").length > 0 && settings.get("sft.steps") === 0;
  if (source && source.settings.storage !== "f32" && !isFrozen) {
    const { storage } = source.settings;
    const what = settings.keys("lora").length > 0 ? "leave --set sft.… out" : "add an adapter, as with --set lora.r=16";
    throw new UsageError(`--storage ${storage}: weights in this form cannot be trained; ${what}`);
  }
}

/**
 * Makes everything that the settings name once, so that contradictions are reported before anything is written.
 * @param by the source of an option
 */
function checkPreset(preset: Preset, by = flagOf): void {
  const { sft, rl, data = {}, env, async: { workers, maxStaleness = 0 } = {} } = preset;
  const world = worldNamed(env);
  if (world) checkTasks(world, preset);
  if (world && sft.thoughts) checkThoughts(env);
  const objective = objectiveFor(rl, longestCompletion(preset));
  checkWarmStart(preset);
  checkReading(preset);
  if (preset.teacher && !statisticsOf(objective).some(isOfReference))
    throw new UsageError(`--teacher: ${nameOf(rl, "loss")} asks no reference; add --kl X, or choose --method opd`);
  if (world && !world.expert) checkWithoutExpert(preset);
  usage(() => checkGroupSize(objective.advantage, rl.groupSize, "--set rl.groupSize"));
  usage(() => {
    if (typeof workers !== "number") return;
    checkCount("--workers", workers);
    checkRoom("--workers", workers, { name: env, most: world?.atOnce?.(taskOptions(preset, "train")) ?? Infinity });
  });
  const loss = nameOf(rl, "loss");
  between(loss, by("async.maxStaleness"), () => checkOffPolicy(objective, { maxStaleness }));
  between(loss, by("rl.iterations"), () => checkOffPolicy(objective, { iterations: rl.iterations ?? 1 }));
  const { selfPlay } = data;
  usage(() => rl.reward && checkRewards(rl.reward, preset));
  usage(() => selfPlay && checkSelfPlay(selfPlay, { groups: rl.groups, objective }));
  if (objective.tokenWeights?.name === "outcome_critic") usage(() => checkCritic(preset));
  if (selfPlay) checkAlone(preset, by);
  usage(() => {
    if (!world) return;
    const { options } = dataFor(data, preset);
    for (const plugin of options.plugins ?? []) {
      const { name, flag, against = "advantage" } = PLUGINS.find((entry) => entry.name === plugin.name)!;
      const other = against === "groupSize" ? by("rl.groupSize") : nameOf(rl, against);
      const written = by(`${name}.${flag.kind === "switch" ? "on" : flag.option}`);
      between(other, written, () => plugin.check?.({ objective, groupSize: rl.groupSize }));
    }
    checkPlay({ ...options, groups: rl.groups, groupSize: rl.groupSize, rollout: {} });
  });
}

/** @throws UsageError if numbers of the warm start contradict each other */
function checkWarmStart({ sft, rl, tokenizer, pretrained, from }: Preset): void {
  if (tokenizer.corpusEpisodes === 0 && !pretrained && !from)
    throw new UsageError("--set tokenizer.corpusEpisodes: a tokenizer is made of at least 1 episode, got 0");
  const { labelled, demonstrations, steps, warmup } = sft;
  if (sft.noviceShare === 1 && sft.imitateNovices === false)
    throw new UsageError("--set sft.imitateNovices: with sft.noviceShare=1 there would be nobody to imitate");
  // A run without a warm start does not use its numbers.
  if (steps > 0 && steps <= warmup)
    throw new UsageError(
      `--set sft.steps: expected more than sft.warmup, ${warmup}, in which the rate rises, got ${steps}`,
    );
  if (labelled === undefined) return;
  if (labelled >= demonstrations)
    throw new UsageError(
      `--set sft.labelled: expected fewer than sft.demonstrations, ${demonstrations}, as the others are labelled, ` +
        `got ${labelled}`,
    );
  if (sft.thoughts)
    throw new UsageError("--set sft.labelled: labels are actions without thoughts; leave sft.thoughts out");
  if (rl.method === "sft")
    throw new UsageError(
      "--set sft.labelled takes the actions of most demonstrations away, and --method sft imitates them all; " +
        "leave one of them out",
    );
}

/** @throws UsageError if the history keeps more turns than it reads, or leaves out thoughts that nobody has */
function checkReading({ history, sft, pretrained, from }: Preset): void {
  if (history === undefined) return;
  usage(() => checkHistory(history));
  if (history.thoughts === false && !sft.thoughts && !pretrained?.thought && !from?.thought)
    throw new UsageError("--set history.thoughts: this agent has none; add --thinking or --set sft.thoughts=true");
}

/** @throws UsageError if demonstrations are needed where nobody can give any */
function checkWithoutExpert({ env, sft, rl, tokenizer, pretrained, from }: Preset): void {
  const none = `${env} has no expert, and so no demonstrations`;
  if (!pretrained && !from && (sft.steps > 0 || tokenizer.corpusEpisodes > 0))
    throw new UsageError(
      `--env ${env}: ${none} for a warm start; begin with a model that can act, by --model-path DIR or --from RUN`,
    );
  if (sft.steps > 0) throw new UsageError(`--set sft.steps: ${none}; leave it out`);
  if (rl.method === "sft" || rl.method === "expert")
    throw new UsageError(`--method ${rl.method}: ${none} to imitate; choose a method that learns from rewards`);
}

/** The flag that names the loss or the advantage: its own, or that of the method. */
const nameOf = (rl: Preset["rl"], part: "advantage" | "loss"): string =>
  rl[part] === undefined ? `--method ${rl.method}` : `--${part} ${rl[part]}`;

/** Throws a UsageError that names both flags if the library refuses their combination. */
function between(flag: string, other: string, make: () => unknown): void {
  try {
    usage(make);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    throw new UsageError(`${flag} and ${other}: ${error.message.replace(/^(objective|trainRl): /, "")}`);
  }
}

/** Throws a UsageError if self-play, which makes its own tasks and rewards, is combined with another part that does. */
function checkAlone({ env, rl, async, data = {} }: Preset, by: (key: string) => string): void {
  if (env !== "code")
    throw new UsageError(`--self-play makes tasks about programs, which --env code measures; got --env ${env}`);
  const { selfPlay: _, ...others } = data;
  const other = Object.keys(others)[0];
  if (other !== undefined) {
    const plugin = PLUGINS.find(({ name }) => name === other)?.flag;
    const key = plugin ? `${other}.${plugin.kind === "switch" ? "on" : plugin.option}` : "rollout.temperature";
    throw new UsageError(`--self-play makes its own tasks and plays them once; leave ${by(key)} out`);
  }
  if (rl.reward) {
    const isGdpo = rl.method.startsWith("gdpo") || rl.advantage === "gdpo";
    const option = by(`reward.${Object.keys(rl.reward)[0]!}`);
    const whose = isGdpo ? "the advantage gdpo, which compares components of a reward," : option;
    throw new UsageError(`--self-play has rewards of its own; leave ${whose} out`);
  }
  if (async)
    throw new UsageError("--self-play proposes and solves in turn, and nobody can play ahead; leave --workers out");
}
