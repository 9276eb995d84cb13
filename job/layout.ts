/**
 * Where the parts of a run (parts.ts) lie in its settings, in both directions. The settings are what `config.json`
 * holds: the method and the numbers of RL under `rl`, and in there the parts of the method; plug-ins of episodes under
 * `data`; every other part under its own name. This file knows no options, so that a page shows a run without their
 * tables.
 */
import { isRecord } from "./records.ts";
import type { ScheduleData } from "./schedules.ts";
import { UsageError } from "./usage.ts";

/** The value of an option. */
export type Value = number | boolean | string | ScheduleData | readonly [number, number] | null;
/** Values by part and option. */
export type Parts = Readonly<Record<string, Readonly<Record<string, Value>>>>;

type Fields = Readonly<Record<string, unknown>>;
type Made = Record<string, unknown>;

/** Parts of RL that are not parts of the method. */
const IN_RL = ["kl", "critic", "importanceCorrection", "rolloutFilter", "reward", "outcomeCritic", "entropy"];
/** Parts inside of others, with their names there. */
const INSIDE: Readonly<Record<string, readonly [outer: string, name: string]>> = {
  orm: ["reward", "orm"],
  prm: ["reward", "prm"],
  rejection: ["importanceCorrection", "reject"],
};
const ON_TOP = ["tokenizer", "model", "sft", "rl", "lora", "rollout", "async", "evaluation"];
const OF_RUN = ["env", "seed", "checkpointEvery"];

/** The place of a part: the names on the way to its object. */
function placeOf(part: string, data: readonly string[]): readonly string[] {
  if (part === "run") return [];
  if (ON_TOP.includes(part)) return [part];
  if (Object.hasOwn(INSIDE, part)) return ["rl", ...INSIDE[part]!];
  return IN_RL.includes(part) ? ["rl", part] : data.includes(part) ? ["data", part] : ["rl", "options", part];
}

/**
 * The settings with these parts.
 * @param data the names of the parts of data
 */
export function settingsOf(parts: Parts, data: readonly string[]): Fields {
  const settings: Made = {};
  for (const [part, values] of Object.entries(parts)) {
    let object = settings;
    for (const name of placeOf(part, data)) object = (object[name] ??= {}) as Made;
    Object.assign(object, values);
  }
  const { rl, rollout } = settings as { rl: Made; rollout: Made };
  const { coefficient, ...controller } = { ...parts["entropy"] };
  if (coefficient !== undefined && Object.keys(controller).length === 0) rl["entropy"] = coefficient;
  // A schedule is for training; evaluations stay at 1.
  if (isRecord(rollout["temperature"])) {
    settings["data"] = { ...(settings["data"] as Fields), temperature: rollout["temperature"] };
    rollout["temperature"] = 1;
  }
  return settings;
}

/**
 * The parts of settings, or of some of them: the inverse of `settingsOf`.
 * @throws UsageError if something else stands in the place of a part
 */
export function partsOf({ rl = {}, data = {}, ...rest }: Fields): Parts {
  const parts: Record<string, Fields> = {};
  const object = (where: string, value: unknown): Fields => {
    if (isRecord(value)) return value;
    throw new UsageError(`${where}: expected an object of options, got ${JSON.stringify(value)}`);
  };
  parts["run"] = picked(rest, OF_RUN);
  for (const part of ON_TOP) if (rest[part] !== undefined) parts[part] = object(part, rest[part]);
  const { options = {}, entropy, ...own } = object("rl", rl);
  const numbers: Made = {};
  for (const [name, value] of Object.entries(own)) {
    if (!IN_RL.includes(name)) numbers[name] = value;
    else parts[name] = object(`rl.${name}`, value);
  }
  if (entropy !== undefined) parts["entropy"] = isRecord(entropy) ? entropy : { coefficient: entropy };
  for (const [part, [outer, name]] of Object.entries(INSIDE)) {
    const { [name]: inner, ...others } = parts[outer] ?? {};
    if (inner === undefined) continue;
    parts[outer] = others;
    parts[part] = object(`rl.${outer}.${name}`, inner);
  }
  parts["rl"] = numbers;
  for (const [part, values] of Object.entries(object("rl.options", options)))
    parts[part] = object(`rl.options.${part}`, values);
  const { temperature, ...plugins } = object("data", data);
  if (temperature !== undefined) parts["rollout"] = { ...parts["rollout"], temperature };
  for (const [part, values] of Object.entries(plugins)) parts[part] = object(`data.${part}`, values);
  return parts as Parts;
}

const picked = (fields: Fields, names: readonly string[]): Fields =>
  Object.fromEntries(names.flatMap((name) => (fields[name] === undefined ? [] : [[name, fields[name]]])));

/** Values by `PART.OPTION`. */
export const flat = (parts: Parts): Record<string, Value> =>
  Object.fromEntries(
    Object.entries(parts).flatMap(([part, values]) =>
      Object.entries(values).map(([option, value]) => [`${part}.${option}`, value]),
    ),
  );
