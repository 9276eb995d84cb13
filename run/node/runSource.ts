/**
 * The pretrained model of `--model-path` that a run begins with. The run's settings name its folder and the SHA-256 of
 * its files. The run keeps no copy of weights that it does not train, and refuses to continue if the files have
 * changed.
 */
import { WorldgradError } from "../../engine/errors.ts";
import type { EpisodeFormat } from "../../rl/index.ts";
import { worldNamed } from "../worlds.ts";
import { Experiment } from "../experiment.ts";
import type { LoadSource } from "../modelFiles.ts";
import type { Preset } from "../preset.ts";
import type { Source } from "../presets.ts";
import { templateFor } from "../template.ts";
import type { StartOptions } from "../startOptions.ts";
import { UsageError } from "../usage.ts";
import type { Tokenizer } from "../../nn/index.ts";
import { endsOf, episodeFormatFor, type ModelFolder, ofFlag, openModelFolder, thoughtOf } from "./modelFolder.ts";

/** A pretrained model's part of the settings, and its tokenizer. */
export interface FoundSource extends Source {
  readonly tokenizer: Tokenizer;
  readonly folder: ModelFolder;
  /** A sentence that the folder has no chat template, if it has none. */
  readonly warning: string | undefined;
}

/** The system message of an environment, unless the user gives one. */
const systemOf = (env: string): string =>
  `You act in a world of text: ${worldNamed(env)?.description ?? env}. You are given a task. Say one action at a ` +
  "time, without a word around it; you are told what it did.";

/**
 * The model that the flags name; undefined if they name none.
 * @throws UsageError in one line: no folder, an unsupported family, a damaged tokenizer, a template that cannot be used
 */
export async function sourceOf(options: StartOptions): Promise<FoundSource | undefined> {
  const { modelPath, storage = "f32", env = "home", thinking = false } = options;
  if (modelPath === undefined) return undefined;
  const folder = await openModelFolder(modelPath);
  const format = await ofFlag("--model-path", () => formatFor(folder, { system: options.system, thinking }, env));
  const { path, config, tokenizer } = folder;
  const sha256 = await ofFlag("--model-path", () => folder.hash());
  const warning =
    (await folder.chat()) === undefined
      ? `${modelPath} has no chat template: episodes are written in plain lines (Task: … Action: …), in which ` +
        "the model was perhaps never trained"
      : undefined;
  const text = { format, ends: endsOf(folder), ...thoughtOf(format, thinking) };
  return { settings: { path, sha256, storage, ...text }, config, tokenizer, folder, warning };
}

/** The text around episodes. A template that refuses a system message, as Gemma's does, gets one only from the user. */
async function formatFor(
  folder: ModelFolder,
  { system, thinking }: { readonly system: string | undefined; readonly thinking: boolean },
  env: string,
): Promise<EpisodeFormat> {
  try {
    return await episodeFormatFor(folder, { system: system ?? systemOf(env), thinking });
  } catch (error) {
    if (system !== undefined || !(error instanceof WorldgradError)) throw error;
    return episodeFormatFor(folder, { system: "", thinking });
  }
}

/**
 * The folder of the pretrained model in a run's settings; undefined if the run makes its own model.
 * @throws UsageError in one line if the folder is gone or its files have changed
 */
export async function checkSource({ pretrained }: Pick<Preset, "pretrained">): Promise<ModelFolder | undefined> {
  if (pretrained === undefined) return undefined;
  const { path, sha256 } = pretrained;
  const folder = await openModelFolder(path, "the run's model");
  const found = await ofFlag("the run's model", () => folder.hash());
  if (found === sha256) return folder;
  throw new UsageError(
    `the run's model: the files in ${path} are not those that the run began with: their SHA-256 is ` +
      `${found.slice(0, 12)}…, expected ${sha256.slice(0, 12)}…`,
  );
}

/**
 * Loads the model that a run's settings name; undefined if the run makes its own.
 * @param checked the folder, if its files have been checked; otherwise they are when it is loaded (`checkSource`)
 */
export function sourceLoader(settings: Pick<Preset, "pretrained">, checked?: ModelFolder): LoadSource | undefined {
  const { pretrained } = settings;
  if (pretrained === undefined) return undefined;
  return async (device) => {
    const folder = checked ?? (await checkSource(settings))!;
    return { model: await folder.load(device, pretrained.storage), tokenizer: folder.tokenizer };
  };
}

/** The number of the expert's episodes that are measured. */
const MEASURED = 8;

/** @throws UsageError if not even the expert's episodes fit into the tokens that an episode may have */
export async function checkRoom(preset: Preset, tokenizer: Tokenizer): Promise<void> {
  const longest = await (await Experiment.of(preset)).longestLesson(templateFor(preset, tokenizer), MEASURED);
  const room = preset.model.maxPositions;
  if (longest <= room) return;
  throw new UsageError(
    `--env ${preset.env}: the expert's episodes take up to ${longest} tokens in this model's text, and an episode ` +
      `has room for ${room}; choose shorter tasks (--set env.levels=…) or more room (--set rollout.maxTokens=…, ` +
      "at most the model's positions)",
  );
}
