/**
 * `--set PART.OPTION=VALUE`, for every option that has no flag of its own. parts.ts has the options. The error for an
 * unknown name suggests the nearest known one, that for a value that an option does not allow lists the allowed ones.
 */
import { nearest } from "../engine/options.ts";
import type { Option } from "../engine/optionTable.ts";
import type { Value } from "./layout.ts";
import { type Fields, PARTS } from "./parts.ts";
import { parseSchedule, type ScheduleData, valuesOfSchedule } from "./schedules.ts";
import { showSetting } from "./shownSettings.ts";
import { UsageError } from "./usage.ts";

/** The parts and options that `--set` knows. */
const SETTABLE: Readonly<Record<string, Fields>> = Object.fromEntries(
  Object.entries(PARTS).flatMap(([part, fields]) => {
    const options = Object.entries(fields).filter(([, { kind }]) => kind !== "code");
    return options.length > 0 ? [[part, Object.fromEntries(options)]] : [];
  }),
);

/** The parts whose options belong to the environment. It checks them (environments.ts), and they stay text here. */
const TASK_PARTS = {
  env:
    "any option of the environment, in training and evaluation: env.levels=1-2, env.families=read+count; of one of " +
    "several env.tools.levels=1",
  train: "the same, for training only",
  demo: "the same, for the demonstrations of the warm start only",
} as const;

type TaskPart = keyof typeof TASK_PARTS;

/** The values of `--set`. */
export interface SetValues {
  /** Values by `PART.OPTION`. */
  readonly values: Readonly<Record<string, Value>>;
  /** Texts for the environment, by part and option. */
  readonly tasks: { readonly [P in TaskPart]?: Readonly<Record<string, string>> };
}

/** Reads texts `PART.OPTION=VALUE`. @throws UsageError with one line that names what was expected and what came */
export function parseSettings(texts: readonly string[]): SetValues {
  const values: Record<string, Value> = {};
  const tasks: { [P in TaskPart]?: Record<string, string> } = {};
  for (const text of texts) {
    const [, part, option, value] = /^([\w+-]+)\.([\w.-]+)=(.*)$/.exec(text) ?? [];
    if (part === undefined)
      throw new UsageError(`--set: expected PART.OPTION=VALUE, as in paw.alpha=0.5, got "${text}"`);
    const key = `${part}.${option!}`;
    const isTask = Object.hasOwn(TASK_PARTS, part);
    const target: Record<string, Value> = isTask ? (tasks[part as TaskPart] ??= {}) : values;
    const name = isTask ? option! : key;
    if (Object.hasOwn(target, name)) throw new UsageError(`--set: ${key} is there twice`);
    target[name] = isTask ? value! : readValue(`--set ${key}`, settable(text, part, option!), value!);
  }
  return { values, tasks };
}

function settable(text: string, part: string, option: string): Option<unknown> {
  const names = { ...SETTABLE, ...Object.fromEntries(Object.keys(TASK_PARTS).map((name) => [name, {}])) };
  return named(`--set ${part}.${option}`, "option", named(`--set ${text}`, "part", names, part), option);
}

/** The option of this name, as in `rl.lr`. */
export function optionAt(key: string): Option<unknown> {
  const [part, option] = key.split(".") as [string, string];
  return PARTS[part]![option]!;
}

/** The largest number of names in one error message. */
const SHORT_LIST = 15;

/** The entry of a table under this name. @throws UsageError that suggests the nearest one if there is none */
export function named<T>(where: string, what: string, table: Readonly<Record<string, T>>, name: string): T {
  if (Object.hasOwn(table, name)) return table[name]!;
  const names = Object.keys(table);
  const near = nearest(name, names);
  const all =
    names.length <= SHORT_LIST
      ? names.join(", ")
      : `one of ${names.length} names; --${what === "flag" ? "help" : "list"} shows them`;
  const hint = near === undefined ? `expected ${all}` : `did you mean "${near}"?`;
  throw new UsageError(`${where}: unknown ${what} "${name}"; ${hint}`);
}

/** @throws UsageError unless the text is a value that the option allows */
export function readValue(where: string, option: Option<unknown>, text: string): Value {
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

/** An option as `--list` and docs/methods.md show it. */
export interface OptionRow {
  readonly part: string;
  readonly name: string;
  /** Its value if it is not given, or `none`, `needed`, `derived` (`about` explains from what). */
  readonly default: string;
  readonly allowed: string;
  readonly about: string;
}

/** All options, part by part. */
export function optionRows(): OptionRow[] {
  return Object.entries(SETTABLE).flatMap(([part, fields]) =>
    Object.entries(fields).map(([name, option]) => rowOf(part, name, option)),
  );
}

/** The option of this name, as in `rl.lr`; undefined if there is none. */
export function optionRow(key: string): OptionRow | undefined {
  const [part, name] = key.split(".") as [string, string];
  const option = SETTABLE[part]?.[name];
  return option && rowOf(part, name, option);
}

function rowOf(part: string, name: string, option: Option<unknown>): OptionRow {
  const { default: value, about } = option;
  const given = value === undefined ? absentText(option) : showSetting(value as Value);
  return { part, name, default: given, allowed: allowedText(option), about };
}

/** The text for an option without a default that is not given. */
const absentText = ({ required, about }: Option<unknown>): string =>
  required ? "needed" : about.includes("by default") ? "derived" : "none";

/** All options for `--list`, with one line each: name, default, allowed values, meaning. */
export function listSettings(): string {
  const line = (name: string, text: string): string => `  ${name.padEnd(32)}${text}`;
  return [
    "Options (--set PART.OPTION=VALUE; a schedule is FROM..TO@STEPS or STEP:VALUE,STEP:VALUE; environments may have",
    "numbers of their own for tokenizer, sft, rl and rollout)",
    ...optionRows().map(({ part, name, default: value, allowed, about }) =>
      line(`${part}.${name}`, `${value}; ${allowed}: ${about}`),
    ),
    ...Object.entries(TASK_PARTS).map(([part, about]) => line(`${part}.…`, about)),
  ].join("\n");
}

/** The values of an option as they are written on the command line. */
function allowedText({ kind, expected }: Option<unknown>): string {
  if (kind === "schedule") return expected.replace("a function of the step", "a schedule");
  if (kind === "bounds") return "LOW..HIGH or none";
  if (kind === "number or word") return expected.replaceAll('"', "").replaceAll(/, | or /g, " | ");
  return typeof kind === "string" ? expected : kind.join(" | ");
}
