/**
 * The method of a run: from names and numbers on the command line to the settings in `config.json`. If parts do not fit
 * together, the user gets one line before anything is written. objective.ts makes the objective of these settings.
 */
import { ADVANTAGES } from "../rl/methods/advantages/index.ts";
import { aggregationByName } from "../rl/methods/aggregation.ts";
import type { ImportanceCorrectionOptions, RejectionOptions } from "../rl/methods/importanceCorrection.ts";
import { PREFERENCE } from "../rl/methods/losses/preference.ts";
import { SUPERVISED } from "../rl/methods/losses/supervised.ts";
import { type MethodChoice, METHODS, splitNames } from "../rl/methods/choice.ts";
import { ALL_PARTS } from "../rl/methods/presets.ts";
import type { RolloutFilterOptions } from "../rl/methods/filter.ts";
import { type AdaptiveEntropyOptions, POLICY_LOSSES } from "../rl/methods/losses/index.ts";
import type { KlChoice } from "../rl/methods/losses/kl.ts";
import { entryByName } from "../rl/methods/names.ts";
import type { CriticOptions, Objective } from "../rl/methods/objective.ts";
import { dashed, oneOf, usage, UsageError } from "./usage.ts";
import type { MethodFlags } from "./startOptions.ts";
import { baseOf, type MethodSettings, objectiveFrom, partsOf, present } from "./objective.ts";
import { rewardSettings } from "./rewards.ts";
import type { ScheduleData } from "./schedules.ts";
import { checkYardstick, isYardstick, type Yardstick } from "./yardsticks.ts";
import { METHOD_PARTS } from "./parts.ts";
import { once } from "./settings.ts";
import type { Settings } from "./shownSettings.ts";

/** The method of a run that names none. */
const DEFAULT_METHOD = "grpo_token+echo";

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
    const parts = splitNames(method, ALL_PARTS);
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
    "prm",
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
  const addOns = splitNames(flags.method ?? "grpo", ALL_PARTS).filter((name) => name !== "grpo");
  const preset = addOns.find((name) => Object.hasOwn(METHODS, name));
  if (preset !== undefined) {
    throw new UsageError(`--grpo-config is a method of its own: of --method it takes add-ons only, not ${preset}`);
  }
  const { options, ...rest } = trl;
  const method = [...splitNames(trl.method!, ALL_PARTS), ...addOns].join("+");
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
  const used = partsOf(base, ALL_PARTS);
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
  const rolloutFilter = (set["rolloutFilter"] ?? base.rolloutFilter) as RolloutFilterOptions | undefined;
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

/**
 * The objective of these settings at once, for who checks them.
 * @param maxLength as for `loadObjective`
 * @throws UsageError with one line if the parts do not fit together
 */
export const objectiveFor = (settings: MethodSettings, maxLength: number): Objective =>
  objectiveFrom(ALL_PARTS, settings, maxLength);

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

/** The method as part of a folder's name: letters, digits and single dashes. */
export function methodSlug({ method, advantage, loss }: Pick<MethodSettings, "method" | "advantage" | "loss">): string {
  const names = [method, advantage, loss].filter((name) => name !== undefined).join("+");
  return names.replace(/[^A-Za-z0-9_]+/g, "-").replace(/-$/, "");
}
