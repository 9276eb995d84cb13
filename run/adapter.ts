/**
 * The adapter that RL trains: made from a run's settings, and its files. Runs that train all weights do not load it.
 */
import { addLora, checkLora, isLora, type LoraOptions, loraToFiles } from "../pretrained/index.ts";
import type { Files, Model } from "../nn/index.ts";
import type { Rng } from "../engine/index.ts";
import { numbersByName } from "./numbersByName.ts";
import type { AdapterSettings } from "./parts.ts";

export { loraFromFiles } from "../pretrained/index.ts";

/** The model with an adapter of these settings; RL trains the adapter alone. */
export const adapted = (model: Model, settings: AdapterSettings, rng: Rng): Model =>
  addLora(model, loraOptionsOf(settings), rng);

/** @throws WorldgradError in one line if the model can have no adapter of these settings */
export const checkAdapter = (model: Model, settings: AdapterSettings): void =>
  checkLora(model, loraOptionsOf(settings));

/** The files of a model's adapter; none without one. */
export const adapterFiles = async (model: Model): Promise<Files> => (isLora(model) ? loraToFiles(model) : {});

/** The adapter that these settings describe. */
export function loraOptionsOf(settings: AdapterSettings): LoraOptions {
  const { targetModules, excludeModules, rankPattern, alphaPattern, modulesToSave, ...rest } = settings;
  const read = <T>(text: string | undefined, as: (text: string) => T): T | undefined =>
    text === undefined ? undefined : as(text);
  return {
    ...rest,
    targetModules: read(targetModules, modulesOf),
    excludeModules: read(excludeModules, modulesOf),
    rankPattern: read(rankPattern, numbersByName),
    alphaPattern: read(alphaPattern, numbersByName),
    modulesToSave: read(modulesToSave, (names) => names.split("+")),
  };
}

/** The modules of a text: `q_proj+v_proj` is a list of names; a text with other characters is a pattern. */
const modulesOf = (text: string): string | readonly string[] =>
  text !== "all-linear" && /^[\w.]+(\+[\w.]+)*$/.test(text) ? text.split("+") : text;
