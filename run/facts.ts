/** Short facts for the head of a report. */
import type { Device } from "../engine/index.ts";
import { countParameters, estimateParameters, type Model } from "../nn/index.ts";
import type { Preset } from "./preset.ts";
import type { Summary } from "./records.ts";
import { showSettings } from "./shownSettings.ts";

/** @param seconds the wall time of the run */
export function factsOf(preset: Preset, model: Model, device: Device, seconds: number): NonNullable<Summary["facts"]> {
  const { rl, seed, from } = preset;
  const settings = showSettings(preset);
  return {
    executor: device.description,
    parameters: estimateParameters(model.config),
    ...(model.trainable ? { "trained parameters": countParameters(model).trainable } : {}),
    seed,
    ...(from ? { from: `${from.path}, step ${from.step}` } : {}),
    method: rl.method,
    ...(settings === "" ? {} : { settings }),
    "RL steps": rl.steps,
    "wall time (s)": Math.round(seconds),
  };
}
