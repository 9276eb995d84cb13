/** The flags of `npm start` as values, from a command line or from a page's address. Mistakes are one-line errors. */
import type { methodFromGrpoConfig } from "../connect/grpoConfig.ts";
import { WEIGHT_STORAGES, type WeightStorage } from "../pretrained/index.ts";
import type { Value, Values } from "./layout.ts";
import type { ValueAt } from "./parts.ts";
import { type Camel, camel, type PluginFlags, type PluginFlagTypes, PLUGINS } from "./plugins.ts";
import type { UserFile } from "./preset.ts";
import { REPORTERS, type ReporterName } from "./records.ts";
import { optionAt, readValue } from "./settings.ts";
import { folderName, oneOf, UsageError, wholeNumber } from "./usage.ts";

export const MODEL_SIZES = ["tiny", "small", "base"] as const;
export type ModelSize = (typeof MODEL_SIZES)[number];
export const DEVICES = ["auto", "wasm", "webgpu", "reference"] as const;

/** Flags that are short for `--set PART.OPTION`. */
const COMMON_KEYS = {
  steps: "rl.steps",
  method: "rl.method",
  loss: "rl.loss",
  advantage: "rl.advantage",
  aggregation: "rl.aggregation",
  lambda: "echo.lambda",
  kl: "kl.beta",
  "kl-target": "kl.target",
  "importance-correction": "importanceCorrection.mode",
  reward: "reward.name",
  temperature: "rollout.temperature",
  "self-play": "selfPlay.name",
  workers: "async.workers",
  "max-staleness": "async.maxStaleness",
} as const;
const PLUGIN_KEYS = Object.fromEntries(
  PLUGINS.map(({ name, flag }) => [flag.name, `${name}.${flag.kind === "switch" ? "on" : flag.option}`]),
);
/** The option of each flag that is short for one. */
export const FLAG_KEYS: Readonly<Record<string, string>> = { ...COMMON_KEYS, ...PLUGIN_KEYS };

/** The values of these flags, by their names; undefined ones are not given. */
export type SettingFlags = PluginFlags & {
  readonly [F in keyof typeof COMMON_KEYS as Camel<F>]?: ValueAt<(typeof COMMON_KEYS)[F]> | undefined;
};

/** The values of the flags, by `PART.OPTION`. */
export const valuesOfFlags = (options: SettingFlags): Values =>
  Object.fromEntries(Object.entries(FLAG_KEYS).map(([flag, key]) => [key, options[camel(flag) as keyof SettingFlags]]));

/**
 * The name in errors of the flag that is short for an option: `--kl`, or `--set kl.estimator` for an option without
 * one.
 */
export const flagOf = (key: string): string => {
  const flag = Object.keys(FLAG_KEYS).find((name) => FLAG_KEYS[name] === key);
  return flag === undefined ? `--set ${key}` : `--${flag}`;
};

/** All flags of `npm start`. */
export interface StartOptions extends SettingFlags {
  readonly device: (typeof DEVICES)[number];
  /** Whether the schedules of a GPU are measured first. */
  readonly tune?: boolean;
  readonly seed: number;
  /** Texts `PART.OPTION=VALUE` (settings.ts). */
  readonly set?: readonly string[] | undefined;
  /** The fields of TRL's GRPOConfig, as its file has them. */
  readonly grpoConfig?: ReturnType<typeof methodFromGrpoConfig> | undefined;
  /** Default `home`. */
  readonly env?: string | undefined;
  /** The file of that environment, if it is not one of the library's. */
  readonly environmentFile?: UserFile | undefined;
  /** The file of `--reward`, if it is none of the library's, and what a run keeps of it once it is loaded. */
  readonly rewardPath?: string | undefined;
  readonly rewardFile?: UserFile | undefined;
  /** The agents to compare (run/arms.ts); undefined: the environment's, unless a method is named. */
  readonly arms?: string | undefined;
  readonly model: ModelSize;
  /** The folder of a model to begin with, in place of a new one. */
  readonly modelPath?: string | undefined;
  /** The storage of its matrices. */
  readonly storage?: WeightStorage | undefined;
  /** The system message of its episodes; undefined: a line about the environment. */
  readonly system?: string | undefined;
  /** Whether it thinks before it acts, in the tags of its chat template. */
  readonly thinking?: boolean;
  /** The run whose weights it begins with, and the name of its checkpoint; default the newest. */
  readonly from?: string | undefined;
  readonly checkpoint?: string | undefined;
  /** The folder of the run, or of the model, that is the reference of the method. */
  readonly teacher?: string | undefined;
  readonly resume: string | undefined;
  readonly name: string | undefined;
  /** Further files of metrics; undefined: none, and in a run that goes on those that it has. */
  readonly reportTo?: readonly ReporterName[] | undefined;
  readonly quick: boolean;
}

/** What `--quick` says of settings for which no warm start lies here. */
export const TEACHES_NOTHING =
  "--quick with these settings goes through every part and teaches nothing; alone it begins with a trained warm start";

type FlagType = { readonly type: "string" | "boolean"; readonly multiple?: true };
const TEXT = { type: "string" } as const;

/** All flags with a value, and the switches. */
export const START_FLAGS = {
  device: TEXT,
  tune: { type: "boolean" },
  seed: TEXT,
  model: TEXT,
  "model-path": TEXT,
  storage: TEXT,
  system: TEXT,
  thinking: { type: "boolean" },
  env: TEXT,
  arms: TEXT,
  ...(Object.fromEntries(
    Object.entries(FLAG_KEYS).map(([flag, key]) => [flag, key.endsWith(".on") ? { type: "boolean" } : TEXT]),
  ) as { readonly [F in keyof typeof COMMON_KEYS]: typeof TEXT } & PluginFlagTypes),
  set: { type: "string", multiple: true },
  "grpo-config": TEXT,
  name: TEXT,
  "report-to": TEXT,
  from: TEXT,
  checkpoint: TEXT,
  teacher: TEXT,
  resume: TEXT,
  quick: { type: "boolean" },
} as const satisfies Readonly<Record<string, FlagType>>;

/** The values as they were given, by the names of the flags. */
export type Said = Readonly<Record<string, unknown>>;

/** Checks the values one by one. @throws UsageError with one line that names what was expected */
export function startOptions(values: Said): StartOptions {
  const text = (name: keyof typeof START_FLAGS): string | undefined => values[name] as string | undefined;
  if (values["tune"] === true && !["webgpu", "auto"].includes(text("device") ?? "auto"))
    throw new UsageError(`--tune measures a GPU; expected --device webgpu or auto beside it, got ${text("device")}`);
  const modelPath = text("model-path");
  for (const name of ["storage", "system", "thinking"] as const) {
    if (values[name] !== undefined && modelPath === undefined)
      throw new UsageError(`--${name} is about the model of --model-path, and there is none`);
  }
  if (modelPath !== undefined && text("model") !== undefined)
    throw new UsageError("--model is the size of a model that is made; with --model-path none is");
  if (text("from") !== undefined) {
    const other = ["model-path", "model"].find((name) => values[name] !== undefined);
    if (other !== undefined) throw new UsageError(`--from begins with the model of a run; leave --${other} out`);
  } else if (text("checkpoint") !== undefined)
    throw new UsageError("--checkpoint names a checkpoint of --from, and there is none");
  const flags = Object.keys(FLAG_KEYS).map((flag) => [camel(flag), flagValue(flag, values[flag])]);
  return {
    ...(Object.fromEntries(flags) as SettingFlags),
    device: oneOf("device", text("device") ?? "auto", DEVICES),
    tune: values["tune"] === true,
    seed: wholeNumber("seed", text("seed") ?? "0", 0),
    set: values["set"] as readonly string[] | undefined,
    grpoConfig: values["grpo-config"] as StartOptions["grpoConfig"],
    env: text("env"),
    rewardPath: isUserFile(text("reward") ?? "") ? text("reward") : undefined,
    arms: text("arms"),
    model: oneOf("model", text("model") ?? "small", MODEL_SIZES),
    modelPath,
    storage: text("storage") === undefined ? undefined : oneOf("storage", text("storage")!, WEIGHT_STORAGES),
    system: text("system"),
    thinking: values["thinking"] === true,
    name: text("name") === undefined ? undefined : folderName(text("name")!),
    reportTo: text("report-to") === undefined ? undefined : reportersIn(text("report-to")!),
    from: text("from"),
    checkpoint: text("checkpoint"),
    teacher: text("teacher"),
    resume: text("resume"),
    quick: values["quick"] === true,
  };
}

/** The value of `--report-to`: names with commas between them. */
export const reportersIn = (text: string): ReporterName[] =>
  text.split(",").map((name) => oneOf("report-to", name.trim(), REPORTERS));

/** Whether the value of a flag is a file of the user's own and not a name. */
export const isUserFile = (name: string): boolean => /[\\/]|\.[cm]?[jt]s$/.test(name);

/** Flags that take other words and numbers than their options. */
const READ: Readonly<Record<string, (text: string) => Value>> = {
  reward: (text) => (isUserFile(text) ? "file" : readValue("--reward", optionAt("reward.name"), text)),
  "importance-correction": (text) =>
    CORRECTIONS[oneOf("importance-correction", text, Object.keys(CORRECTIONS) as ("tis" | "icepop")[])],
  // A number of threads, or an address.
  workers: (text) => (/^(nats|tls):\/\//.test(text) ? text : wholeNumber("workers", text, 1)),
  // 0 is off.
  ...Object.fromEntries(
    PLUGINS.filter(({ flag }) => flag.kind === "count").map(({ flag: { name } }) => [
      name,
      (text: string): number => wholeNumber(name, text, 0),
    ]),
  ),
};
const CORRECTIONS = { tis: "truncate", icepop: "mask" } as const;

/** The value of a flag that is short for an option; undefined if it is not given. */
function flagValue(flag: string, given: unknown): Value | undefined {
  if (typeof given !== "string") return given === true ? true : undefined;
  return READ[flag]?.(given) ?? readValue(`--${flag}`, optionAt(FLAG_KEYS[flag]!), given);
}
