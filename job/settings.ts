/**
 * `--set PART.OPTION=VALUE`, for every option that has no flag of its own. parts.ts has the options. For an unknown
 * name the error suggests the nearest known one; for a value that an option does not allow it says what is allowed.
 */
import { nearest } from "../engine/options.ts";
import type { Option } from "../engine/optionTable.ts";
import { UsageError } from "./usage.ts";
import { type Fields, METHOD_PARTS, OTHER_PARTS } from "./parts.ts";
import { type Settings, showSetting, type Value } from "./shownSettings.ts";
import { parseSchedule, type ScheduleData, valuesOfSchedule } from "./schedules.ts";

const PARTS: Readonly<Record<string, Fields>> = { ...METHOD_PARTS, ...OTHER_PARTS };

/** The parts whose options belong to the environment. It checks them (environments.ts), and they stay text here. */
const TASK_PARTS: Readonly<Record<string, string>> = {
  env: "any option of the environment, in training and evaluation: env.levels=1-2, env.families=read+count, env.size=2",
  train: "the same, for training only",
  demo: "the same, for the demonstrations of the warm start only",
};

/** Reads texts `PART.OPTION=VALUE`. @throws UsageError with one line that says what was expected and what came */
export function parseSettings(texts: readonly string[]): Settings {
  const settings: Record<string, Record<string, Value>> = {};
  for (const text of texts) {
    const [, part, option, value] = /^([\w+-]+)\.(\w+)=(.*)$/.exec(text) ?? [];
    if (part === undefined)
      throw new UsageError(`--set: expected PART.OPTION=VALUE, as in paw.alpha=0.5, got "${text}"`);
    const own = (settings[part] ??= {});
    if (Object.hasOwn(own, option!)) throw new UsageError(`--set: ${part}.${option} is there twice`);
    if (Object.hasOwn(TASK_PARTS, part)) {
      own[option!] = value!;
      continue;
    }
    known(`--set ${text}`, "part", { ...PARTS, ...TASK_PARTS }, part);
    const field = known(`--set ${part}.${option!}`, "option", PARTS[part]!, option!);
    own[option!] = valueOf(`--set ${part}.${option!}`, field, value!);
  }
  return settings;
}

/** So many names stand in one error message. */
const SHORT_LIST = 15;

function known<T>(where: string, what: string, table: Readonly<Record<string, T>>, name: string): T {
  if (Object.hasOwn(table, name)) return table[name]!;
  const names = Object.keys(table);
  const near = nearest(name, names);
  const all = names.length <= SHORT_LIST ? names.join(", ") : `one of ${names.length} names; --list shows them`;
  const hint = near === undefined ? `expected ${all}` : `did you mean "${near}"?`;
  throw new UsageError(`${where}: unknown ${what} "${name}"; ${hint}`);
}

/** @throws UsageError unless the text is a value that the option allows */
function valueOf(where: string, option: Option<unknown>, text: string): Value {
  const { kind, accepts } = option;
  const near = typeof kind === "string" ? undefined : nearest(text, kind);
  const hint = near === undefined || near === text ? "" : `; did you mean "${near}"?`;
  const value = readText(kind, text);
  const got = typeof value === "number" ? String(value) : JSON.stringify(text);
  const wrong = (): UsageError => new UsageError(`${where} must be ${allowedText(option)}, got ${got}${hint}`);
  if (kind === "schedule") {
    const schedule = parseSchedule(where, text);
    if (!valuesOfSchedule(schedule).every(accepts)) throw wrong();
    return schedule;
  }
  if (value === undefined || !accepts(value)) throw wrong();
  return value;
}

/** The value that a text stands for; `undefined` if it is not of that kind. */
function readText(kind: Option<unknown>["kind"], text: string): Exclude<Value, ScheduleData> | number | undefined {
  switch (kind) {
    case "number":
      return numberOf(text);
    case "switch":
      return text === "true" ? true : text === "false" ? false : undefined;
    case "bounds": {
      if (text === "none") return null;
      const [low, high, ...more] = text.split("..").map(numberOf);
      return low === undefined || high === undefined || more.length > 0 ? undefined : [low, high];
    }
    case "number or word":
      return numberOf(text) ?? text;
    default:
      return text;
  }
}

const numberOf = (text: string): number | undefined =>
  text.trim() === "" || Number.isNaN(Number(text)) ? undefined : Number(text);

/** The value of an option that has both a flag and a name for `--set`. @throws UsageError if both are given */
export function once<T extends Value>(flag: string, value: T | undefined, name: string, set: Settings): T | undefined {
  const [part, option] = name.split(".") as [string, string];
  const other = set[part]?.[option] as T | undefined;
  if (value !== undefined && other !== undefined)
    throw new UsageError(`${flag} and --set ${name} are the same; give one of them`);
  return value ?? other;
}

/** An option as `--list` and docs/methods.md show it. */
export interface OptionRow {
  readonly part: string;
  readonly name: string;
  /** Its value if it is not given, or who says it: `none`, `derived` (`about` says of what), `the run's`. */
  readonly default: string;
  readonly allowed: string;
  readonly about: string;
}

/** All options, part by part. */
export function optionRows(): OptionRow[] {
  return Object.entries(PARTS).flatMap(([part, fields]) =>
    Object.entries(fields).map(([name, option]) => rowOf(part, name, option)),
  );
}

/** The option of this name, as in `rl.lr`; undefined if there is none. */
export function optionRow(key: string): OptionRow | undefined {
  const [part, name] = key.split(".") as [string, string];
  const option = PARTS[part]?.[name];
  return option && rowOf(part, name, option);
}

function rowOf(part: string, name: string, option: Option<unknown>): OptionRow {
  const { default: value, about } = option;
  const given = value === undefined ? absentText(part, option) : showSetting(value as Value);
  return { part, name, default: given, allowed: allowedText(option), about };
}

/** Parts whose numbers the environment or the main job says (environments.ts, presets.ts). */
const OF_THE_RUN = ["tokenizer", "sft", "rl", "rollout", "evaluation"];

/** What holds where an option without a default is not given. */
function absentText(part: string, { required, about }: Option<unknown>): string {
  if (required) return "needed";
  if (about.includes("by default")) return "derived";
  return OF_THE_RUN.includes(part) ? "the run's" : "none";
}

/** All options for `--list`, with one line each: name, default, allowed values, meaning. */
export function listSettings(): string {
  const line = (name: string, text: string): string => `  ${name.padEnd(32)}${text}`;
  return [
    "Options (--set PART.OPTION=VALUE; a schedule is FROM..TO@STEPS or STEP:VALUE,STEP:VALUE)",
    ...optionRows().map(({ part, name, default: value, allowed, about }) =>
      line(`${part}.${name}`, `${value}; ${allowed}: ${about}`),
    ),
    ...Object.entries(TASK_PARTS).map(([part, about]) => line(`${part}.…`, about)),
  ].join("\n");
}

/** The values of an option as they are written on the command line. */
export function allowedText({ kind, expected }: Option<unknown>): string {
  if (kind === "schedule") return expected.replace("a function of the step", "a schedule");
  if (kind === "bounds") return "LOW..HIGH or none";
  if (kind === "number or word") return expected.replaceAll('"', "").replaceAll(/, | or /g, " | ");
  return typeof kind === "string" ? expected : kind.join(" | ");
}
