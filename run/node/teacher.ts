/** `--teacher`: the model of another run, or of a folder, that is the reference of a method. */
import { type Device, treeLeaves } from "../../engine/index.ts";
import { isLora, mergeLora } from "../../pretrained/index.ts";
import { type LoadSource, modelFromCheckpoint, type ModelWithTokenizer } from "../modelFiles.ts";
import type { Preset, TeacherSettings } from "../preset.ts";
import { presetOf } from "../presets.ts";
import { UsageError } from "../usage.ts";
import { checkpointNamed } from "./checkpoints.ts";
import { openGiven } from "./flags.ts";
import { ofFlag, openModelFolder } from "./modelFolder.ts";
import { hasWeights } from "./pretrained.ts";
import { checkSource, sourceLoader } from "./runSource.ts";
import { sha256 } from "./sealed.ts";

/** A teacher that was found. */
export interface Teacher {
  readonly settings: TeacherSettings;
  readonly load: LoadSource;
}

/** The world and the seed of a run that teaches, for a student of which nothing else is said. */
export function worldOfTeacher(path: string): { readonly env?: string; readonly seed?: string } {
  if (hasWeights(path)) return {};
  const { env, environmentFile, seed } = presetOf(openGiven("teacher", path));
  return { env: environmentFile?.path ?? env, seed: String(seed) };
}

/**
 * Finds the teacher in a folder: a model's, or a run's with its newest checkpoint, or with that of a step.
 * @throws UsageError in one line
 */
export async function openTeacher(path: string, flag = "--teacher", step?: number): Promise<Teacher> {
  if (hasWeights(path)) {
    const folder = await openModelFolder(path, flag);
    const load: LoadSource = async (device) => ({ model: await folder.load(device), tokenizer: folder.tokenizer });
    return { settings: { path: folder.path, sha256: await ofFlag(flag, () => folder.hash()) }, load };
  }
  const folder = openGiven("teacher", path, flag);
  const preset = presetOf(folder);
  const checkpoint = await ofFlag(flag, () => {
    return checkpointNamed("teacher", folder, step === undefined ? undefined : String(step));
  });
  const files = Object.entries(checkpoint.files).filter(([name]) => /^(model|adapter)/.test(name));
  const hashes = files.map(([name, file]) => `${name} ${sha256(file)}`).sort();
  const settings = { path: folder.path, step: checkpoint.step, sha256: sha256(hashes.join("\n")) };
  const load: LoadSource = async (device) => {
    await checkSource(preset);
    return merged(await modelFromCheckpoint(checkpoint, device, sourceLoader(preset)));
  };
  return { settings, load };
}

/** The model with its adapter merged into its weights. */
function merged({ model, tokenizer }: ModelWithTokenizer): ModelWithTokenizer {
  if (!isLora(model)) return { model, tokenizer };
  const whole = mergeLora(model);
  const kept = new Set(treeLeaves(whole.params));
  for (const x of treeLeaves(model.params)) if (!kept.has(x)) x.dispose();
  return { model: whole, tokenizer };
}

/** Loads the teacher that a run's settings name; undefined if they name none. */
export function teacherLoader({ teacher }: Pick<Preset, "teacher">): LoadSource | undefined {
  if (teacher === undefined) return undefined;
  const { path, step, sha256: expected } = teacher;
  return async (device: Device) => {
    const found = await openTeacher(path, "the run's teacher", step);
    if (found.settings.sha256 === expected) return found.load(device);
    throw new UsageError(
      `the run's teacher: the weights in ${path} are not those that the run began with: their SHA-256 is ` +
        `${found.settings.sha256.slice(0, 12)}…, expected ${expected.slice(0, 12)}…`,
    );
  };
}
