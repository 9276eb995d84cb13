/**
 * What `gridworld`, `sokoban` and `calculator` have to show alike: what the expert and the random baseline reach,
 * determinism, disjoint splits, safety against any action, clones, options, and sizes in tokens.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { byteTokenizer } from "../../nn/tokenizer.ts";
import { demonstrate } from "../../data/demonstrations.ts";
import type { Environment, EnvironmentOptions, EnvironmentSpec } from "../../rl/environment.ts";
import { terminal } from "../../environments/terminal/index.ts";
import { turnCount } from "../../rl/episode/stream.ts";
import { SPECIAL_TOKENS, Template } from "../../rl/episode/template.ts";
import { play, SPLITS, start } from "./suite.ts";
import { tries } from "../support/tries.ts";

/** Turns that no episode of the expert exceeds: what demonstrations have by default. */
const MOST_TURNS = 16;

/** What is expected of a family. */
export interface Expectation {
  /** Share of tasks that the expert solves, at least. */
  readonly expert: number;
  /** Share of tasks that the random baseline solves in 24 turns, at most. */
  readonly luck: number;
  /** Tokens of the longest demonstration, with one token for each byte. */
  readonly tokens: number;
}

export function testContract<Options extends EnvironmentOptions>(
  spec: EnvironmentSpec<Options>,
  {
    expected,
    identity,
    nearly,
  }: {
    readonly expected: Readonly<Record<string, Expectation>>;
    /** What makes a task, of which nothing may be in both splits, from its first observation. */
    readonly identity: (task: string) => readonly string[];
    /** Parts of actions, of which near misses are made. */
    readonly nearly: readonly string[];
  },
): void {
  const options = (some: EnvironmentOptions): Options => ({ ...some }) as Options;
  const families = spec.families.map(({ name }) => name);

  it("has levels from 1 on, easiest first, and an expectation for each family", () => {
    const levels = spec.families.map(({ level }) => level);
    expect(levels).toEqual([...levels].sort((a, b) => a - b));
    expect(new Set(levels)).toEqual(new Set(Array.from({ length: levels.at(-1)! }, (_, i) => i + 1)));
    expect(Object.keys(expected)).toEqual(families);
  });

  it.each(families)("%s: the expert solves it, in training and held out; chance hardly ever does", async (family) => {
    const episodes = tries(200);
    for (const split of SPLITS) {
      let [solved, lucky, turns] = [0, 0, 0];
      for (let seed = 0; seed < episodes; seed++) {
        const chosen = options({ families: [family], split });
        const { env, task } = await start(spec, seed, chosen);
        const other = env.clone!(); // finding a task may take longer than playing it
        const { last, total } = await play(env, () => spec.expert!(env), MOST_TURNS);
        expect(last, `${split}, seed ${seed}: ${task}`).toMatchObject({ done: true, info: { family, toolErrors: 0 } });
        expect(total).toBe(last!.info["success"] === true ? 1 : 0);
        solved += total;
        turns += Number(last!.info["turns"]);
        const rng = new Rng(seed).split("baseline");
        lucky += (await play(other, () => spec.random(rng), 24)).total;
      }
      const percent = (count: number): string => `${((100 * count) / episodes).toFixed(1)} %`;
      const [mean, expert, random] = [(turns / episodes).toFixed(1), percent(solved), percent(lucky)];
      console.log(`${spec.name}, ${family}, ${split}: expert ${expert} in ${mean} turns, random ${random}`);
      const noise = episodes < 200 ? 0.05 : 0; // what few episodes may be off, where chance decides
      expect(solved / episodes).toBeGreaterThanOrEqual(expected[family]!.expert - noise);
      expect(lucky / episodes).toBeLessThanOrEqual(expected[family]!.luck);
    }
  });

  it("is the same episode for the same seed, and another for another", async () => {
    const episode = async (family: string, seed: number): Promise<string> => {
      const { env, task } = await start(spec, seed, options({ families: [family] }));
      const rng = new Rng(seed);
      const policy = (): string => (rng.int(3) === 0 ? spec.random(rng) : spec.expert!(env));
      return [task, ...(await play(env, policy)).lines].join("\n");
    };
    for (const family of families) {
      const once: string[] = [];
      for (let seed = 0; seed < 20; seed++) once.push(await episode(family, seed));
      for (let seed = 0; seed < 20; seed++) expect(await episode(family, seed)).toBe(once[seed]);
      expect(new Set(once).size, family).toBeGreaterThanOrEqual(19);
    }
  });

  it("held-out tasks and training tasks have nothing in common", async () => {
    const seen = { train: new Set<string>(), heldout: new Set<string>() };
    for (const split of SPLITS)
      for (let seed = 0; seed < tries(1_000); seed++) {
        const { task } = await start(spec, seed, options({ split, levels: [1, 4] }));
        for (const part of identity(task)) seen[split].add(part);
      }
    expect(seen.heldout.size).toBeGreaterThan(tries(300));
    expect([...seen.heldout].filter((part) => seen.train.has(part))).toEqual([]);
  });

  it("takes any text as an action: no exception, short answers, no reward without success", async () => {
    const near = fc
      .array(fc.oneof(fc.constantFrom(...nearly), fc.string({ unit: "binary", maxLength: 4 })), { maxLength: 8 })
      .map((parts) => parts.join(""));
    const hostile = fc.constantFrom("", "\n", "__proto__", "constructor", "9".repeat(500), "\ud800", "(".repeat(5_000));
    const action = fc.oneof(near, fc.string({ unit: "binary", maxLength: 300 }), hostile);
    await fc.assert(
      fc.asyncProperty(fc.nat(5_000), fc.array(action, { maxLength: 12 }), async (seed, actions) => {
        const { env } = await start(spec, seed, options({ levels: [1, 4] }));
        for (const text of actions) {
          const { observation, reward, done, info } = await env.step(text);
          expect(observation.length).toBeLessThanOrEqual(96);
          expect(Buffer.from(observation, "utf8").toString("utf8")).toBe(observation); // no half of a pair
          expect(reward).toBe(info["success"] === true ? 1 : 0);
          expect(done).toBe(info["ending"] !== "none");
          if (done) break;
        }
      }),
      { numRuns: tries(300) },
    );
  });

  it("clones: both play on alike, and neither touches the other", async () => {
    for (let seed = 0; seed < 60; seed++) {
      const { env } = await start(spec, seed, options({ levels: [1, 4] }));
      const rng = new Rng(seed);
      const before = await play(env, () => (rng.int(2) === 0 ? "nonsense" : spec.expert!(env)), seed % 3);
      if (before.last?.done) continue;
      const [copy, strayed] = [env.clone!(), env.clone!()];
      await play(strayed, () => spec.random(rng), 3);
      const original = await play(env, () => spec.expert!(env));
      expect(await play(copy, () => spec.expert!(copy))).toEqual(original);
      expect(original.last!.done).toBe(true);
      await expect(env.clone!().step("x")).rejects.toThrow("called after the episode ended");
    }
    await expect(spec.make().clone!().step("x")).rejects.toThrow(`${spec.name}.step: called before reset`);
    const { env } = await start(spec, 0);
    const running = env.step("x");
    expect(() => env.clone!()).toThrow(`${spec.name}.clone: called while another call is running`);
    await running;
    await expect(env.step("x", { signal: AbortSignal.abort(new Error("stop")) })).rejects.toThrow("stop");
    expect(() => env.clone!()).toThrow("make a new environment");
  });

  it("an unset clone is an episode of its own", async () => {
    const env = spec.make();
    const copy = env.clone!();
    expect(await copy.reset(3)).toBe(await env.reset(3));
  });

  it("fits a small context: tasks, actions, answers and whole demonstrations, one token for each byte", async () => {
    const template = new Template(byteTokenizer({ specials: SPECIAL_TOKENS }));
    const bytes = (text: string): number => Buffer.byteLength(text);
    for (const family of families) {
      let longest = 0;
      for (let seed = 0; seed < 60; seed++) {
        const { env, task } = await start(spec, seed, options({ families: [family] }));
        const { lines } = await play(env, () => spec.expert!(env));
        expect(bytes(task)).toBeLessThanOrEqual(100);
        for (const line of lines) if (line.startsWith("$ ")) expect(bytes(line)).toBeLessThanOrEqual(26);
        const { stream, ...episode } = await demonstrate(spec, options({ families: [family] }), seed, template);
        // No answer was cut, so the whole demonstration is here.
        expect(turnCount({ stream, ...episode })).toBeLessThanOrEqual(MOST_TURNS);
        longest = Math.max(longest, stream.ids.length);
      }
      expect(longest, family).toBeLessThanOrEqual(expected[family]!.tokens);
      expect(longest, family).toBeGreaterThan(0.6 * expected[family]!.tokens);
    }
  });

  it("refuses options that make no sense in one line, and an expert's episode that is not its own", async () => {
    const make = (bad: object): Environment => spec.make(bad as Options);
    expect(() => make({ families: ["nothing like it"] })).toThrow(
      `${spec.name}: unknown family 'nothing like it'; there are ${families[0]}`,
    );
    expect(() => make({ families: [`${families[0]}s`] })).toThrow(`did you mean '${families[0]}'?`);
    expect(() => make({ families: [] })).toThrow(`${spec.name}: families must be a list of names, got []`);
    expect(() => make({ families: families[0] })).toThrow(`families must be a list of names, got "${families[0]}"`);
    expect(() => make({ levels: [8, 9] })).toThrow("has a level in 8 to 9");
    expect(() => make({ levels: [3, 1] })).toThrow(`${spec.name}: levels must be [easiest, hardest], got [3,1]`);
    expect(() => make({ levels: ["1", "2"] })).toThrow('levels must be [easiest, hardest], got ["1","2"]');
    expect(() => make({ levels: 2 })).toThrow(`${spec.name}: levels must be [easiest, hardest], got 2`);
    expect(() => make({ split: "test" })).toThrow(`${spec.name}: split must be "train" or "heldout", got "test"`);
    expect(() => make({ spilt: "train" })).toThrow(`${spec.name}: unknown option 'spilt'; did you mean 'split'?`);
    expect(() => spec.expert!(terminal.make())).toThrow(`expected a ${spec.name} episode, got "terminal"`);
    expect(() => spec.expert!(spec.make())).toThrow(`${spec.name}: the episode has no task yet; call reset first`);
    for (let seed = 0; seed < 30; seed++) {
      const { env } = await start(spec, seed, options({ levels: [2, 3] }));
      expect([2, 3]).toContain((await env.step("x")).info["level"]);
    }
  });
}
