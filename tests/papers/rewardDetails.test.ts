/**
 * Rewards where the vectors of their sources do not look: defaults, ties, the empty and the exact cases. Each of these
 * was found by
 * `npm run mutate`: before it was here, an edit of that place went unnoticed.
 */
import { describe, expect, it } from "vitest";
import { malformedActions, repetitionPenalty } from "../../papers/rewards/behaviour.ts";
import { composite } from "../../papers/rewards/composite.ts";
import { bothOrders, majorityVote, tally } from "../../papers/rewards/judge.ts";
import { cosineLength, sigmoidLength } from "../../papers/rewards/length.ts";
import { turnsOf } from "../../rl/episode/turns.ts";
import { append, emptyStream } from "../../rl/episode/stream.ts";
import { toyTemplate, toyTokenizer, trajectoryOf } from "../support/rlToy.ts";

it("repetitions are of three words unless said otherwise", () => {
  expect(repetitionPenalty("a b c a b c")).toBe(-0.25);
  expect(repetitionPenalty("a b c")).toBe(0);
});

it("nothing is malformed of an episode in which nobody acted, and whose world counts no errors", () => {
  const stream = emptyStream();
  toyTemplate.appendTask(stream, "ab");
  for (const stepRewards of [[], [0]]) expect(malformedActions({ stream, stepRewards, info: {} })).toBe(0);
});

it("lengths: α is 1 unless given; rewards of wrong answers can be given", () => {
  expect(sigmoidLength(10, { center: 10, width: 3 })).toBe(-0.5);
  expect(cosineLength(0, false, { max: 10, wrong: [-2, -1] })).toBe(-2);
  expect(cosineLength(10, false, { max: 10, wrong: [-2, -1] })).toBe(-1);
});

it("a composite is capped below as above, and not at the cap itself", () => {
  const of = (shaping: number): unknown =>
    composite<null>(
      [
        { name: "outcome", weight: 1, kind: "outcome", score: () => 1 },
        { name: "form", weight: 1, kind: "shaping", score: () => shaping },
      ],
      { cap: 0.25 },
    )(null);
  expect(of(-0.5)).toMatchObject({ reward: 0.75, capped: true });
  expect(of(-0.25)).toMatchObject({ reward: 0.75, capped: false });
  expect(of(0.25)).toMatchObject({ reward: 1.25, capped: false });
});

describe("judges", () => {
  it("more than half of all have to vote, unless a quorum is given", async () => {
    const of = (...votes: (boolean | undefined)[]): boolean | undefined => tally(votes).verdict;
    expect(of(true, true, undefined)).toBe(true);
    expect(of(true, undefined, undefined)).toBe(undefined);
    expect(of(true, true, undefined, undefined)).toBe(undefined);
    expect(of(false, false, true, undefined)).toBe(false);
    expect(of(true, true, undefined, undefined, undefined)).toBe(undefined);
    expect(of(true, true, true, undefined, undefined)).toBe(true);
    expect(of(true, true, true, undefined, undefined, undefined)).toBe(undefined);
    expect(tally([true, undefined, undefined], 1).verdict).toBe(true);
    const judges = [true, true, undefined, undefined, undefined].map((vote) => () => Promise.resolve(vote));
    expect((await majorityVote(judges, null)).verdict).toBe(undefined);
    expect((await majorityVote(judges, null, { quorum: 2 })).verdict).toBe(true);
  });

  it("asked in both orders, who abstains once abstains", async () => {
    const of = (forward: boolean | undefined, backward: boolean | undefined): Promise<boolean | undefined> =>
      bothOrders<string>((first) => Promise.resolve(first === "a" ? forward : backward))(["a", "b"]);
    expect(
      await Promise.all([of(true, undefined), of(undefined, true), of(true, true), of(true, false), of(false, true)]),
    ).toEqual([undefined, undefined, undefined, true, false]);
  });
});

it("an episode as text: the turns in which the agent wrote, with the answers but without warnings", () => {
  const ids = (text: string): number[] => [...toyTokenizer.encode(text)];
  const stream = emptyStream();
  append(stream, "prompt", 0, ids("ff"));
  append(stream, "action", 0, ids("a"));
  append(stream, "observation", 0, ids("bc"));
  append(stream, "observation", 0, ids("!"), { target: false });
  append(stream, "observation", 1, ids("d"));
  append(stream, "thought", 2, ids("e"));
  append(stream, "action", 2, ids("fa"));
  append(stream, "action", 3, ids("b"));
  const turns = turnsOf(trajectoryOf(stream), toyTemplate);
  expect(turns.map(({ observation, tokens }) => ({ observation, tokens }))).toEqual([
    { observation: "bc", tokens: 1 },
    { observation: "", tokens: 3 },
    { observation: "", tokens: 1 },
  ]);
  expect(turns.map(({ action }) => action)).toEqual(["a", "efa", "b"]);
  expect(turnsOf(trajectoryOf(emptyStream()), toyTemplate)).toEqual([]);
});
