/** Task families that end with an answer. The answer never stands in the task's text. */
import type { Drafts } from "./families.ts";
import type { World } from "./world.ts";

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

export const QUESTIONS = {
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
