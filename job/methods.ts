/**
 * The method of a run: from names and numbers on the command line to the settings in `config.json`, and from those to
 * the objective. If parts do not fit together, the user gets one line before anything is written.
 */
import { WorldgradError } from "../engine/index.ts";
import { type AdvantageEstimator, ADVANTAGES } from "../rl/methods/advantages/index.ts";
import { type Aggregation, aggregationByName } from "../rl/methods/aggregation.ts";
import type { ImportanceCorrectionOptions, RejectionOptions } from "../rl/methods/importanceCorrection.ts";
import { PREFERENCE } from "../rl/methods/losses/preference.ts";
import { SUPERVISED } from "../rl/methods/losses/supervised.ts";
import { type MethodChoice, METHODS, objectiveOf, splitNames } from "../rl/methods/presets.ts";
import type { RolloutFilter } from "../rl/methods/filter.ts";
import { type AdaptiveEntropyOptions, POLICY_LOSSES } from "../rl/methods/losses/index.ts";
import type { KlChoice } from "../rl/methods/losses/kl.ts";
import { entryByName } from "../rl/methods/names.ts";
import { type CriticOptions, type Objective, worldsOf } from "../rl/methods/objective.ts";
import { oneOf, UsageError } from "./usage.ts";
import type { MethodFlags } from "./startOptions.ts";
import { rewardSettings, rewardWeights } from "./rewards.ts";
import { type ScheduleData, scheduleOf } from "./schedules.ts";
import { checkYardstick, isYardstick, type Yardstick } from "./yardsticks.ts";
import { METHOD_PARTS, type OutcomeCriticOptions, type RewardSettings } from "./parts.ts";
import { once, type Settings } from "./settings.ts";

/** The method of a run that names none. */
export const DEFAULT_METHOD = "grpo_token+echo";

/** A method as names and numbers: everything that `config.json` needs to make it again. */
export interface MethodSettings extends Pick<
  MethodChoice,
  | "entropy"
  | "imitation"
  | "rolloutFilter"
  | "maskTruncated"
  | "trainObservations"
  | "dropConstantGroups"
  | "rewardFrom"
  | "maxLength"
> {
  /** A preset and its add-ons, as in `dapo+echo+actfocus`. */
  readonly method: string;
  /** Parts in place of the preset's. */
  readonly advantage?: string;
  readonly loss?: string;
  readonly aggregation: Aggregation;
  /** Options of the parts, by part and option. */
  readonly options?: Settings;
  /** A penalty on moving away from the warm start; with a target its coefficient adapts to the KL. */
  readonly kl?: KlChoice;
  readonly critic?: CriticOptions;
  readonly importanceCorrection?: ImportanceCorrectionOptions;
  /** The outcome, if it is not the environment's own, and the components of the return in addition to it. */
  readonly reward?: RewardSettings;
  readonly outcomeCritic?: OutcomeCriticOptions;
  /** For the method `sft`: true leaves out the novice's demonstrations. */
  readonly expertsOnly?: boolean;
}

/** The modes of `--importance-correction`. */
const IMPORTANCE_CORRECTIONS = { tis: "truncate", icepop: "mask" } as const;

/**
 * The method that the flags describe.
 * @param set the settings from `--set`
 * @param trl the method from `--grpo-config`, which has preset, loss, advantage and aggregation
 * @throws UsageError with one line if a name is unknown or the flags contradict each other
 */
export function methodSettings(flags: MethodFlags, set: Settings = {}, trl?: MethodChoice): MethodSettings {
  return usage(() => {
    const { advantage, loss, aggregation, method = DEFAULT_METHOD } = flags;
    if (isYardstick(method) && !trl) return yardstickSettings(method, flags, set);
    const yardstick = method.split("+").find(isYardstick);
    if (yardstick !== undefined)
      throw new UsageError(`--method ${method}: ${yardstick} is no RL and takes no add-ons; leave the others out`);
    for (const name of [flags.method ?? "", ...(flags.method ?? "").split("+"), loss ?? ""]) refuseOtherData(name);
    if (advantage !== undefined) entryByName("advantage", ADVANTAGES, advantage);
    if (loss !== undefined) entryByName("policy loss", POLICY_LOSSES, loss);
    if (trl) return onTrl(flags, set, trl);
    const parts = splitNames(method);
    const preset = METHODS[baseOf(parts)]!.aggregation;
    return withSettings(flags, set, {
      method,
      ...(advantage === undefined ? {} : { advantage }),
      ...(loss === undefined ? {} : { loss }),
      aggregation: aggregation === undefined ? preset : aggregationByName(aggregation),
    });
  });
}

/** The settings of a yardstick, which has none of RL's parts. */
function yardstickSettings(method: Yardstick, flags: MethodFlags, set: Settings): MethodSettings {
  const { advantage, loss, aggregation, lambda, kl, klTarget, importanceCorrection } = flags;
  checkYardstick(
    method,
    {
      advantage,
      loss,
      aggregation,
      lambda,
      kl,
      "kl-target": klTarget,
      "importance-correction": importanceCorrection,
      reward: flags.reward,
    },
    set["rl"],
  );
  const OF_RL = [
    "kl",
    "entropy",
    "rolloutFilter",
    "critic",
    "importanceCorrection",
    "rejection",
    "reward",
    "orm",
    "outcomeCritic",
  ];
  const part = Object.keys(set).find((name) => Object.hasOwn(METHOD_PARTS, name) || OF_RL.includes(name));
  if (part !== undefined) {
    const option = `${part}.${Object.keys(set[part]!)[0]!}`;
    throw new UsageError(`--set ${option}: ${part} is no part of --method ${method}, which is no RL`);
  }
  const expertsOnly = set["rl"]?.["expertsOnly"] === true;
  return { method, aggregation: "token-mean", ...(expertsOnly ? { expertsOnly } : {}) };
}

/** TRL's configuration with the add-ons and settings that it does not contain. */
function onTrl(flags: MethodFlags, set: Settings, trl: MethodChoice): MethodSettings {
  const said = ["advantage", "loss", "aggregation", "kl", "klTarget", "importanceCorrection"] as const;
  const taken = said.find((name) => flags[name] !== undefined);
  if (taken !== undefined) throw new UsageError(`--grpo-config says what --${dashed(taken)} says; give one of them`);
  const addOns = splitNames(flags.method ?? "grpo").filter((name) => name !== "grpo");
  const preset = addOns.find((name) => Object.hasOwn(METHODS, name));
  if (preset !== undefined) {
    throw new UsageError(`--grpo-config is a method of its own: of --method it takes add-ons only, not ${preset}`);
  }
  const { options, ...rest } = trl;
  const method = [...splitNames(trl.method!), ...addOns].join("+");
  return withSettings(flags, set, {
    ...rest,
    method,
    aggregation: aggregationByName(trl.aggregation!),
    options: options as Settings,
  });
}

/** Adds `--lambda`, `--kl`, `--importance-correction` and the settings of the parts. Nothing may be given twice. */
function withSettings(flags: MethodFlags, set: Settings, base: MethodSettings): MethodSettings {
  const { method } = base;
  const used = partsOf(base);
  const own = Object.entries(set).filter(([part]) => Object.hasOwn(METHOD_PARTS, part));
  for (const [part, values] of own) {
    if (used.includes(part)) continue;
    const where = `--set ${part}.${Object.keys(values)[0]!}`;
    throw new UsageError(`${where}: ${part} is no part of --method ${method}, whose parts are ${used.join(", ")}`);
  }
  const hasEcho = used.includes("echo");
  if (flags.lambda !== undefined && !hasEcho) {
    throw new UsageError(`--lambda is the weight of echo, which is no part of --method ${method}; add +echo`);
  }
  const lambda = once<number | ScheduleData>("--lambda", flags.lambda, "echo.lambda", set);
  const ofParts = { ...Object.fromEntries(own), ...(lambda === undefined ? {} : { echo: { ...set["echo"], lambda } }) };
  const options = merged(base.options, ofParts);
  const kl = klSettings(flags, set, base.kl);
  const importanceCorrection = importanceCorrectionSettings(flags, set, base.importanceCorrection);
  const critic = set["critic"] as CriticOptions | undefined;
  const given = { ...base, ...set["rl"] };
  const { imitation, maskTruncated, trainObservations, dropConstantGroups, rewardFrom, expertsOnly } = given;
  if (expertsOnly !== undefined)
    throw new UsageError(`--set rl.expertsOnly is about --method sft; ${method} has no demonstrations`);
  const entropy = entropySettings(set, base.entropy);
  const rolloutFilter = (set["rolloutFilter"] ?? base.rolloutFilter) as RolloutFilter | undefined;
  const reward = rewardSettings(flags, set, used[0]!);
  const { outcomeCritic } = set;
  if (outcomeCritic && !used.includes("outcome_critic"))
    throw new UsageError(`--set outcomeCritic.${Object.keys(outcomeCritic)[0]!} is about +outcome_critic; add it`);
  return {
    ...base,
    ...(Object.keys(options).length > 0 ? { options } : {}),
    ...(kl ? { kl } : {}),
    ...(critic ? { critic } : {}),
    ...(importanceCorrection ? { importanceCorrection } : {}),
    ...(entropy === undefined ? {} : { entropy }),
    ...(imitation === undefined ? {} : { imitation }),
    ...(rolloutFilter === undefined ? {} : { rolloutFilter }),
    ...(maskTruncated === undefined ? {} : { maskTruncated }),
    ...(trainObservations === undefined ? {} : { trainObservations }),
    ...(dropConstantGroups === undefined ? {} : { dropConstantGroups }),
    ...(rewardFrom === undefined ? {} : { rewardFrom }),
    ...(reward ? { reward } : {}),
    ...(outcomeCritic ? { outcomeCritic } : {}),
  };
}

/** The entropy bonus: a number, or the options of a controller, which starts at `rl.entropy`. */
function entropySettings(set: Settings, given: MethodSettings["entropy"]): MethodSettings["entropy"] {
  const coefficient = set["rl"]?.["entropy"] as number | undefined;
  const adaptive = set["entropy"] as Partial<AdaptiveEntropyOptions> | undefined;
  if (!adaptive) return coefficient ?? given;
  if (coefficient !== undefined && adaptive.coefficient !== undefined)
    throw new UsageError("--set: rl.entropy and entropy.coefficient are one number; give one of them");
  const earlier = typeof given === "object" ? given : {};
  const { target, ...rest } = { ...earlier, ...adaptive, ...(coefficient === undefined ? {} : { coefficient }) };
  if (target === undefined)
    throw new UsageError("--set: a coefficient that follows the entropy needs entropy.target, in nats per token");
  return { target, ...rest };
}

function klSettings(flags: MethodFlags, set: Settings, given?: KlChoice): KlChoice | undefined {
  const beta = once("--kl", flags.kl, "kl.beta", set);
  const target = once("--kl-target", flags.klTarget, "kl.target", set);
  const earlier: Settings = given ? { kl: given } : {};
  const options = merged(earlier, set["kl"] ? { kl: set["kl"] } : {})["kl"];
  const kl: Partial<KlChoice> = { ...options, ...present({ beta, target }) };
  if (kl.horizon !== undefined && kl.target === undefined)
    throw new UsageError("--set kl.horizon is about --kl-target; add --kl-target X");
  if (kl.beta !== undefined && kl.beta > 0 && (kl.target === undefined || kl.target > 0)) return kl as KlChoice;
  if (kl.target !== undefined) throw new UsageError("--kl-target steers the weight of --kl: both must be > 0");
  const name = Object.keys(set["kl"] ?? {}).find((option) => option !== "beta");
  if (name !== undefined)
    throw new UsageError(`--set kl.${name} is about the penalty of --kl, whose weight is 0; add --kl X`);
  return undefined;
}

function importanceCorrectionSettings(
  flags: MethodFlags,
  set: Settings,
  given?: ImportanceCorrectionOptions,
): ImportanceCorrectionOptions | undefined {
  const name =
    flags.importanceCorrection === undefined
      ? undefined
      : oneOf("importance-correction", flags.importanceCorrection, ["tis", "icepop"] as const);
  const mode = once<string>(
    "--importance-correction",
    name && IMPORTANCE_CORRECTIONS[name],
    "importanceCorrection.mode",
    set,
  );
  const own = { ...set["importanceCorrection"], ...(mode === undefined ? {} : { mode }) };
  const rejection = set["rejection"] as RejectionOptions | undefined;
  if (
    rejection &&
    (rejection.max === undefined || rejection.level === undefined || rejection.estimator === undefined)
  ) {
    throw new UsageError("--set rejection: expected rejection.level, rejection.estimator and rejection.max");
  }
  const first = Object.keys(own)[0];
  if (first !== undefined && mode === undefined && given === undefined) {
    throw new UsageError(
      `--set importanceCorrection.${first} is about --importance-correction; add --importance-correction tis or icepop`,
    );
  }
  const options = merged(given ? { importanceCorrection: given as unknown as Settings[string] } : {}, {
    importanceCorrection: own,
  });
  if (!rejection) return options["importanceCorrection"];
  // A rejection alone only drops tokens, so all weights are 1.
  return { mode: "none", ...options["importanceCorrection"], reject: rejection };
}

/** Both settings, part by part. @throws UsageError if both have the same option */
function merged(given: Settings = {}, set: Settings): Settings {
  const all: Record<string, Settings[string]> = { ...given };
  for (const [part, values] of Object.entries(set)) {
    const twice = Object.keys(values).find((option) => given[part]?.[option] !== undefined);
    if (twice !== undefined)
      throw new UsageError(`--set ${part}.${twice}: --grpo-config says it, too; give one of them`);
    if (Object.keys(values).length > 0) all[part] = { ...given[part], ...values };
  }
  return all;
}

/** The names of advantage, loss and add-ons. */
function partsOf({ method, advantage, loss }: Pick<MethodSettings, "method" | "advantage" | "loss">): string[] {
  const parts = splitNames(method);
  const preset = METHODS[baseOf(parts)]!;
  return [advantage ?? preset.advantage, loss ?? preset.loss, ...parts.filter((name) => !Object.hasOwn(METHODS, name))];
}

/**
 * The objective of these settings.
 * @param maxLength L_max of Dr. GRPO's aggregation: tokens at most that the agent writes in an episode
 * @throws UsageError with one line if the parts do not fit together
 */
export function objectiveFor(settings: MethodSettings, maxLength: number): Objective {
  const { method, aggregation, options = {}, reward, critic } = settings;
  const { advantage, loss, kl, entropy, imitation, rolloutFilter, importanceCorrection } = settings;
  const { maskTruncated, trainObservations, dropConstantGroups, rewardFrom } = settings;
  // A yardstick has no objective; this one needs no reference, no critic and no memory.
  if (isYardstick(method)) return objectiveOf({ method: "grpo", advantage: "none", loss: "reinforce" });
  return usage(() => {
    const used = partsOf(settings);
    const all: Record<string, object> =
      used[0] === "gdpo" && reward ? { gdpo: { weights: rewardWeights(reward) } } : {};
    for (const [part, values] of Object.entries(options))
      all[part] = { ...all[part], ...values, ...schedulesOf(part, values) };
    const needsLength = aggregation === "seq-mean-token-sum-norm";
    const objective = objectiveOf({
      method,
      aggregation,
      options: all,
      ...present({ advantage, loss, kl, entropy, imitation, rolloutFilter, importanceCorrection }),
      ...present({ maskTruncated, trainObservations, dropConstantGroups, rewardFrom }),
      ...(needsLength ? { maxLength: settings.maxLength ?? maxLength } : {}),
      ...(critic && readsValues(used[0]!) ? { critic } : {}),
    });
    checkSense(settings, objective);
    return objective;
  });
}

/** ECHO's λ as a function of the step. */
const schedulesOf = (part: string, values: Settings[string]): object =>
  part === "echo" && values["lambda"] !== undefined ? { lambda: scheduleOf(values["lambda"] as ScheduleData) } : {};

const readsValues = (advantage: string): boolean => ADVANTAGES[advantage]?.make().needs?.includes("values") ?? false;

/** Throws if a combination is possible but would not do what its names say. */
function checkSense(settings: MethodSettings, objective: Objective): void {
  const { method, critic } = settings;
  const base = baseOf(splitNames(method));
  const { advantage } = objective;
  if (METHODS[base]!.critic && objective.critic === undefined) throw criticless(base, advantage);
  if (critic && objective.critic === undefined) {
    throw new UsageError(`--set critic.${Object.keys(critic)[0]!}: the advantage ${advantage.name} has no critic`);
  }
  const hasWorld = learnsWorld(settings, objective);
  if (objective.rewardFrom && !hasWorld) {
    throw new UsageError(
      "--set rl.rewardFrom: before that step nothing is learnt but a world model, and the method has none: " +
        "add +echo or +paw, with a weight above 0",
    );
  }
  if (advantage.name === "none" && !hasWorld && !objective.kl && !objective.entropy) {
    throw new UsageError(
      "--advantage none learns from no reward, and the method has no world model: " +
        "add +echo or +paw, with a weight above 0",
    );
  }
}

/** Whether the objective learns a world model. `--lambda 0` switches ECHO off. */
export const learnsWorld = ({ options }: Pick<MethodSettings, "options">, objective: Objective): boolean =>
  worldsOf(objective).some(({ name }) => name !== "echo" || options?.["echo"]?.["lambda"] !== 0);

type Present<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** The properties that are not undefined. */
function present<T extends object>(object: T): Present<T> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as Present<T>;
}

/** The preset among the parts; add-ons alone are added to GRPO. */
const baseOf = (parts: readonly string[]): string => parts.find((name) => Object.hasOwn(METHODS, name)) ?? "grpo";

/** The error for a preset with a critic and an advantage without: that would be another method, which has a name. */
function criticless(base: string, { name }: AdvantageEstimator): UsageError {
  const fitting = Object.keys(ADVANTAGES).filter(readsValues).join(", ");
  return new UsageError(
    `--method ${base} has a critic, which --advantage ${name} does not read: ` +
      `choose one of ${fitting}, or --method grpo`,
  );
}

/** Throws for losses over pairs and demonstrations, which have loops of their own: the main job learns from rewards. */
function refuseOtherData(name: string): void {
  if (Object.hasOwn(PREFERENCE, name)) {
    throw new UsageError(`${name} learns from pairs, and the main job from rewards: use trainPreference in code`);
  }
  if (Object.hasOwn(SUPERVISED, name)) {
    const alone = name === "sft" ? "--method sft, by itself" : `--method sft --set sft.loss=${name}`;
    throw new UsageError(`${name} learns from demonstrations, and RL from rewards: ${alone}, or --method rft`);
  }
}

const dashed = (name: string): string => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

/** Runs `make` and turns errors of the library into errors about the flags. */
export function usage<T>(make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof WorldgradError)) throw error;
    const message = error.message.replace(/^policy loss:/, "loss:").replace(/^GRPOConfig:/, "grpo-config:");
    throw new UsageError(
      message.replace(
        /^(method|advantage|loss|aggregation|importanceCorrection|grpo-config|selfPlay):/,
        (_, name: string) => `--${dashed(name)}:`,
      ),
    );
  }
}

/** The method as part of a folder's name: letters, digits and single dashes. */
export function methodSlug({ method, advantage, loss }: Pick<MethodSettings, "method" | "advantage" | "loss">): string {
  const names = [method, advantage, loss].filter((name) => name !== undefined).join("+");
  return names.replace(/[^A-Za-z0-9_]+/g, "-").replace(/-$/, "");
}
