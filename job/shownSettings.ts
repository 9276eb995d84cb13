/** Settings as plain values, and as text in the form in which the command line reads them (settings.ts). */
import { type ScheduleData, showSchedule } from "./schedules.ts";

/** The value of an option. */
export type Value = number | boolean | string | ScheduleData | readonly [number, number] | null;
/** Values by part and option. */
export type Settings = Readonly<Record<string, Readonly<Record<string, Value>>>>;

/**
 * The settings of a run except its method and sizes, in the form of `--set`: `paw.alpha=0.5, curriculum.name=failed`.
 * Exchanged parts of the method are shown as flags. The text is empty if there are no such settings.
 */
export function showSettings(rl: object, data: object = {}): string {
  const given = rl as Readonly<Record<string, Settings[string] | undefined>>;
  const { options = {}, kl, critic, importanceCorrection, reward, entropy, imitation, rolloutFilter } = given;
  const { maskTruncated, trainObservations, dropConstantGroups, rewardFrom, expertsOnly, iterations, truncatedReward } =
    given;
  const { advantage, loss } = rl as { readonly advantage?: string; readonly loss?: string };
  const { temperature, ...rest } = data as Readonly<Record<string, Settings[string] | undefined>>;
  const { reject: rejection, ...weighing } = (importanceCorrection ?? {}) as { readonly reject?: Settings[string] };
  const masks = { maskTruncated, trainObservations, dropConstantGroups };
  const loop = { imitation, ...masks, rewardFrom, expertsOnly, iterations, truncatedReward };
  const bonus = typeof entropy === "object" ? { entropy, rl: loop } : { rl: { entropy, ...loop } };
  const corrections = { importanceCorrection: weighing, rejection };
  const method = { ...options, kl, critic, ...corrections, rolloutFilter, reward, ...bonus };
  const parts = { ...method, rollout: { temperature }, ...rest };
  const flags = [...(advantage ? [`--advantage ${advantage}`] : []), ...(loss ? [`--loss ${loss}`] : [])];
  const settings = Object.entries(parts).flatMap(([part, values]) => {
    const all = Object.entries<Value | undefined>(values ?? {});
    const set = all.filter(([, value]) => value !== undefined);
    if (values !== undefined && set.length === 0 && part in rest) return [part];
    return set.map(([option, value]) => `${part}.${option}=${showSetting(value!)}`);
  });
  return [...flags, ...settings].join(", ");
}

/** A value as it is written on the command line. */
export function showSetting(value: Value): string {
  if (value === null) return "none";
  if (typeof value !== "object") return String(value);
  return "length" in value ? value.join("..") : showSchedule(value);
}
