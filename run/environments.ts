/**
 * The environments of the main job by their names: their settings, their line in `--list`, and texts such as
 * `--set env.size=2` as options of the environment.
 */
import { nearest } from "../engine/options.ts";
import type { Option } from "../engine/optionTable.ts";
import { COMMON_OPTIONS, type EnvironmentSpec, FAULTS } from "../environments/index.ts";
import { usage, UsageError } from "./usage.ts";
import type { TaskOptions, Tasks } from "./preset.ts";
import type { Value } from "./layout.ts";
import { mixedSettings } from "./mixedSettings.ts";
import { partsOf } from "./mixtures.ts";
import type { SetValues } from "./settings.ts";
import { showSetting } from "./shownSettings.ts";
import { taskOptions, USES, worldNamed, WORLDS } from "./worlds.ts";
import { type EnvironmentSettings, OTHERS, SETTINGS } from "./worldSettings.ts";

/** One line for each environment, for `--list`. */
export function listEnvironments(): string {
  const line = ([name, { default: value, expected, about }]: readonly [string, Option<unknown>]): string =>
    `    env.${name.padEnd(18)}${value === undefined ? "" : `${showSetting(value as Value)}; `}${expected}: ${about}`;
  // A run chooses between training tasks and held-out ones by itself.
  const { split: _, ...common } = { ...COMMON_OPTIONS, ...FAULTS };
  const lines = Object.values(WORLDS).flatMap(({ name, description, source = "unpublished", options = {} }) => [
    `  ${name.padEnd(24)}${description} (${source})`,
    ...Object.entries(options)
      .filter(([option]) => option !== "split" && !Object.hasOwn(common, option))
      .map(line),
  ]);
  return ["Environments (--env)", ...lines, "  options of all of them", ...Object.entries(common).map(line)].join("\n");
}

/**
 * The settings of an environment.
 * @param thoughts whether thoughts come before the actions
 * @throws UsageError if the name is unknown
 */
export function environmentSettings(env: string, thoughts = false): EnvironmentSettings {
  const parts = partsOf(env);
  if (parts.length > 1) {
    const members = parts.map(({ name }) => ({ name, settings: environmentSettings(name, thoughts) }));
    worldNamed(env);
    return mixedSettings(members);
  }
  if (Object.hasOwn(WORLDS, env)) {
    const settings = SETTINGS[env] ?? OTHERS;
    return thoughts ? { ...settings, ...settings.thoughts } : settings;
  }
  const known = Object.keys(WORLDS);
  const near = nearest(env, known);
  const hint = near === undefined ? `expected ${known.join(", ")}` : `did you mean "${near}"?`;
  throw new UsageError(`--env: unknown name "${env}"; ${hint}`);
}

/** Throws a UsageError with the environment's own message if it does not accept these options. */
export function checkTasks(spec: EnvironmentSpec, tasks: Tasks): void {
  for (const use of USES) usage(() => spec.make(taskOptions(tasks, use)).close?.());
}

/** Throws a UsageError that names the environments with thoughts if this one has none. */
export function checkThoughts(env: string): void {
  if (worldNamed(env)!.thoughts !== undefined) return;
  const names = Object.keys(WORLDS).filter((name) => WORLDS[name]!.thoughts !== undefined);
  throw new UsageError(
    `--set sft.thoughts: ${env} has no thoughts for its demonstrations; those that have: ${names.join(", ")}`,
  );
}

/** The task options of an environment, changed by `--set env.…`, `--set train.…` and `--set demo.…`. */
export function tasksOf(
  env: string,
  { tasksOfSeed, ...ofWorld }: EnvironmentSettings,
  set: SetValues["tasks"],
  seed: number,
): Tasks {
  const spec = worldNamed(env)!;
  const tasks = readOptions("env", spec, set.env, {}, { ...ofWorld.tasks, ...tasksOfSeed?.(seed) });
  const trainTasks = readOptions("train", spec, set.train, { ...tasks }, ofWorld.trainTasks);
  const demoTasks = readOptions("demo", spec, set.demo, { ...tasks }, ofWorld.demoTasks);
  return { tasks, trainTasks, demoTasks };
}

/**
 * Reads options as the environment accepts them. Only the environment knows whether an option is a number, a word or a
 * list, so each text is tried as the value that it looks like and, if the environment refuses that, as the text itself.
 */
function readOptions(
  part: string,
  spec: EnvironmentSpec,
  texts: Readonly<Record<string, string>> = {},
  under: TaskOptions,
  defaults?: TaskOptions,
): TaskOptions | undefined {
  let tried: TaskOptions[] = [{}];
  for (const [name, text] of Object.entries(texts)) {
    const readings = readingsOf(`--set ${part}.${name}`, name, text);
    tried = tried.flatMap((others) => readings.map((value): TaskOptions => ({ ...others, [name]: value })));
  }
  let first: UsageError | undefined;
  for (const options of tried) {
    const all = { ...yielding(defaults, options), ...options };
    try {
      checkTasks(spec, { tasks: { ...under, ...all } });
      return Object.keys(all).length > 0 ? all : undefined;
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      first ??= new UsageError(`--set ${part}: ${error.message}`);
    }
  }
  throw first!;
}

/** The defaults that stay beside what was chosen: chosen levels are those of all families. */
function yielding({ families, ...rest }: TaskOptions = {}, chosen: TaskOptions): TaskOptions {
  return chosen.levels === undefined && families !== undefined ? { ...rest, families } : rest;
}

function readingsOf(where: string, option: string, text: string): readonly unknown[] {
  const name = option.slice(option.lastIndexOf(".") + 1); // in a mixture the name of an environment comes first
  if (name === "split") throw new UsageError(`${where}: the run itself trains on train and evaluates on heldout`);
  if (name === "families") return [text.split("+")];
  const range = /^(-?\d+)-(-?\d+)$/.exec(text);
  const bounds = range && [Number(range[1]), Number(range[2])];
  const number = text.trim() === "" ? NaN : Number(text);
  if (name === "levels") {
    if (!bounds && !Number.isInteger(number))
      throw new UsageError(`${where}: expected levels as in 1-2, got "${text}"`);
    return [bounds ?? [number, number]];
  }
  const texts = [text, text.split("+")];
  if (bounds) return [bounds, ...texts];
  if (Number.isFinite(number)) return [number, ...texts];
  if (text === "true" || text === "false") return [text === "true", ...texts];
  return texts;
}
