/** What somebody writes wrongly who makes a game in JavaScript, where no type says so. */
import { describe, expect, it } from "vitest";
import { defineGame, option } from "../../environments/index.ts";

const RIGHT = {
  name: "mine",
  description: "one move",
  families: [{ name: "one", level: 1, description: "one" }],
  options: {},
  makeTask: () => ({ text: "go" }),
  start: () => 0,
  play: (): object => ({ observation: "gone", ending: { kind: "end", score: 1 } }),
  random: () => "x",
};
const define = (part: object): ReturnType<typeof defineGame> =>
  (defineGame as (game: object) => ReturnType<typeof defineGame>)({ ...RIGHT, ...part });
async function played(play: () => object): Promise<unknown> {
  const env = define({ play }).make({});
  await env.reset(0, {});
  return env.step("x", {});
}

describe("a game", () => {
  it.each([
    [{ families: undefined }, "defineGame: mine: families must be a list of families { name, level, description }"],
    [{ families: [] }, "defineGame: mine: families must be a list of families { name, level, description }, got []"],
    [{ start: undefined }, "defineGame: mine: start must be a function, got missing"],
    [{ play: "go" }, 'defineGame: mine: play must be a function, got "go"'],
    [{ makeTasks: () => 0 }, "defineGame: unknown option 'makeTasks'; did you mean 'makeTask'?"],
    [{ name: undefined }, "defineGame: name must be a text"],
    [{ options: undefined }, "defineGame: mine: options must be { NAME: option.number(…), … }, {} if there are none"],
    [{ options: { size: 3 } }, "defineGame: mine: options must be { NAME: option.number(…), … }"],
  ])("with %o is refused when it is defined", (part, message) => {
    expect(() => define(part)).toThrow(message);
  });

  it("may be an object of a class, whose rules are its methods", async () => {
    class Mine {
      readonly name = "mine";
      readonly description = "one move";
      readonly families = RIGHT.families;
      readonly options = {};
      makeTask = RIGHT.makeTask;
      start(): number {
        return 0;
      }
      play(): { observation: string } {
        return { observation: "on" };
      }
      random(): string {
        return "x";
      }
    }
    const env = defineGame(new Mine()).make({});
    expect(await env.reset(0, {})).toBe("go");
    expect(await env.step("x", {})).toMatchObject({ observation: "on", done: false });
  });

  it("with all that a game may have is none", () => {
    const all = { source: "me", end: () => undefined, close: () => undefined, subgoals: () => [], expert: () => "x" };
    const options = { size: option.number(3, "the size") };
    expect(define({ ...all, options }).options).toMatchObject({ size: { default: 3 } });
  });
});

describe("a move", () => {
  it.each([
    [
      { observation: "", end: { kind: "a", score: 1 } },
      "mine.play: unknown option 'end'; known options: observation, state",
    ],
    [{ observation: "", ending: { kind: "a", score: 5 } }, "mine.play: ending.score must be in [0, 1], got 5"],
    [{ observation: "", ending: { kind: "a", score: true } }, "mine.play: ending.score must be in [0, 1], got true"],
    [{ observation: "", ending: { kind: "a", score: NaN } }, "mine.play: ending.score must be in [0, 1], got NaN"],
    [{ observation: "", ending: { kind: "a" } }, "mine.play: ending.score must be in [0, 1]"],
    [{ observation: "", ending: { score: 1 } }, "mine.play: ending.kind must be a word"],
    [{ observation: "", ending: { kind: "a", score: 1, why: "" } }, "mine.play: ending: unknown option 'why'"],
  ])("%j is refused", async (move, message) => {
    await expect(played(() => move)).rejects.toThrow(message);
  });

  it("may leave out what it has as undefined, as code with optional chaining does", async () => {
    const nothing = { state: undefined, failed: undefined, ending: undefined, reward: undefined, info: undefined };
    const result = await played(() => ({ observation: "on", entropy: undefined, ...nothing }));
    expect(result).toMatchObject({ observation: "on", reward: 0, done: false });
  });

  it.each([0, 1])("may end with the score %i exactly", async (score) => {
    const result = await played(() => ({ observation: "", ending: { kind: "a", score } }));
    expect(result).toMatchObject({ reward: score, done: true, info: { success: score === 1 } });
  });
});
