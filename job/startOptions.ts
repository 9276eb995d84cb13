/** The flags of `npm start` as values, from a command line or from a page's address. Mistakes are one-line errors. */
import type { methodFromGrpoConfig } from "../rl/interop/grpoConfig.ts";
import { WEIGHT_STORAGES, type WeightStorage } from "../nn/index.ts";
import { SELF_PLAY_NAMES } from "../rl/selfplay/options.ts";
import { REWARDS } from "./parts.ts";
import { camel, type PluginFlags, type PluginFlagTypes, PLUGINS } from "./plugins.ts";
import { folderName, numberFrom, oneOf, UsageError, wholeNumber } from "./usage.ts";

export const MODEL_SIZES = ["tiny", "small", "base"] as const;
export type ModelSize = (typeof MODEL_SIZES)[number];
export const DEVICES = ["auto", "wasm", "webgpu", "reference"] as const;

/** The flags about a method. Where one is undefined, the method decides (methods.ts). */
export interface MethodFlags {
  readonly method?: string | undefined;
  readonly advantage?: string | undefined;
  readonly loss?: string | undefined;
  readonly aggregation?: string | undefined;
  readonly lambda?: number | undefined;
  readonly kl?: number | undefined;
  readonly klTarget?: number | undefined;
  readonly importanceCorrection?: string | undefined;
  /** Replaces the environment's own outcome (rewards.ts). */
  readonly reward?: (typeof REWARDS)[number] | undefined;
  /** The fields of TRL's GRPOConfig, as its file has them. */
  readonly grpoConfig?: ReturnType<typeof methodFromGrpoConfig> | undefined;
  /** Texts `PART.OPTION=VALUE` (settings.ts). */
  readonly set?: readonly string[] | undefined;
}

/** The flags about the data (data.ts). */
export interface DataFlags extends PluginFlags {
  /** A number or a schedule (schedules.ts). */
  readonly temperature?: string | undefined;
  /** Where tasks come from: rl/selfplay. */
  readonly selfPlay?: (typeof SELF_PLAY_NAMES)[number] | undefined;
}

/** The file of an environment that is not the library's. */
export interface EnvironmentFile {
  /** Its absolute path. */
  readonly path: string;
  /** The file's hash, without what it imports. A run is resumed only if it is still the same. */
  readonly sha256: string;
}

/** All flags of `npm start`. */
export interface StartOptions extends MethodFlags, DataFlags {
  /** How many threads play, or the address of the NATS server through which workers on other machines play. */
  readonly workers?: number | string | undefined;
  /** How many steps old an episode may be; needs workers. */
  readonly maxStaleness?: number | undefined;
  readonly device: (typeof DEVICES)[number];
  readonly seed: number;
  /** The number of RL steps; undefined: the preset's. */
  readonly steps: number | undefined;
  /** Default `home`. */
  readonly env?: string | undefined;
  /** The file of that environment, if it is not one of the library's. */
  readonly environmentFile?: EnvironmentFile | undefined;
  /** The agents to compare (job/arms.ts); undefined: the environment's, unless a method is named. */
  readonly arms?: string | undefined;
  readonly model: ModelSize;
  /** The folder of a model to begin with, in the place of one that is made. */
  readonly modelPath?: string | undefined;
  /** How its matrices lie in memory. */
  readonly storage?: WeightStorage | undefined;
  /** The system message of its episodes; undefined: a line about the environment. */
  readonly system?: string | undefined;
  /** The run whose weights it begins with, and which of its checkpoints; default the newest. */
  readonly from?: string | undefined;
  readonly checkpoint?: string | undefined;
  readonly resume: string | undefined;
  readonly name: string | undefined;
  readonly quick: boolean;
}

/** All flags with a value, and those that are there or not. */
export const START_FLAGS = {
  device: { type: "string" },
  seed: { type: "string" },
  steps: { type: "string" },
  model: { type: "string" },
  "model-path": { type: "string" },
  storage: { type: "string" },
  system: { type: "string" },
  env: { type: "string" },
  arms: { type: "string" },
  method: { type: "string" },
  loss: { type: "string" },
  advantage: { type: "string" },
  aggregation: { type: "string" },
  lambda: { type: "string" },
  kl: { type: "string" },
  "kl-target": { type: "string" },
  "importance-correction": { type: "string" },
  reward: { type: "string" },
  temperature: { type: "string" },
  ...(Object.fromEntries(
    PLUGINS.map(({ flag }) => [flag.name, { type: flag.kind === "switch" ? "boolean" : "string" }]),
  ) as PluginFlagTypes),
  "self-play": { type: "string" },
  workers: { type: "string" },
  "max-staleness": { type: "string" },
  set: { type: "string", multiple: true },
  "grpo-config": { type: "string" },
  name: { type: "string" },
  from: { type: "string" },
  checkpoint: { type: "string" },
  resume: { type: "string" },
  quick: { type: "boolean" },
} as const;

/** The values as they were given, by the names of the flags. */
export type Said = Readonly<Record<string, unknown>>;

/** Checks the values one by one. @throws UsageError with one line that says what was expected */
export function startOptions(values: Said): StartOptions {
  const text = (name: keyof typeof START_FLAGS): string | undefined => values[name] as string | undefined;
  const modelPath = text("model-path");
  for (const name of ["storage", "system"] as const) {
    if (text(name) !== undefined && modelPath === undefined)
      throw new UsageError(`--${name} is about the model of --model-path, and there is none`);
  }
  if (modelPath !== undefined && text("model") !== undefined)
    throw new UsageError("--model is the size of a model that is made; with --model-path none is");
  if (text("from") !== undefined) {
    const other = ["model-path", "model"].find((name) => values[name] !== undefined);
    if (other !== undefined) throw new UsageError(`--from begins with the model of a run; leave --${other} out`);
  } else if (text("checkpoint") !== undefined)
    throw new UsageError("--checkpoint names a checkpoint of --from, and there is none");
  const number = (name: keyof typeof START_FLAGS): number | undefined =>
    text(name) === undefined ? undefined : numberFrom(name, text(name)!);
  return {
    device: oneOf("device", text("device") ?? "auto", DEVICES),
    seed: wholeNumber("seed", text("seed") ?? "0", 0),
    steps: text("steps") === undefined ? undefined : wholeNumber("steps", text("steps")!, 0),
    method: text("method"),
    loss: text("loss"),
    advantage: text("advantage"),
    aggregation: text("aggregation"),
    lambda: number("lambda"),
    kl: number("kl"),
    klTarget: number("kl-target"),
    importanceCorrection: text("importance-correction"),
    reward: text("reward") === undefined ? undefined : oneOf("reward", text("reward")!, REWARDS),
    temperature: text("temperature"),
    ...pluginFlags(values),
    selfPlay: text("self-play") === undefined ? undefined : oneOf("self-play", text("self-play")!, SELF_PLAY_NAMES),
    workers: workersOf(text("workers")),
    maxStaleness:
      text("max-staleness") === undefined ? undefined : wholeNumber("max-staleness", text("max-staleness")!, 0),
    set: values["set"] as readonly string[] | undefined,
    grpoConfig: values["grpo-config"] as StartOptions["grpoConfig"],
    env: text("env"),
    arms: text("arms"),
    model: oneOf("model", text("model") ?? "small", MODEL_SIZES),
    modelPath,
    storage: text("storage") === undefined ? undefined : oneOf("storage", text("storage")!, WEIGHT_STORAGES),
    system: text("system"),
    name: text("name") === undefined ? undefined : folderName(text("name")!),
    from: text("from"),
    checkpoint: text("checkpoint"),
    resume: text("resume"),
    quick: values["quick"] === true,
  };
}

/** What the flags of plug-ins say. */
const pluginFlags = (values: Said): PluginFlags =>
  Object.fromEntries(
    PLUGINS.map(({ flag: { name, kind } }) => {
      const said = values[name] as string | undefined;
      const isNumber = kind === "count" && said !== undefined;
      return [camel(name), kind === "switch" ? values[name] === true : isNumber ? wholeNumber(name, said, 0) : said];
    }),
  );

/** A number of threads, or an address. */
function workersOf(said: string | undefined): number | string | undefined {
  return said === undefined || /^(nats|tls):\/\//.test(said) ? said : wholeNumber("workers", said, 1);
}
