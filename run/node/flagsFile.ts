/**
 * `--config FILE`: flags of `npm start` under their names, in JSON or YAML, as TRL reads arguments from a file:
 *
 *     { "env": "castle", "method": "dapo+echo", "steps": 80, "dynamic-sampling": true, "set": { "rl.lr": 1e-4 } }
 *
 * YAML (a file that ends in .yaml or .yml) is read by the package `yaml`, an optional peer.
 *
 * Flags beside it win. Every run and comparison writes such a file, with what was said when it began; config.json has
 * the settings that came of it.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fail } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import { isRecord } from "../records.ts";
import { named } from "../settings.ts";
import { FLAG_KEYS, type Said, START_FLAGS } from "../startOptions.ts";
import { UsageError } from "../usage.ts";

/** The name of the file in a run's folder. */
export const FLAGS_FILE = "flags.json";

/** Flags that such a file has not: a run goes on with its own settings. */
const { resume: _, ...IN_FILE } = START_FLAGS;

/** The flags, with those of the file that `--config` names. @throws UsageError with one line that names the file */
export function withConfig({ config: path, ...flags }: Said): Said {
  if (path === undefined) return flags;
  if (flags["resume"] !== undefined)
    throw new UsageError("--resume continues a run with its own settings; remove --config");
  const file = readFlags(path as string);
  const set = setOf(flags);
  /** What is said beside the file, by PART.OPTION. */
  const keys = [...Object.keys(flags).map((flag) => FLAG_KEYS[flag]), ...set.map(keyOf)];
  const others = Object.entries(file).filter(
    ([flag]) => FLAG_KEYS[flag] === undefined || !keys.includes(FLAG_KEYS[flag]),
  );
  const kept = setOf(file).filter((text) => !keys.includes(keyOf(text)));
  const all = [...kept, ...set];
  return { ...Object.fromEntries(others), ...flags, set: all.length > 0 ? all : undefined };
}

const setOf = ({ set }: Said): readonly string[] => (set as readonly string[] | undefined) ?? [];
const keyOf = (text: string): string => text.split("=")[0]!;

function readFlags(path: string): Said {
  const where = `--config: ${path}`;
  const content = readData("--config", path);
  if (!isRecord(content)) throw new UsageError(`${where}: expected an object of flags, got ${showValue(content)}`);
  const flags = Object.entries(content).map(([flag, value]) => {
    const { type } = named<{ readonly type: string }>(where, "flag", IN_FILE, flag);
    const at = `${where}: ${flag}`;
    if (flag === "set") return [flag, entriesOf(at, value)];
    if (type === "string") return [flag, textOf(at, value)];
    if (typeof value !== "boolean") throw new UsageError(`${at}: expected true or false, got ${showValue(value)}`);
    return [flag, value || undefined];
  });
  return Object.fromEntries(flags) as Said;
}

/** What a file that a flag names says in JSON or, by its ending, in YAML. @throws UsageError in one line */
export function readData(flag: string, path: string): unknown {
  const isYaml = /\.ya?ml$/i.test(path);
  try {
    const text = readFileSync(path, "utf8");
    return isYaml ? yaml().parse(text, { logLevel: "error" }) : JSON.parse(text);
  } catch (error) {
    // The first line names the place, which the lines behind it show; some of yaml's advise those who call it.
    const [first] = (error instanceof Error ? error.message : String(error)).split("\n") as [string];
    const said = first.replace(/:$/, "").replace(/; please use YAML\S+/, "");
    throw new UsageError(`${flag}: ${path}: ${said}`);
  }
}

interface Yaml {
  readonly parse: (text: string, options: { readonly logLevel: "error" }) => unknown;
}

function yaml(): Yaml {
  try {
    return createRequire(import.meta.url)("yaml") as Yaml;
  } catch (error) {
    if ((error as { code?: unknown }).code !== "MODULE_NOT_FOUND") throw error;
    return fail("the package yaml is not installed; npm install yaml");
  }
}

/** The entries of `set`, as `--set` takes them. */
function entriesOf(at: string, value: unknown): string[] {
  if (!isRecord(value))
    throw new UsageError(`${at}: expected an object, as in { "rl.lr": 1e-4 }, got ${showValue(value)}`);
  return Object.entries(value).map(
    ([key, one]) => `${key}=${typeof one === "boolean" ? one : textOf(`${at}.${key}`, one)}`,
  );
}

function textOf(at: string, value: unknown): string {
  if (typeof value === "string" || typeof value === "number") return String(value);
  const hint = isRecord(value) ? `; parts have names with a dot, as in { "rl.lr": 1e-4 }` : "";
  throw new UsageError(`${at}: expected a text or a number, got ${showValue(value)}${hint}`);
}

/** The flags as such a file; the name of a run is its own. */
export function flagsText({ name: _name, set, ...flags }: Said): string {
  const entries = setOf({ set }).map((text) => [keyOf(text), text.slice(keyOf(text).length + 1)]);
  const all = { ...flags, ...(entries.length === 0 ? {} : { set: Object.fromEntries(entries) as object }) };
  return `${JSON.stringify(all, null, 2)}\n`;
}
