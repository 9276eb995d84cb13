/** `tools`: the contract, what is read and refused, and what the end is judged by. */
import { describe, expect, it } from "vitest";
import type { StepResult } from "../../rl/environment.ts";
import { tools } from "../../environments/tools/index.ts";
import { keyOf, readCall, refusal } from "../../environments/tools/rules.ts";
import { toolRlReward } from "../../papers/rewards/toolCalls.ts";
import { testContract } from "./contract.ts";
import { start } from "./suite.ts";

describe("tools", () => {
  testContract(tools, {
    expected: {
      lamp: { expert: 1, luck: 0.01, tokens: 100 },
      alarm: { expert: 1, luck: 0.01, tokens: 100 },
      buy: { expert: 1, luck: 0.005, tokens: 100 },
      two: { expert: 1, luck: 0.005, tokens: 160 },
      twice: { expert: 1, luck: 0.005, tokens: 160 },
      say: { expert: 1, luck: 0.005, tokens: 50 },
      three: { expert: 1, luck: 0.005, tokens: 200 },
    },
    identity: (task) => [task],
    nearly: ["lamp ", "buy ", "item=", "n=", "room=", "hall", "level=", "1", "say ", "done", "alarm ", "at=", "=", " "],
  });
});

describe("a call", () => {
  it.each<[string, string | undefined]>([
    ["buy item=lomika n=12", undefined],
    ["buy n=12 item=lomika", undefined],
    ["lamp room=attic level=0", undefined],
    ["alarm at=23 day=sun", undefined],
    ["lamps room=attic level=0", "no such tool; there are lamp, alarm, buy"],
    ["toString room=attic", "no such tool; there are lamp, alarm, buy"],
    ["buy item=lomika", "buy takes item, n"],
    ["buy item=lomika n=1 room=hall", "buy takes item, n"],
    ["buy item=lomika m=1", "buy takes item, n"],
    ["buy item=lomika n=0", "n must be a number from 1 to 99"],
    ["buy item=lomi n=1", "item must be a name of six letters"],
    ["lamp room=attics level=1", "room must be one of hall, attic, shed, loft"],
    ["lamp room=attic level=100", "level must be a number from 0 to 99"],
    ["alarm at=24 day=mon", "at must be a number from 0 to 23"],
    ["alarm at=-1 day=mon", "at must be a number from 0 to 23"],
    ["alarm at=7 day=monday", "day must be one of mon, tue, wed, thu, fri, sat, sun"],
  ])("%s: %s", (text, why) => expect(refusal(readCall(text) ?? { name: "unreadable", parameters: {} })).toBe(why));

  it.each(["", "buy", "buy item", "buy item=", "buy =1", "buy item=a item=b", "3 a=1", "buy item = 3", "say lomika"])(
    "%j is none",
    (text) => expect(readCall(text)).toBeUndefined(),
  );

  it("is the same with its parameters in any order", () => {
    expect(keyOf(readCall("buy n=1 item=ab")!)).toBe(keyOf(readCall("buy item=ab n=1")!));
  });
});

describe("the end", () => {
  /** Plays the expert's actions, changed. */
  async function after(family: string, change: (actions: string[]) => string[]): Promise<StepResult> {
    const { env } = await start(tools, 1, { families: [family] });
    const actions: string[] = [];
    const copy = env.clone!();
    for (let done = false; !done;) {
      actions.push(tools.expert!(copy));
      ({ done } = await copy.step(actions.at(-1)!));
    }
    let last: StepResult | undefined;
    for (const action of change(actions)) last = await env.step(action);
    return last!;
  }

  it.each<[string, string, (actions: string[]) => string[], number, number]>([
    ["exactly the calls that are asked for are right", "two", (a) => a, 1, 4],
    ["in any order", "two", ([a, b, c]) => [b!, a!, c!], 1, 4],
    ["one call too few", "two", ([a, , c]) => [a!, c!], 0, -3 + (6 * (0.5 + 3)) / 7],
    ["one call twice", "two", ([a, b, c]) => [a!, a!, b!, c!], 0, -3 + (6 * (2 / 3 + 6)) / 7],
    ["a refused call costs form alone", "buy", ([a, b]) => ["buy n=0", a!, b!], 1, -3 + (6 * (0.5 + 3)) / 4],
    ["a word where calls were wanted", "buy", () => ["say lomika"], 0, -3],
    ["another word", "say", () => ["say nothing"], 0, 1],
    ["a call where none was wanted", "say", ([a]) => ["buy item=lomika n=1", a!], 0, 0],
    ["nonsense, and then what is right", "lamp", (a) => ["?", ...a], 1, -3],
  ])("%s", async (_, family, change, score, reward) => {
    const { info, done } = await after(family, change);
    expect(done).toBe(true);
    expect(info["score"]).toBe(score);
    expect(toolRlReward(info)).toBeCloseTo(reward, 10);
  });
});
