/**
 * What every environment that is a game (environments/game.ts) has to show: solvable by its expert, hardly by chance,
 * the same for the same seed, with held-out names, safe against any action, and cloned without a trace.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import type { Environment, EnvironmentSpec, StepResult } from "../../rl/environment.ts";
import type { GameOptions } from "../../environments/game.ts";
import { terminal } from "../../environments/terminal/index.ts";
import { isHeldOut } from "../../environments/words.ts";
import { tries } from "../support/tries.ts";

export const SPLITS = ["train", "heldout"] as const;

export async function start<Options extends GameOptions>(
  spec: EnvironmentSpec<Options>,
  seed: number,
  options?: Options,
): Promise<{ env: Environment; task: string }> {
  const env = spec.make(options);
  return { env, task: await env.reset(seed) };
}

/** Plays until the end; returns `$ action` and observation lines, the last step, and the sum of rewards. */
export async function play(
  env: Environment,
  policy: () => string,
  maxTurns = 16,
): Promise<{ lines: string[]; last: StepResult | undefined; total: number }> {
  const lines: string[] = [];
  let last: StepResult | undefined;
  let total = 0;
  for (let turn = 0; turn < maxTurns && !last?.done; turn++) {
    const action = policy();
    last = await env.step(action);
    total += last.reward;
    lines.push(`$ ${action}`, ...(last.observation === "" ? [] : last.observation.split("\n")));
  }
  return { lines, last, total };
}

/** A copy that has made a mistake. */
async function failed(env: Environment): Promise<Environment> {
  const copy = env.clone!();
  await copy.step("?");
  return copy;
}

/**
 * Actions that come near the real ones: a verb of the environment, and a word that has been seen, or anything at all.
 */
function actionsFrom(verbs: readonly string[], seen: () => string[]): (choice: [number, number, string]) => string {
  return ([verb, word, text]) => {
    const words = seen();
    const rest = text === "" ? words[word % words.length]! : text;
    return verb < verbs.length ? `${verbs[verb]!} ${rest}`.trimEnd() : text;
  };
}

/** @param verbs the first words of its actions @param luck the share of tasks that the random baseline may solve */
export function testGame<Options extends GameOptions>(
  spec: EnvironmentSpec<Options>,
  { verbs, luck, ends }: { readonly verbs: readonly string[]; readonly luck: number; readonly ends: RegExp },
): void {
  /** Options that every game understands. */
  const options = (shared: GameOptions): Options => ({ ...shared }) as Options;
  const inFamily = (name: string, more: GameOptions = {}): Options => options({ families: [name], ...more });
  const families = spec.families.map(({ name }) => name);

  it.each(families)("%s: the expert solves seeds of each split, also in larger worlds", async (family) => {
    for (const split of SPLITS)
      for (const size of [1, 2, 3])
        for (let seed = 0; seed < tries(size === 1 ? 150 : 30); seed++) {
          const { env, task } = await start(spec, seed, inFamily(family, { split, size }));
          // 16 turns are what demonstrations have by default.
          const { last, total } = await play(env, () => spec.expert!(env), size === 1 ? 16 : 50);
          const where = `${split}, size ${size}, seed ${seed}: ${task}`;
          expect(last, where).toMatchObject({ reward: 1, done: true, info: { family, success: true, toolErrors: 0 } });
          expect(total, where).toBe(1);
        }
  });

  it("the random baseline is far behind", async () => {
    const rates: string[] = [];
    const games = tries(200);
    for (const family of families) {
      let solved = 0;
      for (let seed = 0; seed < games; seed++) {
        const rng = new Rng(seed).split("baseline");
        const { env } = await start(spec, seed, inFamily(family));
        solved += Number((await play(env, () => spec.random(rng))).last?.info["success"]);
      }
      rates.push(`${family} ${((100 * solved) / games).toFixed(1)} %`);
      expect(solved / games, family).toBeLessThanOrEqual(luck);
    }
    console.log(`${spec.name}: the random baseline solves ${rates.join(", ")}`);
  });

  it("is the same episode for the same seed, and another for another", async () => {
    const transcript = async (family: string, seed: number): Promise<string> => {
      const { env, task } = await start(spec, seed, inFamily(family));
      return [task, ...(await play(env, () => spec.expert!(env))).lines].join("\n");
    };
    for (const family of families) {
      const all = await Promise.all(Array.from({ length: 20 }, (_, seed) => transcript(family, seed)));
      expect(await Promise.all(Array.from({ length: 20 }, (_, seed) => transcript(family, seed)))).toEqual(all);
      expect(new Set(all).size, family).toBe(20);
    }
  });

  it("held-out tasks share no name with training tasks", async () => {
    const words = { train: new Set<string>(), heldout: new Set<string>() };
    for (const split of SPLITS)
      for (let seed = 0; seed < tries(400); seed++) {
        const { env, task } = await start(spec, seed, options({ split, size: 1 + (seed % 3) }));
        const { lines } = await play(env, () => spec.expert!(env), 50);
        for (const word of [task, ...lines].join(" ").match(/[A-Za-z]+/g)!) words[split].add(word);
      }
    for (const split of SPLITS) {
      const names = [...words[split]].filter((word) => isHeldOut(word) !== undefined);
      expect(names.length).toBeGreaterThan(tries(500));
      expect(names.filter((name) => isHeldOut(name) !== (split === "heldout"))).toEqual([]);
    }
    // What both have is the fixed vocabulary.
    expect([...words.heldout].filter((word) => words.train.has(word) && isHeldOut(word) !== undefined)).toEqual([]);
  });

  it("takes any text as an action: nothing throws, answers are short, rewards in bounds, experts recover", async () => {
    const choice = fc.tuple(
      fc.nat(verbs.length),
      fc.nat(1_000),
      fc.oneof(
        { weight: 5, arbitrary: fc.constant("") },
        fc.string({ unit: "binary", maxLength: 30 }),
        fc.constantFrom("__proto__", "constructor", "1", "9".repeat(400), "1e9", "-1"),
      ),
    );
    await fc.assert(
      fc.asyncProperty(fc.nat(10_000), fc.array(choice, { maxLength: 30 }), async (seed, choices) => {
        const { env, task } = await start(spec, seed);
        let seen = task;
        const toText = actionsFrom(verbs, () => seen.match(/[A-Za-z]+|\d+/g)!);
        let total = 0;
        let done = false;
        for (const drawn of choices) {
          const result = await env.step(toText(drawn));
          expect(result.observation.length).toBeLessThanOrEqual(160);
          expect(result.info["success"]).toBe(result.reward === 1);
          expect(done || result.done || result.reward === 0).toBe(true);
          total += result.reward;
          seen += ` ${result.observation}`;
          done = result.done;
          if (done) break;
        }
        if (!done) total += (await play(env, () => spec.expert!(env), 60)).total;
        expect(total).toBeGreaterThanOrEqual(0);
        expect(total).toBeLessThanOrEqual(1);
        if (!done) expect(total, task).toBe(1);
      }),
      { numRuns: tries(300) },
    );
  });

  it("clones: what happens in one does not touch the other", async () => {
    for (let seed = 0; seed < 40; seed++) {
      const { env } = await start(spec, seed);
      const before = await play(env, () => spec.expert!(env), 1 + (seed % 3));
      if (before.last!.done) continue;
      const copy = env.clone!();
      expect((await env.clone!().step("?")).info).toMatchObject({ turns: 2 + (seed % 3), toolErrors: 1 });
      expect((await (await failed(env)).clone!().step("?")).info).toMatchObject({
        turns: 3 + (seed % 3),
        toolErrors: 2,
      });
      expect(spec.expert!(copy)).toBe(spec.expert!(env));
      const rng = new Rng(seed).split("clone");
      for (let i = 0; i < 5; i++) {
        const action = spec.random(rng);
        if (!ends.test(action)) await copy.step(action);
      }
      const inCopy = await play(copy, () => spec.expert!(copy), 60);
      const inOriginal = await play(env, () => spec.expert!(env), 60);
      expect(inCopy.last).toMatchObject({ reward: 1, done: true });
      expect(inOriginal.last).toMatchObject({ reward: 1, done: true, info: { toolErrors: 0 } });
      await expect(copy.clone!().step("x")).rejects.toThrow("called after the episode ended");
    }
  });

  it("refuses options that make no sense, in one line, and an expert's episode that is not its own", async () => {
    const make = (bad: object): Environment => spec.make(bad as Options);
    expect(() => make({ families: ["no such family"] })).toThrow(`${spec.name}: unknown family 'no such family'`);
    expect(() => make({ levels: [8, 9] })).toThrow("has a level in 8 to 9");
    expect(() => make({ split: "test" })).toThrow('split must be "train" or "heldout", got "test"');
    expect(() => make({ size: 4 })).toThrow(`${spec.name}: size must be an integer in [1, 3], got 4`);
    expect(() => make({ sise: 2 })).toThrow(`${spec.name}: unknown option 'sise'; did you mean 'size'?`);
    expect(() => spec.expert!(terminal.make())).toThrow(`expected a ${spec.name} episode, got "terminal"`);
    expect(() => spec.expert!(spec.make())).toThrow(`${spec.name}: the episode has no task yet; call reset first`);
    for (let seed = 0; seed < 30; seed++) {
      const { env } = await start(spec, seed, options({ levels: [2, 3] }));
      expect([2, 3]).toContain((await env.step("x")).info["level"]);
    }
  });

  it("counts turns and failed actions", async () => {
    const { env } = await start(spec, 0);
    for (const action of ["", "frobnicate", "  \n "]) {
      const { observation, info, reward, done } = await env.step(action);
      expect(observation).toMatch(/^unknown action; use /);
      expect([reward, done, info["ending"]]).toEqual([0, false, "none"]);
    }
    expect((await env.step(spec.expert!(env))).info).toMatchObject({ turns: 4, toolErrors: 3 });
  });
}
