/**
 * The entropy that worlds of unknown facts tell of their own answers: against enumerations of all answers that there
 * could be, by what has been told before, and against the mean of −ln p of what was answered, with p from a calculation
 * of its own.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { castle } from "../../environments/castle/index.ts";
import { castleOf } from "../../environments/castle/facts.ts";
import type { Environment, EnvironmentSpec } from "../../rl/environment.ts";
import { HINTS, type Hints } from "../../environments/facts/hints.ts";
import type { FactOptions } from "../../environments/facts/options.ts";
import { withFaults } from "../../environments/faults.ts";
import { factsOf } from "../../environments/home/facts.ts";
import { home } from "../../environments/home/index.ts";
import { household } from "../../environments/household/index.ts";
import { isHeldOut, wordEntropy } from "../../environments/words.ts";
import { answersTo } from "./facts.ts";
import { play, SPLITS, start } from "./suite.ts";
import { tries } from "../support/tries.ts";

/** All words of a split, from the alphabet alone. */
const wordsOf = (split: "train" | "heldout"): string[] => {
  const syllables = [..."bdfklmrt"].flatMap((c) => [..."aeiou"].map((v) => c + v));
  const all = syllables.flatMap((a) => syllables.flatMap((b) => syllables.map((c) => a + b + c)));
  return all.filter((word) => isHeldOut(word) === (split === "heldout"));
};
const WORDS = wordsOf("train");
const N = WORDS.length;
const NUMBERS = Array.from({ length: 97 }, (_, i) => 2 + i);

/** The entropy of a draw with these chances. */
const entropyOf = (chances: readonly number[]): number => {
  expect(chances.reduce((a, b) => a + b)).toBeCloseTo(1, 9);
  return chances.reduce((sum, p) => sum - p * Math.log(p), 0);
};
const sharesOf = (texts: readonly string[]): Map<string, number> => {
  const shares = new Map<string, number>();
  for (const text of texts) shares.set(text, (shares.get(text) ?? 0) + 1 / texts.length);
  return shares;
};

/** What the last answers added to the sum. */
async function entropiesOf(env: Environment, actions: readonly string[]): Promise<number[]> {
  let before = 0;
  const each: number[] = [];
  for (const action of actions) {
    const { answerEntropy } = (await env.step(action)).info;
    each.push(Number(answerEntropy) - before);
    before = Number(answerEntropy);
  }
  return each;
}

/** A task of home 0 with the commands that ask what its file says. */
async function asked(
  family: string,
  seed: number,
): Promise<{ env: Environment; ask: (verb: string) => string; other: string }> {
  const { env, task } = await start(home, seed, { families: [family], home: 0 });
  const { files, aliases, programs } = factsOf(0, 1);
  const word = /\b[a-z]{6}(\.[a-z]{3})?(?=[ ?]|$)/.exec(task)![0];
  const file = files.find(({ name }) => name === word) ?? aliases.get(word)!;
  const of = ({ name, directory, ending }: typeof file, verb: string): string =>
    `${verb} ${name} in ${directory}${verb === "size" ? "" : ` with ${programs.get(ending)!}`}`;
  return {
    env,
    ask: (verb) => of(file, verb),
    other: of(
      files.find((one) => one !== file)!,
      "read",
    ),
  };
}

describe("words", () => {
  it.each(SPLITS)("of %s: the entropy of their first letters is that of all words, counted", (split) => {
    const words = wordsOf(split);
    expect(wordEntropy(split)).toBeCloseTo(Math.log(words.length), 9);
    for (let n = 0; n <= 6; n++)
      expect(wordEntropy(split, n)).toBeCloseTo(
        entropyOf([...sharesOf(words.map((word) => word.slice(0, n))).values()]),
        9,
      );
  });
});

describe("what a file of a home says", () => {
  /** What `read` could show of n lines, as a class of equally likely texts: its chance, and how many words it has. */
  const shown = NUMBERS.filter((n) => n <= 5).map((n) => ({ chance: n < 5 ? 1 / 97 : 94 / 97, words: Math.min(n, 4) }));
  const ofRead = shown.reduce((sum, { chance, words }) => sum + chance * (words * Math.log(N) - Math.log(chance)), 0);

  it.each(["read", "follow", "delete", "lock", "copy"])("%s: a word, until it has been read", async (family) => {
    const { env, ask, other } = await asked(family, 1);
    const [counted, size, stranger, read, again] = await entropiesOf(
      env,
      ["count", "size", "", "read", "read"].map((verb) => (verb === "" ? other : ask(verb))),
    );
    expect([counted, size, stranger, again]).toEqual([0, 0, 0, 0]);
    expect(read).toBeCloseTo(entropyOf(WORDS.map(() => 1 / N)), 9);
    // A clone goes on with the sum.
    expect((await env.clone!().step("nonsense")).info["answerEntropy"]).toBeCloseTo(Math.log(N), 9);
  });

  it.each(["count", "tally"])(
    "%s: the number of lines, the first four, and what each tells of the other",
    async (family) => {
      const number = entropyOf(NUMBERS.map(() => 1 / 97));
      const [inOrder, turned] = [new Map<number, number[]>(), new Map<number, number[]>()];
      for (let seed = 0; inOrder.size < NUMBERS.length; seed++) {
        const { env, ask } = await asked(family, seed);
        const lines = Number((await env.clone!().step(ask("count"))).observation);
        if (inOrder.has(lines)) continue;
        const copy = env.clone!();
        inOrder.set(lines, await entropiesOf(env, ["count", "read", "size", "count", "read"].map(ask)));
        turned.set(lines, await entropiesOf(copy, ["read", "size", "count", "read"].map(ask)));
        const near = (all: number[], expected: number[]): void =>
          all.forEach((nats, i) => expect(nats, `${lines} lines`).toBeCloseTo(expected[i]!, 9));
        near(inOrder.get(lines)!, [number, Math.min(lines, 4) * Math.log(N), 0, 0, 0]);
        near(turned.get(lines)!, [ofRead, lines <= 4 ? 0 : Math.log(94), 0, 0]);
      }
      // The chain rule: in the mean over the numbers, which are all alike, the order of the questions does not matter.
      const mean = (all: Map<number, number[]>): number =>
        [...all.values()].flat().reduce((a, b) => a + b) / NUMBERS.length;
      expect(mean(inOrder)).toBeCloseTo(mean(turned), 9);
    },
  );

  it("size: the number of letters, and the letters", async () => {
    const texts = [0, 1, 2, 3, 4, 5].map((n) =>
      entropyOf([...sharesOf(WORDS.map((word) => word.slice(0, n))).values()]),
    );
    const ofText = (letters: number): number => Math.floor(letters / 6) * Math.log(N) + texts[letters % 6]!;
    const number = Math.log(97);
    for (let seed = 0; seed < 5; seed++) {
      const { env, ask } = await asked("size", seed);
      const letters = Number((await env.clone!().step(ask("size"))).observation);
      const [counted, size, read, again] = await entropiesOf(env.clone!(), ["count", "size", "read", "size"].map(ask));
      expect([counted, size, again]).toEqual([0, expect.closeTo(number, 9), 0]);
      expect(read).toBeCloseTo(ofText(letters), 9);
      const [first, then] = await entropiesOf(env, ["read", "size"].map(ask));
      expect(first).toBeCloseTo(number + NUMBERS.reduce((sum, n) => sum + ofText(n) / 97, 0), 9);
      expect(then).toBe(0);
    }
  });

  /** p of an answer given those before it, by which numbers are still possible. */
  function chanceOf(
    family: string,
    verb: string,
    answer: string,
    before: readonly (readonly [string, string])[],
  ): number {
    const prefixes = (letters: number, text: string): number =>
      Array.from({ length: Math.floor(letters / 6) }, () => 1 / N).reduce((a, b) => a * b, 1) *
      (WORDS.filter((word) => word.startsWith(text.slice(text.length - (letters % 6) || text.length))).length / N);
    if (before.some(([asked]) => asked === verb)) return 1;
    if (family === "read") return verb === "read" ? 1 / N : 1;
    const says = (n: number, [what, said]: readonly [string, string]): boolean => {
      if (family === "size") return what === "count" || (what === "size" ? Number(said) : said.length) === n;
      if (what !== "read") return Number(said) === (what === "count" ? n : 6 * n);
      return said.endsWith("...") ? n > 4 : said.split("\n").length === n;
    };
    const possible = NUMBERS.filter((n) => before.every((told) => says(n, told)));
    const share = possible.filter((n) => says(n, [verb, answer])).length / possible.length;
    if (verb !== "read") return share;
    if (family === "size") return share * prefixes(answer.length, answer);
    return share * N ** -answer.split("\n").filter((line) => line !== "...").length;
  }

  it("is the mean of −ln p of what is answered, whatever is asked in which order", async () => {
    const [differences, families] = [[] as number[], ["read", "count", "size"]];
    const verbs = fc.array(fc.constantFrom("read", "count", "size"), { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(fc.nat(100_000), fc.constantFrom(...families), verbs, async (seed, family, order) => {
        const { env, ask } = await asked(family, seed);
        const before: [string, string][] = [];
        let nats = 0;
        let total = 0;
        for (const verb of order) {
          const { observation, info } = await env.step(ask(verb));
          nats -= Math.log(chanceOf(family, verb, observation, before));
          before.push([verb, observation]);
          total = Number(info["answerEntropy"]);
        }
        differences.push(nats - total);
      }),
      { numRuns: tries(800), seed: 1 },
    );
    const mean = differences.reduce((a, b) => a + b) / differences.length;
    const deviation = Math.sqrt(differences.reduce((sum, x) => sum + (x - mean) ** 2, 0) / differences.length);
    expect(deviation).toBeGreaterThan(0); // some answers are less likely than others
    expect(Math.abs(mean)).toBeLessThan((4 * deviation) / Math.sqrt(differences.length));
  });
});

describe("hints", () => {
  const worlds: readonly (readonly [string, EnvironmentSpec<FactOptions>])[] = [
    ["home", home],
    ["castle", castle],
  ];

  it.each(worlds)(
    "%s: of true facts have none, and nor has anything else that follows from them",
    async (_name, spec) => {
      for (const hints of HINTS)
        for (let seed = 0; seed < 40; seed++) {
          const { env, task } = await start(spec, seed, { hints });
          const rng = new Rng(seed);
          const { last } = await play(env, () => `${spec.random(rng, task)}x`, 4); // not what the task's own file says
          expect(last!.info["answerEntropy"]).toBe(0);
        }
    },
  );

  /** A wrong command, and how many different answers it could get, counted by hand; each is as likely as any other. */
  const { files, names, programs } = factsOf(0, 1);
  const { name, directory, ending } = files[0]!;
  const elsewhere = names.directories.find((other) => other !== directory)!;
  const wrong = [...programs.values()].find((program) => program !== programs.get(ending))!;
  const inside = files.filter((file) => file.directory === elsewhere).length;
  it.each<[Hints, string, number]>([
    ["none", `size ${name} in ${elsewhere}`, 1],
    ["statement", `size ${name} in ${elsewhere}`, names.directories.length],
    ["reverse", `read ${name} in ${directory} with ${wrong}`, names.directories.length * names.programs.length],
    ["suggestion", `read ${name} in ${directory} with ${wrong}`, names.directories.length * names.programs.length],
    ["suggestion", `size ${names.aliases[0]!} in ${elsewhere}`, files.length],
    ["tried", `size ${name} in ${elsewhere}`, files.flatMap((a) => files.filter((b) => b !== a)).length],
  ])("home: %s of random facts, %s", async (hints, action, answers) => {
    expect(inside).toBe(2); // so many does `tried` list
    const began = (seed: number): Promise<{ env: Environment }> =>
      start(home, seed, { hints, facts: "random", home: 0 });
    const [first, second] = await entropiesOf((await began(0)).env, [action, action]);
    expect([first, second]).toEqual([expect.closeTo(Math.log(answers), 9), expect.closeTo(Math.log(answers), 9)]);
    const different = new Set(await answersTo(began, action)).size;
    if (answers <= 32) expect(different).toBe(answers);
    else expect(different).toBeGreaterThan(answers / 2);
  });

  const { passages, names: castleNames } = castleOf(0, 1);
  it.each<[Hints, number]>([
    ["none", 1],
    ["tried", 1],
    ["statement", castleNames.words.length],
  ])(
    "castle: a wrong word leads anywhere where facts are random, and hints (%s) say of it what they say",
    async (hints, hinted) => {
      const began = (seed: number): ReturnType<typeof start> =>
        start(castle, seed, { families: ["go"], hints, facts: "random", castle: 0 });
      const { env, task } = await began(3);
      const [, from, to] = /in (\w+)\. Go to (\w+)/.exec(task)!;
      const right = passages.get(from!)!.get(to!)!;
      const word = castleNames.words.find((other) => other !== right)!;
      const rooms = castleNames.rooms.filter((room) => room !== from && room !== to).length;
      expect(await entropiesOf(env.clone!(), [`go to ${to} by ${word}`])).toEqual([
        expect.closeTo(Math.log(rooms * hinted), 9),
      ]);
      expect(await entropiesOf(env.clone!(), [`go to ${to} by ${right}`, "nonsense"])).toEqual([0, 0]);
      const seen = new Set<string>();
      for (let turn = 0; turn < 300; turn++) {
        seen.add((await env.clone!().step(`go to ${to} by ${word}`)).observation);
        await env.step("wait");
      }
      expect(seen.size).toBe(rooms * hinted);
    },
  );

  it("castle: of a thing that is not in this chest, any chest and any key", async () => {
    const { names: all, chests } = castleOf(0, 1);
    const [thing, chest] = [...chests][0]!;
    const other = all.chests.find((one) => one !== chest)!;
    const { env } = await start(castle, 0, { facts: "random", castle: 0 });
    const nats = Math.log(all.chests.length * all.keys.length);
    expect(await entropiesOf(env, [`take ${thing} in ${other} with ${all.keys[0]!}`])).toEqual([
      expect.closeTo(nats, 9),
    ]);
  });
});

describe("noise", () => {
  const noisy = withFaults(home);
  const chances = (noise: number): number[] => [1 - noise, noise].filter((p) => p > 0);
  const stamp = Math.log(24 * 60 * 60 * 9000);

  it.each([0.25, 1])(
    "%s: adds whether there is a stamp, and what it says; to the end of an episode nothing",
    async (noise) => {
      const { env, task } = await start(noisy, 1, { families: ["read"], noise });
      const added = entropyOf(chances(noise)) + noise * stamp;
      const copy = env.clone!();
      const [nonsense, read, done] = await entropiesOf(env, ["nonsense", noisy.expert!(env), "done"]);
      expect(nonsense).toBeCloseTo(added, 9);
      expect(read, task).toBeCloseTo(Math.log(N) + added, 9);
      expect(done).toBe(0);
      await copy.step("nonsense"); // a clone counts for itself
      expect(await entropiesOf(copy.clone!(), ["a", "b"])).toEqual([
        expect.closeTo(2 * added, 9),
        expect.closeTo(added, 9),
      ]);
    },
  );

  it("0.25: is the mean of −ln p of what is added", async () => {
    const added = entropyOf(chances(0.25)) + 0.25 * stamp;
    const nats: number[] = [];
    for (let seed = 0; seed < 600; seed++) {
      const { env } = await start(noisy, seed, { noise: 0.25 });
      const { observation } = await env.step("nonsense");
      nats.push(/\[.*\]$/.test(observation) ? stamp - Math.log(0.25) : -Math.log(0.75));
    }
    const mean = nats.reduce((a, b) => a + b) / nats.length;
    const deviation = Math.sqrt(nats.reduce((sum, x) => sum + (x - mean) ** 2, 0) / nats.length);
    expect(Math.abs(mean - added)).toBeLessThan((4 * deviation) / Math.sqrt(nats.length));
  });
});

it("is not told where nobody has worked it out", async () => {
  const { env } = await start(withFaults(household), 0, { noise: 0.5 });
  expect((await env.step("look")).info).not.toHaveProperty("answerEntropy");
});
