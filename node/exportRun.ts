/**
 * What a run has trained as files for others: the adapter as PEFT loads it, or a folder that transformers loads. They
 * are made of the files of the newest checkpoint.
 */
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import process from "node:process";
import { check } from "../engine/errors.ts";
import type { Device } from "../engine/index.ts";
import { modelFromCheckpoint } from "../job/modelFiles.ts";
import type { PretrainedSettings } from "../job/preset.ts";
import { presetOf } from "../job/presets.ts";
import type { Checkpoint } from "../job/runStore.ts";
import { ADAPTER_FILES, isLora, mergeLora } from "../nn/index.ts";
import { copyTexts, savePretrained, type SavePretrainedOptions } from "./pretrained.ts";
import type { RunFolder } from "./runFolder.ts";
import { sourceLoader } from "./runSource.ts";

/** What was written, and where. */
export interface Exported {
  readonly path: string;
  readonly what: string;
}

/**
 * Writes what a run with a model of somebody else's has trained into its folder: `adapter/`; without an adapter, or
 * where a warm start has changed the model under it, `model/`, with the tokenizer's files of the model that it began
 * with. What was there is replaced.
 * @returns what was written: nothing if nothing has been trained yet
 */
export async function exportRun(folder: RunFolder, pretrained: PretrainedSettings): Promise<Exported[]> {
  const files = folder.loadLatestCheckpoint()?.files ?? {};
  const written: Exported[] = [];
  const isWhole = "model.safetensors" in files;
  if (isWhole) {
    const path = resolve(folder.path, "model");
    await appear(path, async (draft) => {
      for (const name of ["config.json", "tokenizer.json", "model.safetensors"])
        writeFileSync(join(draft, name), files[name]!);
      await copyTexts(pretrained.path, draft, []);
    });
    written.push({ path, what: "model, as transformers loads it" });
  }
  if (ADAPTER_FILES.config in files) {
    const config = JSON.parse(new TextDecoder().decode(files[ADAPTER_FILES.config])) as object;
    const base = isWhole ? written[0]!.path : pretrained.path;
    const path = resolve(folder.path, "adapter");
    await appear(path, (draft) => {
      const named = { ...config, base_model_name_or_path: base };
      writeFileSync(join(draft, ADAPTER_FILES.config), `${JSON.stringify(named, null, 2)}\n`);
      writeFileSync(join(draft, ADAPTER_FILES.weights), files[ADAPTER_FILES.weights]!);
    });
    written.push({ path, what: isWhole ? "adapter of that model" : "adapter, as PEFT loads it" });
  }
  return written;
}

/**
 * Writes the trained model as a folder that transformers loads, an adapter merged into its weights.
 * @throws if the run has no checkpoint, or there is something at `path`
 */
export async function exportMerged(
  folder: RunFolder,
  path: string,
  device: Device,
  how: Pick<SavePretrainedOptions, "dtype" | "maxShardSize"> = {},
): Promise<Exported> {
  const isFree = (): void => check(!existsSync(path), () => `${path} exists; choose a folder that does not`);
  isFree();
  const preset = presetOf(folder);
  const checkpoint = newest(folder);
  const { model, tokenizer } = await modelFromCheckpoint(checkpoint, device, sourceLoader(preset));
  const { path: from } = preset.pretrained ?? {};
  const hasTokenizer = from !== undefined && existsSync(join(from, "tokenizer.json"));
  const texts = { ...(from === undefined ? {} : { from }), ...(hasTokenizer ? {} : { tokenizer }) };
  const merged = isLora(model) ? mergeLora(model) : model;
  await appear(resolve(path), async (draft) => {
    await savePretrained(draft, merged, { ...texts, ...how });
    isFree(); // merging may have taken minutes
  });
  return { path, what: "model, as transformers loads it" };
}

function newest(folder: RunFolder): Checkpoint {
  const checkpoint = folder.loadLatestCheckpoint();
  check(checkpoint !== null, () => `${folder.path} has no checkpoint yet`);
  return checkpoint;
}

/** Makes a folder that appears with all that `write` puts there, or not at all; an older one stays until then. */
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
