/**
 * The settings of a run as data: the content of its `config.json`, so that it can be repeated and resumed. presets.ts
 * makes them.
 */
import type { Kept, OptionTable } from "../engine/optionTable.ts";
import type { EnvironmentOptions } from "../environments/index.ts";
import type { WeightStorage } from "../pretrained/index.ts";
import type { History } from "../data/history.ts";
import type { EpisodeFormat } from "../rl/episode/template.ts";
import type { SelfPlayChoice } from "../papers/selfplay/options.ts";
import type { MethodSettings } from "./objective.ts";
import type { AdapterSettings, EVALUATION, LOOP, ROLLOUT, SFT, SIZES, TOKENIZER } from "./parts.ts";
import type { PluginSettings } from "./plugins.ts";
import type { ScheduleData } from "./schedules.ts";

/** A file of the user's own: of an environment or of a reward that is not the library's. */
export interface UserFile {
  /** Its absolute path. */
  readonly path: string;
  /** The file's hash, without what it imports. A run is resumed only if it is still the same. */
  readonly sha256: string;
}

/** Options of an environment as plain data. The run itself chooses between training and held-out tasks. */
export type TaskOptions = Omit<EnvironmentOptions, "split"> & Readonly<Record<string, unknown>>;

/** The task options of training and evaluation, and changes to them for training only and for demonstrations only. */
export interface Tasks {
  readonly tasks?: TaskOptions;
  /**
   * Changes for training only: a control experiment may train in a changed environment. It is evaluated in the
   * unchanged one.
   */
  readonly trainTasks?: TaskOptions;
  /** Changes for the demonstrations of the warm start and for the corpus of the tokenizer. */
  readonly demoTasks?: TaskOptions;
}

/** A pretrained model that the run begins with. */
export interface PretrainedSettings {
  /** Its folder. The run does not copy weights that it leaves as they are. */
  readonly path: string;
  /** The hash of its configuration, tokenizer and weights. A run is resumed only if they are still the same. */
  readonly sha256: string;
  /** The storage of its matrices while the run trains an adapter. */
  readonly storage: WeightStorage;
  /** The text around the parts of an episode: its own chat template's, or plain lines. */
  readonly format: EpisodeFormat;
  /** Further tokens that end an action: the model's own ends of a text. */
  readonly ends?: readonly string[];
  /** The tags around its thoughts, if it thinks. */
  readonly thought?: readonly [open: string, close: string];
}

/** The checkpoint of another run that a run begins with. Its weights are copied into the run's first checkpoint. */
export interface FromSettings {
  /** The folder of that run, and the step of the checkpoint. */
  readonly path: string;
  readonly step: number;
  /** The hash of the checkpoint's weights. */
  readonly sha256: string;
  /** The text around the parts of an episode, if it is not the library's own. */
  readonly format?: EpisodeFormat;
  /** Further tokens that end an action. */
  readonly ends?: readonly string[];
  /** The tags around thoughts of a model that thinks. */
  readonly thought?: readonly [open: string, close: string];
}

/** The model of `--teacher`, which stays as it is. A run copies none of it. */
export interface TeacherSettings {
  /** The folder of a model, or of a run. */
  readonly path: string;
  /** The step of the run's checkpoint. */
  readonly step?: number;
  /** The hash of its weights. A run is resumed only if they are still the same. */
  readonly sha256: string;
}

/** The options of a table; every run has those with a default. */
type Options<T extends OptionTable> = Kept<T["fields"]>;

/** The data settings of a run. */
export interface DataSettings extends PluginSettings {
  /** The temperature in training, in place of the rollout's; evaluations keep the rollout's. */
  readonly temperature?: ScheduleData;
  /** The self-play that makes the tasks: papers/selfplay. */
  readonly selfPlay?: SelfPlayChoice;
}

/** All settings of a run: the parts of parts.ts in their places (layout.ts), and its starting point. */
export interface Preset extends Tasks {
  readonly env: string;
  /** Default: the environment is one of the library's. */
  readonly environmentFile?: UserFile;
  /** The file of the reward `file`. */
  readonly rewardFile?: UserFile;
  /** What the environment's tasks are made of (`EnvironmentSpec.fingerprint`). Default: they follow from settings. */
  readonly fingerprint?: string;
  readonly seed: number;
  /** Default: the run makes its own model and tokenizer. */
  readonly pretrained?: PretrainedSettings;
  /** Default: none, it begins with no other run's weights. */
  readonly from?: FromSettings;
  /** The reference of the method. Default: a copy of the model as it was before RL. */
  readonly teacher?: TeacherSettings;
  readonly tokenizer: Options<typeof TOKENIZER>;
  readonly model: Options<typeof SIZES>;
  readonly sft: Options<typeof SFT>;
  /** The method (tensorMethods.ts), and the sizes and rates of RL. */
  readonly rl: MethodSettings & Options<typeof LOOP>;
  /** The adapter that RL trains on top of the frozen warm start. Default: RL trains all weights. */
  readonly lora?: AdapterSettings;
  readonly rollout: Omit<Options<typeof ROLLOUT>, "temperature" | "maxTokens"> & { readonly temperature: number };
  /** What the model reads of earlier turns. Default: all. */
  readonly history?: History;
  /** Default: new tasks only. */
  readonly data?: DataSettings;
  /** Default: playing and learning in turn. */
  readonly async?: { readonly workers: number | string; readonly maxStaleness: number };
  readonly evaluation: Options<typeof EVALUATION>;
  readonly checkpointEvery: number;
}

/** How an agent draws its tokens, in words: the temperature, and what leaves tokens out. */
export function samplingOf({ temperature, topK, topP, minP }: Preset["rollout"], changed = temperature): string {
  const filters = Object.entries({ "top-k": topK, "top-p": topP, "min-p": minP });
  return [`temperature ${changed}`, ...filters.flatMap(([name, x]) => (x === undefined ? [] : [`${name} ${x}`]))].join(
    ", ",
  );
}
