/** Settings as text, in the form in which the command line reads them (settings.ts). */
import { optionsIn, type Value } from "./layout.ts";
import type { Preset } from "./preset.ts";
import { showSchedule } from "./schedules.ts";

/** The method and the numbers of RL that every run has. */
const NOT_SHOWN = /^rl\.(method|aggregation|steps|groups|groupSize|lr|warmup|betas|clipNorm|weightDecay)$/;

/**
 * The settings of a run except its method and sizes, in the form of `--set`: `paw.alpha=0.5, curriculum.name=failed`;
 * an empty text if there are none.
 */
export function showSettings({ rl, data, lora }: Partial<Pick<Preset, "rl" | "data" | "lora">>): string {
  return Object.entries(optionsIn({ rl, data, lora }))
    .filter(([key]) => !NOT_SHOWN.test(key))
    .map(([key, value]) => `${key}=${showSetting(value)}`)
    .join(", ");
}

/** A value as it is written on the command line. */
export function showSetting(value: Value): string {
  if (value === null) return "none";
  if (typeof value !== "object") return String(value);
  return "length" in value ? value.join("..") : showSchedule(value);
}
