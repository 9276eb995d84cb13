/**
 * The export of a trained run for other programs: the adapter in PEFT's format, or a folder that `transformers` loads.
 * Both are made from the newest checkpoint.
 */
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import process from "node:process";
import { check } from "../../engine/errors.ts";
import type { Device } from "../../engine/index.ts";
import { modelFromCheckpoint } from "../modelFiles.ts";
import type { PretrainedSettings, Preset } from "../preset.ts";
import { presetOf } from "../presets.ts";
import { ADAPTER_FILES, isLora, mergeLora } from "../../pretrained/index.ts";
import { checkpointNamed } from "./checkpoints.ts";
import { named } from "./disk.ts";
import { cardOf, hasTemplate, textFiles } from "./exportTexts.ts";
import { copyTexts, savePretrained, type SavePretrainedOptions } from "./pretrained.ts";
import type { RunFolder } from "./runFolder.ts";
import { sourceLoader } from "./runSource.ts";

/** The kind of the export, and its path. */
export interface Exported {
  readonly path: string;
  readonly what: string;
}

/** The settings of a run on a pretrained model. */
type TrainedPreset = Preset & { readonly pretrained: Pick<PretrainedSettings, "path"> };

/**
 * Exports the trained part of a run on a pretrained model into its run folder: the adapter as `adapter/`; if there is
 * none, or a warm start has changed the model under it, the model as `model/`, with the tokenizer files of the
 * pretrained model. Each has a README.md that says what it is. Existing folders of these names are replaced.
 * @returns the export; undefined if nothing has been trained yet
 */
export async function exportRun(folder: RunFolder, preset: TrainedPreset): Promise<Exported[]> {
  const { pretrained } = preset;
  const { files = {}, step = 0 } = folder.loadLatestCheckpoint() ?? {};
  const run = { name: folder.name, preset, step, metrics: folder.readMetrics() };
  const written: Exported[] = [];
  const isWhole = "model.safetensors" in files;
  if (isWhole) {
    const path = resolve(folder.path, "model");
    await appear(path, async (draft) => {
      for (const name of ["config.json", "tokenizer.json", "model.safetensors"]) put(draft, name, files[name]!);
      await copyTexts(pretrained.path, draft, []);
      put(draft, "README.md", cardOf(run, `${basename(pretrained.path)}, trained further`, hasTemplate(draft)));
    });
    written.push({ path, what: "model, as transformers loads it" });
  }
  if (ADAPTER_FILES.config in files) {
    const config = JSON.parse(new TextDecoder().decode(files[ADAPTER_FILES.config])) as object;
    const base = isWhole ? written[0]!.path : pretrained.path;
    const path = resolve(folder.path, "adapter");
    await appear(path, (draft) => {
      const renamed = { ...config, base_model_name_or_path: base };
      put(draft, ADAPTER_FILES.config, `${JSON.stringify(renamed, null, 2)}\n`);
      put(draft, ADAPTER_FILES.weights, files[ADAPTER_FILES.weights]!);
      put(draft, "README.md", cardOf(run, `a LoRA adapter of ${basename(base)}`, hasTemplate(base), base));
    });
    written.push({ path, what: isWhole ? "adapter of that model" : "adapter, as PEFT loads it" });
  }
  return written;
}

/**
 * Writes the trained model as a folder that `transformers` loads, with an adapter merged into its weights, the chat
 * template that it was trained in, and a README.md.
 * @param name of the checkpoint: newest (default), best, or a step
 * @throws if the run has no checkpoint, or there is something at `path`
 */
export async function exportMerged(
  folder: RunFolder,
  path: string,
  device: Device,
  how: Pick<SavePretrainedOptions, "dtype" | "maxShardSize"> = {},
  name?: string,
): Promise<Exported> {
  const isFree = (): void => check(!existsSync(path), () => `${path} exists; choose a folder that does not`);
  isFree();
  const preset = presetOf(folder);
  const checkpoint = checkpointNamed("run", folder, name);
  const { model, tokenizer } = await modelFromCheckpoint(checkpoint, device, sourceLoader(preset));
  const { path: from } = preset.pretrained ?? {};
  const hasTokenizer = from !== undefined && existsSync(join(from, "tokenizer.json"));
  const texts = { ...(from === undefined ? {} : { from }), ...(hasTokenizer ? {} : { tokenizer }) };
  const merged = isLora(model) ? mergeLora(model) : model;
  await appear(resolve(path), async (draft) => {
    await savePretrained(draft, merged, { ...texts, ...how });
    const { step } = checkpoint;
    const run = { name: folder.name, preset, model: merged, tokenizer, step, metrics: folder.readMetrics() };
    for (const [file, text] of Object.entries(textFiles(run, draft))) put(draft, file, text);
    isFree(); // merging may have taken minutes
  });
  return { path, what: "model, as transformers loads it" };
}

/** The error of a full disk would not name the file. */
const put = (folder: string, name: string, data: Uint8Array | string): void =>
  named(join(folder, name), () => writeFileSync(join(folder, name), data));

/**
 * Makes a folder that appears with everything that `write` puts there, or not at all; an older one stays until then.
 * If the process dies meanwhile, a temporary folder stays; one in a run folder is removed when the run is resumed.
 */
async function appear(path: string, write: (draft: string) => void | Promise<void>): Promise<void> {
  const [draft, old] = [`${path}.${process.pid}.tmp`, `${path}.${process.pid}.old`];
  mkdirSync(draft, { recursive: true });
  try {
    await write(draft);
    if (existsSync(path)) renameSync(path, old);
    renameSync(draft, path);
  } finally {
    if (!existsSync(path) && existsSync(old)) renameSync(old, path);
    for (const rest of [draft, old]) rmSync(rest, { recursive: true, force: true });
  }
}
