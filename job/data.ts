/**
 * The data settings of a run: the temperature, plug-ins of episodes (plugins.ts), and self-play. They are plain data in
 * `config.json`; dataOptions.ts makes of them what the loop is given.
 */
import { nearest } from "../engine/options.ts";
import type { PluginEntry } from "../rl/tasks/entry.ts";
import type { SelfPlayChoice } from "../rl/selfplay/options.ts";
import { UsageError } from "./usage.ts";
import { camel, PLUGINS, type PluginSettings, showFlag } from "./plugins.ts";
import type { DataFlags, MethodFlags } from "./startOptions.ts";
import { parseSchedule, type ScheduleData, valuesOfSchedule } from "./schedules.ts";
import { allowedText, once } from "./settings.ts";
import type { Settings, Value } from "./shownSettings.ts";
import { checkYardstick, isYardstick } from "./yardsticks.ts";

export interface DataSettings extends PluginSettings {
  /** The temperature in training, in place of the rollout's; evaluations keep the rollout's. */
  readonly temperature?: ScheduleData;
  readonly selfPlay?: SelfPlayChoice;
}

/**
 * The data settings that the flags and `--set` describe; undefined if there are none.
 * @throws UsageError with one line if a flag is wrong, or if an option needs a flag that is missing
 */
export function dataSettings(flags: DataFlags & Pick<MethodFlags, "method">, set: Settings): DataSettings | undefined {
  const said = (flag: string): Value | undefined => (flags as Readonly<Record<string, Value | undefined>>)[camel(flag)];
  if (flags.method !== undefined && isYardstick(flags.method)) {
    const given = Object.fromEntries(PLUGINS.map(({ flag }) => [flag.name, said(flag.name)]));
    checkYardstick(flags.method, { ...given, "self-play": flags.selfPlay });
  }
  const temperature = temperatureOf(flags, set);
  const plugins = PLUGINS.flatMap((entry) => {
    const settings = pluginSettings(entry, said(entry.flag.name), set);
    return settings ? [[entry.name, settings]] : [];
  });
  const name = once("--self-play", flags.selfPlay, "selfPlay.name", set);
  if (name === undefined) refuseOthers(set["selfPlay"] ?? {}, "selfPlay", "name", "--self-play NAME");
  const settings: DataSettings = {
    ...(typeof temperature === "object" ? { temperature } : {}),
    ...(Object.fromEntries(plugins) as PluginSettings),
    ...(name === undefined ? {} : { selfPlay: { ...set["selfPlay"], name } }),
  };
  return Object.keys(settings).length > 0 ? settings : undefined;
}

/** The settings of a plug-in; undefined if its flag is off. @throws UsageError */
function pluginSettings(
  { name, flag, options }: PluginEntry,
  said: Value | undefined,
  set: Settings,
): Settings[string] | undefined {
  const given = set[name] ?? {};
  if (flag.kind === "switch") {
    if (said !== true) refuseOthers(given, name, undefined, showFlag(flag));
    return said === true ? given : undefined;
  }
  const own = flag.kind === "schedule" ? scheduleDataOf(`--${flag.name}`, said as string | undefined) : said;
  const value = once(`--${flag.name}`, own, `${name}.${flag.option}`, set);
  if (value === undefined || (flag.kind === "count" && value === 0)) {
    refuseOthers(given, name, flag.option, showFlag(flag));
    return undefined;
  }
  if (flag.kind === "schedule") {
    const option = options[flag.option]!;
    const wrong = valuesOfSchedule(value as ScheduleData).find((x) => !option.accepts(x));
    if (wrong !== undefined)
      throw new UsageError(`--${flag.name} must be ${allowedText(option)}, got ${String(wrong)}`);
  }
  if (flag.kind === "choice") checkChoice(flag, value as string, name, given);
  return { [flag.option]: value, ...given };
}

/** @throws UsageError if `--set` has an option of what no flag has turned on */
function refuseOthers(given: Settings[string], part: string, own: string | undefined, flag: string): void {
  const option = Object.keys(given).find((name) => name !== own);
  if (option === undefined) return;
  throw new UsageError(`--set ${part}.${option} is about ${flag.split(" ")[0]!}; add ${flag}`);
}

/** @throws UsageError if there is no such choice, or if it lacks one of the options */
function checkChoice(
  { name: flag, option, choices }: Extract<PluginEntry["flag"], { kind: "choice" }>,
  name: string,
  part: string,
  given: Settings[string],
): void {
  if (!Object.hasOwn(choices, name)) {
    const near = nearest(name, Object.keys(choices));
    const hint = near === undefined ? `expected ${Object.keys(choices).join(", ")}` : `did you mean "${near}"?`;
    throw new UsageError(`--${flag}: unknown name "${name}"; ${hint}`);
  }
  const own = Object.keys(choices[name]!);
  const foreign = Object.keys(given).find((other) => other !== option && !own.includes(other));
  if (foreign !== undefined) throw new UsageError(`--set ${part}.${foreign}: --${flag} ${name} has ${own.join(", ")}`);
}

/** The sampling temperature that the flags name. */
export function temperatureOf(flags: Pick<DataFlags, "temperature">, set: Settings): ScheduleData | undefined {
  const schedule = once(
    "--temperature",
    scheduleDataOf("--temperature", flags.temperature),
    "rollout.temperature",
    set,
  );
  if (schedule !== undefined && valuesOfSchedule(schedule).includes(0)) {
    throw new UsageError("--temperature: expected numbers > 0; greedy play has no groups to compare");
  }
  return schedule;
}

const scheduleDataOf = (flag: string, text: string | undefined): ScheduleData | undefined =>
  text === undefined ? undefined : parseSchedule(flag, text);
