/** `code`: what is said of programs, how they are judged, and what the novice does. The rest: code.long.test.ts. */
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { code, type CodeOptions } from "../../environments/code/index.ts";
import type { Environment, StepResult } from "../../rl/environment.ts";
import { start } from "./suite.ts";

const begin = (family: string, seed = 0, more: CodeOptions = {}): Promise<{ env: Environment; task: string }> =>
  start(code, seed, { families: [family], ...more });

/** "Write p(x): x, take off 21. p(14)=-7 p(9)=-12": x−21. */
async function after(...actions: readonly string[]): Promise<StepResult> {
  const { env } = await begin("number");
  let last: StepResult | undefined;
  for (const action of actions) last = await env.step(action);
  return last!;
}

describe("what is said", () => {
  it.each([
    ["run x-21", "-7 -12: pass", 0],
    ["RUN  x - 21", "-7 -12: pass", 0],
    ["run x-20", "-6 -11: 0 of 2 pass", 0],
    ["run x%9-12", "-7 -12: pass", 0], // a visible test may be passed by chance
    ["run x.sum", "error: sum of a number", 1],
    ["run x/0", "error: division by 0", 1],
    ["run x-", "error at 3: unexpected end", 1],
    ["run y", "error at 1: unknown y", 1],
    ["run", "error at 1: unexpected end", 1],
    ["submit", "nothing to submit", 1],
    ["help", "unknown action; use run PROGRAM or submit", 1],
    ["", "unknown action; use run PROGRAM or submit", 1],
  ])("%j: %s", async (action, observation, toolErrors) => {
    expect(await after(action)).toMatchObject({ observation, reward: 0, done: false, info: { toolErrors } });
  });

  it("follows from the task and the actions, and says so", async () => {
    const { info } = await after("run x", "nonsense", "run (", "submit x");
    expect(info).toMatchObject({ answerEntropy: 0, turns: 4 });
  });
});

describe("a submitted program", () => {
  const passed = { outcome: "passed", passed: 1, syntaxMatch: 1, dataFlowMatch: 1 };
  it.each([
    [["submit x-21"], 1, passed],
    [["run x-21", "submit"], 1, passed],
    [["run x-21", "run x", "submit"], 0, { outcome: "failed test", passed: 0, syntaxMatch: 1 / 3, dataFlowMatch: 1 }],
    [["run x%9-12", "submit"], 0, { outcome: "failed test", syntaxMatch: 1 / 3 }],
    [["run x-21", "submit 9-21"], 0, { outcome: "failed test", dataFlowMatch: 0 }],
    [["submit x.sum"], 0, { outcome: "runtime error", passed: 0 }],
    [["run (", "submit"], 0, { outcome: "compile error", passed: 0, syntaxMatch: 0, dataFlowMatch: 0 }],
    [["submit -21+x"], 1, { outcome: "passed", passed: 1 }],
  ])("%j", async (actions, reward, info) => {
    const end = { observation: "", reward, done: true };
    expect(await after(...actions)).toMatchObject({
      ...end,
      info: { ...info, ending: "submit", success: reward === 1 },
    });
  });

  it("is judged by as many hidden tests as are asked for", async () => {
    for (const hidden of [0, 1, 16]) {
      const { env } = await begin("number", 0, { hidden });
      const { info } = await env.step("submit 0-7");
      expect(info["passed"]).toBe(1 / (2 + hidden));
    }
    // Without them, a program that knows the visible tests is as good as any.
    const { env } = await begin("number", 0, { hidden: 0 });
    expect(await env.step("submit x%9-12")).toMatchObject({ reward: 1 });
    expect(() => code.make({ hidden: 17 })).toThrow("code: hidden must be an integer in [0, 16], got 17");
  });
});

it("a novice writes something like it, in a third of the episodes the right thing, and submits it", async () => {
  for (const { name } of code.families) {
    let solved = 0;
    for (let seed = 0; seed < 40; seed++) {
      const { env } = await begin(name, seed);
      const rng = new Rng(seed);
      const guess = code.novice!(env, rng, 0, "");
      expect(guess).toEqual({ action: expect.stringMatching(/^run (s=)?x\S*$/) as string, isGuess: true });
      expect(guess.action.length).toBeLessThanOrEqual(28);
      await env.step(guess.action);
      const last = code.novice!(env, rng, 1, "");
      expect(last).toEqual({ action: "submit", isGuess: false });
      solved += (await env.step(last.action)).reward;
    }
    expect(solved, name).toBeGreaterThan(8);
    expect(solved, name).toBeLessThan(32);
  }
});
