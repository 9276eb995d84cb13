/** `home`: what all worlds of unknown facts have to show, its facts, held-out pairs, messages, lies, and its shell. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import type { Environment } from "../../rl/environment.ts";
import { HINTS, type Hints } from "../../environments/facts/hints.ts";
import { factsOf, namesOf } from "../../environments/home/facts.ts";
import { home, type HomeOptions } from "../../environments/home/index.ts";
import { FAMILIES, familyOf, HOME, isHeldOutPair, makeTask } from "../../environments/home/tasks.ts";
import { settleOptions } from "../../environments/options.ts";
import { answersTo, answerTo, expectChance, luckOf, SIZES, testFacts, wording } from "./facts.ts";
import { play, start } from "./suite.ts";

const counts = (size: number): Record<"files" | "directories" | "programs" | "accounts", number> => {
  const { stems, directories, programs, accounts } = namesOf(size);
  return { files: stems.length, directories: directories.length, programs: programs.length, accounts: accounts.length };
};

/** One baseline action in eight ends the episode. */
const TRIES = 7 / 8;

/** The chance of all that a family's command has to guess. */
function chance(family: string, size: number): number {
  const { directories, programs, accounts } = counts(size);
  const guesses: Record<string, number> = {
    size: directories,
    read: directories * programs,
    count: directories * programs,
    delete: directories * accounts,
    lock: directories * accounts,
    copy: directories * directories * accounts,
    follow: Infinity, // it takes the alias for a file
    tally: Infinity,
  };
  return TRIES / guesses[family]!;
}

describe("home", () => {
  const { files, names } = factsOf(0, 1);
  const said = "size read copy delete in in with as to ls answer done 6 | ' > #".split(" ");
  const named = [
    files[0]!.name,
    files[1]!.name,
    ...names.directories.slice(0, 3),
    ...names.programs,
    ...names.accounts,
  ];
  testFacts(home, {
    place: "home",
    turns: () => 2,
    chance,
    nearly: [...said, ...named, ...names.aliases],
    longest: { task: 60, answer: 120 },
  });

  it("the baseline solves in two turns what it hits by chance and ends by chance, and answers nothing", async () => {
    for (const { name, answer } of FAMILIES) {
      const { solved, trials } = await luckOf(home, name);
      expectChance(solved, trials, answer ? 0 : chance(name, 1) / 8, name);
    }
    // Without a task it takes any names.
    for (let seed = 0; seed < 50; seed++)
      expect(home.random(new Rng(seed))).toMatch(/^(done$|[a-z]+ [a-z]{6}\.[a-z]{3} in )/);
  });
});

describe("the facts of a home", () => {
  it("are the same in every episode, and differ between homes as chance has it, while names stay", async () => {
    for (const size of SIZES) {
      const { directories, programs, accounts, files } = counts(size);
      const same = { place: 0, program: 0, owner: 0 };
      const homes = 40;
      for (let seed = 1; seed <= homes; seed++) {
        const [a, b] = [factsOf(seed, size), factsOf(seed + 1, size)];
        expect(b.names).toEqual(a.names);
        same.place += a.files.filter(({ directory }, i) => directory === b.files[i]!.directory).length;
        same.program += [...a.programs].filter(([ending, program]) => b.programs.get(ending) === program).length;
        same.owner += [...a.owners].filter(([directory, owner]) => b.owners.get(directory) === owner).length;
      }
      expectChance(same.place, homes * files, 1 / directories, `size ${size}, places`);
      expectChance(same.program, homes * programs, 1 / programs, `size ${size}, programs`);
      expectChance(same.owner, homes * directories, 1 / accounts, `size ${size}, owners`);
    }
    const commands = new Map<string, Set<string>>();
    for (let seed = 0; seed < 300; seed++) {
      const { env, task } = await start(home, seed, { families: ["read", "lock", "follow"], home: 5 });
      commands.set(task, (commands.get(task) ?? new Set()).add(home.expert!(env)));
    }
    expect(commands.size).toBeGreaterThan(12);
    for (const [task, different] of commands) expect(different.size, task).toBe(1);
  });

  it("are dealt out evenly: no directory, program or account goes with more than one more than another", () => {
    for (const size of SIZES) {
      const { files, programs, owners, names } = factsOf(7, size);
      const spread = (all: readonly string[], among: readonly string[]): number => {
        const often = among.map((name) => all.filter((one) => one === name).length);
        return Math.max(...often) - Math.min(...often);
      };
      const [places, endings] = [files.map(({ directory }) => directory), files.map(({ ending }) => ending)];
      expect(spread(places, names.directories)).toBeLessThanOrEqual(1);
      expect(spread(endings, names.endings)).toBeLessThanOrEqual(1);
      expect(spread([...owners.values()], names.accounts)).toBeLessThanOrEqual(1);
      expect(new Set(programs.values()).size).toBe(names.programs.length);
    }
  });

  it("a small home has some of the names of a large one", () => {
    const [small, large] = [namesOf(1), namesOf(3)];
    for (const kind of ["stems", "endings", "directories", "programs", "accounts", "aliases"] as const)
      expect(large[kind].slice(0, small[kind].length)).toEqual(small[kind]);
    const all = Object.values(large).flat() as string[];
    expect(new Set(all).size).toBe(all.length);
  });
});

describe("pairs of a file and a question", () => {
  const level2 = FAMILIES.filter(({ level }) => level === 2);
  const aliased = FAMILIES.filter(({ subject }) => subject === "alias");

  it("of two questions that need the same facts one is held out, for each file and each alias", () => {
    const patterns = new Set<string>();
    for (let index = 0; index < 64; index++) {
      const held = level2.filter((family) => isHeldOutPair(index, family)).map(({ name }) => name);
      expect(held).toEqual([expect.stringMatching(/^(read|count)$/), expect.stringMatching(/^(delete|lock)$/)]);
      patterns.add(held.join(" "));
      expect(aliased.filter((family) => isHeldOutPair(index, family)).length).toBe(1);
    }
    expect(patterns.size).toBe(4); // other ones for other files
  });

  it("none that is held out occurs in training, and the other way round; in homes of one episode all occur", () => {
    const { stems, aliases } = namesOf(1);
    for (const family of FAMILIES) {
      const all = (family.subject === "alias" ? aliases : stems).map((_, index) => index);
      const asked = (given: HomeOptions, draws: number): number[] => {
        const options = settleOptions("home", HOME, given);
        const rng = new Rng(1).split(family.name);
        const subjects = Array.from({ length: draws }, () => {
          const { file, alias, facts } = makeTask(rng, family, options);
          return family.subject === "alias" ? facts.names.aliases.indexOf(alias) : file.index;
        });
        return [...new Set(subjects)].sort((a, b) => a - b);
      };
      for (const split of ["train", "heldout"] as const) {
        const isOfSplit = (index: number): boolean => isHeldOutPair(index, family) === (split === "heldout");
        expect(asked({ split }, 100), `${family.name}, ${split}`).toEqual(all.filter(isOfSplit));
        expect(asked({ split, size: 3 }, 50).every(isOfSplit), `${family.name}, ${split}`).toBe(true);
        expect(asked({ split, home: -1 }, 160), family.name).toEqual(all);
      }
    }
  });

  it("a task's text says of which family it is", async () => {
    for (const { name } of FAMILIES)
      for (let seed = 0; seed < 20; seed++) {
        const { task } = await start(home, seed, { families: [name] });
        expect(familyOf(task)?.name).toBe(name);
        expect(FAMILIES.filter(({ asks }) => asks.test(task)).length).toBe(1);
      }
    expect(familyOf("Sing bibo.log")).toBeUndefined();
  });
});

/** An episode in home 0, what is true there of its first file and its first alias, and what is wrong for them. */
async function inHome(
  options: HomeOptions,
  seed = 0,
): Promise<{ env: Environment; tries: Record<Kind, string>; answers: Record<Kind, string> }> {
  const { env } = await start(home, seed, { home: 0, ...options });
  const { files, names, programs, owners, aliases } = factsOf(0, options.size ?? 1);
  const { name, directory, ending } = files[0]!;
  const other = <T>(all: readonly T[], right: T): T => all.find((one) => one !== right)!;
  const [program, owner] = [programs.get(ending)!, owners.get(directory)!];
  const [alias, behind] = [names.aliases[0]!, aliases.get(names.aliases[0]!)!.name];
  const place = other(names.directories, directory);
  return {
    env,
    tries: {
      directory: `size ${name} in ${place}`,
      program: `read ${name} in ${directory} with ${other(names.programs, program)}`,
      owner: `lock ${name} in ${directory} as ${other(names.accounts, owner)}`,
      alias: `size ${alias} in ${place}`,
    },
    answers: { directory, program, owner, alias: behind },
  };
}
const KINDS = ["directory", "program", "owner", "alias"] as const;
type Kind = (typeof KINDS)[number];

describe("error messages", () => {
  const GOLDEN: Record<Hints, Record<Kind, string>> = {
    none: {
      directory: "No such file or directory",
      program: "cannot open .log",
      owner: "Permission denied",
      alias: "No such file or directory",
    },
    tried: {
      directory: "No such file or directory; dukero has rafuda.cfg dakaba.txt",
      program: "cannot open .log; lakodo has lutoli.log difome.csv, lemare opens .txt",
      owner: "Permission denied; lakodo has lutoli.log difome.csv, bereki owns dalumo dukato",
      alias: "No such file or directory; dukero has rafuda.cfg dakaba.txt",
    },
    reverse: {
      directory: "No such file or directory; lakodo has lutoli.log",
      program: "cannot open .log; lakodo has lutoli.log, bukeki opens .log",
      owner: "Permission denied; lakodo has lutoli.log, fotime owns lakodo",
      alias: "No such file or directory; dakaba.txt is called limara",
    },
    statement: {
      directory: "No such file or directory; lutoli.log is in lakodo",
      program: "cannot open .log; lutoli.log is in lakodo, .log opens with bukeki",
      owner: "Permission denied; lutoli.log is in lakodo, lakodo belongs to fotime",
      alias: "No such file or directory; limara stands for dakaba.txt",
    },
    suggestion: {
      directory: "No such file or directory; did you mean lutoli.log in lakodo?",
      program: "cannot open .log; did you mean lutoli.log in lakodo with bukeki?",
      owner: "Permission denied; did you mean lutoli.log in lakodo as fotime?",
      alias: "No such file or directory; did you mean dakaba.txt?",
    },
  };

  it.each(HINTS)("%s: says of each kind of fact what it should", async (hints) => {
    const { env, tries } = await inHome({ hints });
    for (const kind of KINDS) expect((await answerTo(env, tries[kind])).observation).toBe(GOLDEN[hints][kind]);
  });

  it("list three things at most, nothing where there is nothing, and of a long word its beginning", async () => {
    const { env } = await inHome({ hints: "tried", size: 3 });
    const { files, names } = factsOf(0, 3);
    const many = names.directories.find((name) => files.filter(({ directory }) => directory === name).length > 3)!;
    const file = files.find(({ directory }) => directory !== many)!;
    const tell = async (action: string): Promise<string> => (await answerTo(env, action)).observation;
    const listed = files.filter(({ directory }) => directory === many).slice(0, 3);
    expect(await tell(`size ${file.name} in ${many}`)).toBe(
      `No such file or directory; ${many} has ${listed.map(({ name }) => name).join(" ")}`,
    );
    const nowhere = "\u{1f600}".repeat(100);
    expect(await tell(`size ${file.name} in ${nowhere}`)).toBe(
      `No such file or directory; ${"\u{1f600}".repeat(40)} has nothing`,
    );
    expect(await tell("size nosuch.txt in nowhere")).toBe("No such file or directory");
    expect(await tell(`copy ${file.name} in ${file.directory} to nowhere as x`)).toBe(
      "nowhere: No such file or directory",
    );
  });

  it("with random facts have the same wording, and are right as often as chance has it", async () => {
    const { directories, programs, accounts, files } = counts(1);
    const chances = { directory: 1 / directories, program: 1 / programs, owner: 1 / accounts, alias: 1 / files };
    for (const hints of ["reverse", "statement", "suggestion"] as const) {
      const { env, tries, answers } = await inHome({ hints });
      for (const kind of KINDS) {
        const told = (await answerTo(env, tries[kind])).observation;
        expect(told).toContain(answers[kind]);
        const lies = await answersTo((seed) => inHome({ hints, facts: "random" }, seed), tries[kind]);
        expect(new Set(lies.map(wording))).toEqual(new Set([wording(told)]));
        const right = lies.filter((lie) => new RegExp(`\\b${answers[kind]}\\b`).test(lie.slice(lie.indexOf(";"))));
        expectChance(right.length, lies.length, chances[kind], `${hints}, ${kind}`);
      }
    }
  });

  it("with random facts say nothing of the first fact by what the second is about", async () => {
    const { tries, answers } = await inHome({});
    const began = (seed: number): ReturnType<typeof inHome> => inHome({ hints: "statement", facts: "random" }, seed);
    const told = (await answersTo(began, tries.owner)).map((lie) => /is in ([a-z]+), \1 belongs to/.exec(lie)![1]);
    const right = told.filter((directory) => directory === answers.directory);
    expectChance(right.length, told.length, 1 / counts(1).directories, "directory");
  });

  it("with random facts differ from turn to turn and from episode to episode, and list as many things", async () => {
    const episode = async (seed: number, hints: Hints): Promise<string[]> => {
      const { env, tries } = await inHome({ hints, facts: "random" }, seed);
      return (await play(env, () => tries.directory, 30)).lines.filter((line) => !line.startsWith("$"));
    };
    for (const hints of ["tried", "suggestion"] as const) {
      const [one, again, other] = [await episode(0, hints), await episode(0, hints), await episode(1, hints)];
      expect(again).toEqual(one);
      expect(other).not.toEqual(one);
      expect(new Set(one).size).toBeGreaterThan(4);
      const { env, tries } = await inHome({ hints });
      const told = (await answerTo(env, tries.directory)).observation;
      expect(new Set([...one, ...other].map(wording))).toEqual(new Set([wording(told)]));
      for (const line of one) expect(new Set(line.split(" ")).size).toBe(line.split(" ").length); // nothing twice
    }
  });
});

describe("success", () => {
  const scoreOf = async (family: string, ...actions: string[]): Promise<number> => {
    const { env } = await start(home, 0, { families: [family] });
    const right = home.expert!(env);
    let total = 0;
    for (const action of actions) total += (await env.step(action.replace("RIGHT", right))).reward;
    return total;
  };

  it("needs the one right change, and no other", async () => {
    const other = factsOf(0, 1).files[0]!;
    const owner = factsOf(0, 1).owners.get(other.directory)!;
    const extra = (verb: string): string => `${verb} ${other.name} in ${other.directory} as ${owner}`;
    for (const family of ["delete", "lock", "copy"]) {
      const { task } = await start(home, 0, { families: [family] });
      expect(task).not.toContain(other.name);
      expect(await scoreOf(family, "RIGHT", "done")).toBe(1);
      expect(await scoreOf(family, "done")).toBe(0);
      expect(await scoreOf(family, "RIGHT", "answer done")).toBe(0);
      for (const verb of ["delete", "lock"]) {
        expect(await scoreOf(family, "RIGHT", extra(verb), "done")).toBe(0);
        expect(await scoreOf(family, extra(verb), "RIGHT", "done")).toBe(0);
        expect(await scoreOf(family, extra(verb), "done")).toBe(0);
      }
    }
    expect(await scoreOf("lock", "RIGHT", "RIGHT", "done")).toBe(0);
    expect(await scoreOf("delete", "RIGHT", "RIGHT", "done")).toBe(1); // the second finds nothing to delete
    expect(await scoreOf("read", extra("lock"), "RIGHT", "answer metori")).toBe(0);
  });

  it("needs the right answer, which is another in every episode", async () => {
    for (const { name, answer } of FAMILIES) {
      if (answer === undefined) continue;
      expect(await scoreOf(name, "RIGHT", "answer 1")).toBe(0);
      expect(await scoreOf(name, "RIGHT", "answer")).toBe(0);
      expect(await scoreOf(name, "RIGHT", "done")).toBe(0);
      const answers = new Set<string>();
      for (let seed = 0; seed < 60; seed++)
        answers.add(
          answer(
            makeTask(
              new Rng(seed),
              FAMILIES.find((one) => one.name === name)!,
              settleOptions("home", HOME, {}),
            ),
          ),
        );
      expect(answers.size, name).toBeGreaterThan(25);
    }
  });
});

describe("the shell", () => {
  it("runs one plain command, forgives quotes and spaces, and finds no file that has been deleted", async () => {
    const { name, directory, ending } = factsOf(0, 1).files[0]!;
    const { programs, owners } = factsOf(0, 1);
    const { env } = await start(home, 0, { families: ["count"], hints: "none" });
    const tell = async (action: string): Promise<string> => (await answerTo(env, action)).observation;
    const read = `read ${name} in ${directory} with ${programs.get(ending)!}`;
    expect(await tell(read)).toBe(""); // other files are empty
    expect(await tell(read.replace("read", "count"))).toBe("0");
    expect(await tell(`  SIZE  "${name}" in '${directory}' # its size`)).toBe("0");
    for (const line of ["", `${read} | wc`, `${read}; ${read}`, `${read} && ls`, `${read} > x`, `< x ${read}`])
      expect(await tell(line)).toBe("expected one plain command");
    expect(await tell("ls")).toBe("ls: Permission denied");
    expect(await tell(`ls ${directory}`)).toBe("ls: Permission denied");
    expect(await tell("cat x")).toBe("cat: command not found");
    expect(await tell("toString")).toBe("tostring: command not found");
    expect(await tell("x".repeat(10_000))).toBe(`${"x".repeat(40)}: command not found`);
    expect(await tell("'")).toBe("unexpected EOF while looking for matching `''");
    expect(await tell("read )")).toBe("syntax error near unexpected token `)'");
    expect(await tell("read x")).toBe("usage: read FILE in IN with WITH");
    expect(await tell("copy a in b")).toBe("usage: copy FILE in IN to TO as AS");
    expect((await env.step(`delete ${name} in ${directory} as ${owners.get(directory)!}`)).observation).toBe("");
    expect(await tell(read)).toBe("No such file or directory");
    expect(await tell(home.expert!(env))).toBe(""); // too late: it ends
  });

  it("shows the beginning of a long file", async () => {
    const { env } = await start(home, 0, { families: ["count"] });
    const lines = (await answerTo(env, home.expert!(env).replace("count", "read"))).observation.split("\n");
    expect(lines.length).toBe(5);
    expect(lines.at(-1)).toBe("...");
  });

  it("never throws, whatever the line, and counts what failed", async () => {
    const line = fc.array(fc.constantFrom(..."'\"\\|;&<>()#~$*? abz".split(""), "read", " in "), { maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(line, async (parts) => {
        const { env } = await start(home, 0, { hints: "tried" });
        const { observation, info } = await env.step(parts.join(""));
        expect(observation).toMatch(/^[^\n]{1,100}$/);
        expect(info["toolErrors"]).toBe(1);
      }),
      { numRuns: 150 },
    );
  });
});
