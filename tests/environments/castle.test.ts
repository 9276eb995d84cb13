/** `castle`: what all worlds of unknown facts have to show, its facts, held-out pairs, transitions, answers, lies. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { CASTLE, type CastleOptions, FAMILIES, type Step } from "../../environments/castle/episode.ts";
import { castleOf, namesOf, roomBehind, wayBetween } from "../../environments/castle/facts.ts";
import { castle } from "../../environments/castle/index.ts";
import { isHeldOutPair, makeTask, subjectOf } from "../../environments/castle/rules.ts";
import type { Environment } from "../../rl/environment.ts";
import { HINTS, type Hints } from "../../environments/facts/hints.ts";
import { settleOptions } from "../../environments/options.ts";
import { answersTo, answerTo, expectChance, luckOf, SIZES, testFacts, wording } from "./facts.ts";
import { play, SPLITS, start } from "./suite.ts";
import { tries } from "../support/tries.ts";

/** One baseline action in eight ends the episode. */
const TRIES = 7 / 8;

/** The chance of all that a family's first command has to guess; with several steps, one of several forms. */
function chance(family: string, size: number): number {
  const { words, chests, keys } = namesOf(size);
  const forms = { cross: 2, visit: 2, fetch: 2, bring: 3 }[family] ?? 1;
  if (family === "open" || family === "seal") return TRIES / keys.length;
  if (family === "take" || family === "clean") return TRIES / (chests.length * keys.length);
  return TRIES / (forms * words.length);
}

describe("castle", () => {
  const { rooms, words, chests, keys, things } = namesOf(1);
  const said = ["go", "to", "by", "send", "page", "open", "seal", "take", "clean", "with", "in", "done"];
  testFacts(castle, {
    place: "castle",
    turns: (family) => ({ cross: 3, visit: 3, fetch: 3, bring: 4 })[family] ?? 2,
    chance,
    nearly: [...said, ...rooms, ...words, ...chests.slice(0, 4), ...keys, ...things.slice(0, 4)],
    longest: { task: 60, answer: 80 },
  });

  it("the baseline solves tasks of one step as often as it hits and ends; without one it takes any names", async () => {
    for (const family of ["go", "send", "open", "seal", "take", "clean"]) {
      const { solved, trials } = await luckOf(castle, family);
      expectChance(solved, trials, chance(family, 1) / 8, family);
    }
    const verbs = Array.from({ length: 200 }, (_, seed) => castle.random(new Rng(seed)).split(" ")[0]!);
    expect(new Set(verbs)).toEqual(new Set(["go", "send", "open", "seal", "take", "clean", "done"]));
  });
});

describe("the facts of a castle", () => {
  it("differ between castles as chance has it; names stay, and a small castle has some of a large one", () => {
    for (const size of SIZES) {
      const same = { words: 0, passages: 0, rooms: 0, keys: 0, chests: 0 };
      const { rooms, words, chests, keys, things } = namesOf(size);
      const castles = 40;
      const alike = (a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string>): number =>
        [...a].filter(([one, other]) => b.get(one) === other).length;
      for (let seed = 1; seed <= castles; seed++) {
        const [a, b] = [castleOf(seed, size), castleOf(seed + 1, size)];
        expect(b.names).toEqual(a.names);
        same.rooms += alike(a.rooms, b.rooms);
        same.keys += alike(a.keys, b.keys);
        same.chests += alike(a.chests, b.chests);
        for (const [room, passages] of a.passages) {
          const shared = [...passages.keys()].filter((other) => b.passages.get(room)!.has(other));
          same.passages += shared.length;
          same.words += shared.filter((other) => passages.get(other) === b.passages.get(room)!.get(other)).length;
        }
      }
      expectChance(same.words, same.passages, 1 / words.length, `size ${size}, words`);
      expectChance(same.rooms, castles * chests.length, 1 / rooms.length, `size ${size}, rooms`);
      expectChance(same.keys, castles * chests.length, 1 / keys.length, `size ${size}, keys`);
      expectChance(same.chests, castles * things.length, 1 / chests.length, `size ${size}, chests`);
      const large = namesOf(3);
      for (const kind of ["rooms", "words", "chests", "keys", "things"] as const)
        expect(large[kind].slice(0, namesOf(size)[kind].length)).toEqual(namesOf(size)[kind]);
      const all = Object.values(large).flat() as string[];
      expect(new Set(all).size).toBe(all.length);
    }
  });

  it("every word leads from every room to another one, none to the same, and every room can be reached", () => {
    for (const size of SIZES)
      for (let seed = 0; seed < 40; seed++) {
        const world = castleOf(seed, size);
        const { rooms, words, chests, keys, things } = world.names;
        for (const room of rooms) {
          const behind = words.map((word) => roomBehind(world, room, word));
          expect(new Set(behind).size).toBe(words.length);
          expect(behind.every((other) => other !== room && rooms.includes(other!))).toBe(true);
          for (const other of rooms) expect(wayBetween(world, room, other).at(-1) ?? room).toBe(other);
          expect(roomBehind(world, room, "nothing")).toBeUndefined();
        }
        const often = (facts: ReadonlyMap<string, string>, of: string): number =>
          [...facts.values()].filter((one) => one === of).length;
        for (const room of rooms) expect(often(world.rooms, room)).toBe(2);
        for (const key of keys) expect(often(world.keys, key)).toBe(chests.length / keys.length);
        for (const chest of chests) expect(often(world.chests, chest)).toBe(things.length / chests.length);
      }
  });

  it("are the same in every episode", async () => {
    const commands = new Map<string, Set<string>>();
    for (let seed = 0; seed < 300; seed++) {
      const { env, task } = await start(castle, seed, { castle: 5 });
      commands.set(task, (commands.get(task) ?? new Set()).add(castle.expert!(env)));
    }
    expect(commands.size).toBeLessThan(250);
    for (const [task, different] of commands) expect(different.size, task).toBe(1);
  });
});

describe("pairs of a subject and a verb", () => {
  const ROWS = [
    ["go", "send"],
    ["open", "seal"],
    ["take", "clean"],
  ] as const;

  it("one of the two verbs is held out for each subject, now this one and now that", () => {
    const { rooms, chests, things } = namesOf(3);
    const passages = rooms.flatMap((from) => rooms.map((to) => `${from} ${to}`));
    for (const [row, subjects] of [
      [ROWS[0], passages],
      [ROWS[1], chests],
      [ROWS[2], things],
    ] as const) {
      const first = subjects.filter((subject) => isHeldOutPair(subject, row[0]));
      for (const subject of subjects) expect(isHeldOutPair(subject, row[1])).toBe(!first.includes(subject));
      expectChance(first.length, subjects.length, 1 / 2, row[0]);
    }
  });

  it("none that is held out occurs in training, and the other way round; in castles of one episode all occur", () => {
    /** Pairs in tasks of all families, of one castle or of many. */
    const asked = (options: CastleOptions): Set<string> => {
      const pairs = new Set<string>();
      for (const family of FAMILIES) {
        const rng = new Rng(1).split(family.name);
        for (let i = 0; i < 250; i++) {
          const { steps } = makeTask(rng, family, settleOptions("castle", CASTLE, options));
          for (const step of steps) pairs.add(`${step.verb} ${subjectOf(step)}`);
        }
      }
      return pairs;
    };
    const { names, passages } = castleOf(0, 1);
    const { rooms, chests, things } = names;
    const pairsOf = (ways: readonly (readonly [string, string])[]): string[] => {
      const subjects = [ways.map((way) => way.join(" ")), chests, things];
      return ROWS.flatMap((row, k) => row.flatMap((verb) => subjects[k]!.map((subject) => `${verb} ${subject}`)));
    };
    const isHeld = (pair: string): boolean => {
      const [verb, ...subject] = pair.split(" ");
      return isHeldOutPair(subject.join(" "), verb as Step["verb"]);
    };
    const inCastle = pairsOf(
      [...passages].flatMap(([from, exits]) => [...exits.keys()].map((to) => [from, to] as const)),
    );
    expect([...asked({ split: "train" })].sort()).toEqual(inCastle.filter((pair) => !isHeld(pair)).sort());
    expect([...asked({ split: "heldout" })].sort()).toEqual(inCastle.filter(isHeld).sort());
    const anywhere = pairsOf(
      rooms.flatMap((from) => rooms.flatMap((to) => (from === to ? [] : [[from, to] as const]))),
    );
    expect([...asked({ castle: -1 })].sort()).toEqual(anywhere.sort());
  });

  it("there are tasks of every family in all castles", () => {
    for (const size of SIZES)
      for (let seed = 0; seed < 20; seed++)
        for (const split of SPLITS) {
          const options = settleOptions("castle", CASTLE, { size, castle: seed, split });
          for (const family of FAMILIES) expect(makeTask(new Rng(seed), family, options).steps).not.toHaveLength(0);
        }
  });
});

/** An episode in castle 0 that begins in its first room, and commands there that are wrong in one fact. */
async function inCastle(
  options: CastleOptions,
  seed = 0,
): Promise<{ env: Environment; tries: Record<Kind, string>; answers: Record<Kind, string> }> {
  const world = castleOf(0, 1);
  const { names, passages, rooms, keys, chests } = world;
  const room = names.rooms[0]!;
  const other = <T>(all: readonly T[], right: T): T => all.find((one) => one !== right)!;
  for (let at = seed * 1_000; ; at++) {
    const { env, task } = await start(castle, at, { ...options, castle: 0, families: ["go"] });
    if (!task.startsWith(`You are in ${room}.`)) continue;
    const [to, word] = [...passages.get(room)!][0]!;
    const chest = names.chests.find((one) => rooms.get(one) === room)!;
    const thing = names.things.find((one) => chests.get(one) === chest)!;
    const [key, wrong] = [keys.get(chest)!, other(names.words, word)];
    return {
      env,
      tries: {
        go: `go to ${to} by ${wrong}`,
        send: `send page to ${to} by ${wrong}`,
        open: `open ${chest} with ${other(names.keys, key)}`,
        take: `take ${thing} in ${other(names.chests, chest)} with ${key}`,
      },
      answers: { go: word, send: word, open: key, take: chest },
    };
  }
}
const KINDS = ["go", "send", "open", "take"] as const;
type Kind = (typeof KINDS)[number];

describe("answers", () => {
  const GOLDEN: Record<Hints, Record<Kind, string>> = {
    none: {
      go: "you are in lafefa",
      send: "the page is in lafefa",
      open: "katoro does not turn",
      take: "no lefoli in ruruba",
    },
    tried: {
      go: "you are in lafefa; bumima leads to lafefa",
      send: "the page is in lafefa; bumima leads to lafefa",
      open: "katoro does not turn; katoro opens fodate dilame lifake",
      take: "no lefoli in ruruba; ruruba has tadudo retuto, midamo opens ruruba kebofe mumola",
    },
    reverse: {
      go: "you are in lafefa; domiro leads to tekidu",
      send: "the page is in lafefa; domiro leads to tekidu",
      open: "katoro does not turn; midamo opens kebofe",
      take: "no lefoli in ruruba; kebofe has lefoli, midamo opens kebofe",
    },
    statement: {
      go: "you are in lafefa; tekidu is reached by domiro",
      send: "the page is in lafefa; tekidu is reached by domiro",
      open: "katoro does not turn; kebofe opens with midamo",
      take: "no lefoli in ruruba; lefoli is in kebofe, kebofe opens with midamo",
    },
    suggestion: {
      go: "you are in lafefa; did you mean tekidu by domiro?",
      send: "the page is in lafefa; did you mean tekidu by domiro?",
      open: "katoro does not turn; did you mean kebofe with midamo?",
      take: "no lefoli in ruruba; did you mean lefoli in kebofe with midamo?",
    },
  };

  it.each(HINTS)("%s: say of each kind of fact what they should", async (hints) => {
    const { env, tries } = await inCastle({ hints });
    for (const kind of KINDS) expect((await answerTo(env, tries[kind])).observation).toBe(GOLDEN[hints][kind]);
  });

  it("tell what is wrong with an action", async () => {
    const { env, tries, answers } = await inCastle({ hints: "suggestion" });
    const tell = async (action: string): Promise<string> => (await answerTo(env, action)).observation;
    const [room, word, chest, thing] = [tries.go.split(" ")[2]!, answers.go, answers.take, tries.take.split(" ")[1]!];
    for (const action of ["", "look", "done now", "__proto__ x"])
      expect(await tell(action)).toBe("unknown action; use go, send, open, seal, take, clean or done");
    expect(await tell(`go ${room}`)).toBe("use go to ROOM by WORD");
    expect(await tell("send it to x by y")).toBe("use send page to ROOM by WORD");
    expect(await tell(`open ${chest}`)).toBe("use open CHEST with KEY");
    expect(await tell(`clean ${thing}`)).toBe("use clean THING in CHEST with KEY");
    expect(await tell(`go to ${room} by nothing`)).toBe(`no such way; did you mean ${room} by ${word}?`);
    expect(await tell("go to nowhere by nothing")).toBe("no such way");
    expect(await tell("open nothing with x")).toBe("no such chest here");
    expect(await tell("take nothing in x with y")).toBe("no such thing");
    expect(await tell(`take ${thing} in ${"x".repeat(90)} with y`)).toContain(`no ${thing} in xxxxxx; `);
    // A word leads where it leads, whatever was meant.
    expect(await tell(`go to nowhere by ${word}`)).toBe(`you are in ${room}`);
    await env.step(`go to ${room} by ${word}`);
    expect(await tell(`open ${chest} with x`)).toBe("no such chest here");
    expect(await tell(`send page to ${room} by ${word}`)).toBe("the page is not here");
  });
});

describe("transitions", () => {
  it("follow the facts, from wherever the agent is, whatever it meant, and the page stays where it is", async () => {
    const world = castleOf(0, 1);
    const { rooms, words } = world.names;
    const move = fc.tuple(fc.constantFrom("go", "send"), fc.constantFrom(...rooms), fc.constantFrom(...words));
    await fc.assert(
      fc.asyncProperty(fc.array(move, { maxLength: 20 }), fc.constantFrom(...HINTS), async (moves, hints) => {
        const { env, task } = await start(castle, 0, { hints });
        let at = task.split(" ")[3]!.replace(".", "");
        let page = at;
        for (const [verb, meant, word] of moves) {
          const { observation } = await env.step(`${verb === "go" ? "go" : "send page"} to ${meant} by ${word}`);
          const behind = roomBehind(world, at, word)!;
          if (verb === "send" && page !== at) {
            expect(observation).toBe("the page is not here");
            continue;
          }
          if (verb === "go") at = behind;
          else page = behind;
          expect(observation.split(";")[0]).toBe(verb === "go" ? `you are in ${at}` : `the page is in ${page}`);
          if (hints === "none" || behind === meant) expect(observation).not.toContain(";");
        }
        // The expert finds back, and brings back the page.
        expect((await play(env, () => castle.expert!(env), 20)).last?.reward).toBe(1);
      }),
      { numRuns: tries(60) },
    );
  });

  it("state changes are part of success: the right end and no other", async () => {
    const score = async (family: string, ...actions: string[]): Promise<number> => {
      const { env } = await start(castle, 0, { families: [family] });
      for (const action of actions) await env.step(action);
      return (await env.step("done")).reward;
    };
    const { names, rooms, keys, chests, passages } = castleOf(0, 1);
    for (const { name } of FAMILIES) {
      const { env, task } = await start(castle, 0, { families: [name] });
      const { lines } = await play(env, () => castle.expert!(env));
      const rights = lines.filter((line) => /^\$ (?!done)/.test(line)).map((line) => line.slice(2));
      const room = task.split(" ")[3]!.replace(".", "");
      expect(await score(name, ...rights), name).toBe(1);
      for (let left = 0; left < rights.length; left++)
        expect(await score(name, ...rights.slice(0, left)), name).toBe(0);
      // A chest that nobody asked for, a page that is elsewhere, and an agent that went on.
      const chest = names.chests.find((one) => rooms.get(one) === room && !rights.join(" ").includes(`open ${one}`))!;
      const verb = name === "seal" ? "open" : "seal";
      expect(await score(name, `${verb} ${chest} with ${keys.get(chest)!}`, ...rights), name).toBe(0);
      const [[to, word]] = [...passages.get(room)!] as [[string, string]];
      if (name !== "send") expect(await score(name, `send page to ${to} by ${word}`, ...rights), name).toBe(0);
      const at = /.* to ([a-z]{6})/.exec(rights.filter((action) => action.startsWith("go")).join(" "))?.[1] ?? room;
      const [[next, out]] = [...passages.get(at)!] as [[string, string]];
      expect(await score(name, ...rights, `go to ${next} by ${out}`), name).toBe(0);
    }
    // A detour does no harm, and what has been taken lies nowhere.
    const { env } = await start(castle, 0, { families: ["take"] });
    const right = castle.expert!(env);
    const first = (await start(castle, 0, { families: ["take"] })).task.split(" ")[3]!.replace(".", "");
    const [, word] = [...passages.get(first)!][0]!;
    await env.step(`go to x by ${word}`);
    expect((await answerTo(env, right)).observation).toBe("no such chest here");
    expect((await play(env, () => castle.expert!(env))).last?.reward).toBe(1);
    const again = (await start(castle, 0, { families: ["take"] })).env;
    await again.step(right);
    expect((await again.step(right)).observation).toBe("no such thing");
    expect((await again.step("done")).reward).toBe(1);
    expect(chests.get(right.split(" ")[1]!)).toBe(right.split(" ")[3]);
  });
});

describe("with random facts", () => {
  it("the wording is the same, and what is stated is right as often as chance has it", async () => {
    const { words, keys, chests } = namesOf(1);
    const chances = { go: 1 / words.length, send: 1 / words.length, open: 1 / keys.length, take: 1 / chests.length };
    const hint = (answer: string): string => answer.slice(answer.indexOf(";"));
    for (const hints of ["reverse", "statement", "suggestion"] as const) {
      const { env, tries, answers } = await inCastle({ hints });
      for (const kind of KINDS) {
        const told = (await answerTo(env, tries[kind])).observation;
        expect(hint(told)).toContain(answers[kind]);
        const lies = await answersTo((seed) => inCastle({ hints, facts: "random" }, seed), tries[kind]);
        expect(new Set(lies.map(wording))).toEqual(new Set([wording(told)]));
        const right = lies.filter((lie) => new RegExp(`\\b${answers[kind]}\\b`).test(hint(lie)));
        expectChance(right.length, lies.length, chances[kind], `${hints}, ${kind}`);
      }
    }
  });

  it("a second fact tells nothing of the first", async () => {
    const { tries, answers } = await inCastle({});
    const began = (seed: number): ReturnType<typeof inCastle> =>
      inCastle({ hints: "statement", facts: "random" }, seed);
    const chests = (await answersTo(began, tries.take)).map((lie) => /is in ([a-z]+), \1 opens with/.exec(lie)![1]);
    const right = chests.filter((chest) => chest === answers.take);
    expectChance(right.length, chests.length, 1 / namesOf(1).chests.length, "chest");
  });

  it("a wrong word leads anywhere but where it was meant to, and not always there; a right one does", async () => {
    const { rooms } = namesOf(1);
    const { tries, answers } = await inCastle({});
    const [, , meant, , wrong] = tries.go.split(" ");
    const began = (seed: number): ReturnType<typeof inCastle> => inCastle({ hints: "tried", facts: "random" }, seed);
    const led = new Map<string, number>();
    const seen = await answersTo(began, tries.go);
    for (const observation of seen) {
      const room = observation.slice(-6);
      expect(observation).toBe(`you are in ${room}; ${wrong} leads to ${room}`); // true, as of now
      led.set(room, (led.get(room) ?? 0) + 1);
    }
    const { env } = await began(0);
    for (let i = 0; i < 10; i++) {
      expect((await answerTo(env, `go to ${meant} by ${answers.go}`)).observation).toBe(`you are in ${meant}`);
      expect((await answerTo(env, tries.go)).observation).toBe(seen[i]);
      await env.step("wait");
    }
    expect(led.size).toBe(rooms.length - 2);
    for (const [room, count] of led) expectChance(count, seen.length, 1 / (rooms.length - 2), room);
  });
});
