/** Loads what `npm run serve` serves: the policy of a run, or a model from a folder, perhaps with an adapter. */
import { check } from "../../engine/errors.ts";
import { type Device, treeLeaves } from "../../engine/index.ts";
import { fileOf, modelFromCheckpoint } from "../../run/modelFiles.ts";
import { presetOf } from "../../run/presets.ts";
import { templateFor } from "../../run/template.ts";
import { UsageError } from "../../run/usage.ts";
import { ADAPTER_FILES, disposeLora, isLora, loraFromFiles, type WeightStorage } from "../../pretrained/index.ts";
import type { Model } from "../../nn/index.ts";
import { checkpointNamed } from "../../run/node/checkpoints.ts";
import { openGiven } from "../../run/node/flags.ts";
import { ofFlag, openModelFolder, withAdapter } from "../../run/node/modelFolder.ts";
import { drawMemoryLine } from "../../run/node/modelMemory.ts";
import type { RunFolder } from "../../run/node/runFolder.ts";
import { sourceLoader } from "../../run/node/runSource.ts";
import { installPolicy, policyOf } from "../../distribute/async/messages.ts";
import { checkpointChat } from "./checkpointChat.ts";
import type { ServedModel, ServePolicyOptions } from "./server.ts";

/** A model to serve. */
export interface Subject {
  readonly served: ServedModel;
  /** Its name, its version and other options, which depend on where it was loaded from. */
  readonly options: Pick<ServePolicyOptions, "name" | "version" | "chat" | "reload" | "capacity" | "sampling">;
  /** For a run: its folder, and a function that loads the newest checkpoint into the model. */
  readonly run?: { readonly folder: RunFolder; readonly loadNewest: () => Promise<number> };
}

const lastPart = (path: string): string => path.split(/[\\/]/).findLast((part) => part !== "") ?? path;

/**
 * A checkpoint of a run.
 * @param name newest (the default), best, or a step; later loads take the checkpoint of the same name
 * @throws UsageError in one line
 */
export async function runSubject(path: string, executor: Device, name?: string): Promise<Subject> {
  const folder = openGiven("run", path);
  const checkpoint = checkpointNamed("run", folder, name);
  const preset = presetOf(folder);
  const { model, tokenizer } = await modelFromCheckpoint(checkpoint, executor, sourceLoader(preset));
  const template = templateFor(preset, tokenizer);
  const loadNewest = (): Promise<number> => install(folder, model, executor, name);
  return {
    served: { model, tokenizer, template },
    options: {
      name: lastPart(folder.path),
      version: checkpoint.step,
      ...(preset.pretrained ? { capacity: preset.model.maxPositions } : {}),
      reload: ({ modelPath }) => {
        check(
          modelPath === undefined,
          () => "update_weights_from_disk: model_path must be left out: the run's are loaded",
        );
        return loadNewest();
      },
    },
    run: { folder, loadNewest },
  };
}

/** Loads a checkpoint of a run into a model. @returns its step */
async function install(folder: RunFolder, model: Model, executor: Device, name?: string): Promise<number> {
  const checkpoint = checkpointNamed("run", folder, name);
  const isAdapter = ADAPTER_FILES.config in checkpoint.files;
  check(
    isAdapter === isLora(model),
    () => `${checkpoint.path} has another part of the model than is served; the server has to be started anew`,
  );
  if (isLora(model) && isAdapter) {
    // Only the adapter is read; the other weights do not change.
    const config = new TextDecoder().decode(fileOf(checkpoint, ADAPTER_FILES.config));
    const fresh = loraFromFiles(model.trainable.base, config, fileOf(checkpoint, ADAPTER_FILES.weights));
    try {
      installPolicy(model, await policyOf(fresh, checkpoint.step));
    } finally {
      disposeLora(fresh);
    }
    return checkpoint.step;
  }
  const fresh = (await modelFromCheckpoint(checkpoint, executor, sourceLoader(presetOf(folder)))).model;
  try {
    check(
      sorted(fresh.config) === sorted(model.config),
      () => `${checkpoint.path} has a model of another configuration; the server has to be started anew`,
    );
    installPolicy(model, await policyOf(fresh, checkpoint.step));
    return checkpoint.step;
  } finally {
    for (const leaf of treeLeaves(fresh.params)) leaf.dispose();
  }
}

/** A text that is equal for equal configurations, whatever the order of their fields. */
const sorted = (config: object): string =>
  JSON.stringify(Object.entries(config).toSorted(([a], [b]) => (a < b ? -1 : 1)));

/** The default limit of a conversation's tokens: a cache for all positions of a model would be large. */
const CONTEXT = 4096;

/** Flags of a model from a folder. */
export interface FolderFlags {
  readonly path: string;
  readonly adapter: string | undefined;
  readonly storage: WeightStorage;
  readonly maxContext: number | undefined;
  /** Conversations at once. */
  readonly rows: number;
  /** Shows a line, before the weights are read. */
  readonly note: (line: string) => void;
}

/** A model from a folder; its conversations are in its own chat template. @throws UsageError in one line */
export async function folderSubject(flags: FolderFlags, executor: Device): Promise<Subject> {
  const folder = await openModelFolder(flags.path);
  const { tokenizer, config, generation } = folder;
  const template = await ofFlag("--model-path", () => folder.chat());
  const { maxPositions, eosIds } = config;
  if (flags.maxContext !== undefined && flags.maxContext > maxPositions)
    throw new UsageError(`--max-context: the model has ${maxPositions} positions, got ${flags.maxContext}`);
  const chat = template && (await ofFlag("--model-path", () => checkpointChat(template, { stopIds: eosIds })));
  const capacity = flags.maxContext ?? Math.min(CONTEXT, maxPositions);
  const size = { rows: flags.rows, prompt: capacity, capacity, storage: flags.storage };
  const needs = await drawMemoryLine(config, size, executor);
  if (needs !== undefined) flags.note(needs);
  const left = Object.entries(generation?.unsupported ?? {}).map(([name, value]) => `${name} ${JSON.stringify(value)}`);
  if (left.length > 0) flags.note(`generation_config.json: not supported and left out: ${left.join(", ")}`);
  const base = await ofFlag("--model-path", () => folder.load(executor, flags.storage));
  const model = flags.adapter === undefined ? base : await withAdapter(base, flags.adapter);
  return {
    served: { model, tokenizer, stopIds: chat?.stopIds ?? eosIds },
    options: {
      name: lastPart(flags.path),
      version: 0,
      capacity,
      ...(chat ? { chat } : {}),
      // A file that does not say whether it samples is about the end of a text, not about how tokens are drawn.
      ...(generation && "do_sample" in generation.json ? { sampling: generation.sampling } : {}),
    },
  };
}
