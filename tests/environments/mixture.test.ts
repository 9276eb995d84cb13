/** A mixture of environments: whose episode a seed is, what it passes on, and what its parts lack. */
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { calculator } from "../../environments/calculator/index.ts";
import { castle } from "../../environments/castle/index.ts";
import { withFaults } from "../../environments/faults.ts";
import { gridworld } from "../../environments/gridworld/index.ts";
import { home } from "../../environments/home/index.ts";
import { mixture, type MixtureOptions } from "../../environments/mixture.ts";
import { sokoban } from "../../environments/sokoban/index.ts";
import { tools } from "../../environments/tools/index.ts";
import { web } from "../../environments/web/index.ts";
import type { Environment, EnvironmentSpec, StepResult } from "../../rl/environment.ts";
import { expectChance } from "./facts.ts";
import { play, SPLITS, start } from "./suite.ts";

const both = mixture("both", [{ spec: calculator, weight: 3 }, { spec: tools }]);

/** The environment of each of the first episodes. */
async function drawn(spec: EnvironmentSpec<MixtureOptions>, options: MixtureOptions, episodes = 400) {
  const names: unknown[] = [];
  for (let seed = 0; seed < episodes; seed++) names.push((await start(spec, seed, options)).env.info!["environment"]);
  return names;
}

/** An environment without anything that is optional, which says what it was asked. */
function plain(more: Partial<EnvironmentSpec> = {}): EnvironmentSpec & { readonly log: string[] } {
  const log: string[] = [];
  const result = (done: boolean): StepResult => ({ observation: "", reward: 0, done, info: {} });
  return {
    log,
    name: "plain",
    description: "no more than it must",
    families: [],
    make: (options) => {
      log.push(`make ${JSON.stringify(options)}`);
      return {
        name: "plain",
        reset: async (seed) => (log.push(`reset ${seed}`), "task"),
        step: async (action) => (log.push(action), result(action === "done")),
        close: () => void log.push("close"),
      };
    },
    random: () => "x",
    ...more,
  };
}

describe("whose episode it is", () => {
  it("follows the weights and the seed, in both splits", async () => {
    for (const split of SPLITS) {
      const names = await drawn(both, { split });
      expectChance(names.filter((name) => name === "calculator").length, 400, 0.75, split);
      expect(await drawn(both, { split }, 50)).toEqual(names.slice(0, 50));
    }
  });

  it("is one of those that the option families chooses, by their weights", async () => {
    expect(new Set(await drawn(both, { families: ["tools"] }, 30))).toEqual(new Set(["tools"]));
    const three = mixture("three", [{ spec: calculator, weight: 3 }, { spec: tools }, { spec: gridworld, weight: 96 }]);
    const names = await drawn(three, { families: ["tools", "calculator"] });
    expectChance(names.filter((name) => name === "calculator").length, 400, 0.75, "of two");
    expect(names).not.toContain("gridworld");
  });

  it("has the task that this environment has for the seed, and its info beside the environment's name", async () => {
    const { env, task } = await start(both, 3, { families: ["tools"] });
    const alone = await start(tools, 3);
    expect(task).toBe(alone.task);
    expect(env.name).toBe("both");
    const { family } = alone.env.info!;
    const told = { environment: "tools", family: "tools", level: 1, ownFamily: family };
    expect(env.info).toEqual({ ...alone.env.info, ...told });
    expect((await env.step("nonsense")).info).toEqual({ ...(await alone.env.step("nonsense")).info, ...told });
    expect(await env.end!("max_turns")).toEqual(await alone.env.end!("max_turns"));
  });

  it("may be one alone, one twice under two names, and one that says nothing of itself", async () => {
    expect(new Set(await drawn(mixture("one", [{ spec: tools }]), {}, 5))).toEqual(new Set(["tools"]));
    const levels = mixture("levels", [
      { spec: calculator, name: "easy" },
      { spec: calculator, name: "hard" },
    ]);
    const options = { "easy.levels": [1, 1], "hard.levels": [3, 3], families: ["hard"] };
    const { env, task } = await start(levels, 1, options);
    expect(task).toBe((await start(calculator, 1, { levels: [3, 3] })).task);
    expect(env.info).toMatchObject({ environment: "hard", family: "hard" });
    const { env: bare } = await start(mixture("bare", [{ spec: plain() }]), 0);
    expect(bare.info).toEqual({ environment: "plain", family: "plain", level: 1 });
    expect(await bare.end!("max_turns")).toBeUndefined();
  });
});

describe("options", () => {
  it("go to the environment whose name they begin with, the split to all", () => {
    const spec = plain({ options: calculator.options! });
    const mixed = mixture("mixed", [{ spec }, { spec: tools }]);
    mixed.make({ split: "heldout", "plain.levels": [1, 2], "tools.levels": [1, 1] });
    expect(spec.log).toEqual(['make {"split":"heldout","levels":[1,2]}', "close"]);
  });

  it.each<[MixtureOptions, string]>([
    [{ "calculator.level": 1 }, "both: unknown option 'calculator.level'; did you mean 'calculator.levels'?"],
    [{ "gridworld.levels": [1, 1] }, "both: unknown option 'gridworld.levels'"],
    [{ levels: [2, 3] }, "both: levels are those of its environments, as in calculator.levels"],
    [{ families: ["tool"] }, "both: unknown family 'tool'; did you mean 'tools'?"],
    [{ "tools.families": ["nothing"] }, "tools: unknown family 'nothing'"],
    [{ "tools.split": "heldout" }, "both: unknown option 'tools.split'"],
  ])("%j: %s", (options, message) => expect(() => both.make(options)).toThrow(message));

  it("are not asked of an environment that is not chosen", () => {
    expect(() => both.make({ families: ["calculator"], "tools.families": ["nothing"] })).not.toThrow();
  });

  it.each<[Parameters<typeof mixture>[1], string]>([
    [[], "mixture odd: expected at least one environment"],
    [[{ spec: tools }, { spec: tools }], 'mixture odd: "tools" is there twice; give one of them another name'],
    [[{ spec: tools, weight: 0 }], "mixture odd: the weight of tools must be a number above 0, got 0"],
    [[{ spec: tools, weight: NaN }], "the weight of tools must be a number above 0, got NaN"],
    [[{ spec: tools, weight: Infinity }], "the weight of tools must be a number above 0, got Infinity"],
    [[{ spec: tools, name: "a.b" }], 'a name must be of letters, digits, "_" and "-", got "a.b"'],
  ])("of the mixture: %#", (members, message) => expect(() => mixture("odd", members)).toThrow(message));
});

describe("players", () => {
  it("the expert of each solves its episodes; chance hardly ever does, with the words of the right one", async () => {
    for (let seed = 0; seed < 40; seed++) {
      const { env } = await start(both, seed);
      const name = env.info!["environment"];
      const spec = name === "tools" ? tools : calculator;
      const { env: alone, task } = await start(spec, seed);
      const said = both.random(new Rng(seed), task, {}, env);
      expect(said).toBe(spec.random(new Rng(seed), task, {}, alone));
      const { total } = await play(env, () => both.expert!(env));
      expect(total, `${String(name)}, seed ${seed}`).toBe(1);
    }
    expect(() => both.expert!(calculator.make())).toThrow('both.expert: expected an episode of both, got "calculator"');
    expect(() => both.expert!(both.make())).toThrow("both: the episode has no task yet; call reset first");
  });

  it("random without an episode is somebody's", async () => {
    for (const name of ["calculator", "tools"]) await start(both, 0, { families: [name] });
    const said = Array.from({ length: 40 }, (_, i) => both.random(new Rng(i)));
    expect(said.every((action) => action !== "")).toBe(true);
    expect(both.random(new Rng(1), undefined, { families: ["tools"] })).toMatch(/^[a-z]/);
  });

  it("has an expert and thoughts only if all have, a novice if one has, and no achieved", async () => {
    const bare = mixture("bare", [{ spec: tools }, { spec: plain() }]);
    expect(bare.expert).toBeUndefined();
    expect(both.thoughts).toBeUndefined();
    expect(both.novice).toBeUndefined();
    const boards = mixture("boards", [{ spec: gridworld }, { spec: sokoban }]);
    const { env } = await start(boards, 0, { families: ["gridworld"], "gridworld.levels": [1, 1] });
    const alone = await start(gridworld, 0, { levels: [1, 1] });
    expect(boards.thoughts!(env, new Rng(1))).toBe(gridworld.thoughts!(alone.env, new Rng(1)));
    const some = mixture("some", [{ spec: web }, { spec: calculator }]);
    expect(some.achieved).toBeUndefined();
    const { env: page, task } = await start(some, 0, { families: ["web"] });
    const there = await start(web, 0);
    expect(some.novice!(page, new Rng(2), 0, task)).toEqual(web.novice!(there.env, new Rng(2), 0, task));
    const { env: sum, task: asked } = await start(some, 0, { families: ["calculator"] });
    const action = calculator.random(new Rng(2), asked);
    expect(some.novice!(sum, new Rng(2), 0, asked)).toEqual({ action, isGuess: true });
  });

  it("the facts of all worlds that have some", async () => {
    const worlds = mixture("worlds", [{ spec: home }, { spec: castle }, { spec: tools }]);
    const options = { "home.home": 1, "castle.castle": 2 };
    const facts = await worlds.facts!(options);
    const own = [...(await home.facts!({ home: 1 })), ...(await castle.facts!({ castle: 2 }))];
    expect(facts).toEqual(own);
    expect(await worlds.facts!({ ...options, families: ["tools"] })).toEqual([]);
    expect(both.facts).toBeUndefined();
  });
});

describe("what environments need", () => {
  it("the longest time for a call, the fewest episodes at once, and every check", async () => {
    const checked: unknown[] = [];
    const slow = plain({ limits: () => ({ reset: 30_000, step: 100 }), atOnce: () => 4 });
    const other = plain({
      limits: () => ({ step: 7_000 }),
      atOnce: () => 9,
      check: async (options) => void checked.push(options),
      fingerprint: async () => "abc",
    });
    const needy = mixture("needy", [{ spec: slow }, { spec: other, name: "other" }, { spec: tools }]);
    expect(needy.limits!()).toEqual({ reset: 30_000, step: 7_000 });
    expect(needy.limits!({ families: ["tools"] })).toEqual({});
    expect(needy.atOnce!()).toBe(4);
    expect(needy.atOnce!({ families: ["tools"] })).toBe(Infinity);
    await needy.check!({ split: "heldout" });
    expect(checked).toEqual([{ split: "heldout" }]);
    await needy.check!({ families: ["plain"] });
    expect(checked).toHaveLength(1);
    expect(await needy.fingerprint!()).toBe("+abc+");
    expect([both.limits, both.atOnce, both.fingerprint]).toEqual(Array(3).fill(undefined));
    const plainOnes = mixture("plain-ones", [{ spec: plain({}) }]);
    expect(plainOnes.check).toBeUndefined();
  });

  it("closes the episode once; one that was never begun has nothing to close", async () => {
    const spec = plain();
    const mixed = mixture("mixed", [{ spec }]);
    const fresh = mixed.make();
    spec.log.length = 0;
    fresh.close!();
    expect(spec.log).toEqual([]);
    const { env } = await start(mixed, 5);
    env.close!();
    env.close!();
    expect(spec.log).toEqual(["make {}", "close", "make {}", "reset 5", "close"]);
  });

  it("keeps the contract: reset once, no step before it or after the end, no end without a beginning", async () => {
    await expect(both.make().step("x")).rejects.toThrow("both.step: called before reset");
    await expect(both.make().end!("max_turns")).rejects.toThrow("both.end: called before reset");
    expect(() => both.make().info).toThrow("both: the episode has no task yet; call reset first");
    const { env } = await start(both, 1);
    await expect(env.reset(1)).rejects.toThrow("called a second time");
    await play(env, () => both.expert!(env));
    await expect(env.step("x")).rejects.toThrow("called after the episode ended");
  });

  it("clones an episode whose environment can be cloned", async () => {
    const { env } = await start(both, 2);
    await env.step("nonsense");
    const copies = [env.clone!(), env.clone!()] as const;
    const original = await play(env, () => both.expert!(env));
    for (const copy of copies) expect(await play(copy, () => both.expert!(copy))).toEqual(original);
    const { env: bare } = await start(mixture("bare", [{ spec: plain() }]), 0);
    expect(bare.clone).toBeUndefined();
  });

  it("faults, of one of them and of all; a mixture in a mixture", async () => {
    const noisy = mixture("noisy", [{ spec: withFaults(calculator) }, { spec: withFaults(tools) }]);
    const answer = async (spec: EnvironmentSpec<MixtureOptions>, options: MixtureOptions): Promise<string> => {
      const { env } = await start(spec, 3, options);
      spec.expert!(env); // finds its way through both wrappers
      spec.random(new Rng(0), undefined, options, env);
      return (await env.step("nonsense")).observation;
    };
    const stamp = /\[\d\d:\d\d:\d\d \d{4}\]$/;
    expect(await answer(noisy, { families: ["tools"], "tools.noise": 1 })).toMatch(stamp);
    expect(await answer(noisy, { families: ["calculator"], "tools.noise": 1 })).not.toMatch(stamp);
    const all = withFaults(noisy) as EnvironmentSpec<MixtureOptions>;
    expect(await answer(all, { noise: 1 })).toMatch(stamp);
    const nested = mixture("nested", [{ spec: both }, { spec: gridworld }]);
    const { env }: { env: Environment } = await start(nested, 0, { families: ["both"], "both.families": ["tools"] });
    expect(env.info).toMatchObject({ environment: "both", family: "both", ownFamily: "tools" });
    expect((await play(env, () => nested.expert!(env))).total).toBe(1);
  });
});
