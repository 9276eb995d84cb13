/**
 * What a task is, and how one is made from a seed. A family furnishes a world, words the task, and says what is right: an
 * answer, or a change to the tree. The expert's plan is a list of commands; it is not what verifies: the answer comes from the
 * generator, and the wanted tree is the initial one with the change applied to it, without any shell.
 */
import { check } from "../../engine/errors.ts";
import type { Rng } from "../../engine/index.ts";
import type { EnvironmentOptions } from "../environment.ts";
import type { Family, Tree } from "./family.ts";
import { HOME, type FileSystem } from "./filesystem.ts";
import type { Ending } from "./process.ts";
import { QUESTIONS } from "./tasks-questions.ts";
import { CHANGES } from "./tasks-changes.ts";
import { MAX_SIZE, World } from "./world.ts";

export interface Task {
  readonly family: string;
  readonly level: number;
  readonly text: string;
  readonly fs: FileSystem;
  /** The expert's commands, the last of which ends the episode. */
  readonly plan: readonly string[];
  /** Is the task solved, when the agent ends the episode like this? `fs`: the tree to look at, if it is a copy of the task's. */
  readonly verify: (ending: Ending, fs?: FileSystem) => boolean;
}

/** All families, easiest first. */
export const FAMILIES: readonly Family[] = [...QUESTIONS, ...CHANGES].sort((a, b) => a.level - b.level);

export interface TaskOptions extends EnvironmentOptions {
  /** 1 (default) to 4: number and depth of directories, number of files, length of contents. */
  readonly size?: number;
}

/** The families that the options admit. @throws on unknown names, and if none is left */
export function selectFamilies(options: TaskOptions): readonly Family[] {
  const known = FAMILIES.map((family) => family.name);
  for (const name of options.families ?? [])
    check(known.includes(name), () => `terminal: unknown family "${name}"; there are ${known.join(", ")}`);
  const [low, high] = options.levels ?? [1, Infinity];
  const wanted = options.families ?? known;
  const chosen = FAMILIES.filter(({ name, level }) => wanted.includes(name) && low <= level && level <= high);
  check(chosen.length > 0, () => `terminal: no family of ${wanted.join(", ")} has a level in ${low} to ${high}`);
  return chosen;
}

/** @throws on values that no option allows */
export function checkOptions(options: TaskOptions): void {
  const { split = "train", size = 1 } = options;
  check(split === "train" || split === "heldout", () => `terminal: split must be "train" or "heldout", got "${split}"`);
  check(
    Number.isInteger(size) && size >= 1 && size <= MAX_SIZE,
    () => `terminal: size must be an integer in [1, ${MAX_SIZE}], got ${size}`,
  );
  selectFamilies(options);
}

/** Makes a task; the same stream and options give the same task. */
export function makeTask(rng: Rng, options: TaskOptions = {}): Task {
  checkOptions(options);
  const family = rng.choice(selectFamilies(options));
  const world = new World(rng, options.split ?? "train", options.size ?? 1);
  const draft = family.draft(world);
  world.addClutter(draft.keepClear);
  const common = { family: family.name, level: family.level, text: rng.choice(draft.texts), fs: world.fs };
  if ("answer" in draft) {
    const right = normalizeAnswer(draft.answer);
    return {
      ...common,
      plan: [...draft.plan, `answer ${draft.answer}`],
      verify: (ending) => ending.kind === "answer" && normalizeAnswer(ending.text) === right,
    };
  }
  const wanted: Tree = world.fs.snapshot();
  draft.change(wanted);
  return {
    ...common,
    plan: [...draft.plan, "done"],
    verify: (ending, fs = world.fs) => ending.kind === "done" && sameTree(fs.snapshot(), wanted),
  };
}

/** Other spellings of the same answer: spaces, and a path written from `.`, `~` or the root. */
export function normalizeAnswer(text: string): string {
  const words = text.trim().replace(/\s+/g, " ");
  for (const prefix of [`${HOME}/`, "~/", "./"])
    if (words.startsWith(prefix)) return words.slice(prefix.length).replace(/\/$/, "");
  return words.replace(/\/$/, "");
}

/** Equal in every file and directory: the change made, and nothing else. A missing last line end is forgiven. */
function sameTree(actual: Tree, wanted: Tree): boolean {
  const withLineEnd = (text: string | null | undefined): string | null | undefined =>
    typeof text === "string" && text !== "" && !text.endsWith("\n") ? `${text}\n` : text;
  if (actual.size !== wanted.size) return false;
  return [...wanted].every(([path, text]) => actual.has(path) && withLineEnd(actual.get(path)) === withLineEnd(text));
}
