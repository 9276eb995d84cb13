/** Rewards of submitted programs and patches against numbers by hand, and the vote of judges as a reward. */
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { unifiedDiff } from "../../environments/patch/repository.ts";
import { gae } from "../../methods/advantages/index.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import { judgesReward } from "../../papers/rewards/judge.ts";
import {
  chanceReward,
  codeRlReward,
  ppoCoderReward,
  type ProgramRewardName,
  sweRlReward,
} from "../../papers/rewards/program.ts";
import { advantagesOf } from "../../rl/train/advantages.ts";
import { episode } from "../support/rlToy.ts";

describe("programs", () => {
  it.each([
    ["compile error", -1, -1 + 0.8 + 0.5],
    ["runtime error", -0.6, 2.3],
    ["failed test", -0.3, 2.3],
    ["passed", 1, 2.3],
  ])("%s: CodeRL %f, PPOCoder %f", (outcome, codeRl, ppoCoder) => {
    const info = { outcome, syntaxMatch: 0.8, dataFlowMatch: 0.5 };
    expect(codeRlReward(info)).toBe(codeRl);
    expect(ppoCoderReward(info)).toBeCloseTo(ppoCoder, 12);
  });

  it("PPOCoder's vector: a program that compiles, matches of .8 and .5, lp − ref .2 and −.1, β .1", () => {
    const batch = [
      episode(
        [
          ["prompt", [1]],
          ["action", [2, 3]],
        ],
        { reward: ppoCoderReward({ outcome: "failed test", syntaxMatch: 0.8, dataFlowMatch: 0.5 }) },
      ),
    ];
    const lp = batch[0]!.stream.oldLogProbs;
    const refLogProbs = [Float64Array.of(0, lp[1]! - 0.2, lp[2]! + 0.1)];
    const values = [new Float64Array(3)];
    const advantage = gae({ gamma: 0, lambda: 0, whiten: false }); // γ 0: the rewards themselves
    const kl = { beta: 0.1, estimator: "k1", in: "reward" } as const;
    const found = advantagesOf(
      { advantage, policyLoss: ppoClip(), aggregation: "token-mean", critic: {}, kl },
      batch,
      0,
      { refLogProbs, values },
    );
    expect(found.perToken[0]![1]).toBeCloseTo(-0.02, 12);
    expect(found.perToken[0]![2]).toBeCloseTo(2.31, 12);
  });

  it("nothing submitted is what does not compile; another outcome is none of a program", () => {
    expect([codeRlReward({}), ppoCoderReward({}), sweRlReward({})]).toEqual([-1, -1, -1]);
    expect(ppoCoderReward({ outcome: "passed" })).toBe(1);
    expect(() => codeRlReward({ outcome: "won" })).toThrow('expected an outcome of a program, got "won"');
  });
});

describe("patches", () => {
  const before = { f: "a\nb\nc", g: "d" };
  const solution = unifiedDiff(before, { ...before, f: "a\nx\nc" });
  const worth = (after: Partial<typeof before>): number =>
    sweRlReward({ patch: unifiedDiff(before, { ...before, ...after }), solution });

  it("are worth their similarity to the right one, over the files of both (26/27, halved by a needless file)", () => {
    expect(worth({ f: "a\nx\nc" })).toBe(1);
    expect(worth({ f: "a\ny\nc" })).toBeCloseTo(26 / 27, 12);
    expect(worth({ f: "a\ny\nc", g: "e" })).toBeCloseTo(13 / 27, 12);
    expect(worth({ g: "e" })).toBe(0);
    expect(sweRlReward({ patch: solution })).toBe(-1);
    expect(sweRlReward({ solution })).toBe(-1);
    expect(worth({})).toBe(-1);
  });
});

describe("the control of graded rewards", () => {
  const drawn = (name: ProgramRewardName, info: Parameters<typeof codeRlReward>[0]): number[] =>
    Array.from({ length: 100 }, (_, seed) => chanceReward(name, info, new Rng(seed)));
  const matches = { syntaxMatch: 1, dataFlowMatch: 1 };

  it("leaves what solves the task, and what is no program or no patch", () => {
    expect(new Set(drawn("coderl", { outcome: "passed", success: true }))).toEqual(new Set([1]));
    expect(new Set(drawn("ppocoder", { outcome: "passed", success: true, ...matches }))).toEqual(new Set([3]));
    expect(new Set(drawn("swerl", {}))).toEqual(new Set([-1]));
  });

  it("draws all else: which failure, two matches, a similarity; whether it compiles stays", () => {
    const failed = { outcome: "failed test", success: false, ...matches };
    expect(new Set(drawn("coderl", failed))).toEqual(new Set([-1, -0.6, -0.3]));
    for (const [outcome, base] of [["compile error", -1] as const, ["failed test", 1] as const]) {
      const all = drawn("ppocoder", { ...failed, outcome });
      expect(Math.min(...all)).toBeGreaterThanOrEqual(base);
      expect(Math.max(...all)).toBeLessThan(base + 2);
      expect(all.reduce((a, b) => a + b, 0) / all.length).toBeCloseTo(base + 1, 0);
    }
    const before = { f: "a", g: "d" };
    const [patch, solution] = [unifiedDiff(before, { ...before, g: "e" }), unifiedDiff(before, { ...before, f: "b" })];
    expect(sweRlReward({ patch, solution })).toBe(0);
    const patches = drawn("swerl", { patch, solution });
    expect(Math.max(...patches)).toBeGreaterThan(0.9);
    expect(Math.min(...patches)).toBeLessThan(0.1);
  });
});

describe("the vote of judges as a reward", () => {
  const { signal } = new AbortController();
  const votes = (...said: readonly (boolean | undefined | "throws")[]): Promise<unknown> =>
    judgesReward<string>(
      Object.fromEntries(
        said.map((vote, i) => [
          "abcd"[i]!,
          (question: string) =>
            vote === "throws" ? Promise.reject(new Error("no")) : Promise.resolve(question === "q" ? vote : undefined),
        ]),
      ),
    )("q", signal);

  it.each([
    [[true, true, false], 1],
    [[true, false, false], 0],
    [[true, false], 0], // a tie fails
    [[true, true, false, false], 0],
    [[true], 1],
    [[false], 0],
    [[true, undefined], 0], // one of two is no quorum
    [[true, true, undefined], 1],
    [[true, true, "throws"], 1],
    [[true, undefined, "throws"], 0],
  ] as const)("%j: %i", async (said, reward) => {
    const parts = Object.fromEntries(
      said.map((vote, i) => [`judge/${"abcd"[i]!}`, typeof vote === "boolean" ? Number(vote) : NaN]),
    );
    expect(await votes(...said)).toEqual({ reward, parts });
  });

  it("asks all at once, and fails where nobody says anything, nobody is there, or the run is stopped", async () => {
    let [open, most] = [0, 0];
    const slow = async (): Promise<boolean> => {
      most = Math.max(most, ++open);
      await new Promise((resolve) => setTimeout(resolve, 1));
      open--;
      return true;
    };
    await judgesReward({ a: slow, b: slow, c: slow })("q", signal);
    expect(most).toBe(3);
    await expect(votes(undefined, "throws")).rejects.toThrow("judgesReward: no judge of a, b said anything");
    const garbage = {
      a: async () => "yes".repeat(9_999_999) as never,
      b: () => Promise.reject(Object.create(null) as Error),
    };
    await expect(judgesReward(garbage)("q", signal)).rejects.toThrow("no judge of a, b said anything");
    expect(() => judgesReward({})).toThrow("judgesReward: expected at least one judge, got none");
    const stopped = AbortSignal.abort(new Error("stopped"));
    await expect(judgesReward({ a: slow })("q", stopped)).rejects.toThrow("stopped");
  });
});
