/** Task families that end with `done`: the tree has to be the initial one with the change made, and nothing else. */
import { joinLines } from "./process.ts";
import type { Drafts, Tree } from "./families.ts";
import type { World } from "./world.ts";

/** Adds a file with unimportant text; returns its path relative to home and its name. */
function addThing(world: World, place: string): { path: string; name: string } {
  const name = world.fileName();
  world.addFile(place + name, [world.filler()]);
  return { path: place + name, name };
}

/** Moves an entry that is a file. */
function rename(tree: Tree, from: string, to: string): void {
  tree.set(to, tree.get(from)!);
  tree.delete(from);
}

export const CHANGES = {
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
