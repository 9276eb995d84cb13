/**
 * The layout of a run's options in its settings. The settings are the content of `config.json`: the method and the
 * numbers of RL under `rl`, and in there the parts of the method; plug-ins of episodes under `data`; every other part
 * under its own name. This file knows no options, so that a page shows a run without their tables; settingsOf.ts is the
 * other direction.
 */
import { isRecord } from "./records.ts";
import { isSchedule, type ScheduleData } from "./schedules.ts";

/** The value of an option. */
export type Value = number | boolean | string | ScheduleData | readonly [number, number] | null;
/** Values by `PART.OPTION`. */
export type Values = Readonly<Record<string, Value | undefined>>;
/** Values by part and option. */
export type Parts = Readonly<Record<string, Readonly<Record<string, Value>>>>;

/** Parts at the top of the settings. */
export const ON_TOP = ["tokenizer", "model", "sft", "rl", "lora", "rollout", "history", "async", "evaluation"];
const OF_RUN = ["env", "seed", "checkpointEvery"];
/** Names that differ from those of parts and options. */
const RENAMED: Readonly<Record<string, string>> = { reject: "rejection" };

/** The options of settings, or of some of them, by `PART.OPTION`: the inverse of `settingsOf`. */
export function optionsIn(settings: Readonly<Record<string, unknown>>): Record<string, Value> {
  const values: Record<string, Value> = {};
  const walk = (part: string, name: string, value: unknown): void => {
    if (value === undefined) return;
    const isEmpty = part === "data" && isRecord(value) && Object.keys(value).length === 0;
    if (isRecord(value) && !isSchedule(value) && !isEmpty)
      for (const [option, inner] of Object.entries(value)) walk(RENAMED[name] ?? name, option, inner);
    else values[part === "data" && name === "temperature" ? "rollout.temperature" : `${part}.${name}`] = value as Value;
  };
  for (const name of OF_RUN) walk("run", name, settings[name]);
  for (const name of [...ON_TOP, "data"]) walk("", name, settings[name]);
  return values;
}

/** Values by part and option. */
export function byPart(values: Readonly<Record<string, Value>>): Parts {
  const parts: Record<string, Record<string, Value>> = {};
  for (const [key, value] of Object.entries(values)) {
    const [part, option] = key.split(".") as [string, string];
    (parts[part] ??= {})[option] = value;
  }
  return parts;
}
