/**
 * `household`: the contract of games, the laws of its world, and goals that hold for nothing less than what they say.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import type { Environment } from "../../rl/environment.ts";
import { SIZED } from "../../environments/game.ts";
import { act, type HouseState, PLACES, ROOMS, TREATMENTS } from "../../environments/household/house.ts";
import { household } from "../../environments/household/index.ts";
import { FAMILIES, type HouseholdTask } from "../../environments/household/episode.ts";
import { makeTask, pending } from "../../environments/household/tasks.ts";
import { settleOptions } from "../../environments/options.ts";
import { play, SPLITS, start, testGame } from "./suite.ts";
import { tries } from "../support/tries.ts";

const VERBS = ["go", "open", "close", "take", "put", "heat", "cool", "wash", "use", "look", "hand"];

describe("household", () => {
  testGame(household, { verbs: VERBS, luck: 0.01, ends: /^$/ });
});

const taskOf = (family: string, seed: number, size = 1): HouseholdTask =>
  makeTask(
    new Rng(seed).split("test"),
    FAMILIES.find(({ name }) => name === family)!,
    settleOptions("household", SIZED, { size }),
  );

/** Everything that the state says about where things are. */
const everything = ({ contents, hand }: HouseState): string[] =>
  [...[...contents.values()].flat(), ...(hand === undefined ? [] : [hand])].sort();

describe("the world", () => {
  it("loses and makes nothing, keeps hot and cold apart, and never changes a state that it was given", () => {
    const step = fc.tuple(fc.nat(VERBS.length - 1), fc.nat(1_000));
    fc.assert(
      fc.property(fc.nat(1_000), fc.array(step, { maxLength: 60 }), (seed, steps) => {
        const { house, start: first } = taskOf("errand", seed, 2);
        const things = everything(first);
        const words = [...things, ...house.places, ...house.rooms];
        const frozen = JSON.stringify([...first.contents]);
        let state = first;
        for (const [verb, word] of steps) {
          const deed = act(house, state, VERBS[verb]!, words[word % words.length]!);
          if (deed.failed) expect(deed.state).toBeUndefined();
          state = deed.state ?? state;
          expect(everything(state)).toEqual(things);
          for (const properties of state.properties.values()) {
            expect(new Set(properties).size).toBe(properties.length);
            expect(properties.includes("hot") && properties.includes("cold")).toBe(false);
          }
          if (state.at !== undefined) expect(house.roomOf(state.at)).toBe(state.room);
        }
        expect(JSON.stringify([...first.contents])).toBe(frozen);
      }),
      { numRuns: tries(200) },
    );
  });

  it("tells what is wrong with an action", async () => {
    // The house has drawer, cupboard, closet and box; kefebo is in the closet.
    const { env } = await start(household, 0, { families: ["stow"] });
    const answers: [string, string][] = [
      ["go bed", "no such place here"],
      ["go kitchen", "no such place here"],
      ["take kefebo", "no such thing here"],
      ["put kefebo", "you do not have that"],
      ["open closet", "you are not there"],
      ["go closet", "closet is closed"],
      ["take kefebo", "no such thing here"],
      ["open closet", "closet: kefebo"],
      ["take kefebo", "you have kefebo"],
      ["hand", "you have kefebo"],
      ["heat kefebo", "you are not at a stove"],
      ["use lamp", "you are not at a lamp"],
      ["close closet", "closet is closed"],
      ["put kefebo", "closet is closed"],
      ["go drawer", "drawer is closed"],
      ["open drawer", "drawer: borile, litofu"],
      ["take litofu", "your hand is full"],
      ["look", "drawer: borile, litofu"],
    ];
    for (const [action, observation] of answers) expect((await env.step(action)).observation, action).toBe(observation);
    expect((await env.step("put kefebo")).reward).toBe(1);
  });

  it("has its devices, containers and rooms where the tables say", () => {
    for (const { room } of PLACES) expect(ROOMS).toContain(room);
    for (const { device } of Object.values(TREATMENTS)) expect(PLACES.map(({ name }) => name)).toContain(device);
    for (const size of [2, 3])
      for (const { name } of FAMILIES)
        for (let seed = 0; seed < 30; seed++) {
          const { house } = taskOf(name, seed, size);
          expect(house.rooms.length).toBe(size);
          expect(new Set(house.places).size).toBe(house.places.length);
          for (const place of house.places)
            expect(PLACES.find((known) => known.name === place)!.room).toBe(house.roomOf(place));
        }
  });
});

describe.each(FAMILIES)("$name", ({ name }) => {
  it("does not hold at the start, and only the last action of the expert makes it hold", async () => {
    for (const split of SPLITS)
      for (let seed = 0; seed < 60; seed++) {
        const { env } = await start(household, seed, { families: [name], split });
        const actions: string[] = [];
        while (!actions.at(-1)?.startsWith("end")) {
          actions.push(household.expert!(env));
          if ((await env.step(actions.at(-1)!)).done) actions.push("end");
        }
        expect(actions.at(-2)).toMatch(name === "light" ? /^use lamp$/ : /^put /);
      }
  });

  it("every action of the expert that is no search is needed", async () => {
    for (let seed = 0; seed < 15; seed++) {
      const { env } = await start(household, seed, { families: [name] });
      const { lines } = await play(env, () => household.expert!(env));
      const actions = lines.filter((line) => line.startsWith("$ ")).map((line) => line.slice(2));
      for (const [i, left] of actions.entries()) {
        if (!/^(take|put|heat|cool|wash|use) /.test(left)) continue;
        const { env: again } = await start(household, seed, { families: [name] });
        let total = 0;
        for (const action of actions.filter((_, at) => at !== i)) total += (await again.step(action)).reward;
        expect(total, `without ${left}`).toBe(0);
      }
    }
  });
});

describe("goals", () => {
  /** Plays the expert with one of its actions replaced. */
  const replaced = async (env: Environment, from: RegExp, to: (action: string) => string): Promise<number> => {
    let total = 0;
    for (let i = 0; i < 12; i++) {
      const action = household.expert!(env);
      const result = await env.step(from.test(action) ? to(action) : action);
      total += result.reward;
      if (result.done) break;
    }
    return total;
  };

  it("the wrong treatment, the wrong place and the wrong thing are no success", async () => {
    for (let seed = 0; seed < 30; seed++) {
      for (const [family, verb] of [
        ["heat", "heat"],
        ["cool", "cool"],
        ["wash", "wash"],
      ] as const)
        expect(
          await replaced(
            (await start(household, seed, { families: [family] })).env,
            new RegExp(`^${verb}`),
            () => "look",
          ),
        ).toBe(0);
      const { start: state, goal, house } = taskOf("place", seed);
      if (goal.kind !== "put") throw new Error("expected a goal of putting");
      for (const place of house.places) {
        const wrong = { ...state, contents: new Map([...state.contents, [place, [...goal.things]]]) };
        expect(pending(wrong, goal).length === 0).toBe(place === goal.target);
        const other = { ...state, contents: new Map([...state.contents, [place, [`${goal.things[0]!}x`]]]) };
        expect(pending(other, goal).length).toBe(1);
      }
    }
  });

  it("heat is undone by cold, not by water", async () => {
    const task = taskOf("heat", 1);
    const thing = task.goal.things[0]!;
    const house = { rooms: ["house"], places: ["stove", "fridge", "sink"], roomOf: () => "house" };
    let state: HouseState = { ...task.start, hand: thing, open: new Set(["fridge"]), room: "house" };
    state = { ...state, contents: new Map(house.places.map((place) => [place, []])) };
    const after = (...actions: string[]): readonly string[] => {
      let now = state;
      for (const action of actions) {
        const [verb, ...rest] = action.split(" ");
        now = act(house, now, verb!, rest.join(" ")).state ?? now;
      }
      return now.properties.get(thing) ?? [];
    };
    const heat = ["go stove", `heat ${thing}`];
    expect(after(...heat)).toEqual(["hot"]);
    expect(after(...heat, "go sink", `wash ${thing}`)).toEqual(["hot", "clean"]);
    expect(after(...heat, "go sink", `wash ${thing}`, "go fridge", `cool ${thing}`)).toEqual(["clean", "cold"]);
    expect(after("go fridge", "close fridge", `cool ${thing}`)).toEqual([]);
  });

  it("two: one of them is not enough, and both have to be there at the same time", () => {
    for (let seed = 0; seed < 30; seed++) {
      const { start: state, goal } = taskOf("two", seed);
      if (goal.kind !== "put") throw new Error("expected a goal of putting");
      const having = (...things: string[]): HouseState => ({
        ...state,
        contents: new Map([...state.contents, [goal.target, things]]),
      });
      const [a, b] = goal.things as [string, string];
      expect(pending(having(a), goal)).toEqual([b]);
      expect(pending(having(b), goal)).toEqual([a]);
      expect(pending(having(b, a), goal)).toEqual([]);
    }
  });

  it("light: thing in the hand, lamp on, and at the lamp", () => {
    const { start: state, goal } = taskOf("light", 0);
    const held: HouseState = { ...state, hand: goal.things[0], at: "lamp", lit: true };
    expect(pending(held, goal)).toEqual([]);
    for (const lack of [{ hand: "other" }, { hand: undefined }, { at: "desk" }, { lit: false }])
      expect(pending({ ...held, ...lack }, goal)).toEqual(goal.things);
  });

  it("the episode ends unsolved after maxSteps actions", async () => {
    const { env } = await start(household, 0, { maxSteps: 2 });
    expect((await env.step("look")).done).toBe(false);
    expect(await env.step("look")).toMatchObject({ reward: 0, done: true, info: { ending: "limit", success: false } });
    expect(() => household.make({ maxSteps: 0 })).toThrow("household: maxSteps must be an integer ≥ 1, got 0");
  });
});
