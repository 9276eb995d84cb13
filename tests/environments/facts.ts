/**
 * What every world of unknown facts (`home`, `castle`) has to show: solved by its expert in as few turns as can be, by
 * chance exactly as often as its sizes say, the same for the same seed, safe against any action, cloned without a
 * trace, and paid where it says so. Not here: what the facts are, and what answers say of them, each world's own.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import type { Environment, EnvironmentSpec, StepResult } from "../../rl/environment.ts";
import { HINTS } from "../../environments/facts/hints.ts";
import type { FactOptions } from "../../environments/facts/options.ts";
import { terminal } from "../../environments/terminal/index.ts";
import { play, SPLITS, start } from "./suite.ts";
import { tries } from "../support/tries.ts";

export const SIZES = [1, 2, 3] as const;

/** Is this count of `trials` what a chance of `chance` gives, within four standard errors (and one trial)? */
export function expectChance(count: number, trials: number, chance: number, what: string): void {
  const error = 4 * Math.sqrt(trials * chance * (1 - chance)) + 1;
  const said = `${what}: ${count} of ${trials}, expected ${(trials * chance).toFixed(1)} ± ${error.toFixed(1)}`;
  expect(Math.abs(count - trials * chance), said).toBeLessThanOrEqual(error);
}

/** A message in which names are masked: what is left is its wording. */
export const wording = (message: string): string => message.replace(/\b[a-z]{6}\b(\.[a-z]{3})?|\.[a-z]{3}\b/g, "X");

/** The answer to one action, in a clone, so that the episode stays where it is. */
export const answerTo = async (env: Environment, action: string): Promise<StepResult> => env.clone!().step(action);

/** How often the baseline solves tasks of a family in two turns, in many clones of a few episodes. */
export async function luckOf<Options extends FactOptions>(
  spec: EnvironmentSpec<Options>,
  family: string,
): Promise<{ solved: number; trials: number }> {
  const [episodes, clones] = [10, 100];
  let solved = 0;
  for (let seed = 0; seed < episodes; seed++) {
    const rng = new Rng(seed).split("luck");
    const { env, task } = await start(spec, seed, { families: [family] } as unknown as Options);
    for (let i = 0; i < clones; i++) solved += (await play(env.clone!(), () => spec.random(rng, task), 2)).total;
  }
  return { solved, trials: episodes * clones };
}

/** What one wrong action is answered in turn after turn of some episodes, always from the same state. */
export async function answersTo(
  began: (seed: number) => Promise<{ readonly env: Environment }>,
  action: string,
): Promise<string[]> {
  const [episodes, turns] = [16, 16];
  const answers: string[] = [];
  for (let seed = 0; seed < episodes; seed++) {
    const { env } = await began(seed);
    for (let i = 0; i < turns; i++) {
      answers.push((await answerTo(env, action)).observation);
      await env.step("wait");
    }
  }
  return answers;
}

export function testFacts<Options extends FactOptions>(
  spec: EnvironmentSpec<Options>,
  {
    place,
    turns,
    chance,
    nearly,
    longest,
  }: {
    /** Option that says which world it is. */
    readonly place: string;
    /** What the expert takes. */
    readonly turns: (family: string) => number;
    /** Chance that the baseline, given the task, types what the expert types first. */
    readonly chance: (family: string, size: number) => number;
    /** Parts of actions, of which near misses are made. */
    readonly nearly: readonly string[];
    /** Characters of the longest task, and of the longest answer. */
    readonly longest: { readonly task: number; readonly answer: number };
  },
): void {
  const families = spec.families.map(({ name }) => name);
  /** @param world −1 for another one in each episode */
  const options = (some: FactOptions, world = 0): Options => ({ ...some, [place]: world }) as unknown as Options;

  it.each(families)(
    "%s: the expert solves it, in both splits, in all sizes, and in worlds of one episode",
    async (family) => {
      for (const split of SPLITS)
        for (const size of SIZES)
          for (const world of [0, 7, -1])
            for (let seed = 0; seed < 30; seed++) {
              const { env, task } = await start(spec, seed, options({ families: [family], split, size }, world));
              const { last, total } = await play(env, () => spec.expert!(env));
              const where = `${split}, size ${size}, ${place} ${world}, seed ${seed}: ${task}`;
              expect(task.length, where).toBeLessThanOrEqual(longest.task);
              expect(last, where).toMatchObject({
                reward: 1,
                done: true,
                info: { family, success: true, toolErrors: 0 },
              });
              expect([total, last!.info["turns"]], where).toEqual([1, turns(family)]);
            }
    },
  );

  it.each(families)("%s: the baseline types what the expert types as often as chance has it", async (family) => {
    const [episodes, tries] = [20, 100];
    for (const size of SIZES) {
      let hits = 0;
      for (let seed = 0; seed < episodes; seed++) {
        const chosen = options({ families: [family], size });
        const { env, task } = await start(spec, seed, chosen);
        const rng = new Rng(seed).split("baseline");
        const right = spec.expert!(env);
        for (let i = 0; i < tries; i++) hits += Number(spec.random(rng, task, chosen) === right);
      }
      expectChance(hits, episodes * tries, chance(family, size), `${family}, size ${size}`);
    }
  });

  it("is the same episode for the same seed, and another for another", async () => {
    const episode = async (family: string, seed: number, world: number): Promise<string> => {
      const { env, task } = await start(spec, seed, options({ families: [family], facts: "random" }, world));
      const rng = new Rng(seed);
      const policy = (): string => (rng.int(2) === 0 ? spec.random(rng, task) : spec.expert!(env));
      return [task, ...(await play(env, policy, 6)).lines].join("\n");
    };
    for (const family of families)
      for (const world of [0, -1]) {
        const all = await Promise.all(Array.from({ length: 20 }, (_, seed) => episode(family, seed, world)));
        expect(await Promise.all(Array.from({ length: 20 }, (_, seed) => episode(family, seed, world)))).toEqual(all);
        // A small world has few questions of some kinds: half a dozen chests of which sealing is asked in training.
        expect(new Set(all).size, family).toBeGreaterThanOrEqual(14);
      }
  });

  it("takes any text as an action: nothing throws, answers are short, only success pays, experts recover", async () => {
    const near = fc.array(fc.constantFrom(...nearly), { maxLength: 9 }).map((parts) => parts.join(" "));
    const hostile = fc.constantFrom("", "\n", "__proto__", "constructor", "9".repeat(500), "\ud800", "(".repeat(5_000));
    const action = fc.oneof(near, fc.string({ unit: "binary", maxLength: 300 }), hostile);
    const hints = fc.constantFrom(...HINTS);
    const facts = fc.constantFrom("true" as const, "random" as const);
    await fc.assert(
      fc.asyncProperty(fc.nat(5_000), hints, facts, fc.array(action, { maxLength: 8 }), async (seed, h, f, actions) => {
        const { env } = await start(spec, seed, options({ hints: h, facts: f }));
        let isOver = false;
        for (const text of actions) {
          const { observation, reward, done, info } = await env.step(text);
          expect(observation.length, text).toBeLessThanOrEqual(longest.answer);
          expect(Buffer.from(observation, "utf8").toString("utf8")).toBe(observation); // no half of a pair
          expect(reward).toBe(info["success"] === true ? 1 : 0);
          expect(done).toBe(info["ending"] !== "none");
          isOver = done;
          if (done) break;
        }
        // It may be too late for success, and never for an end.
        if (!isOver) expect((await play(env, () => spec.expert!(env), 16)).last?.done).toBe(true);
      }),
      { numRuns: tries(120) },
    );
  }, 60_000);

  it("the expert solves what has not been spoilt yet", async () => {
    for (const family of families)
      for (let seed = 0; seed < 20; seed++) {
        const { env, task } = await start(spec, seed, options({ families: [family] }));
        for (const mistake of ["", "frobnicate", "  \n ", "'"]) expect((await env.step(mistake)).done).toBe(false);
        const { last } = await play(env, () => spec.expert!(env));
        expect(last, task).toMatchObject({ reward: 1, info: { toolErrors: 4, turns: 4 + turns(family) } });
      }
  });

  it("a novice guesses, and gives up unless all went well, which is worth imitating", async () => {
    for (const family of families) {
      let gaveUp = 0;
      for (let seed = 0; seed < 10; seed++) {
        const { env, task } = await start(spec, seed, options({ families: [family] }));
        const rng = new Rng(seed);
        const right = spec.expert!(env);
        const guess = spec.novice!(env, rng, 0, task);
        expect(guess.isGuess).toBe(true);
        const then = async (action: string): Promise<{ action: string; expert: string }> => {
          const copy = env.clone!();
          await copy.step(action);
          const next = spec.novice!(copy, rng, 1, task);
          expect(next.isGuess).toBe(false);
          return { action: next.action, expert: spec.expert!(copy) };
        };
        const [afterRight, afterGuess] = [await then(right), await then(guess.action)];
        expect(afterRight.action).toBe(afterRight.expert);
        // A wrong word may lead where another step was to lead.
        expect(["done", afterGuess.expert]).toContain(afterGuess.action);
        gaveUp += Number(afterGuess.action === "done");
      }
      expect(gaveUp, family).toBeGreaterThanOrEqual(5);
    }
  });

  it("clones: both play on alike, and neither touches the other", async () => {
    for (let seed = 0; seed < 60; seed++) {
      const { env, task } = await start(spec, seed, options({ facts: "random" }));
      const before = await play(env, () => (seed % 2 === 0 ? "nonsense" : spec.expert!(env)), seed % 3);
      if (before.last?.done) continue;
      const [copy, strayed] = [env.clone!(), env.clone!()];
      const rng = new Rng(seed);
      await play(strayed, () => spec.random(rng, task), 3);
      const guess = spec.random(new Rng(seed + 1), task);
      if (!/^(done|answer)/.test(guess)) expect(await answerTo(copy, guess)).toEqual(await answerTo(env, guess));
      const original = await play(env, () => spec.expert!(env));
      expect(await play(copy, () => spec.expert!(copy))).toEqual(original);
      expect(original.last).toMatchObject({ done: true, reward: 1 });
      await expect(env.clone!().step("x")).rejects.toThrow("called after the episode ended");
    }
  });

  it("pays for the families that it is told to pay for; success is told of all", async () => {
    for (const rewarded of [undefined, [], [families[0]!], families.slice(1)])
      for (const family of families) {
        const some = rewarded === undefined ? {} : { rewarded };
        const { env } = await start(spec, 3, options({ families: [family], ...some }));
        const { last, total } = await play(env, () => spec.expert!(env));
        expect(last!.info).toMatchObject({ success: true, score: 1 });
        expect(total).toBe((rewarded ?? families).includes(family) ? 1 : 0);
      }
  });

  it("where what is said is random, the task and what is right are as they were", async () => {
    for (const family of families)
      for (let seed = 0; seed < 30; seed++) {
        const chosen = { families: [family] };
        const { env, task } = await start(spec, seed, options(chosen));
        const liar = await start(spec, seed, options({ ...chosen, facts: "random" }));
        expect(liar.task).toBe(task);
        const { last, lines } = await play(liar.env, () => spec.expert!(liar.env));
        expect(last!.reward).toBe(1);
        expect((await play(env, () => spec.expert!(env))).lines).toEqual(lines);
      }
  });

  it("refuses options that make no sense in one line, and an expert's episode that is not its own", () => {
    const make = (bad: object): Environment => spec.make(bad as Options);
    const { name } = spec;
    expect(() => make({ [place]: -2 })).toThrow(`${name}: ${place} must be an integer ≥ -1, got -2`);
    expect(() => make({ [place]: 0.5 })).toThrow(`${name}: ${place} must be an integer ≥ -1, got 0.5`);
    expect(() => make({ hints: "all" })).toThrow(
      `${name}: hints must be "none", "tried", "reverse", "statement" or "suggestion", got "all"`,
    );
    expect(() => make({ facts: false })).toThrow(`${name}: facts must be "true" or "random", got false`);
    expect(() => make({ rewarded: ["nothing"] })).toThrow(
      `${name}: rewarded must be a list of ${families.join(", ")}, got ["nothing"]`,
    );
    expect(() => make({ rewarded: families[0] })).toThrow(`${name}: rewarded must be a list of ${families.join(", ")}`);
    expect(() => make({ size: 4 })).toThrow(`${name}: size must be an integer in [1, 3], got 4`);
    expect(() => make({ sise: 2 })).toThrow(`${name}: unknown option 'sise'; did you mean 'size'?`);
    expect(() => make({ split: "test" })).toThrow(`${name}: split must be "train" or "heldout", got "test"`);
    expect(() => make({ families: ["no such family"] })).toThrow(`${name}: unknown family 'no such family'`);
    expect(() => make({ levels: [8, 9] })).toThrow("has a level in 8 to 9");
    expect(() => spec.expert!(terminal.make())).toThrow(`expected a ${name} episode, got "terminal"`);
    expect(() => spec.expert!(spec.make())).toThrow(`${name}: the episode has no task yet; call reset first`);
  });
}
