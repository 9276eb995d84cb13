/**
 * Faults on top of a world: as frequent as they are said to be, the same for the same actions, and nothing else
 * touched.
 */
import { describe, expect, it } from "vitest";
import type { EndResult, Environment } from "../../rl/environment.ts";
import { type FaultOptions, withFaults } from "../../environments/faults.ts";
import { type HomeOptions, home } from "../../environments/home/index.ts";
import { start } from "./suite.ts";
import { expectChance } from "./facts.ts";

const faulty = withFaults(home);
const STAMP = /(^| )\[\d\d:\d\d:\d\d \d{4}\]$/;

const began = async (seed: number, options: HomeOptions & FaultOptions): Promise<Environment> =>
  (await start(faulty, seed, { levels: [2, 2], ...options })).env;

describe("noise", () => {
  it.each([0.3, 1])(
    "%s of the answers end in a time stamp and a number, and say what they said before it",
    async (noise) => {
      let stamped = 0;
      const stamps = new Set<string>();
      for (let seed = 0; seed < 300; seed++) {
        const plain = await began(seed, {});
        const env = await began(seed, { noise });
        const action = `wait ${seed}`;
        const { observation } = await env.step(action);
        expect(observation.replace(STAMP, "")).toBe((await plain.step(action)).observation);
        if (!STAMP.test(observation)) continue;
        stamped++;
        stamps.add(STAMP.exec(observation)![0]);
      }
      expectChance(stamped, 300, noise, "stamped");
      expect(stamps.size).toBe(stamped);
    },
  );

  it("follows from the task and the actions: a clone and another episode of it are answered the same", async () => {
    const env = await began(1, { noise: 1 });
    await env.step("size");
    const [again, copy] = [await began(1, { noise: 1 }), env.clone!()];
    await again.step("size");
    const { observation } = await env.step("read");
    expect((await copy.step("read")).observation).toBe(observation);
    expect((await again.step("read")).observation).toBe(observation);
    const other = await began(1, { noise: 1 });
    await other.step("count");
    expect((await other.step("read")).observation).not.toBe(observation);
  });
});

describe("a verifier that lies", () => {
  /** Rewards of episodes that end at once, wrongly or as the expert ends them. */
  async function verdicts(options: FaultOptions, isRight: boolean): Promise<{ rewards: number[]; successes: number }> {
    const rewards: number[] = [];
    let successes = 0;
    for (let seed = 0; seed < 300; seed++) {
      const env = await began(seed, options);
      if (isRight) await env.step(faulty.expert!(env));
      const { reward, info } = await env.step(isRight ? faulty.expert!(env) : "answer nothing");
      rewards.push(reward);
      successes += Number(info["success"]);
    }
    return { rewards, successes };
  }
  const count = (rewards: readonly number[], value: number): number =>
    rewards.filter((reward) => reward === value).length;

  it("pays a share of the failures, and of the successes not, and the truth stands in the info", async () => {
    const options = { falsePositives: 0.2, falseNegatives: 0.4 };
    const failures = await verdicts(options, false);
    expect(failures.successes).toBe(0);
    expectChance(count(failures.rewards, 1), 300, 0.2, "failures that are paid");
    expect(count(failures.rewards, 0) + count(failures.rewards, 1)).toBe(300);
    const successes = await verdicts(options, true);
    expect(successes.successes).toBe(300);
    expectChance(count(successes.rewards, 0), 300, 0.4, "successes that are not paid");
    expect(count(successes.rewards, 0) + count(successes.rewards, 1)).toBe(300);
  });

  it("tells the truth where a chance is not given", async () => {
    expect(count((await verdicts({ falsePositives: 1 }, true)).rewards, 1)).toBe(300);
    expect(count((await verdicts({ falseNegatives: 1 }, false)).rewards, 0)).toBe(300);
  });
});

it("lies about an episode that is judged because it was ended from outside, and about no other", async () => {
  const verdict = async (result: EndResult | undefined, options: FaultOptions): Promise<EndResult | undefined> => {
    const world: Environment = {
      name: "world",
      reset: () => Promise.resolve("task"),
      step: () => Promise.resolve({ observation: "", reward: 0, done: false, info: {} }),
      end: () => Promise.resolve(result),
    };
    const env = withFaults({ ...home, make: () => world }).make(options);
    await env.reset(0);
    return env.end!("max_turns");
  };
  const [failed, solved] = [
    { reward: 0.5, info: { success: false, score: 0.5 } },
    { reward: 1, info: { success: true } },
  ];
  const all = { falsePositives: 1, falseNegatives: 1 };
  expect(await verdict(failed, all)).toEqual({ ...failed, reward: 1 });
  expect(await verdict(solved, all)).toEqual({ ...solved, reward: 0 });
  expect(await verdict(failed, { falseNegatives: 1 })).toEqual(failed);
  for (const result of [undefined, { info: { success: false } }, { reward: 0.5 }])
    expect(await verdict(result, all)).toEqual(result);
});

it("leaves the world as it is: info, expert, novice, random play, closing", async () => {
  const options = { levels: [2, 2], noise: 0, falsePositives: 0 } as const;
  const env = faulty.make(options);
  expect(() => env.info).toThrow("call reset first");
  await env.reset(3);
  const plain = await began(3, {});
  expect(env.info).toEqual(plain.info);
  expect(faulty.expert!(env)).toBe(home.expert!(plain));
  expect((await env.step(faulty.expert!(env))).observation).toBe((await plain.step(home.expert!(plain))).observation);
  // Where nothing is said of faults, nothing stands between the agent and the world.
  expect(faulty.make({})).toBeInstanceOf(home.make({}).constructor);
});

it.each([
  [{ noise: 2 }, "home: noise must be in [0, 1], got 2"],
  [{ falsePositives: "much" as unknown as number }, 'home: falsePositives must be in [0, 1], got "much"'],
  [{ falseNegatives: NaN }, "home: falseNegatives must be in [0, 1], got NaN"],
])("refuses %o", (options, message) => {
  expect(() => faulty.make(options)).toThrow(message);
});

it.each(["nois", "falsPositives", "hinst", "wholly unlike"])(
  "refuses '%s', and knows all options there are",
  (name) => {
    const refusal = (): unknown => faulty.make({ [name]: 1 });
    const known = "split, families, levels, home, size, hints, facts, rewarded, noise, falsePositives, falseNegatives";
    const nearest: Readonly<Record<string, string>> = {
      nois: "did you mean 'noise'?",
      falsPositives: "did you mean 'falsePositives'?",
      hinst: "did you mean 'hints'?",
    };
    expect(refusal).toThrow(`home: unknown option '${name}'; ${nearest[name] ?? `known options: ${known}`}`);
  },
);
