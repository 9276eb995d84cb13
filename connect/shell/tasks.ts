/**
 * The tasks of `shell`, each made from a seed. Trees, wordings and plans of most families are those of the simulated
 * `terminal`, so that an agent can be trained in the one and tried in the other. What is right is judged here by the
 * files that the sandbox has at the end, and never by what was typed.
 */
import type { Rng } from "../../engine/index.ts";
import {
  addThing,
  type Draft,
  type Drafts,
  FileSystem,
  type Goal,
  joinLines,
  makeTask as makeTerminalTask,
  rename,
  taskOf,
  type Tree,
  type World,
} from "../../environments/terminal/shared.ts";
import type { BashTask } from "./bash.ts";
import type { FamilyName, ShellFamily } from "./families.ts";
import { type FoundFiles, isLitter, textsOf } from "./found.ts";
import { tarEntries } from "./tar.ts";

type TaskOptions = Parameters<typeof makeTerminalTask>[2];

export interface ShellTask extends BashTask {
  readonly goal: Goal;
}

/** A draft, and what is judged beside the texts of the tree. */
type ShellDraft = Draft & {
  /**
   * Judges what a tree of texts does not show.
   * @param tree the texts that were found; entries that are judged here are taken out
   */
  readonly accepts?: (found: FoundFiles, tree: Tree) => boolean;
};

const EXECUTABLE = 0o111;

const DRAFTS = {
  rename(world) {
    const place = world.somewhere();
    const { path, name } = addThing(world, place);
    const to = world.fileName();
    return {
      texts: [`Rename ${path} to ${place}${to}`, `Give ${path} the name ${place}${to}`],
      plan: [`mv ${path} ${place}${to}`],
      change: (tree) => rename(tree, place + name, place + to),
    };
  },

  permit(world) {
    const { path } = addThing(world, world.somewhere());
    return {
      texts: [`Make ${path} executable`, `Let ${path} be executed`],
      plan: [`chmod +x ${path}`],
      change: () => undefined,
      accepts: (found) =>
        [...found].every(
          ([at, { kind, mode }]) => kind !== "file" || isLitter(at) || isExecutable(mode) === (at === path),
        ),
    };
  },

  sort(world) {
    const from = world.somewhere() + world.fileName();
    const to = world.fileName();
    const lines = Array.from({ length: 3 + world.rng.int(3 * world.size) }, () => world.word());
    world.addFile(from, lines);
    return {
      texts: [`Sort the lines of ${from} into ${to}`, `Write the sorted lines of ${from} to ${to}`],
      plan: [`sort ${from} > ${to}`],
      change: (tree) => tree.set(to, joinLines([...lines].sort())),
    };
  },

  edit(world) {
    const path = world.somewhere() + world.fileName();
    const [old, fresh] = [world.word(), world.word()];
    const lines = world.rng.shuffle([old, world.filler(), world.filler(), world.filler()]);
    world.addFile(path, lines);
    return {
      texts: [`Replace ${old} by ${fresh} in ${path}`, `Change ${old} to ${fresh} in ${path}`],
      plan: [`sed -i s/${old}/${fresh}/ ${path}`],
      change: (tree) => tree.set(path, joinLines(lines.map((line) => (line === old ? fresh : line)))),
    };
  },

  archive(world) {
    const directory = world.leaf;
    for (let i = 0; i < 2; i++) addThing(world, `${directory}/`);
    const archive = world.fileName("tar");
    return {
      texts: [`Pack ${directory} into ${archive}`, `Make an archive ${archive} of ${directory}`],
      plan: [`tar cf ${archive} ${directory}`],
      change: () => undefined,
      keepClear: directory,
      accepts(found, tree) {
        const entry = found.get(archive);
        tree.delete(archive);
        const packed = entry?.kind === "file" ? tarEntries(entry.content) : undefined;
        const inside = [...tree].filter(([path]) => path.startsWith(`${directory}/`));
        return (
          packed !== undefined &&
          [...packed.keys()].every((path) => path === directory || path.startsWith(`${directory}/`)) &&
          inside.every(([path, text]) => packed.get(path) === text)
        );
      },
    };
  },

  repair(world) {
    const script = world.fileName("sh");
    const [directory, missing] = [world.directory(), world.word()];
    world.addFile(script, [`ls ${directory}/${missing}`]);
    return {
      texts: [`Make sh ${script} work`, `Run sh ${script} and repair what it needs`],
      plan: [`sh ${script}`, `mkdir ${directory}/${missing}`],
      change: (tree) => tree.set(`${directory}/${missing}`, null),
      // A file in its place makes the script work, too.
      accepts(_, tree) {
        const path = `${directory}/${missing}`;
        if (tree.get(path) === "") tree.set(path, null);
        return true;
      },
    };
  },
} satisfies Record<ShellFamily, (world: World) => ShellDraft>;

const isExecutable = (mode: number): boolean => (mode & EXECUTABLE) !== 0;

/** Makes a task; the same stream and options give the same task. */
export function makeTask(rng: Rng, { name }: { readonly name: FamilyName }, options: TaskOptions): ShellTask {
  let accepts: ShellDraft["accepts"];
  const isOwn = (family: FamilyName): family is ShellFamily => Object.hasOwn(DRAFTS, family);
  const drafts: Drafts = DRAFTS;
  const { text, fs, plan, goal, verify } = isOwn(name)
    ? taskOf(
        (world) => {
          const draft: ShellDraft = drafts[name]!(world);
          accepts = draft.accepts;
          return draft;
        },
        rng,
        options,
      )
    : makeTerminalTask(rng, { name } as Parameters<typeof makeTerminalTask>[1], options);
  return {
    text,
    files: fs.snapshot(),
    plan,
    goal,
    verify(ending, found) {
      const tree = textsOf(found);
      if (tree === undefined || (accepts !== undefined && !accepts(found, tree))) return false;
      const end = fileSystemOf(tree);
      return end !== undefined && verify(ending, end);
    },
  };
}

/** A file system with these files; undefined if they are more than a task may have. */
function fileSystemOf(tree: Tree): FileSystem | undefined {
  const fs = new FileSystem();
  try {
    for (const [path, text] of [...tree].sort(([a], [b]) => (a < b ? -1 : 1))) {
      if (text === null) fs.makeDirectory(path);
      else fs.write(path, text);
    }
    return fs;
  } catch {
    return undefined;
  }
}
