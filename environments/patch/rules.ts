/** The rules and the scripted players of `patch`. It is loaded later, so it imports no value of ../game.ts. */
import type { Rng } from "../../engine/index.ts";
import { readCommand } from "../actions.ts";
import type { NoviceMove } from "../../rl/environment.ts";
import type { GameRules } from "../game.ts";
import { sayEdit } from "./edits.ts";
import type { PATCH, PatchEpisode, PatchFamily, PatchState, PatchTask } from "./episode.ts";
import { play } from "./play.ts";
import { makeTask } from "./tasks.ts";

/** The expert: reads the files in order, mends each wrong one after reading it, tests, and submits. */
function expert({ task: { edits, broken, right }, state: { files, read, passed } }: PatchEpisode): string {
  if (passed) return "submit";
  const names = Object.keys(right);
  // What somebody else has edited.
  const spoilt = names.find((name) => files[name] !== right[name] && files[name] !== broken[name]);
  if (spoilt !== undefined) return `undo ${spoilt}`;
  const wrong = edits.filter(({ file }) => files[file] !== right[file]);
  if (wrong.length === 0) return "test";
  const known = wrong.find(({ file }) => read.includes(file));
  return known ? sayEdit(known) : `read ${names.find((name) => !read.includes(name))!}`;
}

const WORDS = ["sum", "max", "min", "len", "head", "last", "even", "odd", "sort", "rev", "take", "drop", "above"];

/** A random command, with a file and tokens that may exist. */
function random(rng: Rng): string {
  const file = rng.choice(["f", "f", "g", "h"]);
  const word = (): string => rng.choice(WORDS);
  const digit = (): number => 1 + rng.int(99);
  return rng.choice<() => string>([
    () => "ls",
    () => "test",
    () => "submit",
    () => `read ${file}`,
    () => `edit ${file} ${word()}->${word()}`,
    () => `edit ${file} ${digit()}->${digit()}`,
  ])();
}

/** The novice: reads, makes an edit that may be wrong, and submits without a test. */
function novice({ task, state }: PatchEpisode, rng: Rng): NoviceMove {
  const untouched = task.edits.filter(({ file }) => state.files[file] === task.broken[file]);
  if (untouched.length === 0) return { action: "submit", isGuess: false };
  const edit = untouched.find(({ file }) => state.read.includes(file));
  if (!edit) {
    const unread = Object.keys(task.right).find((name) => !state.read.includes(name))!;
    return { action: `read ${unread}`, isGuess: false };
  }
  const isNumber = /\d$/.test(edit.replace);
  const guess = edit.replace.replace(/\d+$|[a-z]+$/, () => (isNumber ? String(1 + rng.int(99)) : rng.choice(WORDS)));
  const isFair = rng.int(3) === 0 || guess === edit.search;
  return { action: sayEdit({ ...edit, replace: isFair ? edit.replace : guess }), isGuess: true };
}

export const rules: GameRules<typeof PATCH, PatchFamily, PatchTask, PatchState> = {
  makeTask,
  start: ({ broken }) => ({ files: broken, read: [], passed: false }),
  play: (episode, action) => play(episode, readCommand(action)),
  expert,
  random,
  novice,
};
