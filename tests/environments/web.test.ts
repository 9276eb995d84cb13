/** `web`: what is said of actions, forms that refuse, what the end state is judged by. The rest: web.long.test.ts. */
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import type { StepResult } from "../../rl/environment.ts";
import { web, type WebOptions } from "../../environments/web/index.ts";
import { play, start } from "./suite.ts";

async function after(family: string, actions: readonly string[], more: WebOptions = {}): Promise<StepResult> {
  const { env } = await start(web, 0, { families: [family], ...more });
  let last: StepResult | undefined;
  for (const action of actions) last = await env.step(action);
  return last!;
}

const USE = 'use click REF, type REF "TEXT", select REF OPTION, scroll up, scroll down or back';

describe("what is said", () => {
  // The pages are those of the experts' episodes for seed 0 (docs/worlds.md).
  it.each<[family: string, actions: string[], observation: string, toolErrors: number]>([
    ["enter", ['type 2 "a b"'], "<input 2 city=a b>", 0],
    ["enter", ['type 2 "a"', 'type 2 ""'], "<input 2 city>", 0],
    ["enter", ["type 2 a"], 'use type REF "TEXT"', 1],
    ["enter", ['type 2 "a\nb"'], 'use type REF "TEXT"', 1],
    ["enter", [`type 2 "${"a".repeat(25)}"`], "too long", 1],
    ["enter", ['type 3 "a"'], "no field", 1],
    ["enter", ['type 4 "a"'], "no such element", 1],
    ["enter", ["click 0"], "no such element", 1],
    ["enter", ["click"], "no such element", 1],
    ["enter", ["click 1"], "<input 1 name>", 0],
    ["enter", ["click 3"], "<p name is empty>", 0],
    ["enter", ["back"], "this is the first page", 1],
    ["enter", ["scroll down"], "<input 1 name>\n<input 2 city>\n<button 3 join>", 0],
    ["enter", ["press 3"], USE, 1],
    ["enter", [""], USE, 1],
    ["enter", ["click 3 3"], USE, 1],
    ["choose", ["select 1 faredi"], "<select 1 day=faredi: kikari faredi>", 0],
    ["choose", ["select 1 dufele"], "no such option", 1],
    ["choose", ["select 3 dufele"], "no drop-down", 1],
    ["scroll", ["click 5"], "not shown; scroll to it", 1],
    ["scroll", ["scroll down", "click 4"], "not shown; scroll to it", 1],
    [
      "scroll",
      ["scroll down", "scroll down", "scroll up"],
      "...\n<a 2 dufele>\n<a 3 kitobe>\n<a 4 kikari>\n<a 5 faredi>\n...",
      0,
    ],
    ["retry", ['type 1 "kitobe"', "click 3"], "<p kitobe is taken: faredi>", 0],
    ["lookup", ["click 2", "click 1"], "no such element", 1],
    ["lookup", ["click 3", 'type 1 "x"', "back", "click 3"], "<input 1 team=x>\n<button 2 join>", 0],
  ])("%s, %j: %s", async (family, actions, observation, toolErrors) => {
    expect(await after(family, actions)).toMatchObject({ observation, reward: 0, done: false, info: { toolErrors } });
  });

  it("may be the whole page", async () => {
    const { observation } = await after("enter", ['type 1 "a"'], { answer: "page" });
    expect(observation).toBe("<input 1 name=a>\n<input 2 city>\n<button 3 join>");
  });

  it("a number that is too large is refused with the largest, and what is no number as such", async () => {
    const seen = new Set<string>();
    for (let seed = 0; seed < 60; seed++) {
      const { env, task } = await start(web, seed, { families: ["retry"] });
      const [, most] = /Get (\d+) /.exec(task) ?? [];
      if (most === undefined) continue;
      const [, ref] = new RegExp(`<input (\\d) ${/Get \d+ (\w+)/.exec(task)![1]!}>`).exec(task)!;
      await env.step(`type ${ref} "many"`);
      expect((await env.step("click 3")).observation).toMatch(/^<p \w{6} is no number>$/);
      await env.step(`type ${ref} "${most}"`);
      const { observation, reward } = await env.step("click 3");
      seen.add(observation.replaceAll(/\d+/g, "N"));
      const [, allowed] = /^<p at most (\d+)>$/.exec(observation) ?? [];
      if (allowed === undefined) expect(reward).toBe(1);
      else {
        expect(Number(allowed)).toBeLessThan(Number(most));
        await env.step(`type ${ref} "${Number(allowed) - 1}"`);
        const less = env.clone!();
        expect(await less.step("click 3")).toMatchObject({ done: true, reward: 0 });
        await env.step(`type ${ref} "${allowed}"`);
        expect(await env.step("click 3")).toMatchObject({ done: true, reward: 1 });
      }
    }
    expect(seen).toEqual(new Set(["<p at most N>", "<p sent>"]));
  });
});

describe("the end state", () => {
  it.each<[family: string, actions: string[], reward: number]>([
    ["click", ["click 4"], 1],
    ["click", ["click 3"], 0],
    ["enter", ['type 1 "feleki"', "click 3"], 1],
    ["enter", ['type 1 "feleka"', "click 3"], 0],
    ["enter", ['type 1 "feleki"', 'type 2 "feleki"', "click 3"], 0],
    ["enter", ['type 1 "feleki"', 'type 2 "x"', 'type 2 ""', "click 3"], 1],
    ["choose", ["select 1 faredi", "select 2 kitobe", "click 3"], 0],
    ["form", ['type 2 "bekika"', "select 1 lekito", "select 1 badufe", "click 3"], 1],
    ["lookup", ["click 3", 'type 1 "kitobe"', "click 2"], 1], // who knew it need not look
    ["lookup", ["click 1", "back", "click 3", 'type 1 "kitobe"', "click 2"], 1],
    ["order", ["click 2", "select 1 mimere", "click 2", 'type 1 "faredi"', "click 2"], 0],
    ["order", ["click 2", "back", "click 3", "select 1 mimere", "click 2", 'type 1 "faredi"', "click 2"], 1],
  ])("%s, %j: %d", async (family, actions, reward) => {
    expect(await after(family, actions)).toMatchObject({ reward, done: true, info: { ending: "end" } });
  });
});

it("a novice makes mistakes, does not look at them, and solves some of the tasks", async () => {
  let [solved, guesses, moves] = [0, 0, 0];
  for (const { name } of web.families)
    for (let seed = 0; seed < 20; seed++) {
      const { env } = await start(web, seed, { families: [name] });
      const rng = new Rng(seed);
      const { total } = await play(env, () => {
        const { action, isGuess } = web.novice!(env, rng, 0, "");
        if (isGuess) expect(action).not.toBe(web.expert!(env));
        guesses += Number(isGuess);
        moves++;
        return action;
      });
      solved += total;
    }
  expect(solved).toBeGreaterThan(64);
  expect(solved).toBeLessThan(128);
  expect(guesses / moves).toBeGreaterThan(0.1);
  expect(guesses / moves).toBeLessThan(0.5);
});
