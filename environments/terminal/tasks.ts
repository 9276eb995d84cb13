/**
 * What a task is, and how one is made from a seed. A family furnishes a world, words the task, and says what is right:
 * an answer, or a change to the tree. The expert's plan is a list of commands; it is not what verifies: the answer
 * comes from the generator, and the wanted tree is the initial one with the change applied to it, without any shell.
 */
import type { Rng } from "../../engine/index.ts";
import type { GameTask, SIZED } from "../game.ts";
import type { SettledOptions } from "../options.ts";
import type { Drafts, Family, Tree } from "./families.ts";
import { HOME, type FileSystem } from "./filesystem.ts";
import type { Ending } from "./process.ts";
import { QUESTIONS } from "./tasks-questions.ts";
import { CHANGES } from "./tasks-changes.ts";
import { World } from "./world.ts";

export interface TerminalTask extends GameTask {
  /** The tree at first; a move changes a copy. */
  readonly fs: FileSystem;
  /** The expert's commands, the last of which ends the episode. */
  readonly plan: readonly string[];
  /** Is the task solved, when the agent ends the episode like this, and the tree is this one? */
  readonly verify: (ending: Ending, fs: FileSystem) => boolean;
}

const DRAFTS: Drafts<Family["name"]> = { ...QUESTIONS, ...CHANGES };

/** Makes a task; the same stream and options give the same task. */
export function makeTask(rng: Rng, { name }: Family, { split, size }: SettledOptions<typeof SIZED>): TerminalTask {
  const world = new World(rng, split, size);
  const draft = DRAFTS[name](world);
  world.addClutter(draft.keepClear);
  const { fs } = world;
  const text = rng.choice(draft.texts);
  if ("answer" in draft) {
    const right = normalizeAnswer(draft.answer);
    const verify = ({ kind, text: said }: Ending): boolean => kind === "answer" && normalizeAnswer(said) === right;
    return { text, fs, plan: [...draft.plan, `answer ${draft.answer}`], verify };
  }
  const wanted: Tree = fs.snapshot();
  draft.change(wanted);
  const verify = ({ kind }: Ending, tree: FileSystem): boolean => kind === "done" && sameTree(tree.snapshot(), wanted);
  return { text, fs, plan: [...draft.plan, "done"], verify };
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
