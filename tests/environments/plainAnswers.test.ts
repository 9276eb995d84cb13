/** Problems of `calculator` that want a plain answer: who calls is counted and wrong, who answers is right. */
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { calculator } from "../../environments/calculator/index.ts";
import { UNKNOWN } from "../../environments/calculator/plain.ts";
import { CalculatorEnvironment } from "./opened.ts";
import { play, SPLITS } from "./suite.ts";

async function begin(seed: number, negatives: number, split: (typeof SPLITS)[number] = "train") {
  const env = new CalculatorEnvironment({ negatives, split, levels: [1, 2] });
  return { env, task: await env.reset(seed) };
}

describe("plain answers", () => {
  it("the expert gives them at once; a call before makes them wrong, and is counted", async () => {
    const kinds = new Set<boolean>();
    for (let seed = 0; seed < 60; seed++) {
      const { env, task } = await begin(seed, 1);
      const isWithout = task.startsWith("No calculator here. ");
      kinds.add(isWithout);
      const action = env.expertAction();
      expect(action).toMatch(isWithout ? `answer ${UNKNOWN}` : /^answer \d{1,2}$/);
      const copy = env.clone();
      expect((await env.step(action)).info).toMatchObject({ success: true, falseCalls: 0, family: "plain" });

      const called = await copy.step("calc 1+2");
      expect(called.observation).toBe(isWithout ? "error: there is no calculator" : "3");
      expect(called.info).toMatchObject({ falseCalls: 1, toolErrors: Number(isWithout) });
      expect((await copy.step("nonsense")).info).toMatchObject({ falseCalls: 1 });
      expect((await copy.step(action)).info).toMatchObject({
        success: false,
        score: 0,
        falseCalls: 1,
        ending: "answer",
      });

      const { env: other } = await begin(seed, 1);
      expect((await other.step("answer 500")).info).toMatchObject({ success: false, falseCalls: 0 });
    }
    expect(kinds).toEqual(new Set([true, false]));
  });

  it("are a share of the tasks, and without the option there are none", async () => {
    const tasks = async (negatives: number): Promise<boolean[]> =>
      Promise.all(
        Array.from({ length: 200 }, async (_, seed) => {
          const { env } = await begin(seed, negatives);
          return (await env.step("x")).info["family"] === "plain";
        }),
      );
    expect((await tasks(0.3)).filter(Boolean).length).toBeGreaterThan(40);
    expect((await tasks(0.3)).filter(Boolean).length).toBeLessThan(80);
    expect((await tasks(0)).some(Boolean)).toBe(false);
  });

  it("giving up is no answer to a problem that can be worked out; no split has a text of the other", async () => {
    const { env } = await begin(0, 0);
    expect((await env.step(`answer ${UNKNOWN}`)).observation).toContain("error: answer a number");
    const texts = { train: new Set<string>(), heldout: new Set<string>() };
    for (const split of SPLITS)
      for (let seed = 0; seed < 400; seed++) texts[split].add((await begin(seed, 1, split)).task);
    expect([...texts.heldout].filter((text) => texts.train.has(text))).toEqual([]);
  });

  it("chance seldom finds them", async () => {
    await calculator.make().reset(0);
    let right = 0;
    for (let seed = 0; seed < 300; seed++) {
      const { env, task } = await begin(seed, 1);
      const rng = new Rng(seed);
      right += (await play(env, () => calculator.random(rng, task), 6)).total;
    }
    expect(right).toBe(0);
  });
});
