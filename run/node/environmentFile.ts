/**
 * The environments of the user's own. With this file those of the library that need Node are known, too (ownWorlds.ts).
 *
 * Such an environment comes from one file: `--env ./my-env.ts`. The file is an ES module, in TypeScript or
 * JavaScript, whose default export (or only export of that form) is what `defineGame` makes, or an `EnvironmentSpec`
 * written out. It may import `worldgrad` and `worldgrad/environments` from any folder, and gets the modules that the
 * program itself runs, not a second copy of the library.
 *
 * Only programs load such files. A run's settings name the path and the SHA-256 of the file; its imports are not
 * hashed.
 */
import { existsSync, readFileSync, statSync } from "node:fs";
import { register } from "node:module";
import { isAbsolute, relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { reasonOf } from "../../engine/errors.ts";
import type { EnvironmentSpec } from "../../environments/index.ts";
import { addEnvironment } from "../worlds.ts";
import type { EnvironmentFile, Preset } from "../preset.ts";
import type { StartOptions } from "../startOptions.ts";
import { UsageError } from "../usage.ts";
import { addOwnWorlds } from "./ownWorlds.ts";
import { sha256 } from "./sealed.ts";

addOwnWorlds();

/** The time limit of loading a file. */
const LOADING_MS = 30_000;

/** Whether the value of `--env` is a file and not the name of an environment of the library. */
export const isEnvironmentFile = (name: string): boolean => /[\\/]|\.[cm]?[jt]s$/.test(name);

/** An environment that was loaded, and the name under which `--env` now knows it. */
export interface LoadedEnvironment {
  readonly env: string;
  readonly environmentFile: EnvironmentFile;
}

/**
 * Loads an environment's file; its environment is then known by its name, as those of the library are.
 * @throws UsageError in one line that begins with `flag`: no file, an error in it, no environment in it, a name that
 *   another environment has, or it is not loaded within `patience` milliseconds
 */
export async function loadEnvironment(
  file: string,
  flag = "--env",
  patience: number = LOADING_MS,
): Promise<LoadedEnvironment> {
  const path = resolve(file);
  const refuse = (problem: string): never => {
    throw new UsageError(`${flag}: ${shown(path)} ${problem}`);
  };
  if (!existsSync(path)) refuse("does not exist");
  if (!statSync(path).isFile()) refuse("is no file");
  giveLibrary();
  const hash = sha256(readFileSync(path));
  const module = await within(patience, import(pathToFileURL(path).href)).catch((error: unknown) =>
    refuse(`cannot be loaded: ${inOneLine(error)}`),
  );
  const spec = environmentIn(module, refuse);
  if (!addEnvironment(spec, path)) refuse(`names its environment "${spec.name}", and there is another of that name`);
  return { env: spec.name, environmentFile: { path, sha256: hash } };
}

/** The flags, in which the environment's name replaces the path of its file. @throws UsageError as above */
export async function withEnvironmentFile(options: StartOptions): Promise<StartOptions> {
  if (options.env === undefined || !isEnvironmentFile(options.env)) return options;
  return { ...options, ...(await loadEnvironment(options.env)) };
}

/**
 * Loads the environment of a run again, if it came from a file.
 * @throws UsageError in one line, before anything runs, if the file is gone or has changed since the run began
 */
export async function loadEnvironmentOf(settings: Pick<Preset, "env" | "environmentFile">): Promise<void> {
  const { env, environmentFile: file } = settings;
  if (file === undefined) return;
  const flag = "the run's environment";
  if (existsSync(file.path)) {
    const found = sha256(readFileSync(file.path));
    if (found !== file.sha256) {
      throw new UsageError(
        `${flag}: ${shown(file.path)} is not what the run began with: its SHA-256 is ${found.slice(0, 12)}…, ` +
          `expected ${file.sha256.slice(0, 12)}…`,
      );
    }
  }
  const loaded = await loadEnvironment(file.path, flag);
  if (loaded.env !== env)
    throw new UsageError(`${flag}: ${shown(file.path)} has the environment "${loaded.env}", expected "${env}"`);
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

function environmentIn(module: Readonly<Record<string, unknown>>, refuse: (problem: string) => never): EnvironmentSpec {
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

/** A path as the user would write it. */
function shown(path: string): string {
  const near = relative(".", path);
  return near.startsWith("..") || isAbsolute(near) ? path : near;
}

/** Imports a module, with a time limit: a top-level await that never resolves would otherwise end the program. */
async function within(patience: number, loading: Promise<unknown>): Promise<Readonly<Record<string, unknown>>> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const tooLate = (): void => reject(new Error(`it is not there after ${patience / 1000} s; what does it wait for?`));
    timer = setTimeout(tooLate, patience);
  });
  return Promise.race([loading, late]).finally(() => clearTimeout(timer)) as Promise<Readonly<Record<string, unknown>>>;
}

/** An error in one line; compilers put the place in the file on a line of its own. */
const inOneLine = (error: unknown): string =>
  reasonOf(error)
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .join(" ");

let isGiven = false;

/**
 * Makes `worldgrad` and its entry points known to the user's files when running from sources: they get this program's
 * modules. The built package is found like any package.
 */
function giveLibrary(): void {
  if (isGiven || !import.meta.url.endsWith(".ts")) return;
  isGiven = true;
  const root = new URL("../../", import.meta.url);
  const { exports } = JSON.parse(readFileSync(new URL("package.json", root), "utf8")) as {
    readonly exports: Readonly<Record<string, string | { readonly default: string }>>;
  };
  const library = Object.entries(exports).flatMap(([name, target]) =>
    typeof target === "string"
      ? []
      : [
          [
            `worldgrad${name.slice(1)}`,
            new URL(target.default.replace("/dist/", "/").replace(/\.js$/, ".ts"), root).href,
          ],
        ],
  );
  const data = { library: Object.fromEntries(library) as object, root: pathToFileURL(fileURLToPath(root)).href };
  register(`data:text/javascript,${encodeURIComponent(HOOKS)}`, { data });
}

/**
 * Hooks of Node's module loader (`module.register`). A file of the user's is an ES module whatever the package.json
 * above it says; otherwise tsx would take it for CommonJS, whose imports these hooks do not see.
 */
const HOOKS = `
let library, root;
export function initialize(data) { ({ library, root } = data); }
export function resolve(specifier, context, next) {
  if (Object.hasOwn(library, specifier)) return next(library[specifier], context);
  const url = /^(file:|\\.\\.?\\/)/.test(specifier) ? new URL(specifier, context.parentURL).href : "";
  const isUsers = /\\.m?[jt]s$/.test(url) && !url.startsWith(root) && !url.includes("/node_modules/");
  return isUsers ? { url, format: "module", shortCircuit: true } : next(specifier, context);
}
`;
