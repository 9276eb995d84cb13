/** The parts of `host` that need no sandbox: facts, held-out pairs, what is judged, questions about all facts. */
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import type { FoundEntry } from "../../connect/sandbox/files.ts";
import { factsOf, namesOf, pathOf } from "../../connect/host/facts.ts";
import { host } from "../../connect/host/index.ts";
import { FAMILIES, guess, HOST, type HostTask, isHeldOutPair, makeTask } from "../../connect/host/tasks.ts";
import { settleOptions } from "../../environments/options.ts";
import { expectChance, SIZES } from "../environments/facts.ts";

const [mend, print] = [FAMILIES[0]!, FAMILIES[1]!];
const taskOf = (seed: number, family = mend, options = {}): HostTask =>
  makeTask(new Rng(seed), family, settleOptions("host", HOST, options));

describe("the facts of a host", () => {
  it("are dealt out evenly, and differ between hosts as chance has it, while names stay", () => {
    for (const size of SIZES) {
      const { scripts, directories, files } = namesOf(size);
      let same = 0;
      const hosts = 40;
      for (let seed = 0; seed < hosts; seed++) {
        const [a, b] = [factsOf(seed, size), factsOf(seed + 1, size)];
        const places = directories.map((name) => [...a.places.values()].filter((place) => place === name).length);
        const wanted = files.map((name) => [...a.wanted.values()].filter((file) => file === name).length);
        expect([Math.max(...places) - Math.min(...places), Math.max(...wanted) - Math.min(...wanted)]).toEqual(
          [directories, files].map(({ length }) => (scripts.length % length === 0 ? 0 : 1)),
        );
        same += scripts.filter((script) => pathOf(a, script) === pathOf(b, script)).length;
      }
      expectChance(same, hosts * scripts.length, 1 / (directories.length * files.length), `size ${size}`);
    }
  });

  it("are asked for in one of two ways only, for each script in another: the other way is held out", () => {
    const heldOut = namesOf(3).scripts.map((_, index) => [isHeldOutPair(index, mend), isHeldOutPair(index, print)]);
    for (const [a, b] of heldOut) expect(a).not.toBe(b);
    expectChance(heldOut.filter(([a]) => a).length, heldOut.length, 1 / 2, "mend");
    const { scripts } = namesOf(2);
    for (const family of FAMILIES)
      for (const split of ["train", "heldout"] as const)
        for (let seed = 0; seed < 50; seed++) {
          const { script, facts } = taskOf(seed, family, { split, size: 2 });
          expect(isHeldOutPair(scripts.indexOf(script), family)).toBe(split === "heldout");
          expect(facts).toBe(factsOf(0, 2));
        }
  });

  it("of a host of one episode are others each time, and no pair is held out there", () => {
    const tasks = Array.from({ length: 60 }, (_, seed) => taskOf(seed, mend, { host: -1 }));
    expect(new Set(tasks.map(({ facts }) => JSON.stringify([...facts.places]))).size).toBe(60);
    expect(new Set(tasks.map(({ script }) => script)).size).toBe(namesOf(1).scripts.length);
  });
});

describe("what is judged", () => {
  const found = (task: HostTask, change: (tree: Map<string, FoundEntry>) => void): Map<string, FoundEntry> => {
    const tree = new Map<string, FoundEntry>(
      [...task.files].map(([path, text]) => [
        path,
        { kind: text === null ? "directory" : "file", mode: 0o644, content: text ?? "" },
      ]),
    );
    change(tree);
    return tree;
  };
  const file = (content = ""): FoundEntry => ({ kind: "file", mode: 0o644, content });
  const done = { kind: "done", text: "" } as const;

  it("is the file that the script looks for, with the word if one was asked for, and nothing else", () => {
    for (const family of FAMILIES) {
      const task = taskOf(0, family);
      const path = pathOf(task.facts, task.script);
      const isPrint = family === print;
      const cases: [boolean, (tree: Map<string, FoundEntry>) => unknown][] = [
        [true, (tree) => tree.set(path, file(`${task.word}\n`))],
        [true, (tree) => tree.set(path, file(task.word))],
        [true, (tree) => tree.set(path, file(`${task.word}\n`)).set(".cache", file("litter"))],
        [!isPrint, (tree) => tree.set(path, file())],
        [!isPrint, (tree) => tree.set(path, file(`${task.word}${task.word}`))],
        [false, () => undefined],
        [false, (tree) => tree.set(path, { kind: "directory", mode: 0o755, content: "" })],
        [false, (tree) => tree.set(path, { kind: "l", mode: 0o777, content: "" })],
        [false, (tree) => tree.set(path, file(task.word)).set("other", file())],
        [false, (tree) => tree.set(path, file(task.word)).delete(task.script)],
        [false, (tree) => tree.set(path, file(task.word)).set(task.script, file("true\n"))],
        [false, (tree) => tree.set(task.script, file(`echo ${task.word}\n`))],
      ];
      for (const [k, [isSolved, change]] of cases.entries())
        expect(
          task.verify(
            done,
            found(task, (tree) => void change(tree)),
          ),
          `${family.name}, case ${k}`,
        ).toBe(isSolved);
      const right = found(task, (tree) => void tree.set(path, file(task.word)));
      expect(task.verify({ kind: "answer", text: task.word }, right)).toBe(false);
    }
  });
});

describe("a guess", () => {
  it("is the expert's line as often as chance has it, and of the expert's form for any text", () => {
    for (const family of FAMILIES)
      for (const size of SIZES) {
        const { directories, files } = namesOf(size);
        let hits = 0;
        for (let seed = 0; seed < 20; seed++) {
          const task = taskOf(seed, family, { size });
          const rng = new Rng(seed).split("guesses");
          for (let i = 0; i < 100; i++) hits += Number(guess(rng, task.text, size) === task.plan[0]);
        }
        expectChance(hits, 2000, 1 / (directories.length * files.length), `${family.name}, size ${size}`);
      }
    const rng = new Rng(0);
    for (const text of ["", "Make sh x.sh work", "Make sh bikofi.sh work\n", "__proto__"])
      expect(guess(rng, text, 1)).toMatch(/^(touch|echo [a-z]{6} >) [a-z]{6}\/[a-z]{6}; sh [a-z]{6}\.sh$/);
  });
});

describe("the questions", () => {
  it("ask for every fact as training never asks, where its name stands; none of a host of one episode", async () => {
    for (const size of SIZES) {
      const questions = await host.facts!({ host: 5, size });
      const facts = factsOf(5, size);
      expect(questions).toHaveLength(facts.names.scripts.length);
      for (const { task, action, places } of questions) {
        const [place, file] = places;
        expect(action.slice(place!.at)).toMatch(new RegExp(`^${place!.fact.right}/${file!.fact.right}; sh `));
        expect(action.slice(file!.at)).toMatch(new RegExp(`^${file!.fact.right}; sh `));
        expect(task).toContain(`sh ${place!.fact.known} `);
        expect(`${place!.fact.right}/${file!.fact.right}`).toBe(pathOf(facts, place!.fact.known));
        const family = task.startsWith("Make") ? mend : print;
        expect(isHeldOutPair(facts.names.scripts.indexOf(place!.fact.known), family)).toBe(true);
      }
    }
    expect(await host.facts!({ host: -1 })).toEqual([]);
  });
});
