/**
 * The adapter that RL trains: made from a run's settings, and its files. Runs that train all weights do not load it.
 */
import { addLora, isLora, type LoraOptions, loraToFiles } from "../pretrained/index.ts";
import type { Files, Model } from "../nn/index.ts";
import type { Rng } from "../engine/index.ts";
import type { AdapterSettings } from "./parts.ts";

export { loraFromFiles } from "../pretrained/index.ts";

/** The model with an adapter of these settings; RL trains the adapter alone. */
export const adapted = (model: Model, settings: AdapterSettings, rng: Rng): Model =>
  addLora(model, loraOptionsOf(settings), rng);

/** The files of a model's adapter; none without one. */
export const adapterFiles = async (model: Model): Promise<Files> => (isLora(model) ? loraToFiles(model) : {});

/** The adapter that these settings describe. */
export function loraOptionsOf({ targetModules, excludeModules, ...rest }: AdapterSettings): LoraOptions {
  return {
    ...rest,
    targetModules: targetModules === undefined ? undefined : modulesOf(targetModules),
    excludeModules: excludeModules === undefined ? undefined : modulesOf(excludeModules),
  };
}

/** The modules of a text: `q_proj+v_proj` is a list of names; a text with other characters is a pattern. */
const modulesOf = (text: string): string | readonly string[] =>
  text !== "all-linear" && /^[\w.]+(\+[\w.]+)*$/.test(text) ? text.split("+") : text;
