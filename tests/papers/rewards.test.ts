/**
 * Shaping, composites and judges: test vectors of their sources, and bounds for any input. Outcomes:
 * rewards-outcome.test.ts.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { byteTokenizer } from "../../nn/tokenizer.ts";
import { demonstrate } from "../../data/demonstrations.ts";
import { terminal } from "../../environments/terminal/index.ts";
import {
  formatScore,
  malformedActions,
  repetitionPenalty,
  thinkFormat,
  toolEfficiency,
} from "../../papers/rewards/behaviour.ts";
import { composite, type RewardComponent } from "../../papers/rewards/composite.ts";
import { bothOrders, type Judge, majorityVote, verdictReward } from "../../papers/rewards/judge.ts";
import { cosineLength, linearLength, sigmoidLength, softOverlong } from "../../papers/rewards/length.ts";
import { type Turn, turnsOf } from "../../rl/episode/turns.ts";
import { type Trajectory } from "../../rl/episode/stream.ts";
import { SPECIAL_TOKENS, Template } from "../../rl/episode/template.ts";
import { episode, type Part } from "../support/rlToy.ts";

const template = new Template(byteTokenizer({ specials: SPECIAL_TOKENS }));
const turns = (...actions: string[]): Turn[] => actions.map((action) => ({ action, observation: "", tokens: 1 }));

describe("composite", () => {
  const part = (name: string, weight: number, kind: "outcome" | "shaping", value: number): RewardComponent<null> => ({
    name,
    weight,
    kind,
    score: () => value,
  });

  it("adds outcome 1, format .2 and tools .1", () => {
    const score = composite([
      part("solved", 1, "outcome", 1),
      part("format", 0.2, "shaping", 0.5),
      part("tools", 0.1, "shaping", -0.35),
    ]);
    const { reward, parts, capped } = score(null);
    expect(reward).toBeCloseTo(1 + 0.1 - 0.035, 12);
    expect(parts).toEqual({ solved: 1, format: 0.5, tools: -0.35 });
    expect(capped).toBe(false);
  });

  it("never lets shaping outweigh the outcome, whatever it is", () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true }), fc.double({ noNaN: true }), (good, bad) => {
        const rewardOf = (solved: number, shaping: number): number =>
          composite([part("solved", 1, "outcome", solved), part("form", 0.2, "shaping", shaping)])(null).reward;
        expect(Math.abs(rewardOf(0, good))).toBeLessThanOrEqual(0.3);
        expect(rewardOf(1, bad)).toBeGreaterThan(rewardOf(0, good));
      }),
    );
  });

  it("is not scorable if a component is not", () => {
    expect(composite([part("solved", 1, "outcome", NaN)])(null).reward).toBeNaN();
    expect(composite([part("a", 1, "outcome", 1), part("b", 1, "shaping", NaN)])(null).reward).toBeNaN();
  });

  it("refuses what makes no sense", () => {
    const solved = part("solved", 1, "outcome", 1);
    expect(() => composite([])).toThrow("composite: none of no components is an outcome with a weight");
    expect(() => composite([solved, solved])).toThrow("a name is there twice among solved, solved");
    expect(() => composite([solved], { cap: 1 })).toThrow("cap must be in [0, 1), the weight of the outcomes, got 1");
    expect(() => composite([part("x", -1, "outcome", 1)])).toThrow("the weight of x must be in [0, ∞), got -1");
    expect(() => composite([part("x", 1, "shaping", 1)])).toThrow("none of x is an outcome");
  });
});

describe("turnsOf", () => {
  it("reads actions and observations back from the tokens", async () => {
    const episode = await demonstrate(terminal, { families: ["read"] }, 0, template);
    const read = turnsOf(episode, template);
    expect(read.map(({ action }) => action)).toEqual(["cat rilite/betoda.log", "answer bedeki"]);
    expect(read.map(({ observation }) => observation)).toEqual(["bedeki", ""]);
    expect(read.map(({ tokens }) => tokens)).toEqual([22, 14]); // bytes and the end of the turn
  });
});

describe("format", () => {
  it("is the share of well-formed actions", () => {
    const played: Part[] = [
      ["prompt", [1]],
      ["action", [2, 3]],
      ["observation", [4]],
      ["action", [2]],
      ["observation", [4]],
    ];
    const taken = (toolErrors: number): Trajectory => episode(played, { stepRewards: [0, 1], info: { toolErrors } });
    expect([0, 1, 2].map((errors) => formatScore(taken(errors)))).toEqual([1, 0.5, 0]);
    expect(formatScore(episode(played, { stepRewards: [0, 1] }))).toBe(1); // nobody counts them
    expect(formatScore(taken(0), 1)).toBe(0.5);
  });

  it("counts malformed actions, and one that was cut off", () => {
    const first: Part[] = [
      ["prompt", [1]],
      ["action", [2]],
      ["observation", [4]],
    ];
    const made = (played: Part[], toolErrors: number): number =>
      malformedActions(episode(played, { stepRewards: [0], info: { toolErrors } }));
    expect([made(first, 0), made(first, 1), made([...first, ["action", [2, 3]]], 1)]).toEqual([0, 1, 2]);
  });

  it("is not for an episode that never acted, or whose action was cut off", () => {
    const cut = { stopReason: "max_tokens" as const, reward: 0 };
    expect(
      formatScore(
        episode(
          [
            ["prompt", [1]],
            ["action", [2, 3]],
          ],
          cut,
        ),
      ),
    ).toBe(0); // nothing but the beginning of an action
    const second: Part[] = [
      ["prompt", [1]],
      ["action", [2]],
      ["observation", [4]],
      ["action", [2]],
    ];
    expect(formatScore(episode(second, { ...cut, stepRewards: [0], info: { toolErrors: 0 } }))).toBe(0);
    // The answer to the last action had no room: the action was whole.
    expect(formatScore(episode(second, { stopReason: "context_overflow", stepRewards: [0, 0] }))).toBe(1);
    // All actions were given, by exploration or an expert prefix.
    expect(
      formatScore(
        episode(
          [
            ["prompt", [1, 2, 3]],
            ["observation", [4]],
          ],
          { stepRewards: [0] },
        ),
      ),
    ).toBe(0);
  });

  // The cases of TRL's tests.
  it.each([
    ["<think>This is my reasoning.</think>This is my answer.", 1],
    ["<think>\nThis is\nmy reasoning.\n</think>\nThis is my answer.", 1],
    ["<think>\nThis is <some tag> my reasoning.</think>\nThis is my answer.", 1],
    ["<think></think>\nThis is my answer.", 1],
    ["<think>This is my reasoning.\nThis is my answer.", 0],
    ["This is my reasoning. This is my answer.", 0],
    ["This is my reasoning.</think>\nThis is my answer.", 0],
    ["This<think>is my reasoning.</think>\nThis is my answer.", 0],
    ["<think>This is<think>my reasoning.</think></think>This is my answer.", 0],
    ["<think>This is</think>\nmy\n<think>reasoning.</think>\nThis is my answer.", 0],
  ])("thinkFormat(%j) is %d", (text, expected) => expect(thinkFormat(text)).toBe(expected));
});

describe("toolEfficiency", () => {
  const tools = ["search", "open", "answer"];
  it.each([
    ["nothing wrong", ["search a", "open 1", "answer b"], 0],
    ["two duplicates", ["open 1", "open  1", " open 1"], -0.1],
    ["a repetition that is not consecutive", ["open 1", "search a", "open 1"], 0],
    ["another argument", ["open 1", "open 2"], 0],
    ["unknown tools", ["ls", "cat x"], -0.6],
    ["an unknown tool twice", ["ls", "ls"], -0.65],
    ["no action", [], 0],
    ["capped", ["a", "b", "c", "d", "e"], -1],
  ])("%s", (_, actions, expected) => expect(toolEfficiency(turns(...actions), { tools })).toBeCloseTo(expected, 12));

  it("takes other costs, another cap, and another way to see the tool", () => {
    expect(toolEfficiency(turns("x", "x"), { tools: ["x"], duplicate: 0.2 })).toBeCloseTo(-0.2, 12);
    expect(toolEfficiency(turns("a", "b"), { tools, cap: 0.5 })).toBe(-0.5);
    expect(toolEfficiency(turns('{"name":"open"}'), { tools, toolOf: () => "open" })).toBe(0);
    expect(() => toolEfficiency([], { tools, cap: -1 })).toThrow("toolEfficiency: cap must be ≥ 0, got -1");
    expect(() => toolEfficiency([], { tools, dublicate: 1 } as never)).toThrow("did you mean 'duplicate'?");
  });
});

describe("repetitionPenalty", () => {
  it("is the share of repeated n-grams", () => {
    expect(repetitionPenalty("a a a a", { n: 1 })).toBe(-0.75);
    expect(repetitionPenalty("a b a b a b", { n: 2 })).toBeCloseTo(-0.6, 12); // 5 bigrams, 2 distinct
    expect(repetitionPenalty("A a", { n: 1 })).toBe(-0.5);
    expect(repetitionPenalty("a b c d")).toBe(0);
    expect(repetitionPenalty("a a")).toBe(0);
    expect(repetitionPenalty("")).toBe(0);
    expect(repetitionPenalty("a a a a", { n: 1, maxPenalty: -2 })).toBe(-1.5);
    expect(() => repetitionPenalty("a", { maxPenalty: 1 })).toThrow("maxPenalty must be ≤ 0, got 1");
    expect(() => repetitionPenalty("a", { n: 0 })).toThrow("n must be an integer ≥ 1, got 0");
  });

  it("is within bounds for any text, and worse the longer a text repeats itself", () => {
    fc.assert(
      fc.property(fc.string(), fc.integer({ min: 1, max: 4 }), (text, n) => {
        const once = repetitionPenalty(text, { n });
        expect(once).toBeLessThanOrEqual(0);
        expect(once).toBeGreaterThan(-1);
        expect(repetitionPenalty(`${text} ${text} ${text}`, { n })).toBeLessThanOrEqual(once);
      }),
    );
  });
});

describe("length", () => {
  it("linear: nothing up to the target, then λ a token", () => {
    expect([0, 100, 101, 150].map((length) => linearLength(length, { target: 100, lambda: 0.01 }))).toEqual([
      0, 0, -0.01, -0.5,
    ]);
  });

  it("sigmoid: half of α at the center, bounded, falling", () => {
    const options = { center: 100, width: 10, alpha: 0.4 };
    expect(sigmoidLength(100, options)).toBeCloseTo(-0.2, 12);
    expect(sigmoidLength(110, options)).toBeCloseTo(-0.4 * 0.7310585786300049, 12);
    expect(sigmoidLength(0, options)).toBeCloseTo(-0.4 * 4.5397868702434395e-5, 12);
    expect(sigmoidLength(1e9, options)).toBe(-0.4);
    expect(() => sigmoidLength(1, { center: 0, width: 0 })).toThrow("width must be above 0, got 0");
  });

  it("soft overlong: TRL's test vectors, and linear in between", () => {
    const options = { max: 100, cache: 20 };
    expect([50, 80, 85, 90, 100, 101, 110].map((length) => softOverlong(length, options))).toEqual([
      0, 0, -0.25, -0.5, -1, -1, -1,
    ]);
    expect(() => softOverlong(1, { max: 10, cache: 11 })).toThrow("cache must be in (0, max = 10], got 11");
    expect(() => softOverlong(-1, options)).toThrow("length must be at least 0, got -1");
  });

  // TRL's test vectors.
  it.each([
    [0, 1, -1],
    [25, 0.92678, -0.92678],
    [50, 0.75, -0.75],
    [75, 0.57322, -0.57322],
    [100, 0.5, -0.5],
    [200, 0.5, -0.5],
  ])("cosine: %d tokens, right %d, wrong %d", (length, right, wrong) => {
    expect(cosineLength(length, true, { max: 100 })).toBeCloseTo(right, 5);
    expect(cosineLength(length, false, { max: 100 })).toBeCloseTo(wrong, 5);
  });

  it("cosine with other bounds", () => {
    expect(cosineLength(50, true, { max: 100, correct: [2, 0] })).toBeCloseTo(1, 12);
  });
});

describe("judges", () => {
  const says =
    (vote: boolean | undefined): Judge<string> =>
    () =>
      Promise.resolve(vote);
  const throws: Judge<string> = () => Promise.reject(new Error("no answer"));

  it.each([
    ["unanimous", [true, true, true], true],
    ["majority", [true, false, false], false],
    ["a tie", [true, false], undefined],
    ["an abstention", [true, true, undefined], true],
    ["too few votes", [true, undefined, undefined], undefined],
  ])("%s", async (_, votes, verdict) => {
    expect((await majorityVote(votes.map(says), "?")).verdict).toBe(verdict);
  });

  it("counts votes, takes an exception for an abstention, and a quorum", async () => {
    const judges = [says(true), throws, says(false), says(true)];
    expect(await majorityVote(judges, "?")).toEqual({ verdict: true, yes: 2, no: 1, abstained: 1 });
    expect((await majorityVote(judges, "?", { quorum: 4 })).verdict).toBeUndefined();
    await expect(majorityVote([], "?")).rejects.toThrow("expected at least one judge");
    await expect(majorityVote([throws], "?", { quorum: 2 })).rejects.toThrow("quorum must be an integer in [1, 1]");
    const aborted = AbortSignal.abort(new Error("stopped"));
    await expect(majorityVote(judges, "?", { signal: aborted })).rejects.toThrow("stopped");
  });

  it("pays 1, 0, or not at all", () => {
    const of = (verdict: boolean | undefined): number => verdictReward({ verdict, yes: 0, no: 0, abstained: 0 });
    expect([of(true), of(false), of(undefined)]).toEqual([1, 0, NaN]);
  });

  it("a judge with a bias for the first place abstains when asked in both orders", async () => {
    const biased = bothOrders<string>(() => Promise.resolve(true));
    const fair = bothOrders<string>((a, b) => Promise.resolve(a.length > b.length));
    expect(await biased(["long", "x"])).toBeUndefined();
    expect(await fair(["long", "x"])).toBe(true);
    expect(await fair(["x", "long"])).toBe(false);
  });
});
