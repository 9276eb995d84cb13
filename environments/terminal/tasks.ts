/**
 * The tasks of `terminal`, each made from a seed. A family furnishes a world, words the task, and says what is right:
 * an answer, or a change to the tree. The expert's plan is a list of commands; it does not verify: the answer comes
 * from the generator, and the wanted tree is the initial one with the change applied to it, without any shell.
 */
import type { Rng } from "../../engine/index.ts";
import type { GameTask, NAMED, SIZED } from "../game.ts";
import type { SettledOptions } from "../options.ts";
import type { Draft, Drafts, Family, Tree } from "./families.ts";
import { type FileSystem, HOME } from "./filesystem.ts";
import { type Ending, joinLines } from "./process.ts";
import { drawUntil, isHeldOut } from "../selection.ts";
import { World } from "./world.ts";

// Families that end with an answer. The answer never stands in the task's text.

/** Distinct numbers from 1 to 99. */
function numbers(world: World, count: number): number[] {
  return world.rng.shuffle(Array.from({ length: 99 }, (_, i) => i + 1)).slice(0, count);
}

/** Adds a file that says one new word, in some directory below home. */
function addNote(world: World): { directory: string; name: string; word: string } {
  const note = { directory: world.directory(), name: world.fileName(), word: world.word() };
  world.addFile(`${note.directory}/${note.name}`, [note.word]);
  return note;
}

const QUESTIONS = {
  read(world) {
    const path = world.somewhere() + world.fileName();
    const word = world.word();
    world.addFile(path, [word]);
    return { texts: [`What does ${path} say?`, `Read ${path} and answer`], plan: [`cat ${path}`], answer: word };
  },

  list(world) {
    const name = world.fileName();
    const directory = world.leaf;
    world.addFile(`${directory}/${name}`, [world.filler()]);
    const texts = [`Which file is in ${directory}?`, `Name the file in ${directory}`];
    return { texts, plan: [`ls ${directory}`], answer: name, keepClear: directory };
  },

  lines(world) {
    const path = world.somewhere() + world.fileName();
    const count = 3 + world.rng.int(12 * world.size);
    world.addFile(
      path,
      Array.from({ length: count }, () => world.filler()),
    );
    const texts = [`How many lines has ${path}?`, `Count the lines of ${path}`];
    return { texts, plan: [`wc -l ${path}`], answer: String(count) };
  },

  find(world) {
    const { directory, name } = addNote(world);
    const texts = [`Which directory holds ${name}?`, `Where is ${name}?`];
    return { texts, plan: [`find . -name ${name}`], answer: directory };
  },

  config(world) {
    const path = world.somewhere() + world.fileName("cfg");
    const keys = Array.from({ length: 2 + world.size }, () => world.word());
    const values = numbers(world, keys.length);
    world.addFile(
      path,
      keys.map((key, i) => `${key}=${values[i]}`),
    );
    const at = world.rng.int(keys.length);
    const texts = [`What is ${keys[at]} in ${path}?`, `Look up ${keys[at]} in ${path}`];
    return { texts, plan: [`grep ${keys[at]} ${path}`], answer: String(values[at]) };
  },

  largest(world) {
    const path = world.somewhere() + world.fileName("log");
    const values = numbers(world, 3 + world.rng.int(4 * world.size));
    world.addFile(path, values.map(String));
    const texts = [`What is the largest number in ${path}?`, `Find the largest number of ${path}`];
    return { texts, plan: [`sort -n ${path} | tail -n 1`], answer: String(Math.max(...values)) };
  },

  seek(world) {
    const { directory, name, word } = addNote(world);
    const texts = [`Find ${name} and say what it says`, `Look for ${name} and read it`];
    return { texts, plan: [`find . -name ${name}`, `cat ./${directory}/${name}`], answer: word };
  },

  count(world) {
    const word = world.word();
    const directory = world.leaf;
    const hits = 2 + world.rng.int(8);
    const misses = 1 + world.rng.int(3 * world.size);
    const contents = world.rng.shuffle([
      ...Array.from({ length: hits }, () => word),
      ...Array.from({ length: misses }, () => world.filler()),
    ]);
    const cut = 1 + world.rng.int(contents.length - 1);
    for (const part of [contents.slice(0, cut), contents.slice(cut)])
      world.addFile(`${directory}/${world.fileName()}`, part);
    const texts = [`How many lines in ${directory} say ${word}?`, `Count lines with ${word} in ${directory}`];
    const plan = [`cat ${directory}/* | grep -c ${word}`];
    return { texts, plan, answer: String(hits), keepClear: directory };
  },

  follow(world) {
    const { directory, name, word } = addNote(world);
    const pointer = world.fileName();
    world.addFile(pointer, [`${directory}/${name}`]);
    const texts = [`What does the file named in ${pointer} say?`, `Follow ${pointer} and read that file`];
    return { texts, plan: [`cat ${pointer}`, `cat ${directory}/${name}`], answer: word };
  },
} satisfies Drafts;

// Families that end with `done`: the tree has to be the initial one with the change made, and nothing else.

/** Adds a file with unimportant text; returns its path relative to home and its name. */
export function addThing(world: World, place: string): { path: string; name: string } {
  const name = world.fileName();
  world.addFile(place + name, [world.filler()]);
  return { path: place + name, name };
}

/** Moves an entry that is a file. */
export function rename(tree: Tree, from: string, to: string): void {
  tree.set(to, tree.get(from)!);
  tree.delete(from);
}

const CHANGES = {
  make(world) {
    const path = `${world.directory()}/${world.word()}`;
    const texts = [`Make the directory ${path}`, `Create a directory ${path}`];
    return { texts, plan: [`mkdir ${path}`], change: (tree) => tree.set(path, null) };
  },

  write(world) {
    const path = world.somewhere() + world.fileName();
    const word = world.word();
    const texts = [`Write ${word} to ${path}`, `Make a file ${path} that says ${word}`];
    return { texts, plan: [`echo ${word} > ${path}`], change: (tree) => tree.set(path, joinLines([word])) };
  },

  move(world) {
    const target = world.directory();
    const place = world.rng.choice(["", `${world.directory(target)}/`]);
    const { path, name } = addThing(world, place);
    const texts = [`Move ${path} to ${target}`, `Put ${path} into ${target}`];
    return { texts, plan: [`mv ${path} ${target}`], change: (tree) => rename(tree, path, `${target}/${name}`) };
  },

  copy(world) {
    const target = world.directory();
    const place = world.rng.choice(["", `${world.directory(target)}/`]);
    const { path, name } = addThing(world, place);
    const texts = [`Copy ${path} to ${target}`, `Make a copy of ${path} in ${target}`];
    return {
      texts,
      plan: [`cp ${path} ${target}`],
      change: (tree) => tree.set(`${target}/${name}`, tree.get(path)!),
    };
  },

  clean(world) {
    const directory = world.directory();
    const doomed = Array.from({ length: 2 + world.rng.int(2) }, () => `${directory}/${world.fileName("tmp")}`);
    for (const path of doomed) world.addFile(path, [world.filler()]);
    world.addFile(`${world.directory(directory)}/${world.fileName("tmp")}`, [world.filler()]);
    addThing(world, `${directory}/`);
    const texts = [`Delete all .tmp files in ${directory}`, `Remove the .tmp files from ${directory}`];
    return {
      texts,
      plan: [`rm ${directory}/*.tmp`],
      change: (tree) => {
        for (const path of doomed) tree.delete(path);
      },
    };
  },

  relocate(world) {
    const target = world.directory();
    const directory = world.directory(target);
    const name = world.fileName();
    const word = world.word();
    world.addFile(`${directory}/${name}`, [word]);
    const texts = [
      `Move the file that says ${word} to ${target}`,
      `Find which file says ${word}; move it to ${target}`,
    ];
    return {
      texts,
      plan: [`grep -rl ${word} .`, `mv ./${directory}/${name} ${target}`],
      change: (tree) => rename(tree, `${directory}/${name}`, `${target}/${name}`),
    };
  },
} satisfies Drafts;

export interface TerminalTask extends GameTask {
  /** The tree at first; a move changes a copy. */
  readonly fs: FileSystem;
  /** The expert's commands, the last of which ends the episode. */
  readonly plan: readonly string[];
  readonly goal: Goal;
  /** Whether the task is solved if the agent ends the episode like this, with this tree. */
  readonly verify: (ending: Ending, fs: FileSystem) => boolean;
}

/** What solves a task: an answer, whatever becomes of the files, or files. */
export type Goal = { readonly answer: string } | { readonly tree: Tree };

const DRAFTS: Drafts<Family["name"]> = { ...QUESTIONS, ...CHANGES };

type TaskOptions = SettledOptions<typeof SIZED> & Partial<SettledOptions<typeof NAMED>>;

/** Makes a task; the same stream and options give the same task. */
export const makeTask = (rng: Rng, { name }: Family, options: TaskOptions): TerminalTask =>
  taskOf(DRAFTS[name], rng, options);

/** Makes a task of a draft: with everyday words, which are the same in both splits, one whose text is of the split. */
export const taskOf = (draftOf: (world: World) => Draft, rng: Rng, options: TaskOptions): TerminalTask =>
  drawUntil("terminal", () => {
    const task = drawnTask(draftOf, rng, options);
    return options.everyday && isHeldOut(task.text) !== (options.split === "heldout") ? undefined : task;
  });

function drawnTask(draftOf: (world: World) => Draft, rng: Rng, { split, size, everyday }: TaskOptions): TerminalTask {
  const world = new World(rng, split, size, everyday);
  const draft = draftOf(world);
  world.addClutter(draft.keepClear);
  const { fs } = world;
  const text = rng.choice(draft.texts);
  if ("answer" in draft) {
    const right = normalizeAnswer(draft.answer);
    const verify = ({ kind, text: said }: Ending): boolean => kind === "answer" && normalizeAnswer(said) === right;
    return { text, fs, plan: [...draft.plan, `answer ${draft.answer}`], goal: { answer: draft.answer }, verify };
  }
  const wanted: Tree = fs.snapshot();
  draft.change(wanted);
  const verify = ({ kind }: Ending, tree: FileSystem): boolean => kind === "done" && sameTree(tree.snapshot(), wanted);
  return { text, fs, plan: [...draft.plan, "done"], goal: { tree: wanted }, verify };
}

/** An answer without differences of spelling: spaces, and a path written from `.`, `~` or the root. */
export function normalizeAnswer(text: string): string {
  const words = text.trim().replace(/\s+/g, " ");
  for (const prefix of [`${HOME}/`, "~/", "./"])
    if (words.startsWith(prefix)) return words.slice(prefix.length).replace(/\/$/, "");
  return words.replace(/\/$/, "");
}

/** Whether two trees are equal: the change made, and nothing else. A missing last line end of a file is forgiven. */
function sameTree(actual: Tree, wanted: Tree): boolean {
  const withLineEnd = (text: string | null | undefined): string | null | undefined =>
    typeof text === "string" && text !== "" && !text.endsWith("\n") ? `${text}\n` : text;
  if (actual.size !== wanted.size) return false;
  return [...wanted].every(([path, text]) => actual.has(path) && withLineEnd(actual.get(path)) === withLineEnd(text));
}
