/** Options of games for imperfect demonstrations and strict tasks: `slips`, `mistakes` and `everyday`. */
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import type { Environment } from "../../rl/environment.ts";
import type { HouseholdTask } from "../../environments/household/episode.ts";
import { household } from "../../environments/household/index.ts";
import { search } from "../../environments/search/index.ts";
import { shop } from "../../environments/shop/index.ts";
import { sokoban } from "../../environments/sokoban/index.ts";
import { terminal } from "../../environments/terminal/index.ts";
import { isHeldOut, NAMES, THINGS } from "../../environments/words.ts";
import { play, SPLITS, start } from "./suite.ts";

const GAMES = [household, search, shop] as const;

describe.each([...GAMES, sokoban, terminal])("slips in $name", (spec) => {
  it("are the share of the expert's first six actions that it is, the same whenever it is asked", async () => {
    let [slipped, asked] = [0, 0];
    for (let seed = 0; seed < 150; seed++) {
      const { env } = await start(spec, seed, { slips: 0.5 });
      const { env: sure } = await start(spec, seed, {});
      let done = false;
      for (let turn = 0; turn < 16 && !done; turn++) {
        const action = spec.expert!(env);
        expect(spec.expert!(env)).toBe(action);
        if (turn < 6) asked++;
        if (action !== spec.expert!(sure)) slipped++;
        ({ done } = await env.step(action));
        await sure.step(action);
      }
    }
    // A random move may be the right one, a quarter of them in sokoban.
    expect(slipped / asked).toBeGreaterThan(spec === sokoban ? 0.3 : 0.4);
    expect(slipped / asked).toBeLessThan(0.55);
  });
});

describe.each(GAMES)("mistakes in $name", (spec) => {
  it("end an episode unsolved, and not sooner than asked", async () => {
    const { env } = await start(spec, 0, { mistakes: 2 });
    expect(await env.step("open")).toMatchObject({ done: false, reward: 0 });
    expect((await env.step(spec.expert!(env))).done).toBe(false);
    const last = await env.step("open");
    expect(last).toMatchObject({ done: true, reward: 0, info: { ending: "mistakes", success: false, toolErrors: 2 } });
    expect(() => spec.make({ mistakes: 0 })).toThrow("mistakes must be an integer ≥ 1, got 0");
  });
});

describe.each([...GAMES, terminal])("everyday names in $name", (spec) => {
  const known = new Set([...THINGS, ...NAMES]);

  it("are the same in both splits, the expert solves the tasks, and no task is in both", async () => {
    const tasks = { train: new Set<string>(), heldout: new Set<string>() };
    const names = { train: new Set<string>(), heldout: new Set<string>() };
    for (const split of SPLITS)
      for (let seed = 0; seed < 300; seed++) {
        const { env, task } = await start(spec, seed, { split, everyday: true, levels: [1, 2] });
        const { lines, last } = await play(env, () => spec.expert!(env));
        expect(last!.info, task).toMatchObject({ success: true, toolErrors: 0 });
        const words = [task, ...lines].join(" ").match(/[A-Za-z]+/g)!;
        expect(words.filter((word) => isHeldOut(word) !== undefined)).toEqual([]);
        for (const word of words) if (known.has(word)) names[split].add(word);
        tasks[split].add(identity(env, task));
      }
    expect([...names.heldout].filter((name) => !names.train.has(name))).toEqual([]);
    expect([...tasks.heldout].filter((task) => tasks.train.has(task))).toEqual([]);
  });

  it("are what the random player says", async () => {
    await start(spec, 0, { everyday: true });
    const rng = new Rng(0);
    for (let i = 0; i < 50; i++) {
      const action = spec.random(rng, undefined, { everyday: true });
      expect(action.split(" ").filter((word) => isHeldOut(word) !== undefined)).toEqual([]);
    }
  });

  /** What is asked for: the phrase of a question, the maker and the kind, the things and where they go, or the text. */
  function identity(env: Environment, task: string): string {
    if (spec === terminal) return task;
    if (spec === search) return task.replace(/^(Name|Find) the /, "");
    if (spec === shop) return / a (\w+ \w+)/.exec(task)![1]!;
    const { goal } = (env as unknown as { episode: { task: HouseholdTask } }).episode.task;
    return JSON.stringify(goal);
  }
});
