/**
 * The environments of the user's own. With this file those of the library that need Node are known, too (ownWorlds.ts).
 *
 * Such an environment comes from one file (userModule.ts), `--env ./my-env.ts`, whose default export (or only export of
 * that form) is what `defineGame` makes, or an `EnvironmentSpec` written out.
 */
import type { EnvironmentSpec } from "../../environments/index.ts";
import type { Preset, UserFile } from "../preset.ts";
import { UsageError } from "../usage.ts";
import { addEnvironment } from "../worlds.ts";
import { addOwnWorlds } from "./ownWorlds.ts";
import { checkUnchanged, importUserFile, type Refuse, shown } from "./userModule.ts";

addOwnWorlds();

/** An environment that was loaded, and the name under which `--env` now knows it. */
export interface LoadedEnvironment {
  readonly env: string;
  readonly environmentFile: UserFile;
}

/**
 * Loads an environment's file; its environment is then known by its name, as those of the library are.
 * @throws UsageError in one line that begins with `flag`: no file, an error in it, no environment in it, a name that
 *   another environment has, or it is not loaded within `patience` milliseconds
 */
export async function loadEnvironment(name: string, flag = "--env", patience?: number): Promise<LoadedEnvironment> {
  const { file, exported, refuse } = await importUserFile(name, flag, patience);
  const spec = environmentIn(exported, refuse);
  if (!addEnvironment(spec, file.path))
    refuse(`names its environment "${spec.name}", and there is another of that name`);
  return { env: spec.name, environmentFile: file };
}

/**
 * Loads the environment of a run again, if it came from a file.
 * @throws UsageError in one line, before anything runs, if the file is gone or has changed since the run began
 */
export async function loadEnvironmentOf({
  env,
  environmentFile,
}: Pick<Preset, "env" | "environmentFile">): Promise<void> {
  if (environmentFile === undefined) return;
  const flag = "the run's environment";
  checkUnchanged(environmentFile, flag);
  const loaded = await loadEnvironment(environmentFile.path, flag);
  if (loaded.env !== env)
    throw new UsageError(
      `${flag}: ${shown(environmentFile.path)} has the environment "${loaded.env}", expected "${env}"`,
    );
}

/** The reason why a value is no environment; undefined if it is one. */
function problemOf(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null) return `is ${value === null ? "null" : `a ${typeof value}`}`;
  const given = value as Readonly<Record<string, unknown>>;
  if (typeof given["makeTask"] === "function" && given["make"] === undefined)
    return "is a game: export what defineGame makes of it";
  for (const name of ["name", "description"]) if (typeof given[name] !== "string") return `has no text "${name}"`;
  for (const name of ["make", "random"]) if (typeof given[name] !== "function") return `has no function "${name}"`;
  if (given["expert"] !== undefined && typeof given["expert"] !== "function")
    return 'has an "expert" that is no function';
  const families = given["families"];
  if (!Array.isArray(families)) return 'has no list "families" (it may be empty)';
  const name = given["name"] as string;
  return /^[A-Za-z0-9][\w.-]*$/.test(name)
    ? undefined
    : `has the name "${name}": expected letters, digits, ".", "_", "-"`;
}

function environmentIn(module: Readonly<Record<string, unknown>>, refuse: Refuse): EnvironmentSpec {
  const expected = "expected what defineGame makes, or an EnvironmentSpec";
  if ("default" in module) {
    const problem = problemOf(module["default"]);
    return problem === undefined
      ? (module["default"] as EnvironmentSpec)
      : refuse(`: its default export ${problem}; ${expected}`);
  }
  const names = Object.keys(module).filter((name) => problemOf(module[name]) === undefined);
  if (names.length === 1) return module[names[0]!] as EnvironmentSpec;
  if (names.length > 1) return refuse(`exports ${names.join(", ")}: make one of them the default export`);
  const [first] = Object.keys(module);
  const why =
    first === undefined
      ? "exports nothing"
      : `has no default export, and its export "${first}" ${problemOf(module[first])}`;
  return refuse(`${why}; ${expected} as the default export`);
}
