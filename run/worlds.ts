/** The environments that `--env` may name, and the options of the tasks that a run plays in one. */
import { fail } from "../engine/errors.ts";
import {
  type EnvironmentOptions,
  ENVIRONMENTS,
  type EnvironmentSpec,
  type FactWorld,
  mixture,
  withFaults,
} from "../environments/index.ts";
import { openEnvWorld } from "../environments/openenv/world.ts";
import { partsOf } from "./mixtures.ts";
import type { Preset, Tasks } from "./preset.ts";
import { usage, UsageError } from "./usage.ts";

const worlds: Record<string, FactWorld> = { ...ENVIRONMENTS, [openEnvWorld.name]: openEnvWorld };
/**
 * The environments that `--env` may name: the built-in ones, OpenEnv servers, and those that were loaded from a user's
 * file.
 */
export const WORLDS: Readonly<Record<string, FactWorld>> = worlds;

/** The files of the environments that are not the library's. */
const origins = new Map<string, string>();

/**
 * Adds an environment to `WORLDS`. It takes the options of faults, as those of the library do.
 * @param origin its file; the same file may be loaded again
 * @returns false if there is another environment of this name
 */
export function addEnvironment(spec: EnvironmentSpec, origin: string): boolean {
  if (Object.hasOwn(worlds, spec.name) && origins.get(spec.name) !== origin) return false;
  origins.set(spec.name, origin);
  worlds[spec.name] = withFaults(spec);
  return true;
}

/**
 * The environment of this name, or the mixture that it stands for (`calculator:2+tools`), which is then one of
 * `WORLDS`; undefined if one of them is unknown.
 */
export function worldNamed(name: string): FactWorld | undefined {
  if (Object.hasOwn(worlds, name)) return worlds[name];
  const parts = partsOf(name);
  const members = parts.flatMap(({ name: one, weight }) =>
    Object.hasOwn(worlds, one) ? [{ spec: worlds[one]!, weight }] : [],
  );
  if (parts.length === 1 || members.length < parts.length) return undefined;
  return (worlds[name] = withFaults(usage(() => mixture(name, members))));
}

/** The environment of a run. @throws WorldgradError if it is in a file that has not been loaded */
export const environmentOf = ({ env, environmentFile }: Pick<Preset, "env" | "environmentFile">): FactWorld =>
  worldNamed(env) ?? fail(`the environment "${env}" of ${environmentFile?.path ?? "a file"} has not been loaded`);

/** Whether episodes of a run's environment can be played here. @throws WorldgradError in one line if they cannot */
export async function checkEnvironment(preset: Preset): Promise<void> {
  await environmentOf(preset).check?.(taskOptions(preset, "train"));
}

/** The uses of tasks in a run, each with options of its own. */
export const USES = ["heldout", "train", "demo"] as const;

/** What the tasks of a run are made of beside its settings, for `Preset.fingerprint`; undefined if it is nothing. */
export async function fingerprintOf(preset: Preset): Promise<string | undefined> {
  const spec = environmentOf(preset);
  if (spec.fingerprint === undefined) return undefined;
  const found = await Promise.all(USES.map((use) => spec.fingerprint!(taskOptions(preset, use))));
  return [...new Set(found)].join("+");
}

/** @throws UsageError if the tasks of a run are made of something else now than when it began */
export async function checkFingerprint(preset: Preset): Promise<void> {
  const found = await fingerprintOf(preset);
  if (found === preset.fingerprint) return;
  throw new UsageError(
    `the run's environment: the files that the tasks of ${preset.env} are made of have changed since the run began: ` +
      `their hash is ${found ?? "none"}, expected ${preset.fingerprint ?? "none"}`,
  );
}

/**
 * The options of a run's environment for training tasks, for held-out tasks, or for the demonstrations of the warm
 * start.
 */
export function taskOptions({ tasks, trainTasks, demoTasks }: Tasks, use: (typeof USES)[number]): EnvironmentOptions {
  if (use === "heldout") return { split: "heldout", ...tasks };
  return { split: "train", ...tasks, ...(use === "train" ? trainTasks : demoTasks) };
}
