/** `screen`: what is said of actions, what a button is judged by, coordinates as bins. More: screen.long.test.ts. */
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import type { StepResult } from "../../rl/environment.ts";
import {
  binOf,
  binOfCell,
  cellOfBin,
  middleOf,
  normalized,
  numberOf,
  tokenOf,
} from "../../environments/screen/bins.ts";
import { screen, type ScreenOptions } from "../../environments/screen/index.ts";
import { play, start } from "./suite.ts";

async function after(family: string, actions: readonly string[], more: ScreenOptions = {}): Promise<StepResult> {
  const { env } = await start(screen, 0, { families: [family], ...more });
  let last: StepResult | undefined;
  for (const action of actions) last = await env.step(action);
  return last!;
}

const USE = "use click X Y, type TEXT, scroll up, scroll down, key delete or key tab";
const KEYBOARD = "no field has the keyboard";

describe("what is said", () => {
  // The screens are those of the experts' episodes for seed 0 (docs/worlds.md).
  it.each<[family: string, actions: string[], observation: string, toolErrors: number]>([
    ["type", ["click 0 2"], "2role<......>", 0],
    ["type", ["click 11 2"], "2role<......>", 0],
    ["type", ["click 0 2", "click 5 0"], "0city<......>\n2role[......]", 0],
    ["type", ["key tab"], "2role<......>", 0],
    ["type", ["key tab", "key tab"], "0city<......>\n2role[......]", 0],
    ["type", ["click 0 2", "click 5 1"], "2role[......]", 0],
    ["type", ["click 0 2", "type ab", "type cdefgh"], "2role<abcdef>", 0],
    ["type", ["click 0 2", "type ab", "key delete"], "2role<......>", 0],
    ["type", ["click 0 2", "type a-b"], "type letters and digits", 1],
    ["type", ["type ab"], KEYBOARD, 1],
    ["type", ["key delete"], KEYBOARD, 1],
    ["type", ["scroll down"], "nothing to scroll", 1],
    ["type", ["click 12 2"], "not on the screen", 1],
    ["type", ["click 2 5"], "not on the screen", 1],
    ["type", ["click 2"], USE, 1],
    ["type", ["click(2, 1)"], USE, 1],
    ["type", ["key enter"], USE, 1],
    ["type", [""], USE, 1],
    ["press", ["key tab"], "no field here", 1],
    ["tick", ["click 4 1"], "1...[.]rubi..", 0],
    ["tick", ["click 9 1", "click 3 1"], "1...[x]rubi..", 0],
    ["tick", ["click 10 1"], "", 0],
    ["pick", ["scroll up"], "", 0],
    ["pick", ["click 8 1"], "1..>rubiri...", 0],
    ["pick", ["click 9 1"], "", 0],
    ["windows", ["click 5 2"], "", 0],
    // The lower window comes up: what was the other's goes under it, and nothing is pressed.
    ["windows", ["click 1 1"], "2[turi][lemu]\n3[toka][kumu]", 0],
    ["windows", ["click 1 1", "click 9 2"], "", 0],
  ])("%s, %j: %s", async (family, actions, observation, toolErrors) => {
    const last = await after(family, actions);
    if (family === "windows" && actions.length === 2) expect(last).toMatchObject({ done: true, reward: 0 });
    else expect(last).toMatchObject({ observation, reward: 0, done: false, info: { toolErrors } });
  });

  it("may be the whole screen", async () => {
    const { observation } = await after("type", ["click 0 2"], { answer: "screen" });
    expect(observation).toBe("0city[......]\n1............\n2role<......>\n3............\n4[no].[ok]...");
  });
});

describe("a button ends the episode, and what was entered is judged", () => {
  it.each<[family: string, actions: string[], reward: number]>([
    ["press", ["click 0 0"], 1],
    ["press", ["click 5 0"], 1],
    ["press", ["click 6 0"], 0],
    ["type", ["click 0 2", "type rekeru", "click 5 4"], 1],
    ["type", ["click 0 2", "type rekeru", "click 3 4"], 0],
    ["type", ["click 0 2", "type rekera", "click 5 4"], 0],
    ["type", ["click 0 0", "type rekeru", "click 5 4"], 0],
    ["type", ["click 0 2", "type rekeru", "click 0 0", "type a", "click 5 4"], 0],
    ["type", ["click 0 2", "type rekeru", "click 0 0", "type a", "key delete", "click 5 4"], 1],
    ["tick", ["click 4 1", "click 3 4"], 1],
    ["tick", ["click 3 4"], 0],
    ["tick", ["click 4 1", "click 4 0", "click 3 4"], 0],
    ["correct", ["click 6 2", "key delete", "type biritu", "click 2 4"], 1],
    ["correct", ["click 6 2", "type biritu", "click 2 4"], 0],
    ["correct", ["click 6 0", "key delete", "type biritu", "click 2 4"], 0],
    ["pick", ["click 5 1", "click 3 4"], 1],
    ["pick", ["click 5 1", "click 5 0", "click 3 4"], 0],
  ])("%s, %j: %d", async (family, actions, reward) => {
    expect(await after(family, actions)).toMatchObject({ reward, done: true, info: { ending: "press" } });
  });
});

describe("numbers as OpenVLA's tokens", () => {
  it.each([
    [-1, 31999, -0.996078],
    [0.3, 31834, 0.298039],
    [1, 31744, 0.996078],
    [7, 31744, 0.996078],
  ])("%s is token %i of 32,000, read as %s", (x, token, back) => {
    expect(tokenOf(x, 32_000)).toBe(token);
    expect(numberOf(token, 32_000)).toBeCloseTo(back, 6);
  });

  it("are read at most half a bin off, and the last two counts alike", () => {
    for (let x = -1; x <= 1; x += 0.001) expect(Math.abs(middleOf(binOf(x)) - x)).toBeLessThanOrEqual(1 / 255 + 1e-12);
    expect(middleOf(256)).toBe(middleOf(255));
    expect([-5, -1, 1, 5].map(binOf)).toEqual([1, 1, 256, 256]);
    expect(normalized(3, 2, 6)).toBeCloseTo(-0.5, 8);
    expect(normalized(2.5e-9, 0, 0)).toBeCloseTo(-0.5, 12); // two equal quantiles are 1e-8 apart
    expect([normalized(5, 0, 10), normalized(-3, 0, 10), normalized(30, 0, 10)]).toEqual([
      expect.closeTo(0, 8) as number,
      -1,
      1,
    ]);
  });

  it("are the cells of a screen, and an option of the world", async () => {
    for (const cells of [5, 12]) for (let i = 0; i < cells; i++) expect(cellOfBin(binOfCell(i, cells), cells)).toBe(i);
    expect([cellOfBin(1, 12), cellOfBin(256, 12)]).toEqual([0, 11]);
    const bins = { coordinates: "bins" } as const;
    expect(await after("press", ["click 75 26"], bins)).toMatchObject({ reward: 1 });
    for (const bad of ["click 0 26", "click 75 257"])
      expect((await after("press", [bad], bins)).observation).toBe("not on the screen");
    for (const { name } of screen.families) {
      const { env } = await start(screen, 1, { families: [name], ...bins });
      expect((await play(env, () => screen.expert!(env))).last).toMatchObject({ reward: 1, info: { toolErrors: 0 } });
      expect(screen.random(new Rng(1), "", bins)).toMatch(/^(click|type|scroll|key) /);
    }
  });
});

it("a novice makes mistakes, does not look at them, and solves some of the tasks", async () => {
  let [solved, guesses, moves] = [0, 0, 0];
  for (const coordinates of ["cells", "bins"] as const)
    for (const { name } of screen.families)
      for (let seed = 0; seed < 10; seed++) {
        const { env } = await start(screen, seed, { families: [name], coordinates });
        const rng = new Rng(seed);
        const { total } = await play(env, () => {
          const { action, isGuess } = screen.novice!(env, rng, 0, "");
          guesses += Number(isGuess);
          moves++;
          return action;
        });
        solved += total;
      }
  expect(solved).toBeGreaterThan(42);
  expect(solved).toBeLessThan(112);
  expect(guesses / moves).toBeGreaterThan(0.1);
  expect(guesses / moves).toBeLessThan(0.5);
});
