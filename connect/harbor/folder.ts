/** A folder of tasks: which of them are used, which are held out, and the hash of all that they are made of. */
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join, relative, resolve } from "node:path";
import { check, fail } from "../../engine/errors.ts";
import { Rng } from "../../engine/index.ts";
import { hashOf } from "./context.ts";
import type { HarborSettings } from "./options.ts";
import { type HarborTask, readTask } from "./task.ts";

const isTask = (folder: string): boolean => existsSync(join(folder, "task.toml"));

/**
 * The folders of tasks: the folder itself if it is one, else those below it, at most two levels deep, by name, without
 * hidden ones.
 * @throws WorldgradError if there is none
 */
export function taskFolders(path: string): string[] {
  check(existsSync(path) && statSync(path).isDirectory(), () => `harbor: path is no folder: ${path}`);
  // So that a task has a name even if it is `.`.
  if (isTask(path)) return [resolve(path)];
  const below = (folder: string): string[] =>
    readdirSync(folder, { withFileTypes: true })
      // .git, .venv and copies that editors keep are no tasks.
      .filter((entry) => !entry.name.startsWith(".") && (entry.isDirectory() || entry.isSymbolicLink()))
      .map((entry) => join(folder, entry.name))
      .filter((each) => statSync(each, { throwIfNoEntry: false })?.isDirectory())
      .sort();
  const found = below(path).flatMap((folder) => (isTask(folder) ? [folder] : below(folder).filter(isTask)));
  check(found.length > 0, () => `harbor: no folder below ${path} has a task.toml${oldFormat(path, below)}`);
  return found;
}

/** A hint where tasks have the format of Terminal-Bench 1, which has a task.yaml. */
function oldFormat(path: string, below: (folder: string) => string[]): string {
  const old = [path, ...below(path).flatMap((folder) => [folder, ...below(folder)])].find((folder) =>
    existsSync(join(folder, "task.yaml")),
  );
  return old === undefined ? "" : `; ${join(old, "task.yaml")} is the older format of Terminal-Bench`;
}

/** The names that the file of `only` lists. */
function namesIn(file: string): ReadonlySet<string> {
  check(existsSync(file), () => `harbor: only: there is no file ${file}`);
  const lines = readFileSync(file, "utf8").split("\n");
  return new Set(lines.map((line) => line.trim()).filter((line) => line !== "" && !line.startsWith("#")));
}

type Settings = Pick<HarborSettings, "path" | "only" | "engine" | "hostEnv" | "network">;

/** All tasks of a folder that `only` admits, read once for each kind of settings. @throws WorldgradError */
export function tasksIn(settings: Settings): readonly HarborTask[] {
  const { path, only, engine, hostEnv, network } = settings;
  const key = JSON.stringify([path, only, engine, hostEnv, network]);
  const found = read.get(key);
  if (found !== undefined) return found;
  const names = only === undefined ? undefined : namesIn(only);
  const folders = taskFolders(path);
  const times = new Map<string, number>();
  for (const folder of folders) times.set(basename(folder), (times.get(basename(folder)) ?? 0) + 1);
  const tasks = folders.map((folder) => {
    const task = readTask(folder, settings);
    return times.get(task.name) === 1 ? task : { ...task, name: relative(path, folder) };
  });
  const missing = [...(names ?? [])].find((name) => !tasks.some((task) => task.name === name));
  check(missing === undefined, () => `harbor: only: there is no task ${missing}`);
  const admitted = tasks.filter(({ name }) => names?.has(name) ?? true);
  read.set(key, admitted);
  return admitted;
}
const read = new Map<string, readonly HarborTask[]>();

/** Below so many tasks, or with `heldOut` 0, training and evaluation have the same ones. */
export const FEWEST_TO_SPLIT = 5;

/** The tasks of one split: a hash of the name decides. Of each there is at least one. */
export function splitOf(
  tasks: readonly HarborTask[],
  { split, heldOut }: Pick<HarborSettings, "split" | "heldOut">,
): readonly HarborTask[] {
  if (tasks.length < FEWEST_TO_SPLIT || heldOut === 0) return tasks;
  const chances = tasks.map((task) => ({ task, chance: new Rng(0).split(task.name).uniform() }));
  const sorted = chances.toSorted((a, b) => a.chance - b.chance);
  const [least, most] = [sorted[0]!, sorted.at(-1)!];
  const isHeldOut = (each: (typeof chances)[number]): boolean =>
    each === least || (each !== most && each.chance < heldOut);
  return chances.filter((each) => isHeldOut(each) === (split === "heldout")).map(({ task }) => task);
}

/**
 * The tasks that episodes are drawn from.
 * @throws WorldgradError in one line, with the first reasons, if none can be played
 */
export function playable(settings: HarborSettings): readonly HarborTask[] {
  const key = JSON.stringify(settings);
  const found = chosen.get(key) ?? choose(settings);
  chosen.set(key, found);
  return found;
}
const chosen = new Map<string, readonly HarborTask[]>();

function choose(settings: HarborSettings): readonly HarborTask[] {
  const all = tasksIn(settings);
  const usable = all.filter(({ reasons }) => reasons.length === 0);
  if (usable.length === 0) {
    const shown = all.slice(0, 3).map(({ name, reasons }) => `${name}: ${reasons[0]}`);
    fail(`harbor: none of ${all.length} tasks in ${settings.path} can be played: ${shown.join("; ")}`);
  }
  const { families, levels } = settings;
  const unknown = families?.find((name) => !usable.some((task) => task.name === name));
  check(unknown === undefined, () => `harbor: families: there is no usable task ${unknown}`);
  const [low, high] = levels ?? [1, Infinity];
  const admitted = splitOf(usable, settings).filter(
    ({ name, level }) => (families?.includes(name) ?? true) && low <= level && level <= high,
  );
  const { split, path } = settings;
  check(admitted.length > 0, () => `harbor: no ${split} task of these families and levels in ${path}`);
  return admitted;
}

/** The SHA-256 of all that the tasks are made of: names and files of those that `only` admits. */
export function fingerprintOf(settings: Settings): string {
  const hash = createHash("sha256");
  for (const { name, folder } of tasksIn(settings)) hash.update(`${name}\0${hashOf(folder)}\0`);
  return hash.digest("hex");
}
