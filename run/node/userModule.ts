/**
 * A file of the user's own with code for a run: its environment (environmentFile.ts) or its reward (rewardFile.ts).
 *
 * The file is an ES module, in TypeScript or JavaScript. It may import `worldgrad` and its entry points from any
 * folder, and gets the modules that the program itself runs, not a second copy of the library.
 *
 * Only programs load such files. A run's settings name the path and the SHA-256 of the file; its imports are not
 * hashed.
 */
import { existsSync, readFileSync, statSync } from "node:fs";
import { register } from "node:module";
import { isAbsolute, relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { reasonOf } from "../../engine/errors.ts";
import type { UserFile } from "../preset.ts";
import { UsageError } from "../usage.ts";
import { sha256 } from "./sealed.ts";

/** The time limit of loading a file. */
const LOADING_MS = 30_000;

/** Throws a UsageError about the file in one line that begins with the flag. */
export type Refuse = (problem: string) => never;

/** What a file exports, and what a run's settings keep of the file. */
export interface UserModule {
  readonly file: UserFile;
  readonly exported: Readonly<Record<string, unknown>>;
  readonly refuse: Refuse;
}

/**
 * Imports the file.
 * @throws UsageError in one line that begins with `flag`: no file, an error in it, or it is not loaded within
 * `patience` milliseconds
 */
export async function importUserFile(name: string, flag: string, patience: number = LOADING_MS): Promise<UserModule> {
  const path = resolve(name);
  const refuse = (problem: string): never => {
    throw new UsageError(`${flag}: ${shown(path)} ${problem}`);
  };
  if (!existsSync(path)) refuse("does not exist");
  if (!statSync(path).isFile()) refuse("is no file");
  giveLibrary();
  const hash = sha256(readFileSync(path));
  const exported = await within(patience, import(pathToFileURL(path).href)).catch((error: unknown) =>
    refuse(`cannot be loaded: ${inOneLine(error)}`),
  );
  return { file: { path, sha256: hash }, exported, refuse };
}

/** @throws UsageError in one line if the file, if it is there, has changed since the run began */
export function checkUnchanged({ path, sha256: expected }: UserFile, flag: string): void {
  if (!existsSync(path)) return; // importing it says so
  const found = sha256(readFileSync(path));
  if (found === expected) return;
  throw new UsageError(
    `${flag}: ${shown(path)} is not what the run began with: its SHA-256 is ${found.slice(0, 12)}…, ` +
      `expected ${expected.slice(0, 12)}…`,
  );
}

/** A path as the user would write it. */
export function shown(path: string): string {
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
