/** The check of settings against the one table (parts.ts): a `config.json` may have been written by hand. */
import { showValue } from "../engine/options.ts";
import { type Option, options } from "../engine/optionTable.ts";
import { byPart, optionsIn, type Parts } from "./layout.ts";
import { DEFAULTS, type Fields, PARTS } from "./parts.ts";
import type { Preset } from "./preset.ts";
import { isRecord } from "./records.ts";
import { isSchedule, valuesOfSchedule } from "./schedules.ts";
import { named } from "./settings.ts";
import { usage, UsageError } from "./usage.ts";

/** Parts that every run has. */
const NEEDED = ["model", "sft", "rl", "tokenizer", "rollout", "evaluation"] as const;

/**
 * Checks that these are all parts of a run, with no option that is unknown and no value that is not allowed.
 * @param file the file of these settings; by default they are those of a command line
 * @throws UsageError with one line
 */
export function checkSettings(given: unknown, file?: string): asserts given is Preset {
  const settings = isRecord(given) ? given : {};
  const isMissing = (name: string): boolean => !isRecord(settings[name]);
  const missing =
    NEEDED.find(isMissing) ??
    ["pretrained", "from", "teacher", "tasks", "trainTasks", "demoTasks", "environmentFile", "rewardFile"].find(
      (name) => settings[name] !== undefined && isMissing(name),
    );
  if (missing !== undefined) throw new UsageError(`${file ?? "run"} has no settings "${missing}" of the main job`);
  const empty = Object.fromEntries([...NEEDED, "run"].map((part) => [part, {}]));
  for (const [part, values] of Object.entries<Parts[string]>({ ...empty, ...byPart(optionsIn(settings)) })) {
    if (part === "tokenizer" && settings["pretrained"] !== undefined) continue; // it is the model's own
    const where = file === undefined ? `--set ${part}` : part === "run" ? file : `${file}: ${part}`;
    const name = Object.keys(values)[0]!;
    if (part === "data" || part === "options")
      throw new UsageError(`${where}.${name}: expected an object of options, got ${showValue(values[name])}`);
    const fields = Object.entries(named(where, "part", PARTS, part));
    const checked: Fields = Object.fromEntries(fields.map(([name, option]) => [name, asData(part, name, option)]));
    usage(() => void options(where, checked).read(values));
  }
}

/** The option in plain data: a schedule is no function, and options that every run has are required. */
function asData(part: string, name: string, { accepts, ...option }: Option<unknown>): Option<unknown> {
  const isKept = Object.hasOwn(DEFAULTS, `${part}.${name}`);
  return {
    ...option,
    required: option.required || isKept,
    default: undefined,
    accepts:
      option.kind === "schedule" ? (value) => isSchedule(value) && valuesOfSchedule(value).every(accepts) : accepts,
  };
}
