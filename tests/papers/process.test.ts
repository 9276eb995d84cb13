/** Process rewards: labels of steps, what steps earn, the score of a solution, and the vote of several. */
import { turnEnds } from "../../papers/completions.ts";
import { describe, expect, it } from "vitest";
import { centred } from "../../rl/objective/grpo.ts";
import { rewardsOfTokens, rewardsOfTurns, rolloutsOf } from "../../rl/episode/stream.ts";
import { processRewards, solutionScore, stepLabels, weightedVote } from "../../papers/rewards/process.ts";
import { rewarded } from "../../rl/tasks/scoring.ts";
import { episode } from "../support/rlToy.ts";

describe("labels of steps", () => {
  it("test vector: of 4 completions 3, 1 and none succeed: hard 1, 1, 0; soft .75, .25, 0", () => {
    const steps = [3, 1, 0].map((successes) => ({ successes, tries: 4 }));
    expect(stepLabels(steps, "hard")).toEqual([1, 1, 0]);
    expect(stepLabels(steps, "soft")).toEqual([0.75, 0.25, 0]);
  });

  it("a step that could not be tried has none", () => {
    for (const kind of ["hard", "soft"] as const) expect(stepLabels([{ successes: 0, tries: 0 }], kind)).toEqual([NaN]);
  });
});

describe("rewards of steps", () => {
  const values = [0.5, 0.25, 0.25, 0.75];

  it("differences sum to the last value, the lowest value stands at its first step, and a sum grows with each", () => {
    expect(processRewards(values, "difference")).toEqual([0.5, -0.25, 0, 0.5]);
    expect(processRewards(values, "min")).toEqual([0, 0.25, 0, 0]);
    expect(processRewards(values, "sum")).toEqual(values);
    for (const form of ["difference", "min", "sum"] as const) expect(processRewards([], form)).toEqual([]);
  });

  it("of equally good episodes the longer is paid more by the sum alone", () => {
    const total = (length: number, form: "difference" | "min" | "sum"): number =>
      processRewards(Array(length).fill(0.5), form).reduce((a, b) => a + b, 0);
    expect([2, 4].map((length) => total(length, "sum"))).toEqual([1, 2]);
    for (const form of ["difference", "min"] as const) expect([2, 4].map((n) => total(n, form))).toEqual([0.5, 0.5]);
  });

  const played = (stepRewards: number[]): ReturnType<typeof episode> =>
    episode(
      [
        ["prompt", [1]],
        ["action", [2, 3]],
        ["observation", [4]],
        ["action", [5]],
        ["observation", [6]],
        ["action", [7, 8]],
      ],
      { stepRewards },
    );

  it("reach the last token of each action; what a cut-off action earns is the rest of the return", async () => {
    const reward = () => ({ reward: 0.25, parts: {}, stepRewards: [0.5, 0.125] });
    const scored = await rewarded({ reward }, [played([0, 0])]);
    const [rollout] = rolloutsOf(scored);
    expect(rewardsOfTurns(rollout!, scored)).toEqual([0.5, 0.125, -0.375]);
    expect(rewardsOfTokens(rollout!, scored)).toEqual([0, 0.5, 0.125, 0, -0.375]);
  });

  it("GRPO reads their sum", async () => {
    const returns = [0.25, 0.75];
    const reward = ({ group }: { group: number }) => ({ reward: returns[group]!, parts: {}, stepRewards: [0, 0] });
    const scored = await rewarded({ reward }, [played([0, 0]), { ...played([0, 0]), group: 1 }]);
    const both = scored.map((t) => ({ ...t, group: 0 }));
    const { perToken } = centred().estimate(both, {});
    expect(perToken.map((row) => row.at(-1))).toEqual([-0.25, 0.25]);
  });

  it.each<[string, number[]]>([
    ["too few", [1]],
    ["too many", [1, 1, 1]],
    ["no number", [1, NaN]],
  ])("%s of them mask the episode", async (_, stepRewards) => {
    const reward = () => ({ reward: 1, parts: {}, stepRewards });
    const [scored] = await rewarded({ reward }, [played([0, 0])]);
    expect(scored!.masked).toBe(true);
    expect(scored!.info["rewardError"]).toContain("reward: expected 2 finite step rewards, got");
  });

  it("stay the environment's where the reward names none", async () => {
    const [scored] = await rewarded({ reward: () => ({ reward: 1, parts: {} }) }, [played([0.5, 0.25])]);
    expect(scored!.stepRewards).toEqual([0.5, 0.25]);
  });

  it("a turn ends with its last token, also if it was given or cut off", () => {
    expect(turnEnds(played([0, 0]))).toEqual([3, 5, 7]);
    expect(turnEnds({ ...played([0, 0, 0]) })).toEqual([3, 5, 7]);
    const given = episode(
      [
        ["prompt", [1, 2]],
        ["observation", [3]],
      ],
      { stepRewards: [0] },
    );
    expect(turnEnds(given)).toEqual([2]);
    expect(turnEnds(episode([["prompt", [1]]]))).toEqual([]);
    expect(turnEnds(episode([["action", [1]]]))).toEqual([0]);
    const cut = episode(
      [
        ["action", [1]],
        ["observation", [2]],
        ["action", [3]],
      ],
      { stepRewards: [0] },
    );
    expect(turnEnds(cut)).toEqual([1, 2]);
  });
});

describe("verification", () => {
  it("the score of a solution is the lowest value of its steps; of no steps 0", () => {
    expect(solutionScore([0.9, 0.2, 0.8])).toBe(0.2);
    expect(solutionScore([])).toBe(0);
  });

  it("test vector: A .2, A .3, B .6: B wins; the majority would take A", () => {
    expect(weightedVote(["A", "A", "B"], [0.2, 0.3, 0.6])).toBe("B");
    expect(weightedVote(["A", "A", "B"], [1, 1, 1])).toBe("A");
    expect(weightedVote(["A", "B", "B"], [0.5, 0.25, 0.5])).toBe("B");
  });

  it("of equal sums the first wins, and what has no scores is refused", () => {
    expect(weightedVote(["B", "A"], [0.5, 0.5])).toBe("B");
    expect(weightedVote(["A", "B"], [0, 0])).toBe("A");
    expect(() => weightedVote([], [])).toThrow("at least one answer, got 0 for 0");
    expect(() => weightedVote(["A"], [1, 2])).toThrow("a score for each of at least one answer, got 2 for 1");
  });
});
