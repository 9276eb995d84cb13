/** `--from`: a run that begins with the weights of another run's checkpoint. */
import { treeLeaves, type Device } from "../../engine/index.ts";
import type { Earlier } from "../from.ts";
import type { FromSettings } from "../preset.ts";
import { filesOfModel, modelFromCheckpoint } from "../modelFiles.ts";
import { presetOf } from "../presets.ts";
import type { State } from "../records.ts";
import type { Checkpoint } from "../runStore.ts";
import type { Said, StartOptions } from "../startOptions.ts";
import { ADAPTER_FILES, isLora, mergeLora } from "../../pretrained/index.ts";
import { checkpointNamed } from "./checkpoints.ts";
import { openGiven } from "./flags.ts";
import type { RunFolder } from "./runFolder.ts";
import { checkSource, sourceLoader } from "./runSource.ts";
import { sha256 } from "./sealed.ts";
import { worldOfTeacher } from "./teacher.ts";

/** The run of `--from`, and its checkpoint. */
export interface FromRun extends Earlier {
  readonly checkpoint: Checkpoint;
}

/**
 * The flags with the environment and the seed of the run of `--from`, if they are not given: its world goes on,
 * and with its method its own reward. The files of both may have changed since.
 * @throws UsageError in one line if there is no such run
 */
export function withWorldOf(values: Said): Said {
  const { from, teacher } = values;
  if (typeof from !== "string") return typeof teacher === "string" ? { ...worldOfTeacher(teacher), ...values } : values;
  const folder = openGiven("from", from);
  const { env, environmentFile, rewardFile, seed } = presetOf(folder);
  const isSameMethod = values["method"] === undefined && values["grpo-config"] === undefined;
  const reward = rewardFile && isSameMethod ? { reward: rewardFile.path } : {};
  return { env: environmentFile?.path ?? env, seed: String(seed), ...reward, ...values, from: folder.path };
}

/** Reads the run that the flags name; undefined if they name none. @throws UsageError in one line */
export async function fromRun({ from, checkpoint }: StartOptions): Promise<FromRun | undefined> {
  return from === undefined ? undefined : earlierRun("from", openGiven("from", from), checkpoint);
}

/**
 * Reads a run and its checkpoint of this name.
 * @param flag that named the run
 * @throws UsageError in one line
 */
export async function earlierRun(flag: string, folder: RunFolder, name: string | undefined): Promise<FromRun> {
  const preset = presetOf(folder);
  await checkSource(preset);
  const checkpoint = checkpointNamed(flag, folder, name);
  const { format, ends, thought }: Partial<FromSettings> = preset.pretrained ?? preset.from ?? {};
  const weights = ["model.safetensors", ADAPTER_FILES.weights].flatMap((file) => checkpoint.files[file] ?? []);
  const hash = [preset.pretrained?.sha256 ?? "", ...weights.map((file) => sha256(file))].join(" ");
  const text = { ...(format ? { format } : {}), ...(ends ? { ends } : {}), ...(thought ? { thought } : {}) };
  const settings = { path: folder.path, step: checkpoint.step, sha256: sha256(hash), ...text };
  return { preset, checkpoint, settings };
}

/** Saves the first checkpoint of a run: the weights of the other, with its adapter merged into them. */
export async function saveWeightsOf({ preset, checkpoint }: FromRun, folder: RunFolder, device: Device): Promise<void> {
  const { model, tokenizer } = await modelFromCheckpoint(checkpoint, device, sourceLoader(preset));
  const merged = isLora(model) ? mergeLora(model) : model;
  const state: State = { phase: "sft", done: 0, optimizerStep: 0, evaluated: 0, before: null, seconds: 0 };
  folder.saveCheckpoint(0, {
    ...(await filesOfModel({ model: merged, tokenizer }, { weights: true, adapter: false })),
    "state.json": JSON.stringify(state),
  });
  for (const x of new Set([...treeLeaves(model.params), ...treeLeaves(merged.params)])) x.dispose();
}
