/** The environments that `--env` may name, and the options of the tasks that a run plays in one. */
import { fail } from "../engine/errors.ts";
import { type EnvironmentOptions, ENVIRONMENTS, type EnvironmentSpec, withFaults } from "../environments/index.ts";
import { openEnvWorld } from "../environments/openenv/world.ts";
import type { Preset, Tasks } from "./preset.ts";

const worlds: Record<string, EnvironmentSpec> = { ...ENVIRONMENTS, [openEnvWorld.name]: openEnvWorld };
/**
 * The environments that `--env` may name: the built-in ones, OpenEnv servers, and those that were loaded from a user's
 * file.
 */
export const WORLDS: Readonly<Record<string, EnvironmentSpec>> = worlds;

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

/** The environment of a run. @throws WorldgradError if it is in a file that has not been loaded */
export const environmentOf = ({ env, environmentFile }: Pick<Preset, "env" | "environmentFile">): EnvironmentSpec =>
  WORLDS[env] ?? fail(`the environment "${env}" of ${environmentFile?.path ?? "a file"} has not been loaded`);

/** Whether episodes of a run's environment can be played here. @throws WorldgradError in one line if they cannot */
export async function checkEnvironment(preset: Preset): Promise<void> {
  await environmentOf(preset).check?.(taskOptions(preset, "train"));
}

/**
 * The options of a run's environment for training tasks, for held-out tasks, or for the demonstrations of the warm
 * start.
 */
export function taskOptions(
  { tasks, trainTasks, demoTasks }: Tasks,
  use: "train" | "heldout" | "demo",
): EnvironmentOptions {
  if (use === "heldout") return { split: "heldout", ...tasks };
  return { split: "train", ...tasks, ...(use === "train" ? trainTasks : demoTasks) };
}
