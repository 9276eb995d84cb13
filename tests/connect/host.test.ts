/** The parts of `host` that need no sandbox: facts, held-out pairs, what is judged, questions about all facts. */
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import type { FoundEntry } from "../../connect/sandbox/files.ts";
import { factsOf, namesOf, wordOf } from "../../connect/host/facts.ts";
import { host } from "../../connect/host/index.ts";
import {
  FAMILIES,
  guess,
  HOST,
  type HostFamily,
  type HostTask,
  isHeldOutPair,
  makeTask,
} from "../../connect/host/tasks.ts";
import { settleOptions } from "../../environments/options.ts";
import { expectChance, SIZES } from "../environments/facts.ts";

const KINDS = ["script", "program"] as const;
const taskOf = (seed: number, family: HostFamily, options = {}): HostTask =>
  makeTask(new Rng(seed), family, settleOptions("host", HOST, options));

describe("the facts of a host", () => {
  it("are dealt out evenly, and differ between hosts as chance has it, while names stay", () => {
    for (const size of SIZES)
      for (const kind of KINDS) {
        const { subjects, parts } = namesOf(size);
        const [own, among] = [subjects[kind], parts[kind]];
        let same = 0;
        const hosts = 40;
        for (let seed = 0; seed < hosts; seed++) {
          const [a, b] = [factsOf(seed, size), factsOf(seed + 1, size)];
          for (const k of [0, 1] as const) {
            const counts = among[k].map((name) => own.filter((one) => a.needed.get(one)![k] === name).length);
            expect(Math.max(...counts) - Math.min(...counts)).toBe(own.length % among[k].length === 0 ? 0 : 1);
          }
          same += own.filter((one) => wordOf(kind, a.needed.get(one)!) === wordOf(kind, b.needed.get(one)!)).length;
        }
        expectChance(same, hosts * own.length, 1 / (among[0].length * among[1].length), `${kind}, size ${size}`);
      }
    // A name has one meaning.
    const { subjects, parts } = namesOf(3);
    const all = [...subjects.script, ...subjects.program, ...parts.script.flat(), ...parts.program.flat()];
    expect(new Set(all.map((name) => name.slice(0, 6))).size).toBe(all.length);
  });

  it("are asked for in one of two ways only, in another for each: the other way is held out", () => {
    for (const kind of KINDS) {
      const [one, other] = FAMILIES.filter((family) => family.kind === kind) as [HostFamily, HostFamily];
      const all = namesOf(3).subjects[kind].map((_, index) => [isHeldOutPair(index, one), isHeldOutPair(index, other)]);
      for (const [a, b] of all) expect(a).not.toBe(b);
      expectChance(all.filter(([a]) => a).length, all.length, 1 / 2, kind);
    }
    for (const family of FAMILIES)
      for (const split of ["train", "heldout"] as const)
        for (let seed = 0; seed < 50; seed++) {
          const { subject, facts } = taskOf(seed, family, { split, size: 2 });
          const index = namesOf(2).subjects[family.kind].indexOf(subject);
          expect(isHeldOutPair(index, family)).toBe(split === "heldout");
          expect(facts).toBe(factsOf(0, 2));
        }
  });

  it("of a host of one episode are others each time, and no pair is held out there", () => {
    for (const family of FAMILIES) {
      const tasks = Array.from({ length: 80 }, (_, seed) => taskOf(seed, family, { host: -1 }));
      expect(new Set(tasks.map(({ facts }) => JSON.stringify([...facts.needed]))).size).toBe(80);
      expect(new Set(tasks.map(({ subject }) => subject)).size).toBe(namesOf(1).subjects[family.kind].length);
    }
  });
});

describe("what is judged", () => {
  const file = (content = ""): FoundEntry => ({ kind: "file", mode: 0o644, content });
  const found = (task: HostTask, change: (tree: Map<string, FoundEntry>) => unknown): Map<string, FoundEntry> => {
    const tree = new Map<string, FoundEntry>(
      [...task.files].map(([path, text]) => [
        path,
        text === null ? { kind: "directory", mode: 0o755, content: "" } : file(text),
      ]),
    );
    change(tree);
    return tree;
  };
  const done = { kind: "done", text: "" } as const;

  it.each(FAMILIES)("$name: is one file with its text, and nothing else", (family) => {
    const task = taskOf(0, family);
    const path = family.file(task.subject, task.needed);
    const wanted = family.wanted(task.needed, task.word);
    const right = wanted ?? "any";
    const isAny = wanted === undefined;
    const cases: [boolean, (tree: Map<string, FoundEntry>) => unknown][] = [
      [true, (tree) => tree.set(path, file(`${right}\n`))],
      [true, (tree) => tree.set(path, file(right))],
      [true, (tree) => tree.set(path, file(right)).set(".cache", file("litter"))],
      [isAny, (tree) => tree.set(path, file())],
      [isAny, (tree) => tree.set(path, file(`${right}${right}`))],
      [isAny || family.name === "print", (tree) => tree.set(path, file(task.word))],
      [false, () => undefined],
      [false, (tree) => tree.set(path, { kind: "directory", mode: 0o755, content: "" })],
      [false, (tree) => tree.set(path, { kind: "l", mode: 0o777, content: "" })],
      [false, (tree) => tree.set(path, file(right)).set("other", file())],
      [false, (tree) => tree.set(path, file(right)).delete(task.subject)],
      [false, (tree) => tree.set(path, file(right)).set(task.subject, file("true\n"))],
      [false, (tree) => tree.set(task.subject, file(`echo ${task.word}\n`))],
    ];
    for (const [k, [isSolved, change]] of cases.entries())
      expect(task.verify(done, found(task, change)), `case ${k}`).toBe(isSolved);
    const solved = found(task, (tree) => tree.set(path, file(right)));
    expect(task.verify({ kind: "answer", text: task.word }, solved)).toBe(false);
  });
});

describe("a guess", () => {
  it("is the expert's line as often as chance has it, and of the expert's form for any text", () => {
    for (const family of FAMILIES)
      for (const size of SIZES) {
        const [first, second] = namesOf(size).parts[family.kind];
        let hits = 0;
        for (let seed = 0; seed < 20; seed++) {
          const task = taskOf(seed, family, { size });
          const rng = new Rng(seed).split("guesses");
          for (let i = 0; i < 100; i++) hits += Number(guess(rng, task.text, size) === task.plan[0]);
        }
        expectChance(hits, 2000, 1 / (first.length * second.length), `${family.name}, size ${size}`);
      }
    const rng = new Rng(0);
    const form =
      /^((touch|echo [a-z]{6} >) [a-z]{6}\/[a-z]{6}; sh [a-z]{6}\.sh|bash [a-z]{6}\.sh [a-z]{6}_[a-z]{6}=([a-z]{6})?)$/;
    for (const text of [
      "",
      "Make sh x.sh work",
      "Make sh bikofi.sh work\n",
      "__proto__",
      "Let bash bikofi.sh keep nothing",
    ])
      expect(guess(rng, text, 1), text).toMatch(form);
    expect(guess(rng, "Let bash bikofi.sh keep nothing", 1)).toMatch(/=$/);
  });
});

describe("the questions", () => {
  it("ask for every fact as training never asks, where its name stands; none of a host of one episode", async () => {
    for (const size of SIZES) {
      const questions = await host.facts!({ host: 5, size });
      const { names, needed } = factsOf(5, size);
      expect(questions).toHaveLength(2 * names.subjects.script.length);
      for (const { task, action, places } of questions) {
        const [first, second] = places;
        const subject = first!.fact.known;
        const isProgram = names.subjects.program.includes(subject);
        expect(needed.get(subject)).toEqual([first!.fact.right, second!.fact.right]);
        const between = isProgram ? "_" : "/";
        expect(action.slice(first!.at).startsWith(`${first!.fact.right}${between}`)).toBe(true);
        expect(action.slice(second!.at)).toMatch(new RegExp(`^${second!.fact.right}(=|; )`));
        expect(task).toContain(`sh ${subject} `);
        const family = FAMILIES.find(({ text }) => new RegExp(text("\\S+", "[a-z]+")).test(task))!;
        const asked = task.endsWith("nothing") ? FAMILIES.find(({ name }) => name === "clear")! : family;
        const index = names.subjects[isProgram ? "program" : "script"].indexOf(subject);
        expect(isHeldOutPair(index, asked), task).toBe(true);
      }
      expect(await host.facts!({ host: 5, size, levels: [1, 1] })).toHaveLength(names.subjects.script.length);
    }
    expect(await host.facts!({ host: -1 })).toEqual([]);
  });
});
