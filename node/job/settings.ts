/**
 * `--set PART.OPTION=VALUE`: every number and switch that has no flag of its own. parts.ts says what there is. A name that is not
 * there is one line with the nearest that is, and so is a value that the option does not allow.
 */
import { nearest } from "../../engine/options.ts";
import type { Option } from "../../engine/optionTable.ts";
import { UsageError } from "../flags.ts";
import { type Fields, METHOD_PARTS, OTHER_PARTS } from "./parts.ts";
import { parsePlan, type Plan, showPlan, valuesOfPlan } from "./schedules.ts";

const PARTS: Readonly<Record<string, Fields>> = { ...METHOD_PARTS, ...OTHER_PARTS };

/** Parts whose options are the environment's own: it says what there is (environments.ts), and here they stay text. */
const TASK_PARTS: Readonly<Record<string, string>> = {
  env: "any option of the environment, in training and evaluation: env.levels=1-2, env.families=read+count, env.size=2",
  train: "the same, in training alone",
  demo: "the same, in the demonstrations of the warm start alone",
};

export type Value = number | boolean | string | Plan | readonly [number, number] | null;
/** Values by part and option. */
export type Settings = Readonly<Record<string, Readonly<Record<string, Value>>>>;

/** @throws UsageError with one line: what was expected, what came */
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

function known<T>(where: string, what: string, table: Readonly<Record<string, T>>, name: string): T {
  if (Object.hasOwn(table, name)) return table[name]!;
  const names = Object.keys(table);
  const near = nearest(name, names);
  throw new UsageError(
    `${where}: unknown ${what} "${name}"; ${near === undefined ? `expected ${names.join(", ")}` : `did you mean "${near}"?`}`,
  );
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
    const plan = parsePlan(where, text);
    if (!valuesOfPlan(plan).every(accepts)) throw wrong();
    return plan;
  }
  if (value === undefined || !accepts(value)) throw wrong();
  return value;
}

/** The value of the text; `undefined` if it is none of that kind. */
function readText(kind: Option<unknown>["kind"], text: string): Exclude<Value, Plan> | number | undefined {
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
    default:
      return text;
  }
}

const numberOf = (text: string): number | undefined =>
  text.trim() === "" || Number.isNaN(Number(text)) ? undefined : Number(text);

/** What a flag and `--set` say of one thing. @throws UsageError if both do */
export function once<T extends Value>(flag: string, value: T | undefined, name: string, set: Settings): T | undefined {
  const [part, option] = name.split(".") as [string, string];
  const other = set[part]?.[option] as T | undefined;
  if (value !== undefined && other !== undefined)
    throw new UsageError(`${flag} and --set ${name} are the same; give one of them`);
  return value ?? other;
}

/** One option as `--list` and docs/methods.md show it. */
export interface OptionRow {
  readonly part: string;
  readonly name: string;
  readonly default: string;
  readonly allowed: string;
  readonly about: string;
}

/** All options, part by part. */
export function optionRows(): OptionRow[] {
  return Object.entries(PARTS).flatMap(([part, fields]) =>
    Object.entries(fields).map(([name, option]) => {
      const { default: value, required, about } = option;
      const given = required ? "needed" : value === undefined ? "" : showSetting(value as Value);
      return { part, name, default: given, allowed: allowedText(option), about };
    }),
  );
}

/** All options for `--list`, a line each: name, default, allowed values, meaning. */
export function listSettings(): string {
  const line = (name: string, text: string): string => `  ${name.padEnd(32)}${text}`;
  return [
    "Options (--set PART.OPTION=VALUE; a schedule is FROM..TO@STEPS or STEP:VALUE,STEP:VALUE)",
    ...optionRows().map(({ part, name, default: value, allowed, about }) =>
      line(`${part}.${name}`, `${value === "" ? "" : `${value}; `}${allowed}: ${about}`),
    ),
    ...Object.entries(TASK_PARTS).map(([part, about]) => line(`${part}.…`, about)),
  ].join("\n");
}

/** The values of an option as they are written on the command line. */
function allowedText({ kind, expected }: Option<unknown>): string {
  if (kind === "schedule") return expected.replace("a function of the step", "a schedule");
  if (kind === "bounds") return "LOW..HIGH or none";
  return typeof kind === "string" ? expected : kind.join(" | ");
}

/**
 * What a run's settings say beside its method and its sizes, as `--set` would say it: `paw.alpha=0.5, curriculum.name=failed`; and the
 * parts that were exchanged, as flags. Empty if nothing.
 */
export function showSettings(rl: object, data: object = {}): string {
  const { options = {}, kl, critic, correction, reward, entropy, imitation, rolloutFilter, maskTruncated, dropConstantGroups, rewardFrom, expertsOnly, iterations } = rl as Readonly<Record<string, Settings[string] | undefined>>; // prettier-ignore
  const { advantage, loss } = rl as { readonly advantage?: string; readonly loss?: string };
  const { temperature, ...rest } = data as Readonly<Record<string, Settings[string] | undefined>>;
  const { reject: rejection, ...weighing } = (correction ?? {}) as { readonly reject?: Settings[string] };
  const loop = { imitation, maskTruncated, dropConstantGroups, rewardFrom, expertsOnly, iterations };
  const bonus = typeof entropy === "object" ? { entropy, rl: loop } : { rl: { entropy, ...loop } };
  const parts = { ...options, kl, critic, correction: weighing, rejection, rolloutFilter, reward, ...bonus, rollout: { temperature }, ...rest }; // prettier-ignore
  const flags = [...(advantage ? [`--advantage ${advantage}`] : []), ...(loss ? [`--loss ${loss}`] : [])];
  const settings = Object.entries(parts).flatMap(([part, values]) => {
    const given = Object.entries((values ?? {}) as Record<string, Value | undefined>).filter(
      ([, v]) => v !== undefined,
    );
    if (values !== undefined && given.length === 0 && part in rest) return [part];
    return given.map(([option, value]) => `${part}.${option}=${showSetting(value!)}`);
  });
  return [...flags, ...settings].join(", ");
}

function showSetting(value: Value): string {
  if (value === null) return "none";
  if (typeof value !== "object") return String(value);
  return "length" in value ? value.join("..") : showPlan(value);
}
